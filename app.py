"""The start page: what SPU Studio is, and where to begin or go on."""

from collections.abc import Mapping

import streamlit as st

from pages.ui.data.upload import take_sample
from pages.ui.shared.shell import BRAND, STEPS, Page, Step, link_to, marks_of, next_step, open_page, step_named
from pages.ui.shared.show import IDEA, picture, theme
from pages.ui.shared.text import plain

FOR_WHOM = (
    "For analysts who have **a few confirmed cases** (fraud, cheating, a diagnosis, a conversion), **many "
    "unlabelled rows**, and **knowledge** of what makes some of them suspicious."
)
SAMPLE = "anti_cheat"


def show_idea() -> None:
    """The idea in three pictures: known cases, what you believe, and what you get."""
    with st.container(border=True):
        for column, (name, words) in zip(st.columns(3, gap="medium"), IDEA.items(), strict=True):
            column.image(picture(name, theme()), width="stretch", alt=words)
            column.caption(words)


def show_ways_in(page: Page) -> None:
    """Go on with earlier work, upload a file, or try a sample."""
    if page.dataset is not None:
        step = next_step(marks_of(page.workspace, page.dataset, page.rules))
        words = f"Continue: {plain(page.dataset.name)}, step {step.title}"
        if st.button(words, icon=":material/arrow_forward:", type="primary", key="start_continue"):
            st.switch_page(step.file, query_params=dict(page.query))
    with st.container(horizontal=True):
        is_new = page.dataset is None
        if st.button(
            "Upload data",
            icon=":material/upload_file:",
            type="primary" if is_new else "secondary",
            key="start_upload",
        ):
            st.switch_page(step_named("Data").file)
        if st.button("Try a sample", icon=":material/science:", key="start_sample"):
            st.switch_page(step_named("Soft labels").file, query_params=take_sample(page, SAMPLE))


def show_cards(steps: tuple[Step, ...], query: Mapping[str, str]) -> None:
    for column, step in zip(st.columns(len(steps), gap="small"), steps, strict=True):
        with column, st.container(border=True, height="stretch"):
            st.markdown(f"{step.icon} **{step.number}. {step.title}**")
            st.caption(step.promise)
            link_to(step, step.invitation, query)


with open_page(BRAND, "Find more cases like the few you have confirmed. No confirmed negatives needed.") as page:
    st.markdown(FOR_WHOM)
    show_ways_in(page)
    show_idea()
    st.subheader("How it works", anchor=False)
    show_cards(STEPS[:4], page.query)
    st.subheader("Use the result", anchor=False)
    show_cards(STEPS[4:], page.query)
