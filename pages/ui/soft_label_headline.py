"""Where the soft labels stand, in one line of figures, and the way on."""

from __future__ import annotations

import streamlit as st

from pages.ui import cached
from pages.ui.show import meaning
from pages.ui.soft_label_state import Book
from pages.ui.steps import link_to, step_named
from pages.ui.text import count, figure, plain, share


def show_headline(book: Book) -> None:
    """The figures of the saved rules and, as soon as there are any, the link to training."""
    _show_problems(book)
    preview = cached.rule_preview(book.page.workspace, book.dataset, book.text, None, None)
    figures = st.columns([1, 1, 1, 1, 1.2], vertical_alignment="center")
    active = len(book.usable.active)
    figures[0].metric("Rules in use", f"{active} of {count(len(book.rules))}", help="Rules can be switched off.")
    figures[1].metric(
        "Rows suspected", share(preview.share_suspected), help="Rows whose soft label lies above the floor."
    )
    figures[2].metric("Mean soft label", figure(preview.mean), help=meaning("mean soft label"))
    figures[3].metric("Ceiling", figure(preview.ceiling), help=meaning("ceiling"))
    with figures[4]:
        if active and preview.ceiling == preview.ceiling:
            st.badge("Ready to train on", icon=":material/check:", color="green")
            train = step_named("Train")
            link_to(train, train.invitation, book.page.query)
        else:
            st.badge("No rule in use yet", icon=":material/hourglass_empty:", color="gray")


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
