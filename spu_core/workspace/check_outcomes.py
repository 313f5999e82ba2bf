"""Review queues, outcomes of checks and feedback from them. Earlier outcomes are kept; the last one counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from spu_core.checks import check_choice
from spu_core.errors import WorkspaceError
from spu_core.workspace import storage_errors
from spu_core.workspace.catalogue import CatalogueStore, insert, need_row
from spu_core.workspace.records import CatalogueRecord, OutcomeRecord, clean_name, new_id, to_json

OUTCOMES = ("admitted", "failed", "passed")


@dataclass(frozen=True, slots=True)
class QueueRecord(CatalogueRecord):
    """A stored queue: `plan` describes how it was filled, and from which runs, rules and rows."""

    id: str
    dataset: str
    name: str
    plan: Mapping[str, Any]
    made: datetime


@dataclass(frozen=True, slots=True)
class QueueEntry(CatalogueRecord):
    """One user to check, with the arm that asked for it and the reasons shown to a reviewer."""

    row: int
    user: str
    arm: str
    score: float | None
    soft_label: float | None
    reasons: str


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """How the check of one row ended; `day` is an ISO date or empty."""

    row: int
    outcome: str
    day: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Queues(CatalogueStore):
    """The review queues of a workspace."""

    def save(self, dataset: str, name: str, plan: Mapping[str, Any], entries: Sequence[QueueEntry]) -> QueueRecord:
        """Store a queue with its entries, all or none."""
        token = new_id()
        with self.catalogue.transaction() as rows:
            need_row(rows, "datasets", "dataset", dataset)
            values = {"name": clean_name(name), "plan": to_json(plan, "plan"), "made": self._now()}
            insert(rows, "queues", id=token, dataset=dataset, **values)
            rows.executemany(
                "INSERT INTO queue_entries (queue, row, user, arm, score, soft_label, reasons) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                [(token, e.row, e.user, e.arm, e.score, e.soft_label, e.reasons) for e in entries],
            )
        return self.get(token)

    def get(self, token: str) -> QueueRecord:
        return self.catalogue.record(QueueRecord, "queue", "SELECT * FROM queues WHERE id = ?", token)

    def list(self, *datasets: str) -> tuple[QueueRecord, ...]:
        """The queues of these datasets, the newest first."""
        marks = ", ".join("?" * len(datasets))
        return self.catalogue.records(
            QueueRecord, f"SELECT * FROM queues WHERE dataset IN ({marks}) ORDER BY seq DESC", *datasets
        )

    def entries(self, token: str) -> tuple[QueueEntry, ...]:
        """The users to check, in the order of the queue."""
        return self.catalogue.records(QueueEntry, "SELECT * FROM queue_entries WHERE queue = ? ORDER BY seq", token)

    def record(self, token: str, outcomes: Iterable[CheckOutcome]) -> int:
        """Store all of these outcomes or none; a second outcome of a row is added, and counts from now on."""
        made, queue = self._now(), self.get(token)
        with self.catalogue.transaction() as rows:
            known = {row["row"] for row in rows.execute("SELECT row FROM queue_entries WHERE queue = ?", (token,))}
            values = [_values(queue, outcome, known, made) for outcome in outcomes]
            rows.executemany(
                "INSERT INTO outcomes (dataset, row, is_positive, detail, made) VALUES (?, ?, ?, ?, ?)", values
            )
        return len(values)

    def state(self) -> str:
        """A text that changes whenever a queue, an outcome or a feedback is added; part of their cache keys."""
        counts = "(SELECT max(seq) FROM outcomes), (SELECT max(seq) FROM queues), (SELECT max(seq) FROM feedbacks)"
        row = self.catalogue.row(f"SELECT {counts}")
        return "-".join(str(value or 0) for value in (row or ()))

    def outcomes(self, token: str) -> tuple[OutcomeRecord, ...]:
        """The latest outcome of each checked row of a queue."""
        found = {record.row: record for record in self.history(token)}
        return tuple(found[row] for row in sorted(found))

    def history(self, token: str) -> tuple[OutcomeRecord, ...]:
        """Every outcome ever recorded for a queue, in the order of recording."""
        return self.catalogue.records(
            OutcomeRecord,
            "SELECT * FROM outcomes WHERE dataset = ? AND json_extract(detail, '$.queue') = ? ORDER BY seq",
            self.get(token).dataset,
            token,
        )


@dataclass(frozen=True, slots=True)
class FeedbackRecord(CatalogueRecord):
    """A dataset made from outcomes: `source` and `target` are datasets, `detail` has queues, rules and numbers."""

    id: str
    source: str
    target: str
    detail: Mapping[str, Any]
    made: datetime


@dataclass(frozen=True, slots=True)
class Feedbacks(CatalogueStore):
    """The lineage of datasets made from check outcomes; it is kept when the datasets are deleted."""

    def save(self, source: str, target: str, detail: Mapping[str, Any]) -> FeedbackRecord:
        token = new_id()
        with self.catalogue.transaction() as rows:
            values = {"detail": to_json(detail, "detail"), "made": self._now()}
            insert(rows, "feedbacks", id=token, source=source, target=target, **values)
        return next(found for found in self.list() if found.id == token)

    def list(self) -> tuple[FeedbackRecord, ...]:
        """All of them, the newest first."""
        return self.catalogue.records(FeedbackRecord, "SELECT * FROM feedbacks ORDER BY seq DESC")

    def made_of(self, dataset: str) -> FeedbackRecord | None:
        """The feedback from which a dataset was made; None where there is none."""
        return next((found for found in self.list() if found.target == dataset), None)

    def family(self, dataset: str) -> tuple[str, ...]:
        """A dataset and the datasets of the same rows that it was made from, itself first."""
        found, record = [dataset], self.made_of(dataset)
        while record is not None and record.source not in found and not record.detail.get("rows_left_out"):
            found.append(record.source)
            record = self.made_of(record.source)
        return tuple(found)


def _values(queue: QueueRecord, outcome: CheckOutcome, known: set[int], made: str) -> tuple[Any, ...]:
    check_choice(outcome.outcome, OUTCOMES, "outcome", WorkspaceError)
    if outcome.row not in known:
        raise WorkspaceError(f"Row {outcome.row} is not in queue {queue.name!r}, so its outcome cannot be kept there.")
    detail = {**outcome.detail, "queue": queue.id, "outcome": outcome.outcome, "day": outcome.day}
    return queue.dataset, outcome.row, int(outcome.outcome == "admitted"), to_json(detail, "detail"), made


@dataclass(frozen=True, slots=True)
class Outcome:
    """Row `row` of a dataset was checked; `detail` may hold how it was chosen and with which probability."""

    row: int
    is_positive: bool
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcomes(CatalogueStore):
    """The check outcomes of a workspace."""

    def add(self, dataset: str, outcomes: Iterable[Outcome]) -> int:
        """Store all of these outcomes or none; returns how many."""
        made = self._now()
        with self.catalogue.transaction() as rows:
            found = rows.execute("SELECT n_rows FROM datasets WHERE id = ?", (dataset,)).fetchone()
            if found is None:
                raise storage_errors.unknown("dataset", dataset)
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
        """The latest outcome of each checked row, by row."""
        rows = self.catalogue.rows(
            "SELECT * FROM outcomes WHERE seq IN (SELECT max(seq) FROM outcomes WHERE dataset = ? GROUP BY row) "
            "ORDER BY row",
            dataset,
        )
        return tuple(OutcomeRecord.from_row(row) for row in rows)

    def history(self, dataset: str) -> tuple[OutcomeRecord, ...]:
        """Every outcome ever saved, in the order of saving."""
        return self.catalogue.records(OutcomeRecord, "SELECT * FROM outcomes WHERE dataset = ? ORDER BY seq", dataset)


def _row_inside(row: int, n_rows: int) -> int:
    if not 0 <= int(row) < n_rows:
        raise WorkspaceError(f"Row {row} was checked, but the dataset has rows 0 to {n_rows - 1}.")
    return int(row)
