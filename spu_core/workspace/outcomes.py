"""Outcomes of checks: what somebody found when looking at a row; history is kept, the last one stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from spu_core.errors import WorkspaceError
from spu_core.workspace import words
from spu_core.workspace.catalogue import Catalogue
from spu_core.workspace.records import OutcomeRecord
from spu_core.workspace.values import Clock, to_json


@dataclass(frozen=True, slots=True)
class Outcome:
    """Row `row` of a dataset was checked; `detail` may say how it was chosen and with which probability."""

    row: int
    is_positive: bool
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The check outcomes of a workspace."""

    catalogue: Catalogue
    clock: Clock

    def add(self, dataset: str, outcomes: Iterable[Outcome]) -> int:
        """Keep all of these outcomes or none; returns how many."""
        made = self.clock().isoformat()
        with self.catalogue.transaction() as rows:
            found = rows.execute("SELECT n_rows FROM datasets WHERE id = ?", (dataset,)).fetchone()
            if found is None:
                raise words.unknown("dataset", dataset)
            values = [
                (
                    dataset,
                    _row_inside(outcome.row, found["n_rows"]),
                    int(bool(outcome.is_positive)),
                    to_json(outcome.detail, "detail"),
                    made,
                )
                for outcome in outcomes
            ]
            rows.executemany(
                "INSERT INTO outcomes (dataset, row, is_positive, detail, made) VALUES (?, ?, ?, ?, ?)",
                values,
            )
        return len(values)

    def list(self, dataset: str) -> tuple[OutcomeRecord, ...]:
        """The standing outcome of each checked row, by row."""
        rows = self.catalogue.rows(
            "SELECT * FROM outcomes WHERE seq IN (SELECT max(seq) FROM outcomes WHERE dataset = ? GROUP BY row) "
            "ORDER BY row",
            dataset,
        )
        return tuple(OutcomeRecord.from_row(row) for row in rows)

    def history(self, dataset: str) -> tuple[OutcomeRecord, ...]:
        """Every outcome ever saved, in the order of saving."""
        rows = self.catalogue.rows("SELECT * FROM outcomes WHERE dataset = ? ORDER BY seq", dataset)
        return tuple(OutcomeRecord.from_row(row) for row in rows)


def _row_inside(row: int, n_rows: int) -> int:
    if not 0 <= int(row) < n_rows:
        raise WorkspaceError(f"Row {row} was checked, but the dataset has rows 0 to {n_rows - 1}.")
    return int(row)
