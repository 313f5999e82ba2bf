"""The start page: what SPU Studio is, and where to begin."""

from collections.abc import Mapping

import streamlit as st

from pages.ui.shared.shell import BRAND, open_page
from pages.ui.shared.steps import STEPS, Step, link_to

IDEA = """
You have **a few confirmed positives** (fraud, cheating, a diagnosis, a conversion), **a large unlabelled rest**, and
**knowledge** of what makes some of those rows suspicious. Write this knowledge as rules, each with a degree of belief.
SPU Studio turns them into a *soft label* for each row, trains candidates on them, and shows which model is better, how
certain that is, and how close it comes to the best result that your soft labels allow.
"""


def show_cards(steps: tuple[Step, ...], query: Mapping[str, str]) -> None:
    for column, step in zip(st.columns(len(steps), gap="small"), steps, strict=True):
        with column, st.container(border=True, height="stretch"):
            st.markdown(f"{step.icon} **{step.number}. {step.title}**")
            st.caption(step.promise)
            link_to(step, step.invitation, query)


with open_page(BRAND, "Find more cases like the few you have confirmed. No confirmed negatives needed.") as page:
    with st.container(border=True):
        st.markdown(IDEA)
    st.subheader("How it works", anchor=False)
    show_cards(STEPS[:4], page.query)
    st.subheader("Use the result", anchor=False)
    show_cards(STEPS[4:], page.query)
