"""The recommended model, how sure that is, why, and the next step as a button."""

from __future__ import annotations

import streamlit as st

from pages.ui.compare.compared_runs import Choice
from pages.ui.compare.point import CONFIRMED_WORDS, first_point, show_history, use_model, words_in_use
from pages.ui.shared.show import BadgeColor, meaning
from pages.ui.shared.steps import step_named
from pages.ui.shared.text import count, figure, plain, share
from spu_core.training import hindsight

CONFIDENCE: dict[str, tuple[str, BadgeColor, str]] = {
    "clear": ("Clearly the best", "green", ":material/check_circle:"),
    "tie": ("Others may be as good", "blue", ":material/balance:"),
    "provisional": ("Provisional", "orange", ":material/hourglass_empty:"),
    "cannot tell": ("Cannot tell", "gray", ":material/help:"),
}
# The page and the section where each next step is done, and the words of its button.
STEPS = {
    "export": ("Export", {}, "Export", ":material/ios_share:"),
    "check rows": ("Trust", {"section": "audit"}, "Check {rows} rows", ":material/fact_check:"),
    "get more confirmed cases": ("Trust", {"section": "outcomes"}, "Confirm more cases", ":material/person_search:"),
    "revise rules": ("Soft labels", {}, "Revise the rules", ":material/rule:"),
}


def show_card(choice: Choice) -> None:
    """The answer of the page in one card."""
    found = choice.recommendation
    with st.container(border=True, key="compare_card"):
        answer, numbers, actions = st.columns([6, 4, 3], gap="medium", vertical_alignment="center")
        with answer:
            _show_answer(choice)
        if found.model is not None:
            with numbers:
                _show_numbers(choice, found.model)
        with actions:
            _show_actions(choice)


def show_warnings(choice: Choice) -> None:
    """What speaks against the recommendation, its reasons, and for a sample whether it was right."""
    found = choice.recommendation
    for sentence in found.warnings:
        st.info(plain(sentence), icon=":material/compare_arrows:")
    with st.container(horizontal=True, vertical_alignment="center"):
        with st.popover("Why this model?", icon=":material/lightbulb:", type="tertiary"):
            for sentence in found.sentences:
                if sentence not in found.warnings:
                    st.markdown(f"- {plain(sentence)}")
        show_history(choice)
        if choice.sample is not None and found.model is not None:
            st.toggle("Were we right? Reveal the truth of this sample", key="compare_reveal")
    if choice.truth is not None and found.model is not None:
        truth = {name: choice.truth[name] for name in choice.models}
        st.info(plain(hindsight(found.model, truth)), icon=":material/visibility:")


def _show_answer(choice: Choice) -> None:
    found = choice.recommendation
    words, color, icon = CONFIDENCE[found.confidence]
    with st.container(gap="xsmall"):
        st.caption("Recommended model")
        with st.container(horizontal=True, vertical_alignment="center", key="compare_recommended"):
            st.header(plain(found.model or "None of these"), anchor=False, width="content")
            st.badge(words, icon=icon, color=color)
        st.markdown(plain(found.sentence))
        # Where no figure is valid, the sentence above has said why.
        is_open = found.help_of_rules == "cannot tell"
        st.caption("Cannot tell whether your rules help." if is_open else plain(found.help_sentence))


def _show_numbers(choice: Choice, name: str) -> None:
    metrics = choice.run(name).metrics
    assert metrics is not None
    review, reached = first_point(choice, name), metrics.share_of_ceiling
    with st.container(horizontal=True, gap="medium"):
        if review.recall is not None:
            low, high = review.recall
            st.metric(
                f"Review the top {share(review.point.flagged_share)}",
                f"{count(review.found)} of {count(review.confirmed)}",
                f"confirmed cases found ({100 * low:.0f} to {100 * high:.0f}%)",
                help=CONFIRMED_WORDS,
                delta_color="off",
                delta_arrow="off",
                width="content",
            )
        st.metric(
            "Share of the ceiling",
            "–" if reached is None else share(reached.estimate),
            f"AUC_SPU {figure(metrics.auc_spu.estimate)} of {figure(metrics.ceiling)}",
            help=meaning("share of ceiling"),
            delta_color="off",
            delta_arrow="off",
            width="content",
        )


def _show_actions(choice: Choice) -> None:
    found = choice.recommendation
    is_used = found.model is not None and choice.champion_name == found.model
    with st.container(gap="small", key="compare_actions"):
        if is_used:
            _offer_page(choice, "export", is_first=True)
        elif found.model is not None:
            _offer_model(choice, found.model)
        if found.next_step.action != "export":
            _offer_page(choice, found.next_step.action, is_first=found.model is None)
        st.caption(words_in_use(choice))


def _offer_model(choice: Choice, name: str) -> None:
    if st.button("Use this model", type="primary", width="stretch", key="compare_use"):
        use_model(choice, name, first_point(choice, name))
        st.rerun()


def _offer_page(choice: Choice, action: str, *, is_first: bool) -> None:
    """A button that opens the page where an action is done; the page is told how many rows to check."""
    step = choice.recommendation.next_step
    page, section, words, icon = STEPS[action]
    if st.button(
        words.format(rows=count(step.rows or 0)),
        icon=icon,
        type="primary" if is_first else "secondary",
        width="stretch",
        help=plain(step.sentence) if action == step.action else None,
        key=f"compare_{action.replace(' ', '_')}",
    ):
        if step.rows is not None:
            st.session_state["trust_checks"] = step.rows
        st.switch_page(step_named(page).file, query_params={**choice.page.query, **section})
