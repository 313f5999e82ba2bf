"""The comparison in charts and tables: curves, figures, leaderboard, and details below them."""

from __future__ import annotations

import streamlit as st

from pages.ui.compare.compared_runs import (
    Choice,
    run_band,
    run_calibration,
    run_segments,
    shuffle_columns,
    stack_weights,
    tree_gains,
)
from pages.ui.compare.recommended import ChosenPoint, apply_click, try_point
from pages.ui.shared.cached import draw_once, load_table
from pages.ui.shared.show import in_percent, meaning, share_column, show_chart, show_table, theme
from pages.ui.shared.text import count, plain, share
from spu_core.charts import (
    ReviewCosts,
    calibration_chart,
    cost_chart,
    difference_chart,
    feature_effect_chart,
    gains_chart,
    gains_lift_chart,
    leaderboard_chart,
    roc_chart,
    score_chart,
    segment_chart,
    stack_weights_chart,
)
from spu_core.errors import AssumptionError
from spu_core.metrics import Gains
from spu_core.tables import ColumnType
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
    chart = draw_once(
        roc_chart,
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
    chart = draw_once(
        leaderboard_chart,
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


MOST_FEATURES = 20
COLUMNS = {
    "auc_spu": "AUC_SPU",
    "share_of_ceiling": "Of ceiling",
    "refined_auc_spu": "On refined S",
    "known_positive_auc": "AUC on confirmed cases",
    "true_auc": "True AUC",
    "tpr_spu_at_1": "TPR_SPU at 1%",
    "tpr_spu_at_5": "TPR_SPU at 5%",
    "tpr_spu_at_budget": "TPR_SPU at budget",
    "soft_log_loss": "Soft log-loss",
    "calibration_gap": "Calibration gap",
    "self_claimed": "Self-claimed AUC_SPU",
    "seconds": "Seconds",
}


def show_details(choice: Choice, chosen: ChosenPoint) -> None:
    """A tab for each view; only the open one is computed."""
    st.subheader("In detail", anchor=False)
    shows = {
        "All figures": _figures,
        "Differences": _differences,
        "Costs": _costs,
        "Calibration": _calibration,
        "Gains and lift": _gains,
        "Scores": _scores,
        "Features": _features,
        "Segments": _segments,
    }
    tabs = st.tabs(list(shows), key="compare_tabs", on_change="rerun", bind="query-params")
    for tab, show in zip(tabs, shows.values(), strict=True):
        if tab.open:
            with tab:
                show(choice, chosen)


def _figures(choice: Choice, chosen: ChosenPoint) -> None:
    board = choice.recommendation.ranked(in_percent(choice.comparison.leaderboard, "share_of_ceiling"))
    present = [name for name in COLUMNS if board[name].notna().any()]
    config = {name: st.column_config.NumberColumn(COLUMNS[name], format="%.3f") for name in present}
    config["share_of_ceiling"] = share_column("Of the ceiling", meaning("share of ceiling"))
    config["name"] = st.column_config.TextColumn("Model", pinned=True)
    config["refined_note"] = st.column_config.TextColumn("About refined S", help=meaning("refined S"))
    notes = ["refined_note"] if board["refined_note"].notna().any() else []
    show_table(
        board[["name", *present, *notes]], hide_index=True, column_config=config, key="compare_all", placeholder="–"
    )
    for sentence in choice.comparison.notes:
        if sentence not in choice.recommendation.warnings:
            st.caption(f":material/info: {plain(sentence)}")


def _differences(choice: Choice, chosen: ChosenPoint) -> None:
    st.caption("Differences on the same rows. Grey: no clear difference after Holm's correction.")
    show_chart(difference_chart(choice.comparison.pairs, theme=theme()), key="compare_differences")
    with st.expander("As a table", icon=":material/table:"):
        show_table(choice.comparison.pairs_table, hide_index=True, key="compare_pairs")


def _costs(choice: Choice, chosen: ChosenPoint) -> None:
    """Expected cost along the curve, and a button that flags at its lowest point."""
    review, miss = st.columns(2, gap="medium")
    each = review.number_input("Cost of one review", 0.0, value=1.0, key="compare_cost", persist_state="session")
    loss = miss.number_input(
        "Loss of one missed positive", 0.0, value=10.0, key="compare_loss", persist_state="session"
    )
    costs = ReviewCosts(review=each, miss=loss, positives=chosen.review.soft_total)
    curve = choice.views.curves[chosen.name]
    chart = cost_chart(curve, costs, operating_point=chosen.review.point, theme=theme())
    show_chart(chart, key="compare_costs")
    st.caption(
        "Missed positives are estimated by the sum of soft labels, so the costs are right if soft labels are right "
        "on average."
    )
    best = costs.cheapest(chosen.curve.curve)
    words = f"Try the cheapest point: flag {share(best.flagged_share)} of rows"
    if st.button(words, icon=":material/savings:", key="compare_cheapest"):
        try_point(choice, chosen.name, chosen.curve.at_threshold(best.threshold))
        st.rerun()


def _calibration(choice: Choice, chosen: ChosenPoint) -> None:
    st.caption(
        "Mean soft label against mean score. On the diagonal, scores equal soft labels on average. This is not the "
        "truth."
    )
    names = _ask_runs(choice, "compare_calibrated")
    found = {name: run_calibration(*choice.judged(name)) for name in names}
    tables = {name: table for name, table in found.items() if table is not None}
    show_chart(calibration_chart(tables, theme=theme()), key="compare_calibration")


def _gains(choice: Choice, chosen: ChosenPoint) -> None:
    gains = {name: Gains(choice.views.curves[name]) for name in choice.names}
    budget = chosen.review.point.flagged_share or None
    left, right = st.columns(2, gap="small")
    with left:
        st.markdown("**Gains**")
        show_chart(gains_chart(gains, budget=budget, theme=theme()), key="compare_gains")
    with right:
        st.markdown("**Lift**")
        show_chart(gains_lift_chart(gains, budget=budget, theme=theme()), key="compare_lift")


def _scores(choice: Choice, chosen: ChosenPoint) -> None:
    run = choice.run(chosen.name)
    log_rows = st.toggle("Log scale", key="compare_log")
    evaluation, threshold = run.evaluation, chosen.review.point.threshold
    chart = score_chart(
        run.need_score()[evaluation.judged],
        evaluation.judged_is_labeled,
        threshold=threshold,
        log_rows=log_rows,
        theme=theme(),
    )
    st.caption(f"Out-of-fold scores of {plain(chosen.name)}: no row is scored by a model that was trained on it.")
    show_chart(chart, key="compare_scores")


def _features(choice: Choice, chosen: ChosenPoint) -> None:
    """The gain of trees, or on request the effect of shuffled columns, for which one fold is trained again."""
    shuffled = st.toggle(
        "Shuffle columns instead",
        key="compare_shuffle",
        help="How far AUC_SPU falls when a column is shuffled among rows the model has not seen. One fold is trained "
        "again for it, which takes a while on large tables.",
    )
    effects = None if shuffled else tree_gains(choice.page.workspace, chosen.id)
    if effects is None and not shuffled:
        st.caption("This method has no trees, so there are no gains; shuffle columns instead.")
        return
    if effects is None:
        effects = shuffle_columns(*choice.judged(chosen.name))
    show_chart(feature_effect_chart(effects.head(MOST_FEATURES), theme=theme()), key="compare_features")
    weights = stack_weights(choice.page.workspace, chosen.id)
    if weights is not None:
        st.markdown("**Weights in the fused score**")
        show_chart(stack_weights_chart(weights, theme=theme()), key="compare_weights")
    more = f"The first {MOST_FEATURES} of {count(len(effects))} columns. " if len(effects) > MOST_FEATURES else ""
    st.caption(f"{more}Correlated columns can replace each other, so each of them may look unimportant.")


def _segments(choice: Choice, chosen: ChosenPoint) -> None:
    table = load_table(choice.page.workspace, choice.dataset)
    columns = [name for name in table.frame.columns if table.types[name] is not ColumnType.IDENTIFIER]
    first = next((at for at, name in enumerate(columns) if table.types[name] is ColumnType.CATEGORY), 0)
    column = st.selectbox("Column", columns, index=first, key="compare_segment")
    run = choice.run(chosen.name)
    found = run_segments(*choice.judged(chosen.name), column, chosen.review.point.threshold)
    overall = run.metrics.auc_spu.estimate if run.metrics is not None else None
    show_chart(segment_chart(found.intervals, overall=overall, theme=theme()), key="compare_segments")
    show_table(
        in_percent(found.table, "flagged_share"),
        hide_index=True,
        key="compare_segment_table",
        column_config={
            "segment": st.column_config.TextColumn("Segment", pinned=True),
            "rows": st.column_config.NumberColumn("Rows", format="localized"),
            "mean_soft_label": st.column_config.NumberColumn("Mean soft label", format="%.3f"),
            "auc_spu": st.column_config.NumberColumn("AUC_SPU", format="%.3f"),
            "low": st.column_config.NumberColumn("from", format="%.3f"),
            "high": st.column_config.NumberColumn("to", format="%.3f"),
            "flagged_share": share_column("Flagged", "Share of the segment above the threshold."),
        },
    )


def _ask_runs(choice: Choice, key: str) -> list[str]:
    names = st.multiselect("Models", choice.names, default=choice.names[:3], key=key)
    return list(names)
