"""Deletion: first a plan of everything that would be deleted, then exactly that; rows now, files at the sweep."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from spu_core.checks import check_choice
from spu_core.errors import WorkspaceError
from spu_core.workspace import storage_errors
from spu_core.workspace.catalogue import Catalogue
from spu_core.workspace.file_store import discard_unreferenced
from spu_core.workspace.records import clean_name

# kind → (its table, the column that names it)
DELETABLE = {
    "dataset": ("datasets", "name"),
    "rule set": ("rule_sets", "name"),
    "run": ("runs", "name"),
    "threshold": ("thresholds", "name"),
    "export": ("exports", "name"),
    "job": ("jobs", "title"),
}
_COUNTED = {
    "run": "runs",
    "threshold": "thresholds",
    "export": "exports",
    "check outcome": "outcomes",
    "review queue": "queues",
    "audit": "audits",
    "verdict": "verdicts",
    "rule-set version": "rule_set_versions",
}


@dataclass(frozen=True, slots=True)
class DeletionPlan:
    """What is deleted together with one object, counted by kind, and the bytes that this frees."""

    kind: str
    id: str
    name: str
    takes: tuple[tuple[str, int], ...]
    freed: int

    def __str__(self) -> str:
        along = ", ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in self.takes)
        return f"Deletes {self.kind} {self.name!r}{f' with {along}' if along else ''}; frees {in_bytes(self.freed)}."


def plan_deletion(catalogue: Catalogue, kind: str, token: str) -> DeletionPlan:
    """Run a deletion inside a transaction that is rolled back, so that the plan equals the deletion."""
    check_choice(kind, DELETABLE, "kind", WorkspaceError)
    with catalogue.rehearsal() as rows:
        return _delete(rows, kind, token)


def delete(catalogue: Catalogue, plan: DeletionPlan) -> None:
    """Delete what the plan lists; if anything differs from the plan, delete nothing."""
    with catalogue.transaction() as rows:
        done = _delete(rows, plan.kind, plan.id)
        if done != plan:
            raise storage_errors.StaleEditError(
                f"What depends on {plan.kind} {plan.name!r} has changed since you looked, so nothing was deleted. "
                f"Now it would be: {done}"
            )


def in_bytes(size: int) -> str:
    """A size in bytes with its unit.

    >>> in_bytes(999), in_bytes(1_500), in_bytes(2_340_000_000)
    ('999 bytes', '1.5 kB', '2.3 GB')
    """
    if size < 1000:
        return f"{size} bytes"
    step = next((step for step in (1, 2, 3) if size / 1000**step < 999.95), 4)
    return f"{size / 1000**step:.1f} {('kB', 'MB', 'GB', 'TB')[step - 1]}"


def _delete(rows: sqlite3.Connection, kind: str, token: str) -> DeletionPlan:
    table, label = DELETABLE[kind]
    found = rows.execute(f"SELECT {label} AS name FROM {table} WHERE id = ?", (token,)).fetchone()
    if found is None:
        raise storage_errors.unknown(kind, token)
    before = _counts(rows)
    rows.execute(f"DELETE FROM {table} WHERE id = ?", (token,))
    freed, after = discard_unreferenced(rows), _counts(rows)
    gone = {name: before[name] - after[name] - (name == kind) for name in _COUNTED}
    takes = tuple((name, count) for name, count in gone.items() if count > 0)
    return DeletionPlan(kind, token, clean_name(found["name"]), takes, freed)


def _counts(rows: sqlite3.Connection) -> dict[str, int]:
    return {name: rows.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for name, table in _COUNTED.items()}
