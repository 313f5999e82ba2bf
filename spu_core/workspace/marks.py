"""Operating points and exported files of runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spu_core.checks import check_number, check_share
from spu_core.errors import WorkspaceError
from spu_core.workspace import storage_errors
from spu_core.workspace.catalogue import Catalogue
from spu_core.workspace.disk import Writer
from spu_core.workspace.file_store import FileDraft, FileStore
from spu_core.workspace.records import Clock, ExportRecord, FileRecord, ThresholdRecord, clean_name, new_id, to_json


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
class Thresholds:
    """Operating points; the last one saved for a run is its current one.

    The champion of a dataset is chosen together with its threshold, so it is stored as an operating point too.
    """

    catalogue: Catalogue
    clock: Clock

    def save(self, run: str, threshold: Threshold, detail: Mapping[str, Any] | None = None) -> ThresholdRecord:
        token = new_id()
        with self.catalogue.transaction() as rows:
            _check_run(rows, run)
            rows.execute(
                "INSERT INTO thresholds (id, run, name, threshold, flagged_share, detail, made) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    token,
                    run,
                    clean_name(threshold.name),
                    float(threshold.threshold),
                    float(threshold.flagged_share),
                    to_json(detail or {}, "detail"),
                    self.clock().isoformat(),
                ),
            )
        return next(saved for saved in self.list(run) if saved.id == token)

    def list(self, run: str) -> tuple[ThresholdRecord, ...]:
        """The operating points of a run, the newest first."""
        rows = self.catalogue.rows("SELECT * FROM thresholds WHERE run = ? ORDER BY seq DESC", run)
        return tuple(ThresholdRecord.from_row(row) for row in rows)

    def save_champion(self, run: str, threshold: Threshold, detail: Mapping[str, Any] | None = None) -> ThresholdRecord:
        """Choose this run as the champion of its dataset; the one chosen last is the champion."""
        return self.save(run, threshold, {**(detail or {}), "is_champion": True})

    def champion(self, dataset: str) -> ThresholdRecord | None:
        """The operating point by which the champion of a dataset was chosen; None before the first choice."""
        row = self.catalogue.row(
            "SELECT thresholds.* FROM thresholds JOIN runs ON runs.id = thresholds.run "
            "WHERE runs.dataset = ? AND json_extract(thresholds.detail, '$.is_champion') = 1 "
            "ORDER BY thresholds.seq DESC LIMIT 1",
            dataset,
        )
        return None if row is None else ThresholdRecord.from_row(row)


@dataclass(frozen=True, slots=True)
class Exports:
    """Files that were made from runs."""

    files: FileStore

    def save(
        self, run: str, name: str, form: str, writer: Writer, detail: Mapping[str, Any] | None = None
    ) -> ExportRecord:
        """Store what `writer` writes; `form` is its kind (bundle, onnx, report …)."""

        def record(rows: sqlite3.Connection, stored: tuple[FileRecord, ...]) -> str:
            _check_run(rows, run)
            token, made = new_id(), self.files.clock().isoformat()
            rows.execute(
                "INSERT INTO exports (id, run, name, format, file, detail, made) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (token, run, clean_name(name), form, stored[0].id, to_json(detail or {}, "detail"), made),
            )
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
        rows = self.files.catalogue.rows(
            "SELECT exports.*, files.size FROM exports JOIN files ON files.id = exports.file "
            f"WHERE {condition} ORDER BY exports.seq DESC",
            value,
        )
        return tuple(ExportRecord.from_row(row) for row in rows)


def _check_run(rows: sqlite3.Connection, run: str) -> None:
    if rows.execute("SELECT 1 FROM runs WHERE id = ?", (run,)).fetchone() is None:
        raise storage_errors.unknown("run", run)
