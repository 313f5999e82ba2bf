"""Tables that stay in a folder of the server: register a folder, and show its content and its changes."""

from __future__ import annotations

import streamlit as st

from pages.ui.data.table_view import CARD_WIDTH, SHOWN_ROWS, show_first_rows, show_rejected
from pages.ui.shared.cached import load_folder, load_full_profile, load_profile
from pages.ui.shared.shell import Page, choose_in_address, show_errors
from pages.ui.shared.show import meaning
from pages.ui.shared.text import count, plain, sized
from spu_core.engines.jobs.read import start_looking, start_registering
from spu_core.tables import Table, TableProfile, parquet_store
from spu_core.workspace import DatasetRecord, Home
from spu_core.workspace.home import MOST_OFFERED, MOST_SEEN, VARIABLE, FolderOffer, FolderRoots

LIST_SECONDS = 15


def register_folder(page: Page) -> None:
    """Choose a folder or a large file that the operator allows; without any, one line explains how to allow some."""
    with show_errors(page.title):
        offers = _offers(str(page.workspace.home.folder))
        if not offers:
            st.caption(
                ":material/folder_off: Tables larger than memory can stay in folders of Parquet files. The operator "
                f"of this server lists these folders in {VARIABLE}.",
                help="Separate several folders as in PATH. Everybody who can open this page can then read every "
                "Parquet file below them. `spu convert` makes such a folder from a large CSV.",
            )
            return
        with st.container(border=True, key="data_folders"):
            st.subheader("Or a folder on this server", anchor=False)
            _choose_folder(page, offers)


def _choose_folder(page: Page, offers: tuple[FolderOffer, ...]) -> None:
    which, register = st.columns([5, 1], gap="small", vertical_alignment="bottom")
    chosen = which.selectbox(
        "Folders of Parquet files, and text files of any size",
        range(len(offers)),
        index=None,
        format_func=lambda place: offers[place].words,
        placeholder="Choose a folder or a file",
        key="data_folder",
        help="Rows are read in parts, so a table may be larger than memory. Parquet files stay where they are, also "
        "those in subfolders; a text file is converted once, into your workspace. The list covers about the first "
        f"{count(MOST_SEEN)} names below each root.",
    )
    asked = register.button("Register", width="stretch", disabled=chosen is None, key="data_register")
    if len(offers) >= MOST_OFFERED:
        st.caption(f"Only the first {count(MOST_OFFERED)} of them are listed.")
    if asked and chosen is not None:
        _follow(start_registering(page.workspace, offers[chosen]).id)


@st.cache_data(max_entries=32, ttl=LIST_SECONDS, show_spinner=False)
def _offers(home: str) -> tuple[FolderOffer, ...]:
    return FolderRoots.allowed(Home.at(home)).offers()


def _follow(job: str) -> None:
    choose_in_address(reading=job)
    st.rerun()


def show_folder(page: Page, table: Table) -> None:
    """What was registered, some rows of the sample, and a warning if the files have changed."""
    assert page.dataset is not None
    st.subheader("What was registered", anchor=False)
    folder = load_folder(page.workspace, page.dataset)
    _show_changes(page, folder)
    store = parquet_store(folder)
    with st.container(horizontal=True, key="data_figures"):
        st.metric("Rows", count(len(folder)), border=True, width=CARD_WIDTH)
        st.metric("Columns", count(len(folder.roles)), border=True, width=CARD_WIDTH)
        st.metric("Confirmed cases", _positives(page), border=True, width=CARD_WIDTH, help=meaning("label"))
        st.metric("Files", f"{count(len(store.files))} · {sized(store.size)}", border=True, width=CARD_WIDTH)
    show_sample_note(page.dataset, table)
    if table.reading is not None:
        st.caption(plain(table.reading.describe()))
        show_rejected(table.reading)
    show_first_rows(table)
    st.caption(f"The first {count(min(SHOWN_ROWS, len(table)))} rows of the sample.")


def _positives(page: Page) -> str:
    assert page.dataset is not None
    known = load_full_profile(page.workspace, page.dataset)
    return "–" if known is None else count(known.labeled)


def show_sample_note(dataset: DatasetRecord, table: Table) -> None:
    """Show a note where the page uses a sample of the rows."""
    if is_sampled(dataset, table):
        st.caption(
            f":material/filter_alt: This page uses a random sample of {count(len(table))} of {count(dataset.n_rows)} "
            "rows; training, comparing and scoring use all rows."
        )


def is_sampled(dataset: DatasetRecord, table: Table) -> bool:
    """Whether the rows to explore are fewer than all."""
    return dataset.folder is not None and len(table) < dataset.n_rows


def _show_changes(page: Page, folder: Table) -> None:
    store = parquet_store(folder)
    changed, added = store.changed_files, store.added_files
    if changed:
        _show_changed(page, changed)
    elif added:
        files, them = ("1 new file", "it") if len(added) == 1 else (f"{count(len(added))} new files", "them")
        with st.container(border=True, key="data_added"):
            st.info(
                f"**{files} since this folder was registered.** This dataset does not include {them}. Register the "
                f"folder again to get a new dataset with {them}.",
                icon=":material/note_add:",
            )
            _register_again(page)


def _show_changed(page: Page, changed: tuple[str, ...]) -> None:
    assert page.dataset is not None
    is_ours = page.workspace.converted.path_of(str(page.dataset.folder)) is not None
    way = "you register the file that it was made from" if is_ours else "it is registered again"
    more = f" and {count(len(changed) - 1)} more" if len(changed) > 1 else ""
    with st.container(border=True, key="data_changed"):
        st.warning(
            f"**This folder has changed on disk since it was registered** ({plain(changed[0])}{more}). This page shows "
            f"the earlier sample; training and comparing are not possible until {way}.",
            icon=":material/sync_problem:",
        )
        if not is_ours:
            _register_again(page)


def _register_again(page: Page) -> None:
    assert page.dataset is not None
    if st.button("Register it again", icon=":material/refresh:", key="data_register_again"):
        offer = page.workspace.datasets.roots.find(str(page.dataset.folder))
        _follow(start_registering(page.workspace, offer).id)


def folder_profile(page: Page) -> TableProfile:
    """The profile of all rows; until a job has made it for the current roles, that of the sample, and a button."""
    assert page.dataset is not None
    known = load_full_profile(page.workspace, page.dataset)
    if known is not None:
        return known
    with st.container(border=True, horizontal=True, vertical_alignment="center", key="data_look"):
        st.markdown(":material/filter_alt: The roles have changed, so this profile is of the sample.", width="content")
        if st.button("Profile all rows", icon=":material/search:", key="data_look_again"):
            _follow(start_looking(page.workspace, page.dataset).id)
    return load_profile(page.workspace, page.dataset)
