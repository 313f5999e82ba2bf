"""The level of a perfect classifier: from the truth where it is known, else from what the analyst assumes."""

from __future__ import annotations

import streamlit as st

from pages.ui.compare.choice import Choice
from pages.ui.shared.text import plain
from spu_core.errors import AssumptionError
from spu_core.theory import ScarLink

WORDS = (
    "What a model that knows the true class would reach, if S did not depend on the columns given the class. A model "
    "can lie above it where that assumption fails."
)


def choose_perfect(choice: Choice) -> ScarLink | None:
    """The line to draw, where it is wanted and known or assumed."""
    if not st.toggle("Perfect classifier", key="compare_perfect", help=WORDS, persist_state="session"):
        return None
    return choice.views.perfect or _assumed(choice.views.mean_soft_label)


def _assumed(mean: float) -> ScarLink | None:
    """Two numbers are free; the mean soft label ties the third to them."""
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
        help="How strongly your rules believe in rows that are truly positive.",
    )
    try:
        return ScarLink.from_mean(mean, prior, positive_mean)
    except AssumptionError as problem:
        st.caption(f":material/warning: {plain(problem)}")
        return None
