"""Cached calls of the engine: results of the paper's experiments. A stored result never changes while we run."""

from __future__ import annotations

import streamlit as st

from spu_core.errors import WorkspaceError
from spu_core.experiments import EXPERIMENTS, ExperimentResult, stored_result
from spu_core.experiments.catalog import result_of


@st.cache_resource(max_entries=1, show_spinner=False)
def stored_results() -> dict[str, ExperimentResult | None]:
    """Every experiment with its stored result; None where this version ships none."""
    return {name: _stored(name) for name in EXPERIMENTS}


@st.cache_resource(max_entries=8, show_spinner=False)
def rerun_result(folder: str, job: str, _outcome: dict[str, object]) -> ExperimentResult:
    """The result of a finished rerun, by the workspace and the job that made it."""
    return result_of(_outcome)


def _stored(name: str) -> ExperimentResult | None:
    try:
        return stored_result(name)
    except WorkspaceError:
        return None
