"""Where the soft labels stand, in one line of figures, and the way on."""

from __future__ import annotations

import streamlit as st

from pages.ui.shared import cached
from pages.ui.shared.show import meaning
from pages.ui.shared.steps import link_to, step_named
from pages.ui.shared.text import count, figure, plain, share
from pages.ui.soft_labels.state import Book

FIGURE_WIDTH = 145
IN_USE = "Rules can be switched off without losing them."
SUSPECTED = "Rows whose soft label lies above the floor."


def show_headline(book: Book) -> None:
    """The figures of the saved rules and, as soon as there are any, the link to training."""
    _show_problems(book)
    preview = cached.rule_preview(book.page.workspace, book.dataset, book.text, None, None)
    active = len(book.usable.active)
    with st.container(horizontal=True, vertical_alignment="center", key="soft_headline"):
        st.metric("Rules in use", f"{active} of {count(len(book.rules))}", help=IN_USE, width=FIGURE_WIDTH)
        st.metric("Rows suspected", share(preview.share_suspected), help=SUSPECTED, width=FIGURE_WIDTH)
        st.metric("Mean soft label", figure(preview.mean), help=meaning("mean soft label"), width=FIGURE_WIDTH)
        st.metric("Ceiling", figure(preview.ceiling), help=meaning("ceiling"), width=FIGURE_WIDTH)
        with st.container(width=180, gap="xsmall"):
            _show_way_on(book, is_ready=active > 0 and preview.ceiling == preview.ceiling)


def _show_way_on(book: Book, *, is_ready: bool) -> None:
    if not is_ready:
        st.badge("No rule in use yet", icon=":material/hourglass_empty:", color="gray")
        return
    st.badge("Ready to train on", icon=":material/check:", color="green")
    train = step_named("Train")
    link_to(train, train.invitation, book.page.query)


def _show_problems(book: Book) -> None:
    """Rules that do not fit this table are left out of every figure, and said so."""
    broken = [rule for rule in book.rules if rule.on and rule.id in book.problems]
    if not broken:
        return
    with st.container(border=True):
        st.warning(
            f"{count(len(broken))} of the rules cannot be applied to this table and are left out here.",
            icon=":material/warning:",
        )
        for rule in broken[:5]:
            st.caption(plain(book.problems[rule.id]))
        if st.button("Switch them off", icon=":material/toggle_off:", key="soft_off"):
            rules = book.rules
            for rule in broken:
                rules = rules.switch(rule.id, on=False)
            book.save(rules, "switched off what does not fit the table")
            st.rerun()
