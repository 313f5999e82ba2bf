"""The compared runs in pictures and as a table, in the order of the recommendation."""

from __future__ import annotations

import streamlit as st

from pages.ui.compare.cached import run_band
from pages.ui.compare.compared_runs import Choice
from pages.ui.compare.point import ChosenPoint, apply_click
from pages.ui.shared.show import in_percent, meaning, show_chart, show_table, theme
from pages.ui.shared.text import plain
from spu_core.charts import leaderboard_chart, roc_chart
from spu_core.errors import AssumptionError
from spu_core.theory import ScarLink

ZOOMS = {"full": "Full", "low": "Low FPR", "log": "Log"}
PERFECT = (
    "The AUC_SPU of a model that knows the true class, if soft labels did not depend on the columns within a class. A "
    "model can exceed it where that assumption fails."
)


def show_curves(choice: Choice, chosen: ChosenPoint) -> None:
    """ROC_SPU of all runs against the ceiling; a click on a curve tries that operating point."""
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.subheader("ROC_SPU against the ceiling", anchor=False, width="content")
        with st.popover("Zoom", icon=":material/tune:", type="tertiary", key="compare_shown"):
            zoom = st.segmented_control(
                "Part of the chart",
                list(ZOOMS),
                default="full",
                required=True,
                format_func=ZOOMS.__getitem__,
                key="compare_zoom",
            )
            banded = st.toggle(
                "Confidence band", value=True, key="compare_band", help="Holds for the whole curve at once."
            )
            perfect = choose_perfect(choice)
    band = run_band(*choice.judged(chosen.name)) if banded else None
    chart = roc_chart(
        {name: choice.views.curves[name] for name in choice.names},
        choice.views.ceiling,
        selected=chosen.name,
        references=choice.references,
        areas={run.name: run.metrics.auc_spu.estimate for run in choice.comparison.runs if run.metrics is not None},
        band=band,
        perfect=perfect,
        operating_point=chosen.review.point,
        zoom=zoom,
        theme=theme(),
    )
    show_chart(chart, key="compare_roc", on_select=lambda: apply_click(choice, chart), selection_mode="points")
    missing = None if band is None else band.missing_because
    st.caption(f":material/info: {missing}" if missing else "Click a curve to try its operating point.")


def show_figures(choice: Choice, chosen: ChosenPoint) -> None:
    """AUC_SPU, AUC on confirmed cases and, where it is known, true AUC of each run on one scale."""
    st.subheader("How good is each model?", anchor=False)
    chart = leaderboard_chart(
        choice.figures,
        ceiling=choice.views.ceiling.auc,
        selected=chosen.name,
        references=choice.references,
        theme=theme(),
    )
    show_chart(chart, key="compare_figures")
    st.caption(
        "AUC_SPU follows your rules, right or wrong. AUC on confirmed cases does not, but it counts hidden cases as "
        "negatives. 0.5 is guessing."
    )


def show_leaderboard(choice: Choice) -> None:
    """The most important figures; the details show all of them."""
    st.subheader("Leaderboard", anchor=False)
    board = choice.recommendation.ranked(in_percent(choice.comparison.leaderboard, "share_of_ceiling"))
    if choice.truth is not None:
        board["true_auc"] = board["name"].map({name: found.estimate for name, found in choice.truth.items()})
    board.loc[board["name"].isin(choice.references), "name"] += " (reference)"
    known = [name for name in ("known_positive_auc", "true_auc") if board[name].notna().any()]
    numbers = {
        "auc_spu": ("AUC_SPU", meaning("AUC_SPU")),
        "known_positive_auc": ("On confirmed cases", meaning("known-positive AUC")),
        "true_auc": ("True AUC", "AUC against the truth, where it is known."),
    }
    config = {
        name: st.column_config.NumberColumn(title, format="%.3f", help=words)
        for name, (title, words) in numbers.items()
    }
    config["name"] = st.column_config.TextColumn("Model", pinned=True)
    config["share_of_ceiling"] = st.column_config.NumberColumn(
        "Of ceiling", format="%.0f%%", help=meaning("share of ceiling")
    )
    show_table(
        board[["name", *known, "auc_spu", "share_of_ceiling"]],
        hide_index=True,
        key="compare_board",
        height="content" if len(board) <= 8 else 320,
        column_config=config,
        placeholder="–",
    )
    st.caption(
        "In the order of the recommendation. The figures describe the models of the folds, not the exported one."
    )
    for run in choice.comparison.runs:
        if run.error is not None:
            st.error(f"**{plain(run.name)}**: {plain(run.error)}", icon=":material/error:")


def choose_perfect(choice: Choice) -> ScarLink | None:
    """The level of a perfect classifier, from the truth where it is known, else from what the analyst assumes."""
    if not st.toggle("Perfect classifier", key="compare_perfect", help=PERFECT, persist_state="session"):
        return None
    return choice.views.perfect or _assumed(choice.views.mean_soft_label)


def _assumed(mean: float) -> ScarLink | None:
    """From two numbers that the analyst assumes; the mean soft label determines the third."""
    prior = st.number_input(
        "Share of positives you assume",
        0.0001,
        0.9999,
        min(max(mean, 0.0001), 0.9999),
        format="%.4f",
        key="compare_prior",
        persist_state="session",
        help="From an audit, from experience, or as a what-if.",
    )
    positive_mean = st.number_input(
        "Mean soft label among positives",
        0.0,
        1.0,
        min(1.0, 0.5 + 0.5 * mean),
        key="compare_positive_mean",
        persist_state="session",
        help="The mean soft label that your rules give to truly positive rows.",
    )
    try:
        return ScarLink.from_mean(mean, prior, positive_mean)
    except AssumptionError as problem:
        st.caption(f":material/warning: {plain(problem)}")
        return None
