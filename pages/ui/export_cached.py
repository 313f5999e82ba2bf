"""Cached calls of the engine: what leaves the studio, and what comes from elsewhere.

A run with its operating point and the analyst's words decides what its files hold.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from pages.ui.table_cached import whole
from spu_core.engines.export_files import ExportWords, StoredModel
from spu_core.engines.jobs import score
from spu_core.engines.jobs.score import ScoredFile, score_foreign, score_upload
from spu_core.errors import BundleError
from spu_core.export import Bundle, Scoring, load_bundle
from spu_core.workspace import DatasetRecord, RunRecord, Workspace


def stored_model(workspace: Workspace, dataset: DatasetRecord, record: RunRecord, words: ExportWords) -> StoredModel:
    """A stored run, ready to be written in any form."""
    points = workspace.thresholds.list(record.id)
    others = tuple((run.id, run.name) for run in workspace.runs.list(dataset.id))
    key = (record.id, points[0].id if points else "", dataset.version)
    return _stored_model(str(workspace.folder), key, others, words, record, dataset, workspace)


def scored_file(workspace: Workspace, bundle: Bundle, token: str, uploaded: Any, flag_by: str) -> ScoredFile:
    """An uploaded file, scored; `token` names the bundle with its operating point."""
    return _scored_file(str(workspace.folder), token, uploaded.file_id, flag_by, bundle, uploaded)


def scored_by_foreign(workspace: Workspace, bundle: Any, uploaded: Any, flag_by: str) -> ScoredFile:
    """An uploaded file, scored by an uploaded bundle in a process apart."""
    return _scored_by_foreign(str(workspace.folder), bundle.file_id, uploaded.file_id, flag_by, bundle, uploaded)


def stored_scores(workspace: Workspace, export: str) -> ScoredFile:
    """Scored rows that a job has kept; their file is checked once."""
    return _stored_scores(str(workspace.folder), export, workspace)


def foreign_bundle(workspace: Workspace, uploaded: Any) -> Bundle | str:
    """An uploaded bundle that was checked and tried, or the sentence that refuses it."""
    return _foreign_bundle(str(workspace.folder), uploaded.file_id, uploaded)


@st.cache_resource(max_entries=8, show_spinner="Loading the model …")
def _stored_model(
    folder: str,
    key: tuple[str, str, int],
    others: tuple[tuple[str, str], ...],
    words: ExportWords,
    _record: RunRecord,
    _dataset: DatasetRecord,
    _workspace: Workspace,
) -> StoredModel:
    return StoredModel(_workspace, _record, whole(_workspace, _dataset), words)


# Scored rows lie in a temporary file, which goes with the entry.
@st.cache_resource(max_entries=8, ttl=3600, show_spinner="Scoring …")
def _scored_file(folder: str, token: str, file: str, flag_by: str, _bundle: Bundle, _uploaded: Any) -> ScoredFile:
    _uploaded.seek(0)
    return score_upload(_bundle, _uploaded, Scoring(flag_by=flag_by))


@st.cache_resource(max_entries=8, ttl=3600, show_spinner="Scoring in a process apart …")
def _scored_by_foreign(folder: str, bundle: str, file: str, flag_by: str, _bundle: Any, _uploaded: Any) -> ScoredFile:
    _uploaded.seek(0)
    return score_foreign(_bundle.getvalue(), _uploaded, Scoring(flag_by=flag_by))


@st.cache_resource(max_entries=8, show_spinner="Loading the scored rows …")
def _stored_scores(folder: str, export: str, _workspace: Workspace) -> ScoredFile:
    return score.stored_scores(_workspace, export)


@st.cache_resource(max_entries=8, ttl=3600, show_spinner="Checking the bundle, and trying it in a process apart …")
def _foreign_bundle(folder: str, file: str, _uploaded: Any) -> Bundle | str:
    try:
        return load_bundle(_uploaded.getvalue())
    except BundleError as refused:
        return str(refused)
