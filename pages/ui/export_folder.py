"""Score a table that stays in a folder of the server: by a job, part by part."""

from __future__ import annotations

import streamlit as st

from pages.ui.shell import Page, choose_in_address
from pages.ui.text import count
from spu_core.engines.jobs.score import start_scoring_dataset


def score_folder(page: Page, run: str, flag_by: str, key: str) -> None:
    """Choose one of the registered folders; without any, nothing is asked."""
    folders = {each.id: each for each in page.workspace.datasets.list() if each.folder is not None}
    if not folders:
        return
    which, score = st.columns([4, 1], gap="small", vertical_alignment="bottom")
    chosen = which.selectbox(
        "Or a registered folder",
        list(folders),
        index=None,
        format_func=lambda token: f"{folders[token].name} · {count(folders[token].n_rows)} rows",
        placeholder="Choose a folder",
        key=f"{key}_folder",
        help="Folders are registered on the Data page; a folder of new rows may be registered too.",
    )
    asked = score.button("Score it", width="stretch", disabled=chosen is None, key=f"{key}_folder_score")
    if asked and chosen is not None:
        choose_in_address(scoring=start_scoring_dataset(page.workspace, run, folders[chosen], flag_by).id)
        st.rerun()
