"""Deleting, in two steps: first what goes with it, then the deed."""

from __future__ import annotations

import streamlit as st

from pages.ui.shared.shell import Page, choose_in_address, told_in_words
from pages.ui.shared.text import plain
from spu_core.workspace import DeletionPlan


def confirm_deletion(page: Page, kind: str, token: str, *forget: str) -> None:
    """Say what goes along and ask; `forget` are the parts of the address that named it."""

    def ask() -> None:
        with told_in_words(page.title):
            plan = page.workspace.plan_deletion(kind, token)
            st.write(plain(plan))
            st.caption("There is no way back.")
            if st.button(
                "Delete it for good",
                on_click=_delete,
                args=(page, plan, forget),
                type="primary",
                icon=":material/delete_forever:",
                key="delete_for_good",
            ):
                st.rerun()

    st.dialog(f"Delete this {kind}?", icon=":material/delete:")(ask)()


def _delete(page: Page, plan: DeletionPlan, forget: tuple[str, ...]) -> None:
    with told_in_words(page.title):
        page.workspace.delete(plan)
        choose_in_address(**dict.fromkeys(forget))
