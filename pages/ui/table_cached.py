"""Cached calls of the engine: tables. A key always names the workspace and the content, never the data itself.

Tables are shared and read-only (`cache_resource`); nothing is kept without a bound.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import streamlit as st

from spu_core.engines.profiles import profile_of
from spu_core.tables import Role, Table, TableProfile
from spu_core.workspace import DatasetRecord, Workspace


def table(workspace: Workspace, dataset: DatasetRecord) -> Table:
    """The table of a dataset with its current roles."""
    return table_of(str(workspace.folder), dataset.id, dataset.version, workspace)


def profile(workspace: Workspace, dataset: DatasetRecord) -> TableProfile:
    """The profile of a dataset with its current roles."""
    return _profile(str(workspace.folder), dataset.id, dataset.version, workspace)


def examples(workspace: Workspace, dataset: DatasetRecord) -> tuple[str, ...]:
    """A few values of each column, in words."""
    return _examples(str(workspace.folder), dataset.id, dataset.version, workspace)


def label_values(workspace: Workspace, dataset: DatasetRecord) -> list[Any]:
    """The values of the label column, at most 200."""
    return _label_values(str(workspace.folder), dataset.id, dataset.version, workspace)


@st.cache_resource(max_entries=8, show_spinner="Loading the table …")
def table_of(folder: str, dataset: str, version: int, _workspace: Workspace) -> Table:
    return _workspace.datasets.load(dataset)


@st.cache_resource(max_entries=32, show_spinner="Looking at every column …")
def _profile(folder: str, dataset: str, version: int, _workspace: Workspace) -> TableProfile:
    record = replace(_workspace.datasets.get(dataset), version=version)
    return profile_of(_workspace, record, table_of(folder, dataset, version, _workspace))


@st.cache_resource(max_entries=32, show_spinner=False)
def _examples(folder: str, dataset: str, version: int, _workspace: Workspace) -> tuple[str, ...]:
    # The first rows do: whoever wants more looks at the profile.
    frame = table_of(folder, dataset, version, _workspace).frame.head(1000)
    return tuple(", ".join(map(str, frame[name].dropna().unique()[:3])) for name in frame.columns)


@st.cache_resource(max_entries=32, show_spinner=False)
def _label_values(folder: str, dataset: str, version: int, _workspace: Workspace) -> list[Any]:
    table = table_of(folder, dataset, version, _workspace)
    label = table.column_with(Role.LABEL)
    return [] if label is None else table.frame[label].dropna().unique()[:200].tolist()
