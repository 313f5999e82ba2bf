"""Which experiment the page shows; the choice lives in the address, so that a link leads to one table."""

from __future__ import annotations

import streamlit as st

from pages.ui.paper_cached import stored_results
from spu_core.experiments import EXPERIMENTS, Experiment, ExperimentResult

SHORT = {
    "table1": "Table 1",
    "table2": "Table 2",
    "table3": "Table 3",
    "theorems": "Theorems and figures",
    "selection": "Model selection",
    "discussion": "Target or feature",
}


def choose_experiment() -> tuple[Experiment, ExperimentResult | None]:
    """Ask for an experiment; returns it with its stored result, if there is one."""
    names = list(EXPERIMENTS)
    wanted = st.query_params.get("experiment", names[0])
    picked = st.segmented_control(
        "Experiment",
        names,
        default=wanted if wanted in names else names[0],
        format_func=lambda name: SHORT.get(name, name),
        required=True,
        label_visibility="collapsed",
        key="paper_experiment",
    )
    name = picked if picked in names else names[0]
    st.query_params["experiment"] = name
    chosen, result = EXPERIMENTS[name], stored_results()[name]
    st.header(chosen.title, anchor=False)
    st.markdown(chosen.description)
    if result is None:
        st.info("This version ships no stored result of this experiment.", icon=":material/info:")
    return chosen, result
