"""Cached calls of the engine: tables. A key always names the workspace and the content, never the data itself.

Tables are shared and read-only (`cache_resource`); nothing is kept without a bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import IO, Any

import pandas as pd
import streamlit as st

from spu_core.engines.jobs.read import kept_profile, profile_of, read_aside
from spu_core.tables import Role, Table, TableFolder, TableProfile
from spu_core.workspace import DatasetRecord, Workspace
from spu_core.workspace.datasets import refuse_changes


def table(workspace: Workspace, dataset: DatasetRecord) -> Table:
    """The rows of a dataset to explore, with its current roles: a sample where it lies in a folder."""
    return table_of(str(workspace.folder), dataset.id, dataset.version, workspace)


def given_frame(uploaded: Any) -> pd.DataFrame:
    """The rows of a small file that is looked at and kept nowhere; read once, where it cannot harm this server."""
    return _given_frame(uploaded.file_id, uploaded.name, uploaded)


def whole(workspace: Workspace, dataset: DatasetRecord) -> Table | TableFolder:
    """All rows of a dataset: the table, or its folder, which is refused in words when it has changed on disk."""
    if dataset.folder is None:
        return table(workspace, dataset)
    opened = folder(workspace, dataset)
    refuse_changes(opened)
    return opened


def folder(workspace: Workspace, dataset: DatasetRecord) -> TableFolder:
    """The folder of a dataset as it was registered."""
    return _folder(str(workspace.folder), dataset.id, dataset.version, workspace)


def profile(workspace: Workspace, dataset: DatasetRecord) -> TableProfile:
    """The profile of the rows to explore."""
    return _profile(str(workspace.folder), dataset.id, dataset.version, workspace)


def profile_of_all(workspace: Workspace, dataset: DatasetRecord) -> TableProfile | None:
    """The profile of all rows of a folder, once a job has made it for these roles."""
    return kept_profile(workspace, dataset)


def examples(workspace: Workspace, dataset: DatasetRecord) -> tuple[str, ...]:
    """A few values of each column, in words."""
    return _examples(str(workspace.folder), dataset.id, dataset.version, workspace)


def label_values(workspace: Workspace, dataset: DatasetRecord) -> list[Any]:
    """The values of the label column, at most 200."""
    return _label_values(str(workspace.folder), dataset.id, dataset.version, workspace)


@st.cache_resource(max_entries=8, show_spinner="Loading the table …")
def table_of(folder: str, dataset: str, version: int, _workspace: Workspace) -> Table:
    return _workspace.datasets.explore(dataset)


@st.cache_resource(max_entries=8, show_spinner="Opening the folder …")
def _folder(folder: str, dataset: str, version: int, _workspace: Workspace) -> TableFolder:
    return _workspace.datasets.folder(dataset)


@st.cache_resource(max_entries=32, show_spinner="Looking at every column …")
def _profile(folder: str, dataset: str, version: int, _workspace: Workspace) -> TableProfile:
    record, table = _workspace.datasets.get(dataset), table_of(folder, dataset, version, _workspace)
    # What is kept beside a folder is the profile of all its rows, not that of the sample.
    return table.profile() if record.folder else profile_of(_workspace, replace(record, version=version), table)


@st.cache_resource(max_entries=32, show_spinner=False)
def _examples(folder: str, dataset: str, version: int, _workspace: Workspace) -> tuple[str, ...]:
    # The first rows do: whoever wants more looks at the profile.
    frame = table_of(folder, dataset, version, _workspace).frame.head(1000)
    return tuple(", ".join(map(str, frame[name].dropna().unique()[:3])) for name in frame.columns)


@st.cache_resource(max_entries=32, show_spinner=False)
def _label_values(folder: str, dataset: str, version: int, _workspace: Workspace) -> list[Any]:
    if _workspace.datasets.get(dataset).folder is None:
        columns: Mapping[str, Any] | pd.DataFrame = table_of(folder, dataset, version, _workspace).frame
    else:
        columns = _folder(folder, dataset, version, _workspace).stand_ins  # a sample may lack a rare value
    label = table_of(folder, dataset, version, _workspace).column_with(Role.LABEL)
    return [] if label is None else columns[label].dropna().unique()[:200].tolist()


@st.cache_resource(max_entries=8, show_spinner="Reading the file …")
def _given_frame(token: str, name: str, _stream: IO[bytes]) -> pd.DataFrame:
    # The token is Streamlit's, a new one for each upload; nobody else can name it.
    return read_aside(_stream, name).frame
