"""Which model to use and how sure that is; its curve against the ceiling; the operating point."""

import streamlit as st

from pages.ui.compare.compared_runs import choose_runs
from pages.ui.compare.comparison_view import show_curves, show_details, show_figures, show_leaderboard
from pages.ui.compare.recommended import choose_point, show_card, show_warnings
from pages.ui.shared.shell import open_page
from pages.ui.shared.show import explain_terms

PROMISE = "Which model to use, how sure that is, and what to do next."

WORDS = (
    *("AUC_SPU", "ceiling", "share of ceiling", "known-positive AUC", "TPR_SPU", "FPR_SPU"),
    *("threshold", "perfect classifier", "refined S"),
)

with open_page("Compare", PROMISE) as page:
    choice = choose_runs(page)
    show_card(choice)
    show_warnings(choice)
    top, bottom = st.container(), st.container()
    with bottom:
        board, panel = st.columns([3, 2], gap="small")
        with board, st.container(border=True, height="stretch"):
            show_leaderboard(choice)
        with panel, st.container(border=True, height="stretch"):
            chosen = choose_point(choice)
    with top:
        curves, figures = st.columns([3, 2], gap="small")
        with curves, st.container(border=True, height="stretch"):
            show_curves(choice, chosen)
        with figures, st.container(border=True, height="stretch"):
            show_figures(choice, chosen)
    show_details(choice, chosen)
    explain_terms(*WORDS)
