"""The start page: what SPU Studio is, and where to begin."""

import streamlit as st

from pages.ui.shell import open_page
from pages.ui.steps import STEPS, link_to

page = open_page(
    "SPU Studio",
    "Find more of what you have confirmed only a few times, without a single true negative.",
)

with st.container(border=True):
    st.markdown(
        """
        You have **a few confirmed positives** (fraud, cheating, a diagnosis, a conversion), **a large unlabelled
        rest**, and **knowledge** of what makes some of those rows suspicious. Say what you know as rules with a degree
        of belief; SPU Studio turns them into a *soft label* for each row, trains candidates on them, and tells you
        which model is better, how sure that is, and how near it comes to the best that your soft labels allow.
        """
    )

st.subheader("The way", anchor=False)
columns = st.columns(4, gap="small")
for column, step in zip(columns, STEPS[:4], strict=True):
    with column, st.container(border=True, height="stretch"):
        st.markdown(f"{step.icon} **{step.number}. {step.title}**")
        st.caption(step.promise)
        link_to(step, label=step.invitation, page=page)

st.subheader("After that", anchor=False)
columns = st.columns(3, gap="small")
for column, step in zip(columns, STEPS[4:], strict=True):
    with column, st.container(border=True, height="stretch"):
        st.markdown(f"{step.icon} **{step.number}. {step.title}**")
        st.caption(step.promise)
        link_to(step, label=step.invitation, page=page)
