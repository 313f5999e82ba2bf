"""Compare runs against the ceiling, choose an operating point, and choose the champion."""

import streamlit as st

from pages.ui.compare.compared_runs import choose_runs
from pages.ui.compare.comparison_view import show_curves, show_headline, show_leaderboard, show_verdict
from pages.ui.compare.details import show_details
from pages.ui.compare.point import choose_point, show_champion
from pages.ui.shared.shell import open_page
from pages.ui.shared.show import explain_words

PROMISE = "Which model is better, how certain that is, and how close it comes to the best that your soft labels allow."

WORDS = (
    *("AUC_SPU", "ceiling", "share of ceiling", "mean soft label", "TPR_SPU", "FPR_SPU"),
    *("threshold", "perfect classifier", "refined S", "known-positive AUC"),
)

with open_page("Compare", PROMISE) as page:
    choice = choose_runs(page)
    show_headline(choice)
    show_verdict(choice)
    curves, figures = st.columns([5, 7], gap="small")
    with figures:
        with st.container(border=True):
            show_leaderboard(choice)
        with st.container(border=True):
            chosen = choose_point(choice)
            show_champion(choice, chosen)
    with curves, st.container(border=True, height="stretch"):
        show_curves(choice, chosen)
    show_details(choice, chosen)
    explain_words(*WORDS)
