"""The operating point, set by a click, a threshold or a review budget; and the choice of the champion.

A change is stored at once with the run, so that it survives a refresh.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from pages.ui.compare.compared_runs import Choice
from pages.ui.shared.shell import show_errors
from pages.ui.shared.show import meaning
from pages.ui.shared.steps import link_to, step_named
from pages.ui.shared.text import count, plain, share
from spu_core.charts import clicked_threshold
from spu_core.metrics import OperatingPoint, RocSpu
from spu_core.training import ReviewPoint, finite_point, review_point
from spu_core.workspace import Threshold

SOFT_SUM_WORDS = (
    "The sum of soft labels of the flagged rows. It equals the expected number of positives only if your soft labels "
    "are right on average, which an audit or a known share of positives can test."
)


@dataclass(frozen=True, eq=False)
class ChosenPoint:
    """The run whose operating point is being chosen, and that point."""

    name: str
    id: str
    curve: RocSpu
    review: ReviewPoint


def choose_point(choice: Choice) -> ChosenPoint:
    """A threshold slider and a review budget that move together, and the resulting number of reviews."""
    st.subheader("Operating point", anchor=False, help=meaning("threshold"))
    name = _ask_run(choice)
    curve, token = choice.views.whole[name], choice.ids[name]
    point = finite_point(curve, curve.at_threshold(_current(choice, name, curve)))
    low, high = float(curve.score[-1]), float(curve.score[0])
    st.session_state["compare_threshold"] = min(max(point.threshold, low), high)
    st.session_state["compare_rows"] = int(point.flagged)
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
            on_change=_keep_threshold,
            args=(choice, name, curve),
        )
    rows.number_input(
        "Rows to review",
        0,
        int(curve.flagged[-1]),
        key="compare_rows",
        help="Your review budget: the highest scores first. Rows with equal scores are flagged together.",
        on_change=_keep_budget,
        args=(choice, name, curve),
    )
    chosen = ChosenPoint(name, token, curve, review_point(choice.views.soft_sum, point))
    _show_meaning(chosen)
    return chosen


def apply_click(choice: Choice, chart: go.Figure) -> None:
    """Save the threshold of a clicked point for the run of that curve."""
    state: Any = st.session_state.get("compare_roc")
    points = state["selection"]["points"] if state else []
    for point in points:
        threshold = clicked_threshold(point)
        name = _clicked_run(choice, chart, point)
        if threshold is not None and name is not None:
            st.session_state["compare_run"] = name
            save_point(choice, name, choice.views.whole[name].at_threshold(threshold), "a click on the curve")


def save_point(choice: Choice, name: str, point: OperatingPoint, by: str) -> None:
    """Store the operating point of a run; also called before the page runs, so it shows its own errors."""
    with show_errors("Compare"):
        point = finite_point(choice.views.whole[name], point)
        choice.page.workspace.thresholds.save(choice.ids[name], _threshold(point), {"by": by})


def show_champion(choice: Choice, chosen: ChosenPoint) -> None:
    """Which model is the champion; the choice is stored with its operating point."""
    champion = choice.page.workspace.thresholds.champion(choice.dataset.id)
    st.markdown(f":material/trophy: {_champion_words(choice, champion)}")
    with st.container(horizontal=True, vertical_alignment="center", key="compare_champion"):
        is_champion = champion is not None and champion.run == chosen.id
        is_worse = chosen.name in choice.comparison.below_chance
        words = "Save this threshold" if is_champion else f"Choose {_short(chosen.name)}"
        if st.button(plain(words), key="compare_choose", type="secondary" if is_champion or is_worse else "primary"):
            detail = {"by": "the analyst"}
            choice.page.workspace.thresholds.save_champion(chosen.id, _threshold(chosen.review.point), detail)
            st.rerun()
        if champion is not None:
            link_to(step_named("Export"), "Export", choice.page.query)
    if is_worse:
        st.caption(":material/trending_down: This model is worse than chance on the evaluated rows.")


def _champion_words(choice: Choice, champion: Any) -> str:
    if champion is None:
        return "**No model chosen yet.** The model you choose is exported with its operating point."
    record = choice.page.workspace.runs.get(champion.run)
    flagged = choice.page.workspace.thresholds.list(champion.run)[0].flagged_share
    name = next((name for name, token in choice.ids.items() if token == champion.run), record.name)
    return f"**Champion**: {plain(f'{name}, which flags {share(flagged)} of rows.')}"


def _ask_run(choice: Choice) -> str:
    names = choice.names
    if st.session_state.get("compare_run") not in names:
        st.session_state["compare_run"] = _first_run(choice)
    return st.selectbox(
        "Model", names, key="compare_run", label_visibility="collapsed", help="Its threshold is set here."
    )


def _first_run(choice: Choice) -> str:
    """The champion if it is among these runs, else the recommended model."""
    champion = choice.page.workspace.thresholds.champion(choice.dataset.id)
    token = champion.run if champion is not None else None
    found = choice.recommendation
    return next((name for name in choice.names if choice.ids[name] == token), found.model or found.order[0])


def _current(choice: Choice, name: str, curve: RocSpu) -> float:
    """The stored threshold of a run, else the one that uses its review budget."""
    stored = choice.page.workspace.thresholds.list(choice.ids[name])
    if stored:
        return stored[0].threshold
    return curve.at_budget(choice.run(name).config.review_budget).threshold


def _keep_threshold(choice: Choice, name: str, curve: RocSpu) -> None:
    save_point(choice, name, curve.at_threshold(float(st.session_state["compare_threshold"])), "a threshold")


def _keep_budget(choice: Choice, name: str, curve: RocSpu) -> None:
    save_point(choice, name, curve.at_budget(int(st.session_state["compare_rows"])), "a review budget")


def _threshold(point: OperatingPoint) -> Threshold:
    return Threshold(f"{share(point.flagged_share)} flagged", point.threshold, min(point.flagged_share, 1.0))


def _show_meaning(chosen: ChosenPoint) -> None:
    point = chosen.review.point
    with st.container(horizontal=True, horizontal_alignment="distribute"):
        for title, value, words in (
            ("Flagged", share(point.flagged_share), f"{count(point.flagged)} rows."),
            ("TPR_SPU", share(point.tpr), meaning("TPR_SPU")),
            ("FPR_SPU", share(point.fpr), meaning("FPR_SPU")),
            ("ΣS flagged", count(chosen.review.soft_sum), SOFT_SUM_WORDS),
        ):
            st.metric(title, value, help=words, width="content")


def _clicked_run(choice: Choice, chart: go.Figure, point: Any) -> str | None:
    """The run whose curve was clicked. Only curves that can be clicked have thresholds, in the order of drawing."""
    clickable = [at for at, trace in enumerate(chart.data) if trace.customdata is not None]
    number = point.get("curve_number")
    return list(choice.drawn)[clickable.index(number)] if number in clickable else None


def _short(name: str) -> str:
    line = " ".join(name.split())
    return line if len(line) <= 36 else f"{line[:35]}…"
