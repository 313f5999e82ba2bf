"""Cached engine calls: one line each. A key always names the workspace and the content, never the data itself.

Tables are shared and read-only (`cache_resource`); nothing is kept without a bound.
"""

from __future__ import annotations

import streamlit as st

from spu_core.tables import Table, TableProfile
from spu_core.workspace import DatasetRecord, Workspace


def table(workspace: Workspace, dataset: DatasetRecord) -> Table:
    """The table of a dataset with its current roles."""
    return _table(str(workspace.folder), dataset.id, dataset.version, workspace)


def profile(workspace: Workspace, dataset: DatasetRecord) -> TableProfile:
    """The profile of a dataset with its current roles."""
    return _profile(str(workspace.folder), dataset.id, dataset.version, workspace)


@st.cache_resource(max_entries=8, show_spinner="Loading the table …")
def _table(folder: str, dataset: str, version: int, _workspace: Workspace) -> Table:
    return _workspace.datasets.load(dataset)


@st.cache_resource(max_entries=32, show_spinner="Looking at every column …")
def _profile(folder: str, dataset: str, version: int, _workspace: Workspace) -> TableProfile:
    return _table(folder, dataset, version, _workspace).profile()
