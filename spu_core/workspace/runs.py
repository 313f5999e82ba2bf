"""Stored runs, each with the lineage that is needed to repeat it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spu_core.errors import WorkspaceError
from spu_core.versions import library_versions
from spu_core.workspace import storage_errors
from spu_core.workspace.disk import Writer
from spu_core.workspace.file_store import FileDraft, FileStore
from spu_core.workspace.records import DatasetRecord, FileRecord, RunRecord, clean_name, new_id, to_json

_SELECT = (
    "SELECT runs.*, files.size + coalesce(score_files.size, 0) AS size FROM runs "
    "JOIN files ON files.id = runs.file LEFT JOIN files AS score_files ON score_files.id = runs.scores"
)


@dataclass(frozen=True, kw_only=True)
class RunDraft:
    """What a run was made from: dataset, rule-set version, candidate and configuration."""

    name: str
    dataset: str
    candidate: Mapping[str, Any]
    rule_set: str | None = None
    rule_set_version: int | None = None
    candidate_id: str | None = None
    job: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=library_versions)

    def __post_init__(self) -> None:
        if (self.rule_set is None) != (self.rule_set_version is None):
            raise WorkspaceError("A run needs a rule set together with its version, or neither.")


@dataclass(frozen=True, slots=True)
class Lineage:
    """The dataset, rule set, candidate and versions that a run was made from."""

    run: RunRecord
    dataset: DatasetRecord
    rule_set_name: str | None
    rule_set_text: str | None

    def __str__(self) -> str:
        rules = f", rule set {self.rule_set_name!r} version {self.run.rule_set_version}" if self.rule_set_name else ""
        return (
            f"{self.run.name} on {self.dataset.name!r} "
            f"({self.run.dataset_fingerprint[:12]}){rules}, "
            f"spu-studio {self.run.versions.get('spu-studio', 'unknown')}"
        )


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of a workspace; the caller's writer defines the format of their files."""

    files: FileStore

    def save(self, draft: RunDraft, write_run: Writer, write_scores: Writer | None = None) -> RunRecord:
        """Store a run with its files in one transaction."""
        drafts = [FileDraft("run", write_run)]
        if write_scores is not None:
            drafts.append(FileDraft("scores", write_scores))

        def record(rows: sqlite3.Connection, stored: tuple[FileRecord, ...]) -> str:
            return self._insert(rows, draft, stored)

        return self.get(self.files.save(drafts, record))

    def get(self, token: str) -> RunRecord:
        row = self.files.catalogue.row(f"{_SELECT} WHERE runs.id = ?", token)
        if row is None:
            raise storage_errors.unknown("run", token)
        return RunRecord.from_row(row)

    def list(self, dataset: str | None = None) -> tuple[RunRecord, ...]:
        """Runs, the newest first; those of one dataset where it is given."""
        where, values = ("", ()) if dataset is None else ("WHERE runs.dataset = ?", (dataset,))
        rows = self.files.catalogue.rows(f"{_SELECT} {where} ORDER BY runs.seq DESC", *values)
        return tuple(RunRecord.from_row(row) for row in rows)

    def path(self, token: str) -> Path:
        """The file of a run, after its hash was checked, so that native loaders never read damaged bytes."""
        record = self.get(token)
        return self.files.verified(record.file, "run", record.name)

    def sha256(self, token: str) -> str:
        """The hash of the file of a run, as it was when it was saved."""
        row = self.files.catalogue.row("SELECT sha256 FROM files WHERE id = ?", self.get(token).file)
        return "" if row is None else str(row["sha256"])

    def scores_path(self, token: str) -> Path:
        record = self.get(token)
        if record.scores is None:
            raise WorkspaceError(f"Run {record.name!r} was saved without scores; train it again to have them.")
        return self.files.verified(record.scores, "run", record.name)

    def rename(self, token: str, name: str) -> RunRecord:
        with self.files.catalogue.transaction() as rows:
            rows.execute("UPDATE runs SET name = ? WHERE id = ?", (clean_name(name), token))
        return self.get(token)

    def _insert(self, rows: sqlite3.Connection, draft: RunDraft, stored: tuple[FileRecord, ...]) -> str:
        token = new_id()
        rows.execute(
            "INSERT INTO runs (id, name, dataset, dataset_fingerprint, rule_set, rule_set_version, candidate_id, "
            "candidate, job, file, scores, config, versions, summary, made) VALUES "
            "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                token,
                clean_name(draft.name),
                draft.dataset,
                _fingerprint(rows, draft.dataset),
                _existing_rule_set(rows, draft),
                draft.rule_set_version,
                _existing_id(rows, "candidates", draft.candidate_id),
                to_json(draft.candidate, "candidate"),
                _existing_id(rows, "jobs", draft.job),
                stored[0].id,
                stored[1].id if len(stored) > 1 else None,
                to_json(draft.config, "config"),
                to_json(draft.versions, "versions"),
                to_json(draft.summary, "summary"),
                self.files.clock().isoformat(),
            ),
        )
        return token


def _fingerprint(rows: sqlite3.Connection, dataset: str) -> str:
    found = rows.execute("SELECT fingerprint FROM datasets WHERE id = ?", (dataset,)).fetchone()
    if found is None:
        raise storage_errors.unknown("dataset", dataset)
    return str(found["fingerprint"])


def _existing_rule_set(rows: sqlite3.Connection, draft: RunDraft) -> str | None:
    key = (draft.rule_set, draft.rule_set_version)
    if (
        draft.rule_set is not None
        and not rows.execute("SELECT 1 FROM rule_set_versions WHERE rule_set = ? AND number = ?", key).fetchone()
    ):
        raise storage_errors.unknown("rule set", draft.rule_set)
    return draft.rule_set


def _existing_id(rows: sqlite3.Connection, table: str, token: str | None) -> str | None:
    """The id, or None if the candidate or job was deleted during training; the run is stored either way."""
    return token if rows.execute(f"SELECT 1 FROM {table} WHERE id = ?", (token,)).fetchone() else None
