"""The main figures of a comparison: four cards, the benefit of soft labels, the curves and the leaderboard."""

from __future__ import annotations

import streamlit as st

from pages.ui.compare.cached import run_band
from pages.ui.compare.compared_runs import Choice
from pages.ui.compare.point import ChosenPoint, apply_click
from pages.ui.shared.show import (
    BadgeColor,
    in_percent,
    meaning,
    share_column,
    show_chart,
    show_figure,
    show_table,
    theme,
)
from pages.ui.shared.text import count, figure, plain, share
from spu_core.charts import roc_chart
from spu_core.errors import AssumptionError
from spu_core.theory import ScarLink

ZOOMS = {"full": "Full", "low": "Low FPR", "log": "Log"}
ANSWERS: dict[str, tuple[str, BadgeColor, str]] = {
    "yes": ("Yes", "green", ":material/thumb_up:"),
    "no": ("No", "red", ":material/thumb_down:"),
    "no clear difference": ("No clear difference", "orange", ":material/balance:"),
    "cannot tell": ("Cannot tell", "gray", ":material/help:"),
}
WORDS = (
    "The AUC_SPU of a model that knows the true class, if soft labels did not depend on the columns within a class. A "
    "model can exceed it where that assumption fails."
)


def show_headline(choice: Choice) -> None:
    """The best AUC_SPU, the ceiling, the share reached and the mean soft label."""
    found, views = choice.recommendation, choice.views
    name = found.model or found.order[0]
    metrics = choice.run(name).metrics
    assert metrics is not None
    if choice.comparison.headline is not None:
        st.error(plain(choice.comparison.headline), icon=":material/trending_down:")
    cards = st.columns(4, gap="small")
    show_figure(
        cards[0],
        "AUC_SPU" if found.model is None else "AUC_SPU, recommended model",
        figure(metrics.auc_spu.estimate),
        plain(_short(name)),
        about="AUC_SPU",
    )
    show_figure(cards[1], "Ceiling", figure(metrics.ceiling), "set by your soft labels", about="ceiling")
    reached = metrics.share_of_ceiling
    show_figure(
        cards[2],
        "Share of the ceiling",
        "–" if reached is None else share(reached.estimate),
        f"{figure(max(0.0, metrics.ceiling - metrics.auc_spu.estimate))} AUC_SPU left",
        about="share of ceiling",
    )
    show_figure(
        cards[3],
        "Mean soft label",
        figure(views.mean_soft_label),
        f"ΣS {count(views.soft_sum)} of {count(metrics.rows)} rows",
        about="mean soft label",
    )


def show_verdict(choice: Choice) -> None:
    """Which model to use, whether the rules help, and the reasons in an expander."""
    found = choice.recommendation
    words, color, icon = ANSWERS[found.help_of_rules]
    with st.container(border=True, key="compare_verdict"):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.subheader(plain(f"Recommended: {found.model or 'no model'}"), anchor=False, width="content")
            st.badge(found.confidence.capitalize(), color="gray")
        st.markdown(plain(found.sentence))
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown("**Do my rules help?**", width="content")
            st.badge(words, icon=icon, color=color)
        st.markdown(plain(found.help_sentence))
        more = (*found.reasons, *found.warnings, found.next_step.sentence, *choice.comparison.disagreements)
        with st.expander("Evidence, caveats, and where the figures disagree", icon=":material/fact_check:"):
            for sentence in more:
                st.markdown(f"- {plain(sentence)}")


def show_curves(choice: Choice, chosen: ChosenPoint | None) -> None:
    """ROC_SPU of all runs against the ceiling; a click on a curve sets the operating point of its run."""
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.subheader("ROC_SPU against the ceiling", anchor=False, width="content")
        zoom = st.segmented_control(
            "Zoom",
            list(ZOOMS),
            default="full",
            required=True,
            format_func=ZOOMS.__getitem__,
            key="compare_zoom",
            label_visibility="collapsed",
        )
    name = chosen.name if chosen is not None else choice.names[0]
    with st.container(horizontal=True):
        banded = st.toggle("Confidence band", value=True, key="compare_band", help="Holds for the whole curve at once.")
        perfect = choose_perfect(choice)
    bands = {name: run_band(*choice.judged(name))} if banded else {}
    chart = roc_chart(
        choice.drawn,
        choice.views.ceiling,
        areas={run.name: run.metrics.auc_spu.estimate for run in choice.comparison.runs if run.metrics is not None},
        bands=bands,
        perfect=perfect,
        operating_point=None if chosen is None else chosen.review.point,
        zoom=zoom,
        theme=theme(),
    )
    show_chart(
        chart,
        key="compare_roc",
        on_select=lambda: apply_click(choice, chart),
        selection_mode="points",
    )
    st.caption(":material/ads_click: Click a curve to flag the rows above that point.")
    for band in bands.values():
        if band.missing_because is not None:
            st.caption(f":material/info: {band.missing_because}")


def show_leaderboard(choice: Choice) -> None:
    """The most important figures; the details show all of them."""
    with st.container(horizontal=True):  # the same height as the title of the curves beside it
        st.subheader("Leaderboard", anchor=False, width="content")
    board = in_percent(choice.comparison.leaderboard, "share_of_ceiling")
    known = [name for name in ("known_positive_auc", "true_auc") if board[name].notna().any()]
    numbers = {
        "auc_spu": ("AUC", meaning("AUC_SPU")),
        "known_positive_auc": ("Known", meaning("known-positive AUC")),
        "true_auc": ("True", "AUC against the truth, where it is known."),
    }
    config = {
        name: st.column_config.NumberColumn(title, format="%.3f", help=words, width=52)
        for name, (title, words) in numbers.items()
    }
    config["name"] = st.column_config.TextColumn("Model", width=208)
    config["share_of_ceiling"] = share_column("Of ceiling", meaning("share of ceiling"), width=84)
    show_table(
        board[["name", "auc_spu", "share_of_ceiling", *known]],
        hide_index=True,
        key="compare_board",
        height="content" if len(board) <= 8 else 320,
        column_config=config,
        placeholder="–",
    )
    best = choice.recommendation.among_best
    if len(best) > 1:
        st.caption(f"{len(best)} models may be the best: {plain(', '.join(best))}.")
    st.caption(":material/info: These figures describe the models of the folds, not the exported model.")
    for run in choice.comparison.runs:
        if run.error is not None:
            st.error(f"**{plain(run.name)}**: {plain(run.error)}", icon=":material/error:")


def _short(name: str) -> str:
    line = " ".join(name.split())
    return line if len(line) <= 24 else f"{line[:23]}…"


def choose_perfect(choice: Choice) -> ScarLink | None:
    """The level of a perfect classifier, from the truth where it is known, else from what the analyst assumes."""
    if not st.toggle("Perfect classifier", key="compare_perfect", help=WORDS, persist_state="session"):
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
