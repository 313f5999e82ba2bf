"""Upload data or open a sample; see what was read, say which rows are confirmed, and set the role of each column."""

import streamlit as st

from pages.ui.data.columns import ask_label, edit_roles, edit_types, show_proposals
from pages.ui.data.table_view import (
    folder_profile,
    register_folder,
    show_folder,
    show_next_step,
    show_profile,
    show_reading,
)
from pages.ui.data.upload import (
    choose_dataset,
    choose_sample,
    choosing_data,
    offer_earlier,
    show_readings,
    upload_file,
)
from pages.ui.shared.cached import load_profile, load_table
from pages.ui.shared.shell import open_page
from pages.ui.shared.show import explain_terms

with open_page("Data", "Upload a file or open a sample, check what was read, and set the role of each column.") as page:
    is_latest = show_readings(page)  # above the choices, so that progress is in sight
    with choosing_data(page):
        with st.container(border=True):
            upload_file(page)
        register_folder(page)
        choose_dataset(page)
        choose_sample(page)

    if page.dataset is not None:
        offer_earlier(page)
        table = load_table(page.workspace, page.dataset)
        lies_in_folder = page.dataset.folder is not None
        ask_label(page, table)
        next_step = st.container()  # above the long tables
        if lies_in_folder:
            show_folder(page, table)
        else:
            show_reading(page, table, is_latest=is_latest)
        profile = folder_profile(page) if lies_in_folder else load_profile(page.workspace, page.dataset)
        show_proposals(page, profile)
        edit_roles(page, table)
        if lies_in_folder:
            st.caption(
                "Types and missing values come from the files of this folder. To change them, change the files and "
                "register the folder again."
            )
        else:
            edit_types(page, table)
        show_profile(page, profile)
        with next_step:
            show_next_step(page, table, profile)
        explain_terms("soft label", "label", "role")
