"""The folds of an earlier training of the same table, so that runs under different rule sets can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spu_core.engines.study import Study, soft_labels_of
from spu_core.export import load_bundle
from spu_core.tables import Table, TableFolder
from spu_core.training import EvaluationData, FoldAssignment, make_split
from spu_core.training.rows import group_codes
from spu_core.workspace import RunRecord, Workspace

# What decides a split, besides the table and S.
_DECIDES = ("folds", "seed", "hold_out", "out_of_time", "group_column", "time_column")


def earlier_split(
    workspace: Workspace, dataset: str, table: Table | TableFolder, study: Study
) -> FoldAssignment | None:
    """The split of the newest run of this dataset that was made for the same folds; None where there is none.

    Folds are stratified by S, so another rule set would get others, and paired differences want the same rows in the
    same folds. A split by other groups or other latest rows is not used: it would let related rows leak. The folds of a
    folder go by a hash, whatever S is, so they are the same anyway.
    """
    if isinstance(table, TableFolder):
        return None
    config = study.plan.config
    for record in workspace.runs.list(dataset):
        if _decided_by(record.config) == _decided_by(config.to_dict()):
            own = make_split(table, soft_labels_of(table, study.rules), config)
            return _usable(_basis(workspace, record), own, group_codes(table, config))
    return None


def _decided_by(config: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(config.get(name) for name in _DECIDES)


def _basis(workspace: Workspace, record: RunRecord) -> EvaluationData:
    return load_bundle(workspace.runs.path(record.id), known_hash=workspace.runs.sha256(record.id)).run.evaluation


def _usable(earlier: EvaluationData, own: FoldAssignment, groups: np.ndarray | None) -> FoldAssignment | None:
    same_rows = earlier.fold.size == own.fold.size
    if not same_rows or not _equal(earlier.groups, groups):
        return None
    if own.out_of_time and not np.array_equal(earlier.fold == -1, own.fold == -1):
        return None
    return FoldAssignment(np.asarray(earlier.fold), own.out_of_time, own.groups)


def _equal(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)
