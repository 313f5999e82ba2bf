"""Stored runs, each with the lineage that is needed to repeat it; their operating points and exported files."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from spu_core.checks import check_number, check_share
from spu_core.errors import WorkspaceError
from spu_core.versions import library_versions
from spu_core.workspace import storage_errors
from spu_core.workspace.catalogue import CatalogueStore, insert, need_row
from spu_core.workspace.disk import Writer
from spu_core.workspace.file_store import FileDraft, FileStore
from spu_core.workspace.records import (
    DatasetRecord,
    ExportRecord,
    FileRecord,
    RunRecord,
    ThresholdRecord,
    clean_name,
    new_id,
    to_json,
)

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

    def save(self, draft: RunDraft, write_run: Writer) -> RunRecord:
        """Store a run with its file in one transaction."""

        def record(rows: sqlite3.Connection, stored: tuple[FileRecord, ...]) -> str:
            return self._insert(rows, draft, stored)

        return self.get(self.files.save([FileDraft("run", write_run)], record))

    def get(self, token: str) -> RunRecord:
        return self.files.catalogue.record(RunRecord, "run", f"{_SELECT} WHERE runs.id = ?", token)

    def list(self, dataset: str | None = None) -> tuple[RunRecord, ...]:
        """Runs, the newest first; those of one dataset where it is given."""
        where, values = ("", ()) if dataset is None else ("WHERE runs.dataset = ?", (dataset,))
        return self.files.catalogue.records(RunRecord, f"{_SELECT} {where} ORDER BY runs.seq DESC", *values)

    def path(self, token: str) -> Path:
        """The file of a run, after its hash was checked, so that native loaders never read damaged bytes."""
        record = self.get(token)
        return self.files.verified(record.file, "run", record.name)

    def sha256(self, token: str) -> str:
        """The hash of the file of a run, as it was when it was saved."""
        row = self.files.catalogue.row("SELECT sha256 FROM files WHERE id = ?", self.get(token).file)
        return "" if row is None else str(row["sha256"])

    def rename(self, token: str, name: str) -> RunRecord:
        with self.files.catalogue.transaction() as rows:
            rows.execute("UPDATE runs SET name = ? WHERE id = ?", (clean_name(name), token))
        return self.get(token)

    def _insert(self, rows: sqlite3.Connection, draft: RunDraft, stored: tuple[FileRecord, ...]) -> str:
        token = new_id()
        texts = {name: to_json(getattr(draft, name), name) for name in ("candidate", "config", "versions", "summary")}
        insert(
            rows,
            "runs",
            id=token,
            name=clean_name(draft.name),
            dataset=draft.dataset,
            dataset_fingerprint=need_row(rows, "datasets", "dataset", draft.dataset)["fingerprint"],
            rule_set=_existing_rule_set(rows, draft),
            rule_set_version=draft.rule_set_version,
            job=_existing_job(rows, draft.job),
            file=stored[0].id,
            made=self.files.clock().isoformat(),
            **texts,
        )
        return token


def _existing_rule_set(rows: sqlite3.Connection, draft: RunDraft) -> str | None:
    key = (draft.rule_set, draft.rule_set_version)
    if (
        draft.rule_set is not None
        and not rows.execute("SELECT 1 FROM rule_set_versions WHERE rule_set = ? AND number = ?", key).fetchone()
    ):
        raise storage_errors.unknown("rule set", draft.rule_set)
    return draft.rule_set


def _existing_job(rows: sqlite3.Connection, token: str | None) -> str | None:
    """The id, or None if the job was deleted during training; the run is stored either way."""
    return token if rows.execute("SELECT 1 FROM jobs WHERE id = ?", (token,)).fetchone() else None


_STANDS = "json_extract(thresholds.detail, '$.undone') IS NULL"
_CHAMPIONS = (
    "SELECT thresholds.* FROM thresholds JOIN runs ON runs.id = thresholds.run "
    "WHERE runs.dataset = ? AND json_extract(thresholds.detail, '$.is_champion') = 1"
)


@dataclass(frozen=True, slots=True)
class Threshold:
    """An operating point to be stored."""

    name: str
    threshold: float
    flagged_share: float

    def __post_init__(self) -> None:
        check_number(self.threshold, "threshold", WorkspaceError)
        check_share(self.flagged_share, "flagged_share", WorkspaceError, closed=True)


@dataclass(frozen=True, slots=True)
class ThresholdChange:
    """A change of the model in use or of its threshold.

    `old` is what was in use before, None where nothing was. Who made the change and when it was undone are in the
    `detail` of `new` ("by", "undone").
    """

    new: ThresholdRecord
    old: ThresholdRecord | None

    @property
    def by(self) -> str:
        return str(self.new.detail.get("by", ""))

    @property
    def undone(self) -> datetime | None:
        """When the change was undone; None where it stands."""
        found = self.new.detail.get("undone")
        return None if found is None else datetime.fromisoformat(found["made"])


@dataclass(frozen=True, slots=True)
class Thresholds(CatalogueStore):
    """Operating points; the last one saved for a run is its current one.

    The champion of a dataset is chosen together with its threshold, so it is stored as an operating point too. Nothing
    is removed by an undo: the operating point is marked as undone, and only `history` still shows it.
    """

    def save(self, run: str, threshold: Threshold, detail: Mapping[str, Any] | None = None) -> ThresholdRecord:
        token = new_id()
        with self.catalogue.transaction() as rows:
            need_row(rows, "runs", "run", run)
            insert(
                rows,
                "thresholds",
                id=token,
                run=run,
                name=clean_name(threshold.name),
                threshold=float(threshold.threshold),
                flagged_share=float(threshold.flagged_share),
                detail=to_json(detail or {}, "detail"),
                made=self._now(),
            )
        return self.catalogue.record(ThresholdRecord, "threshold", "SELECT * FROM thresholds WHERE id = ?", token)

    def list(self, run: str) -> tuple[ThresholdRecord, ...]:
        """The operating points of a run, the newest first."""
        return self.catalogue.records(
            ThresholdRecord, f"SELECT * FROM thresholds WHERE run = ? AND {_STANDS} ORDER BY seq DESC", run
        )

    def save_champion(self, run: str, threshold: Threshold, detail: Mapping[str, Any] | None = None) -> ThresholdRecord:
        """Choose this run as the champion of its dataset; the one chosen last is the champion."""
        row = self.catalogue.row("SELECT dataset FROM runs WHERE id = ?", run)
        old = None if row is None else self.champion(row["dataset"])
        before = {} if old is None else {"before": old.id}
        return self.save(run, threshold, {**(detail or {}), **before, "is_champion": True})

    def champion(self, dataset: str) -> ThresholdRecord | None:
        """The operating point by which the champion of a dataset was chosen; None before the first choice."""
        row = self.catalogue.row(f"{_CHAMPIONS} AND {_STANDS} ORDER BY thresholds.seq DESC LIMIT 1", dataset)
        return None if row is None else ThresholdRecord.from_row(row)

    def undo(self, chosen: ThresholdRecord, by: str) -> None:
        """Mark an operating point as undone, so that the one before it stands again. A second undo changes nothing."""
        undone = to_json({"by": by, "made": self._now()}, "undone")
        with self.catalogue.transaction() as rows:
            rows.execute(
                f"UPDATE thresholds SET detail = json_set(detail, '$.undone', json(?)) WHERE id = ? AND {_STANDS}",
                (undone, chosen.id),
            )

    def history(self, dataset: str) -> tuple[ThresholdChange, ...]:
        """Every choice of a champion or of its threshold, the newest first, also those that were undone."""
        found = self.catalogue.records(ThresholdRecord, f"{_CHAMPIONS} ORDER BY thresholds.seq", dataset)
        known = {record.id: record for record in found}
        changes = []
        for place, record in enumerate(found):
            # Records of earlier versions do not name the one before.
            earlier = found[place - 1].id if place and "undone" not in found[place - 1].detail else None
            changes.append(ThresholdChange(record, known.get(record.detail.get("before", earlier))))
        return tuple(reversed(changes))


@dataclass(frozen=True, slots=True)
class Exports:
    """Files that were made from runs."""

    files: FileStore

    def save(
        self, run: str, name: str, form: str, writer: Writer, detail: Mapping[str, Any] | None = None
    ) -> ExportRecord:
        """Store what `writer` writes; `form` is its kind (bundle, onnx, report …)."""

        def record(rows: sqlite3.Connection, stored: tuple[FileRecord, ...]) -> str:
            need_row(rows, "runs", "run", run)
            token, made = new_id(), self.files.clock().isoformat()
            values = {"format": form, "file": stored[0].id, "detail": to_json(detail or {}, "detail"), "made": made}
            insert(rows, "exports", id=token, run=run, name=clean_name(name), **values)
            return token

        return self.get(self.files.save([FileDraft("export", writer)], record))

    def get(self, token: str) -> ExportRecord:
        found = self._select("exports.id = ?", token)
        if not found:
            raise storage_errors.unknown("export", token)
        return found[0]

    def list(self, run: str) -> tuple[ExportRecord, ...]:
        """The exports of a run, the newest first."""
        return self._select("exports.run = ?", run)

    def path(self, token: str) -> Path:
        """The exported file, after its hash was checked."""
        record = self.get(token)
        return self.files.verified(record.file, "export", record.name)

    def _select(self, condition: str, value: str) -> tuple[ExportRecord, ...]:
        return self.files.catalogue.records(
            ExportRecord,
            "SELECT exports.*, files.size FROM exports JOIN files ON files.id = exports.file "
            f"WHERE {condition} ORDER BY exports.seq DESC",
            value,
        )
