"""Bring data: a file or a sample, what was read and how, and what each column is for."""

import streamlit as st

from pages.ui import cached
from pages.ui.data_parts import choose_earlier, edit_roles, show_profile, show_reading, take_sample, upload_file
from pages.ui.shell import open_page
from pages.ui.show import explain_words

with open_page("Data", "Drop a file or take a sample; check what was read, and say what each column is for.") as page:
    bring, sample = st.columns([3, 2], gap="medium")
    with bring, st.container(border=True, height="stretch"):
        upload_file(page)
        choose_earlier(page)
    with sample, st.container(border=True, height="stretch"):
        take_sample(page)

    if page.dataset is not None:
        table = cached.table(page.workspace, page.dataset)
        show_reading(page, table)
        edit_roles(page, table)
        show_profile(page, cached.profile(page.workspace, page.dataset))
        explain_words("soft label", "label", "role")
