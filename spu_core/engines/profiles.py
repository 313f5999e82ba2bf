"""The profile of a stored dataset: made once for each version of its roles, then read from beside it."""

from __future__ import annotations

from spu_core.errors import TableError
from spu_core.tables import Table, TableProfile
from spu_core.tables.profiles import profile_from_json, profile_to_json
from spu_core.workspace import DatasetRecord, Workspace

# The number changes when a profile says more than before, so that older ones are made again.
PROFILE = "profile_2"


def profile_of(workspace: Workspace, dataset: DatasetRecord, table: Table) -> TableProfile:
    """The profile of `table`, which is that of `dataset` with its saved roles."""
    kept = kept_profile(workspace, dataset)
    if kept is not None:
        return kept
    return keep_profile(workspace, dataset, table.profile())


def keep_profile(workspace: Workspace, dataset: DatasetRecord, made: TableProfile) -> TableProfile:
    """Keep a profile beside its dataset, for these roles."""
    workspace.derived.keep(dataset, PROFILE, profile_to_json(made))
    return made


def kept_profile(workspace: Workspace, dataset: DatasetRecord) -> TableProfile | None:
    """The profile that was made before; None where there is none for these roles."""
    kept = workspace.derived.get(dataset, PROFILE)
    if kept is None:
        return None
    try:
        return profile_from_json(kept)
    except TableError:
        return None  # it is only a shortcut: what cannot be read is made again
