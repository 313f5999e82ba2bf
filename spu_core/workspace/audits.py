"""Checks by hand: audits with their verdicts, reviewing row by row, review queues, outcomes and feedback from them.

Verdicts and outcomes are append-only. A reviewer has at most one row of an audit open, and nobody else gets that row
unless two verdicts are planned for it. A row stays open until its reviewer answers or skips it, or another reviewer
takes it over; no clock is involved.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from spu_core.checks import check_choice
from spu_core.codec import dump_json
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


VERDICTS = ("positive", "negative", "unsure")


@dataclass(frozen=True, slots=True)
class AuditRecord(CatalogueRecord):
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
class VerdictRecord(CatalogueRecord):
    """The verdict of one reviewer on one row; of several by the same reviewer the last one counts."""

    audit: str
    row: int
    reviewer: str
    verdict: str
    note: str
    made: datetime


@dataclass(frozen=True, slots=True)
class Audits(CatalogueStore):
    """The audits of a workspace; a plan is stored as JSON text, which `spu_core.trust` interprets."""

    def save(self, run: str, plan: str, *, name: str = "audit", rules: tuple[str, int] | None = None) -> AuditRecord:
        """Store a plan; the same plan saved twice is two audits. `rules` is the rule-set version of its soft labels."""
        token = new_id()
        with self.catalogue.transaction() as rows:
            rule_set, version = rules or (None, None)
            insert(
                rows,
                "audits",
                id=token,
                run=run,
                dataset=need_row(rows, "runs", "run", run)["dataset"],
                rule_set=rule_set,
                rule_set_version=version,
                name=clean_name(name),
                plan=_checked(plan),
                made=self._now(),
            )
        return self.get(token)

    def get(self, token: str) -> AuditRecord:
        return self.catalogue.record(AuditRecord, "audit", "SELECT * FROM audits WHERE id = ?", token)

    def list(self, run: str) -> tuple[AuditRecord, ...]:
        """The audits whose rows were drawn by a run, the newest first."""
        return self.catalogue.records(AuditRecord, "SELECT * FROM audits WHERE run = ? ORDER BY seq DESC", run)

    def of_dataset(self, dataset: str) -> tuple[AuditRecord, ...]:
        """All audits of a dataset, the newest first."""
        return self.catalogue.records(AuditRecord, "SELECT * FROM audits WHERE dataset = ? ORDER BY seq DESC", dataset)

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
            need_row(rows, "audits", "audit", audit)
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
        return self.catalogue.records(VerdictRecord, "SELECT * FROM verdicts WHERE audit = ? ORDER BY seq", audit)


def _checked(plan: str) -> str:
    try:
        json.loads(plan)
    except ValueError:
        raise WorkspaceError("An audit plan must be JSON text; use `AuditPlan.to_json()`.") from None
    return plan


_STANDING = (
    "SELECT row, reviewer, max(seq) AS seq FROM verdicts WHERE audit = ? "
    "AND seq NOT IN (SELECT verdict FROM withdrawn_verdicts) GROUP BY row, reviewer"
)


@dataclass(frozen=True, slots=True)
class ReviewSettings(CatalogueRecord):
    """`twice`: how many rows, from the start of the list, get two verdicts; `columns`: those that cards show first."""

    twice: int = 0
    columns: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ReviewState:
    """The rows of a review list, the reviewers of each, who has which row open, and who skipped which rows.

    `skipped` is in the order of skipping.
    """

    rows: tuple[int, ...]
    twice: int
    reviewers: Mapping[int, frozenset[str]]
    opened: Mapping[str, int]
    skipped: tuple[tuple[str, int], ...]

    @property
    def done(self) -> int:
        """Rows with all verdicts that are planned for them."""
        return sum(len(self.reviewers.get(row, ())) >= self._planned(at) for at, row in enumerate(self.rows))

    @property
    def second(self) -> int:
        """Rows that have one verdict and need a second one."""
        return sum(len(self.reviewers.get(row, ())) == 1 for row in self.rows[: self.twice])

    def given_by(self, reviewer: str) -> int:
        """How many rows this reviewer has answered."""
        return sum(reviewer in names for names in self.reviewers.values())

    def next_for(self, reviewer: str) -> int | None:
        """The row that this reviewer has open, else the next one that needs a verdict; skipped rows come last."""
        if reviewer in self.opened:
            return self.opened[reviewer]
        free = [row for at, row in enumerate(self.rows) if self._is_free(at, row, reviewer)]
        own = [row for name, row in self.skipped if name == reviewer]
        return next((row for row in free if row not in own), next((row for row in own if row in free), None))

    def holders(self, reviewer: str) -> tuple[str, ...]:
        """Other reviewers with an open row that this reviewer could answer instead."""
        return tuple(
            name
            for name, row in self.opened.items()
            if name != reviewer and reviewer not in self.reviewers.get(row, ())
        )

    def _is_free(self, at: int, row: int, reviewer: str) -> bool:
        names = self.reviewers.get(row, frozenset())
        busy = names | {name for name, opened in self.opened.items() if opened == row}
        return reviewer not in names and len(busy - {reviewer}) < self._planned(at)

    def _planned(self, at: int) -> int:
        return 2 if at < self.twice else 1


@dataclass(frozen=True, slots=True)
class Reviews(CatalogueStore):
    """The reviewing of audits. The caller gives the rows of the list in its order, since only it can read a plan."""

    def settings(self, audit: str) -> ReviewSettings:
        row = self.catalogue.row("SELECT * FROM review_settings WHERE audit = ?", audit)
        return ReviewSettings() if row is None else ReviewSettings.from_row(row)

    def set(self, audit: str, *, twice: int, columns: Sequence[str]) -> None:
        """Store how an audit is reviewed; verdicts that exist stay."""
        with self.catalogue.transaction() as rows:
            need_row(rows, "audits", "audit", audit)
            rows.execute(
                "INSERT OR REPLACE INTO review_settings (audit, twice, columns) VALUES (?, ?, ?)",
                (audit, max(0, int(twice)), dump_json(list(columns))),
            )

    def state(self, audit: str, listed: Sequence[int]) -> ReviewState:
        """The state of the review list of an audit."""
        return _state(self.catalogue.rows, audit, listed)

    def open_next(self, audit: str, reviewer: str, listed: Sequence[int]) -> int | None:
        """Open the next row for this reviewer, or None. It stays the same until it is answered or skipped."""
        reviewer = clean_name(reviewer)
        with self.catalogue.transaction() as rows:
            need_row(rows, "audits", "audit", audit)
            row = _state(lambda sql, *values: rows.execute(sql, values), audit, listed).next_for(reviewer)
            if row is not None:
                _open(rows, audit, reviewer, row)
        return row

    def answer(self, audit: str, row: int, reviewer: str, verdict: str, note: str = "") -> None:
        """Store the verdict on the row that this reviewer has open."""
        check_choice(verdict, VERDICTS, "verdict", WorkspaceError)
        reviewer = clean_name(reviewer)
        with self.catalogue.transaction() as rows:
            _close(rows, audit, row, reviewer)
            rows.execute(
                "INSERT INTO verdicts (audit, row, reviewer, verdict, note, made) VALUES (?, ?, ?, ?, ?, ?)",
                (audit, row, reviewer, verdict, str(note), self._now()),
            )

    def skip(self, audit: str, row: int, reviewer: str) -> None:
        """Leave the open row to others; this reviewer gets it again after all other rows."""
        reviewer = clean_name(reviewer)
        with self.catalogue.transaction() as rows:
            _close(rows, audit, row, reviewer)
            rows.execute(
                "INSERT INTO review_claims (audit, row, reviewer, is_skipped) VALUES (?, ?, ?, 1)",
                (audit, row, reviewer),
            )

    def undo(self, audit: str, reviewer: str) -> int | None:
        """Withdraw the last verdict of this reviewer and open its row again; returns the row, or None if there is none.

        The history keeps a withdrawn verdict.
        """
        reviewer = clean_name(reviewer)
        with self.catalogue.transaction() as rows:
            last = rows.execute(
                f"SELECT row, seq FROM ({_STANDING}) WHERE reviewer = ? ORDER BY seq DESC LIMIT 1", (audit, reviewer)
            ).fetchone()
            if last is None:
                return None
            rows.execute("INSERT INTO withdrawn_verdicts (verdict, made) VALUES (?, ?)", (last["seq"], self._now()))
            _open(rows, audit, reviewer, last["row"])
        return int(last["row"])

    def take_over(self, audit: str, reviewer: str) -> None:
        """Close the open row of a reviewer who does not continue, so that others can open it."""
        with self.catalogue.transaction() as rows:
            rows.execute(
                "DELETE FROM review_claims WHERE audit = ? AND reviewer = ? AND is_skipped = 0",
                (audit, clean_name(reviewer)),
            )


def _state(ask: Callable[..., Iterable[sqlite3.Row]], audit: str, listed: Sequence[int]) -> ReviewState:
    reviewers: dict[int, frozenset[str]] = {}
    for found in ask(_STANDING, audit):
        reviewers[found["row"]] = reviewers.get(found["row"], frozenset()) | {found["reviewer"]}
    claims = ask("SELECT * FROM review_claims WHERE audit = ? ORDER BY seq", audit)
    waiting = [each for each in claims if each["reviewer"] not in reviewers.get(each["row"], ())]
    twice = [each["twice"] for each in ask("SELECT twice FROM review_settings WHERE audit = ?", audit)]
    return ReviewState(
        tuple(int(row) for row in listed),
        twice[0] if twice else 0,
        reviewers,
        {each["reviewer"]: each["row"] for each in waiting if not each["is_skipped"]},
        tuple((each["reviewer"], each["row"]) for each in waiting if each["is_skipped"]),
    )


def _open(rows: sqlite3.Connection, audit: str, reviewer: str, row: int) -> None:
    """Make `row` the only open row of this reviewer."""
    rows.execute(
        "DELETE FROM review_claims WHERE audit = ? AND reviewer = ? AND (is_skipped = 0 OR row = ?)",
        (audit, reviewer, row),
    )
    rows.execute(
        "INSERT INTO review_claims (audit, row, reviewer, is_skipped) VALUES (?, ?, ?, 0)", (audit, row, reviewer)
    )


def _close(rows: sqlite3.Connection, audit: str, row: int, reviewer: str) -> None:
    need_row(rows, "audits", "audit", audit)
    closed = rows.execute(
        "DELETE FROM review_claims WHERE audit = ? AND row = ? AND reviewer = ? AND is_skipped = 0",
        (audit, row, reviewer),
    )
    if closed.rowcount != 1:
        raise WorkspaceError(
            f"Row {row} is no longer open for {reviewer}: it was answered in another window, or another reviewer took "
            "it over. Nothing was stored; continue with the next row."
        )
