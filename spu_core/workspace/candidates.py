"""Candidates: a method with its settings, kept under a name for the next training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spu_core.workspace import words
from spu_core.workspace.catalogue import Catalogue
from spu_core.workspace.records import CandidateRecord
from spu_core.workspace.values import Clock, clean_name, new_id, to_json


@dataclass(frozen=True, slots=True)
class Candidates:
    """The candidates of a workspace; runs keep their own copy, so deleting one changes no run."""

    catalogue: Catalogue
    clock: Clock

    def save(self, name: str, method: str, settings: Mapping[str, Any]) -> CandidateRecord:
        token = new_id()
        with self.catalogue.transaction() as rows:
            rows.execute(
                "INSERT INTO candidates (id, name, method, settings, version, made) VALUES (?, ?, ?, ?, 1, ?)",
                (token, clean_name(name), method, to_json(settings, "settings"), self.clock().isoformat()),
            )
        return self.get(token)

    def update(self, edited: CandidateRecord, settings: Mapping[str, Any]) -> CandidateRecord:
        """New settings, unless somebody saved others since `edited` was read."""
        with self.catalogue.transaction() as rows:
            changed = rows.execute(
                "UPDATE candidates SET settings = ?, version = version + 1 WHERE id = ? AND version = ?",
                (to_json(settings, "settings"), edited.id, edited.version),
            ).rowcount
        now = self.get(edited.id)
        if not changed:
            raise words.stale_edit("candidate", now.name, edited.version, now.version)
        return now

    def get(self, token: str) -> CandidateRecord:
        row = self.catalogue.row("SELECT * FROM candidates WHERE id = ?", token)
        if row is None:
            raise words.unknown("candidate", token)
        return CandidateRecord.from_row(row)

    def list(self) -> tuple[CandidateRecord, ...]:
        rows = self.catalogue.rows("SELECT * FROM candidates ORDER BY seq DESC")
        return tuple(CandidateRecord.from_row(row) for row in rows)
