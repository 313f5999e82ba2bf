"""The loop of checks around a dataset: its own queues, and those that its models filled from other populations."""

from __future__ import annotations

from collections.abc import Sequence

from spu_core.engines.stored import stored_bundle
from spu_core.tables import Role
from spu_core.workspace import DatasetRecord, QueueRecord, Workspace


def loop_queues(workspace: Workspace, dataset: str, runs: Sequence[str] = ()) -> tuple[QueueRecord, ...]:
    """The queues of a dataset and its ancestors, and of whatever their runs (and `runs`) flagged; the newest first."""
    families = families_of(workspace, dataset, runs)
    models = {run.id for run in workspace.runs.list() if run.dataset in families}
    everywhere = {*families, *(record.id for record in workspace.datasets.list())}
    return tuple(
        queue
        for queue in workspace.queues.list(*everywhere)
        if queue.dataset in families or models & set(queue.plan.get("runs", {}).values())
    )


def families_of(workspace: Workspace, dataset: str, runs: Sequence[str] = ()) -> frozenset[str]:
    """The dataset, those that the runs were trained on, and the ancestors of all of them."""
    starts = {dataset, *(workspace.runs.get(run).dataset for run in runs)}
    return frozenset(token for start in starts for token in workspace.feedbacks.family(start))


def where_names_hold(workspace: Workspace, dataset: str) -> str:
    """The space in which a table's users are told apart: one ("") for all tables with a column that names them.

    Where lines stand for users, only tables of the same rows share a space.
    """
    if {Role.GROUP, Role.ID} & set(workspace.datasets.get(dataset).roles.values()):
        return ""
    first = workspace.feedbacks.family(dataset)[-1]
    return next((each.fingerprint for each in workspace.datasets.list() if each.id == first), first)


def populations(workspace: Workspace, dataset: str, run: str) -> tuple[DatasetRecord, ...]:
    """The stored tables from which a run can flag: the dataset at hand first, then all others that it can score.

    Tables made from each other by check outcomes have the same rows, so only the one at hand is offered of those. Rows
    that stay in a folder are not offered: only a sample of them is stored.
    """
    needed, own = set(stored_bundle(workspace, run).columns), set(workspace.feedbacks.family(dataset))
    others = [
        each
        for each in workspace.datasets.list()
        if each.folder is None and needed <= set(each.roles) and own.isdisjoint(workspace.feedbacks.family(each.id))
    ]
    return (workspace.datasets.get(dataset), *others)
