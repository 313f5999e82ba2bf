"""Audits: the rows of a dataset that were drawn for manual checks, and the verdict of each reviewer; append-only."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from spu_core.checks import check_choice
from spu_core.errors import WorkspaceError
from spu_core.workspace import storage_errors
from spu_core.workspace.catalogue import Catalogue
from spu_core.workspace.records import Clock, _Record, clean_name, new_id

VERDICTS = ("positive", "negative", "unsure")


@dataclass(frozen=True, slots=True)
class AuditRecord(_Record):
    """A stored audit plan with its lineage: the run and the rules whose scores and soft labels it was drawn by.

    It belongs to the dataset. `run` is None if the run was deleted.
    """

    id: str
    run: str | None
    dataset: str
    rule_set: str | None
    rule_set_version: int | None
    name: str
    plan: str
    made: datetime


@dataclass(frozen=True, slots=True)
class VerdictRecord(_Record):
    """The verdict of one reviewer on one row; of several by the same reviewer the last one counts."""

    audit: str
    row: int
    reviewer: str
    verdict: str
    note: str
    made: datetime


@dataclass(frozen=True, slots=True)
class Audits:
    """The audits of a workspace; a plan is stored as JSON text, which `spu_core.trust` interprets."""

    catalogue: Catalogue
    clock: Clock

    def save(self, run: str, plan: str, *, name: str = "audit", rules: tuple[str, int] | None = None) -> AuditRecord:
        """Store a plan; the same plan saved twice is two audits. `rules` is the rule-set version of its soft labels."""
        token = new_id()
        with self.catalogue.transaction() as rows:
            found = rows.execute("SELECT dataset FROM runs WHERE id = ?", (run,)).fetchone()
            if found is None:
                raise storage_errors.unknown("run", run)
            rule_set, version = rules or (None, None)
            rows.execute(
                "INSERT INTO audits (id, run, dataset, rule_set, rule_set_version, name, plan, made) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (token, run, found["dataset"], rule_set, version, clean_name(name), _checked(plan), self._now()),
            )
        return self.get(token)

    def get(self, token: str) -> AuditRecord:
        row = self.catalogue.row("SELECT * FROM audits WHERE id = ?", token)
        if row is None:
            raise storage_errors.unknown("audit", token)
        return AuditRecord.from_row(row)

    def list(self, run: str) -> tuple[AuditRecord, ...]:
        """The audits whose rows were drawn by a run, the newest first."""
        rows = self.catalogue.rows("SELECT * FROM audits WHERE run = ? ORDER BY seq DESC", run)
        return tuple(AuditRecord.from_row(row) for row in rows)

    def of_dataset(self, dataset: str) -> tuple[AuditRecord, ...]:
        """All audits of a dataset, the newest first."""
        rows = self.catalogue.rows("SELECT * FROM audits WHERE dataset = ? ORDER BY seq DESC", dataset)
        return tuple(AuditRecord.from_row(row) for row in rows)

    def state(self, dataset: str) -> int:
        """A number that grows with every verdict on rows of a dataset, and when one is withdrawn."""
        row = self.catalogue.row(
            "SELECT coalesce(max(verdicts.seq), 0) + count(withdrawn_verdicts.verdict) AS state "
            "FROM verdicts JOIN audits ON verdicts.audit = audits.id "
            "LEFT JOIN withdrawn_verdicts ON withdrawn_verdicts.verdict = verdicts.seq WHERE audits.dataset = ?",
            dataset,
        )
        return 0 if row is None else int(row["state"])

    def add_verdicts(self, audit: str, verdicts: Iterable[tuple[int, str, str, str]]) -> int:
        """Store all of these (row, reviewer, verdict, note) or none; returns how many."""
        made = self._now()
        values = [
            (audit, int(row), clean_name(reviewer), check_choice(verdict, VERDICTS, "verdict"), str(note), made)
            for row, reviewer, verdict, note in verdicts
        ]
        with self.catalogue.transaction() as rows:
            _check_audit(rows, audit)
            rows.executemany(
                "INSERT INTO verdicts (audit, row, reviewer, verdict, note, made) VALUES (?, ?, ?, ?, ?, ?)", values
            )
        return len(values)

    def verdicts(self, audit: str) -> tuple[VerdictRecord, ...]:
        """The latest verdict of each reviewer on each row, without withdrawn ones; those of all reviewers are kept."""
        rows = self.catalogue.rows(
            "SELECT * FROM verdicts WHERE seq IN "
            "(SELECT max(seq) FROM verdicts WHERE audit = ? AND seq NOT IN (SELECT verdict FROM withdrawn_verdicts) "
            "GROUP BY row, reviewer) ORDER BY row, reviewer",
            audit,
        )
        return tuple(VerdictRecord.from_row(row) for row in rows)

    def history(self, audit: str) -> tuple[VerdictRecord, ...]:
        """Every verdict ever saved, in the order of saving."""
        rows = self.catalogue.rows("SELECT * FROM verdicts WHERE audit = ? ORDER BY seq", audit)
        return tuple(VerdictRecord.from_row(row) for row in rows)

    def _now(self) -> str:
        return self.clock().isoformat()


def _checked(plan: str) -> str:
    try:
        json.loads(plan)
    except ValueError:
        raise WorkspaceError("An audit plan must be JSON text; use `AuditPlan.to_json()`.") from None
    return plan


def _check_audit(rows: sqlite3.Connection, audit: str) -> None:
    if rows.execute("SELECT 1 FROM audits WHERE id = ?", (audit,)).fetchone() is None:
        raise storage_errors.unknown("audit", audit)
