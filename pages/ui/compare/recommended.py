"""The recommended model with its next step, and the operating point: try a threshold, and use it."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from pages.ui.compare.compared_runs import Choice
from pages.ui.shared.login import name_of_this_person
from pages.ui.shared.shell import step_named
from pages.ui.shared.show import BadgeColor, meaning
from pages.ui.shared.text import count, figure, plain, share
from spu_core.charts import clicked_threshold
from spu_core.training import ReviewCurve, ReviewPoint, hindsight
from spu_core.workspace import Threshold, ThresholdRecord

DRAFTS = "compare_drafts"  # id of a run → the threshold that is being tried
TRIED = "point"  # the last draft in the address: id of the run and its threshold
CONFIRMED_WORDS = (
    "Each case was scored by a model that had not seen it. It holds for hidden cases like the confirmed ones."
)
MOST_CHANGES = 20
EXPECTED_WORDS = "Right if your soft labels are right on average."


@dataclass(frozen=True, eq=False)
class ChosenPoint:
    """The run whose operating point is being chosen, and that point."""

    name: str
    id: str
    curve: ReviewCurve
    review: ReviewPoint


def choose_point(choice: Choice) -> ChosenPoint:
    """A threshold slider and a number of rows that move together, what they find, and a button that uses them."""
    st.subheader("Operating point", anchor=False, help=meaning("threshold"))
    name = _ask_run(choice)
    curve, token = choice.views.reviews[name], choice.ids[name]
    review = first_point(choice, name)
    low, high = float(curve.curve.score[-1]), float(curve.curve.score[0])
    st.session_state["compare_threshold"] = min(max(review.point.threshold, low), high)
    st.session_state["compare_rows"] = int(review.point.flagged)
    slider, rows = st.columns([3, 2], gap="medium")
    if high > low:
        slider.slider(
            "Threshold",
            low,
            high,
            step=(high - low) / 1000,
            format="%.3f",
            key="compare_threshold",
            help=meaning("threshold"),
            on_change=lambda: try_point(choice, name, curve.at_threshold(float(st.session_state["compare_threshold"]))),
        )
    rows.number_input(
        "Rows to review",
        0,
        int(curve.curve.flagged[-1]),
        key="compare_rows",
        help="Your review budget: the highest scores first. Rows with equal scores are flagged together.",
        on_change=lambda: try_point(choice, name, curve.at_rows(int(st.session_state["compare_rows"]))),
    )
    chosen = ChosenPoint(name, token, curve, review)
    _show_meaning(chosen)
    _ask_to_use(choice, chosen)
    return chosen


def first_point(choice: Choice, name: str) -> ReviewPoint:
    """The point that is being tried, else the stored one, else the one that uses the review budget."""
    curve, token = choice.views.reviews[name], choice.ids[name]
    stored = choice.page.workspace.thresholds.list(token)
    threshold = _drafts().get(token, stored[0].threshold if stored else None)
    return curve.at_budget() if threshold is None else curve.at_threshold(threshold)


def apply_click(choice: Choice, chart: go.Figure) -> None:
    """Try the threshold of a clicked point for the run of that curve."""
    state: Any = st.session_state.get("compare_roc")
    points = state["selection"]["points"] if state else []
    for point in points:
        threshold = clicked_threshold(point)
        name = _clicked_run(choice, chart, point)
        if threshold is not None and name is not None:
            st.session_state["compare_run"] = name
            try_point(choice, name, choice.views.reviews[name].at_threshold(threshold))


def try_point(choice: Choice, name: str, review: ReviewPoint) -> None:
    """Make a point the draft of a run."""
    token, threshold = choice.ids[name], review.point.threshold
    _drafts()[token] = threshold
    st.query_params[TRIED] = f"{token}~{threshold!r}"


def _drafts() -> dict[str, float]:
    """The thresholds that are being tried; a new session begins with the one of the address."""
    if DRAFTS not in st.session_state:
        token, _, threshold = st.query_params.get(TRIED, "").partition("~")
        try:
            st.session_state[DRAFTS] = {token: float(threshold)} if isfinite(float(threshold)) else {}
        except ValueError:
            st.session_state[DRAFTS] = {}
    found: dict[str, float] = st.session_state[DRAFTS]
    return found


def _forget_draft(token: str) -> None:
    _drafts().pop(token, None)
    if st.query_params.get(TRIED, "").startswith(f"{token}~"):
        st.query_params.pop(TRIED, None)


def use_model(choice: Choice, name: str, review: ReviewPoint) -> None:
    """Store a run as the model in use, with its operating point, which is no draft any longer."""
    point = review.point
    threshold = Threshold(f"{share(point.flagged_share)} flagged", point.threshold, min(point.flagged_share, 1.0))
    choice.page.workspace.thresholds.save_champion(choice.ids[name], threshold, {"by": name_of_this_person()})
    _forget_draft(choice.ids[name])


def text_in_use(choice: Choice) -> str:
    """Which model is in use, and at which threshold."""
    if choice.champion is None:
        return "No model in use yet."
    record = choice.page.workspace.runs.get(choice.champion.run)
    current = choice.page.workspace.thresholds.list(choice.champion.run)[0]
    return f"In use: {plain(choice.champion_name or record.name)}, flags {_words(current)}."


def show_history(choice: Choice) -> None:
    """Every choice of a model or a threshold with what was in use before, and a button that undoes the last one."""
    changes = choice.page.workspace.thresholds.history(choice.dataset.id)
    if not changes:
        return
    names = {record.id: record.name for record in choice.page.workspace.runs.list(choice.dataset.id)}
    with st.popover("History", icon=":material/history:", type="tertiary", key="compare_history"):
        st.caption("Which model was in use, and at which threshold. The newest change comes first.")
        if choice.champion is not None:
            st.button(
                "Undo the last change",
                icon=":material/undo:",
                key="compare_undo",
                on_click=choice.page.workspace.thresholds.undo,
                args=(choice.champion, name_of_this_person()),
            )
        for change in changes[:MOST_CHANGES]:
            old = "no model" if change.old is None else f"{names[change.old.run]}, {_words(change.old)}"
            new = f"{names[change.new.run]}, flags {_words(change.new)}"
            when = f"{change.new.made:%d %b %Y, %H:%M} UTC"
            who = f"{when}, by {change.by or 'somebody'}" + ("" if change.undone is None else " · undone")
            st.markdown(f"**{plain(new)}**  \n{plain(f'Before: {old}. {who}')}")


def _ask_to_use(choice: Choice, chosen: ChosenPoint) -> None:
    """What is stored beside the draft, and the button that stores the draft."""
    if chosen.name in choice.references:
        st.caption("A reference to compare with, not a model to use.")
        return
    stored = choice.page.workspace.thresholds.list(chosen.id)
    is_used, is_draft = choice.champion_name == chosen.name, chosen.id in _drafts()
    point = chosen.review.point
    words = "Use this threshold" if is_used else f"Use {_short(chosen.name)} at this threshold"
    if is_used and is_draft:
        new = f"{share(point.flagged_share)} of rows (scores above {point.threshold:.3g})"
        st.markdown(f":orange-badge[Draft] In use: flags {_words(stored[0])}. New: flags {new}.")
    elif is_used and len(stored) > 1:
        st.markdown(f":green-badge[In use] Flags {_words(stored[0])}. Before: {_words(stored[1])}.")
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button(
            plain(words),
            key="compare_choose",
            type="primary" if is_used and is_draft else "secondary",
            disabled=is_used and not is_draft,
        ):
            use_model(choice, chosen.name, chosen.review)
            st.rerun()
        if is_draft:
            st.button("Discard", key="compare_discard", type="tertiary", on_click=_forget_draft, args=(chosen.id,))
    if chosen.name in choice.comparison.below_chance:
        st.caption(":material/trending_down: This model is worse than chance on the evaluated rows.")


def _ask_run(choice: Choice) -> str:
    names = choice.names
    if st.session_state.get("compare_run") not in names:
        tried = next((name for name in names if choice.ids[name] in _drafts()), None)
        st.session_state["compare_run"] = tried or choice.champion_name or names[0]
    return st.selectbox("Model", names, key="compare_run", label_visibility="collapsed")


def _words(stored: ThresholdRecord) -> str:
    return f"{share(stored.flagged_share)} of rows (scores above {stored.threshold:.3g})"


def _show_meaning(chosen: ChosenPoint) -> None:
    """What the review finds, by confirmed cases and by soft labels, with what each assumes."""
    review, point = chosen.review, chosen.review.point
    st.markdown(f"**{plain(review.sentence)}**", help=CONFIRMED_WORDS)
    expected = f"{count(review.soft_sum)} of {count(review.soft_total)} expected cases"
    rates = f"TPR_SPU {share(point.tpr)}, FPR_SPU {share(point.fpr)}"
    st.markdown(plain(f"By your soft labels: {expected}. {rates}."), help=f"{EXPECTED_WORDS} {meaning('TPR_SPU')}")
    if review.tie_sentence is not None:
        st.caption(f":material/warning: {plain(review.tie_sentence)}")


def _clicked_run(choice: Choice, chart: go.Figure, point: Any) -> str | None:
    """The run whose curve was clicked. Only curves that can be clicked have thresholds, in the order of drawing."""
    clickable = [at for at, trace in enumerate(chart.data) if trace.customdata is not None]
    number = point.get("curve_number")
    return choice.names[clickable.index(number)] if number in clickable else None


def _short(name: str) -> str:
    line = " ".join(name.split())
    return line if len(line) <= 28 else f"{line[:27]}…"


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
            # Wrong rules put AUC_SPU of a good model below ½, where no share of the ceiling is reached.
            "–" if reached is None or reached.estimate < 0.0 else share(reached.estimate),
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
        st.caption(text_in_use(choice))


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
