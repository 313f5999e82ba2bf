"""Train candidates in the background: choose them, see the cost, follow the progress."""

import streamlit as st

from pages.ui.shared.cached import load_all_rows
from pages.ui.shared.shell import open_page
from pages.ui.shared.show import explain_terms
from pages.ui.train.options import choose_candidates, choose_features, choose_options
from pages.ui.train.training import need_something_to_learn, offer_latest_rows, show_training, start_training

PROMISE = "Choose candidates and baselines. They are trained in the background; you can leave this page."

with open_page("Train", PROMISE) as page:
    table = load_all_rows(page.workspace, page.need_dataset())
    has_beliefs = need_something_to_learn(page, table)
    progress, notice = st.container(), st.container()
    candidates = choose_candidates(table, page.need_dataset().origin, has_beliefs=has_beliefs)
    options = choose_options(table, candidates)
    choose_features(page, options)
    with notice:
        offer_latest_rows(table, options)
    # The bar at the bottom stays in sight while candidates are chosen.
    with st.bottom:
        start_training(page, table, options)
    with progress:
        show_training(page)
    explain_terms("soft label", "AUC_SPU", "ceiling", "share of ceiling", "refined S", "known-positive AUC")
