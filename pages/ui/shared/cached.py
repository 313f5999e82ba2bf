"""The cache of the dashboard, and the cached calls that several pages share.

The cache belongs to the whole server. A key therefore names the workspace, and with it whose data it is, and the
content: the version of a dataset, the hash of a rule set, the id and name of a run. Data is never part of a
key. Results are shared between reruns (`st.cache_resource`), so callers must not change them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ParamSpec, TypeAlias, TypeVar

import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from spu_core.engines import stored_runs as engine
from spu_core.engines.audit_results import verdict_state
from spu_core.engines.jobs.read import kept_profile, profile_of, read_without_storing
from spu_core.labels import SoftLabels, assign_soft_labels
from spu_core.rules import CheckRatio, CheckRecord, Rule, RuleMatrix, RuleSet
from spu_core.tables import Role, Table, TableProfile
from spu_core.training import Recommendation
from spu_core.workspace import AuditRecord, DatasetRecord, RuleSetVersion, RunRecord, Workspace
from spu_core.workspace.datasets import refuse_changes

P = ParamSpec("P")
R = TypeVar("R")
Keys: TypeAlias = dict[str | type, Callable[[Any], Any]]
# Streamlit looks these up by the exact class. Without them it hashes the fields of a dataclass and leaves the classes
# of nested values out, so that "a and b" and "a or b" would share an entry.
KEYS: Keys = {
    Workspace: lambda workspace: str(workspace.folder),
    DatasetRecord: lambda dataset: (dataset.id, dataset.version, dataset.fingerprint),
    RuleSetVersion: lambda version: version.sha256,
    RunRecord: lambda run: (run.id, run.name),
    AuditRecord: lambda audit: audit.id,
    Rule: lambda rule: RuleSet((rule,)).to_json(),
    CheckRatio: repr,
    CheckRecord: repr,
    UploadedFile: lambda uploaded: uploaded.file_id,  # each upload has a new random id, which other users cannot guess
}


def cache_result(
    max_entries: int,
    spinner: str | bool = False,
    *,
    ttl: float | None = None,
    keys: Keys | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Cache what a function returns, by its arguments; those whose names begin with _ are not part of the key.

    `keys` maps classes of arguments that only one page uses to functions that make their part of the key.
    """
    hash_funcs = KEYS | (keys or {})
    return st.cache_resource(max_entries=max_entries, show_spinner=spinner, ttl=ttl, hash_funcs=hash_funcs)


def draw_once(draw: Callable[..., go.Figure], *arguments: Any, **options: Any) -> go.Figure:
    """A chart, drawn once for the same arguments and then shared; nobody may change it.

    Large results, such as curves, are the same only if they are the same object. Draw from cached results.
    """
    return _drawn(_Drawing(_key_part([draw, arguments, options]), lambda: draw(*arguments, **options)))


@dataclass(frozen=True)
class _Drawing:
    key: Hashable
    draw: Callable[[], go.Figure] = field(compare=False)


@lru_cache(maxsize=48)
def _drawn(drawing: _Drawing) -> go.Figure:
    return drawing.draw()


@dataclass(frozen=True, eq=False)
class _Same:
    """A value that cannot be hashed. It is kept, so that no other value gets its identity."""

    value: Any

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value


def _key_part(value: Any) -> Hashable:
    if isinstance(value, Mapping):
        return tuple((name, _key_part(each)) for name, each in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return tuple(map(_key_part, value))
    try:
        hash(value)
    except TypeError:
        return _Same(value)
    return type(value), value


@cache_result(8, "Loading the table …")
def load_table(workspace: Workspace, dataset: DatasetRecord) -> Table:
    """The rows of a dataset to explore, with its current roles: a sample if they are in a folder."""
    return workspace.datasets.explore(dataset.id)


@cache_result(8, "Opening the folder …")
def load_folder(workspace: Workspace, dataset: DatasetRecord) -> Table:
    """The folder of a dataset as it was registered."""
    return workspace.datasets.folder(dataset.id)


def load_all_rows(workspace: Workspace, dataset: DatasetRecord) -> Table:
    """All rows of a dataset: the table, or its folder, which is refused if it has changed on disk."""
    if dataset.folder is None:
        return load_table(workspace, dataset)
    folder = load_folder(workspace, dataset)
    refuse_changes(folder)
    return folder


@cache_result(32, "Looking at every column …")
def load_profile(workspace: Workspace, dataset: DatasetRecord) -> TableProfile:
    """The profile of the rows to explore."""
    table = load_table(workspace, dataset)
    # The stored profile of a folder covers all its rows, not the sample.
    return table.profile() if dataset.folder else profile_of(workspace, dataset, table)


def load_full_profile(workspace: Workspace, dataset: DatasetRecord) -> TableProfile | None:
    """The profile of all rows of a folder; None until a job has made it for the current roles."""
    return kept_profile(workspace, dataset)


@cache_result(32)
def column_examples(workspace: Workspace, dataset: DatasetRecord) -> tuple[str, ...]:
    """A few values of each column, from the first rows."""
    frame = load_table(workspace, dataset).frame.head(1000)
    return tuple(", ".join(map(str, frame[name].dropna().unique()[:3])) for name in frame.columns)


@cache_result(32)
def label_values(workspace: Workspace, dataset: DatasetRecord) -> list[Any]:
    """The values of the label column, at most 200."""
    table = load_table(workspace, dataset)
    # A sample may lack a rare value.
    store = (table if dataset.folder is None else load_folder(workspace, dataset)).store
    label = table.column_with(Role.LABEL)
    return [] if label is None else store.stand_ins[label].dropna().unique()[:200].tolist()


def recommended_run(workspace: Workspace, records: tuple[RunRecord, ...], origin: str) -> RunRecord:
    """The recommended run of a dataset; `origin` says how its confirmed cases were found."""
    return recommended_run_and_why(workspace, records, origin)[0]


def recommended_run_and_why(
    workspace: Workspace, records: tuple[RunRecord, ...], origin: str
) -> tuple[RunRecord, Recommendation]:
    """The same with the recommendation."""
    state = verdict_state(workspace, workspace.datasets.get(records[0].dataset))
    return _recommended_run_and_why(workspace, records, origin, state)


@cache_result(32, "Comparing the runs …")
def _recommended_run_and_why(
    workspace: Workspace, records: tuple[RunRecord, ...], origin: str, verdicts: str
) -> tuple[RunRecord, Recommendation]:
    return engine.recommended_run_and_why(workspace, records, origin)


@cache_result(8, "Reading the file …")
def read_upload(uploaded: UploadedFile) -> pd.DataFrame:
    """The rows of a small file that is not stored; a separate process reads it, so that it cannot harm the server."""
    return read_without_storing(uploaded, uploaded.name).frame


@cache_result(128)
def parse_rules(text: str) -> RuleSet:
    """A rule set from its JSON text, parsed once."""
    return RuleSet.from_json(text)


@cache_result(6, "Applying the rules …")
def apply_rules(workspace: Workspace, dataset: DatasetRecord, text: str) -> RuleMatrix:
    """The active rules applied to every row."""
    table = load_table(workspace, dataset)
    return parse_rules(text).fit(table).apply(table.frame)


@cache_result(6, "Making soft labels …")
def make_soft_labels(workspace: Workspace, dataset: DatasetRecord, text: str) -> SoftLabels:
    """The soft labels of a dataset from a rule set, with the combiner of that set."""
    rules, matrix = parse_rules(text), apply_rules(workspace, dataset, text)
    return assign_soft_labels(matrix, load_table(workspace, dataset).is_labeled, rules.combine, rules.floor)
