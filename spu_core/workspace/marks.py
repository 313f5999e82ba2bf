"""Operating points and exported files of runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from spu_core.checks import check_number, check_share
from spu_core.errors import WorkspaceError
from spu_core.workspace import storage_errors
from spu_core.workspace.catalogue import Catalogue
from spu_core.workspace.disk import Writer
from spu_core.workspace.file_store import FileDraft, FileStore
from spu_core.workspace.records import Clock, ExportRecord, FileRecord, ThresholdRecord, clean_name, new_id, to_json

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
class Thresholds:
    """Operating points; the last one saved for a run is its current one.

    The champion of a dataset is chosen together with its threshold, so it is stored as an operating point too. Nothing
    is removed by an undo: the operating point is marked as undone, and only `history` still shows it.
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
        return ThresholdRecord.from_row(self.catalogue.rows("SELECT * FROM thresholds WHERE id = ?", token)[0])

    def list(self, run: str) -> tuple[ThresholdRecord, ...]:
        """The operating points of a run, the newest first."""
        rows = self.catalogue.rows(f"SELECT * FROM thresholds WHERE run = ? AND {_STANDS} ORDER BY seq DESC", run)
        return tuple(ThresholdRecord.from_row(row) for row in rows)

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
        """Mark an operating point as undone, so that the one before it stands again. Twice is as good as once."""
        undone = to_json({"by": by, "made": self.clock().isoformat()}, "undone")
        with self.catalogue.transaction() as rows:
            rows.execute(
                f"UPDATE thresholds SET detail = json_set(detail, '$.undone', json(?)) WHERE id = ? AND {_STANDS}",
                (undone, chosen.id),
            )

    def history(self, dataset: str) -> tuple[ThresholdChange, ...]:
        """Every choice of a champion or of its threshold, the newest first, also those that were undone."""
        found = [
            ThresholdRecord.from_row(row)
            for row in self.catalogue.rows(f"{_CHAMPIONS} ORDER BY thresholds.seq", dataset)
        ]
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
