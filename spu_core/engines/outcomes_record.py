"""Outcomes of a workspace: the queue as reviewers get it, what they send back, and all checks together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from spu_core.engines.outcomes_loop import loop_queues, where_names_hold
from spu_core.errors import WorkspaceError
from spu_core.export import to_csv
from spu_core.labels.check_log import ADMITTED, FAILED, PASSED
from spu_core.tables import read_table
from spu_core.trust.outcomes.arms import hash_shares
from spu_core.trust.outcomes.check_history import RowChecks
from spu_core.trust.outcomes.outcome_file import OutcomeFile, OutcomeLine, read_outcomes
from spu_core.trust.outcomes.ratios import Checks, LabelDelay, label_delay
from spu_core.workspace import CheckOutcome, OutcomeRecord, QueueRecord, Workspace

CODES = {"passed": PASSED, "failed": FAILED, "admitted": ADMITTED}


def queue_table(workspace: Workspace, queue: str, *, blind: bool = False) -> pd.DataFrame:
    """A queue as reviewers get it: user, arm, score, S, reasons, and the columns they fill in.

    `blind` leaves out arm, score, S and reasons and shuffles the lines, so that nobody knows who asked for a check.
    """
    entries = workspace.queues.entries(queue)
    found = {record.row: record for record in workspace.queues.outcomes(queue)}
    frame = pd.DataFrame(
        {
            "user": [entry.user for entry in entries],
            "arm": [entry.arm for entry in entries],
            "score": [entry.score for entry in entries],
            "soft_label": [entry.soft_label for entry in entries],
            "reasons": [entry.reasons for entry in entries],
            "outcome": [_said(found.get(entry.row), "outcome") for entry in entries],
            "day": [_said(found.get(entry.row), "day") for entry in entries],
        }
    )
    if not blind:
        return frame
    order = np.argsort(hash_shares(frame["user"], 0, queue))
    return frame.iloc[order][["user", "outcome", "day"]].reset_index(drop=True)


def queue_csv(workspace: Workspace, queue: str, *, blind: bool = False) -> str:
    """The same as CSV text that is safe in a spreadsheet."""
    return to_csv(queue_table(workspace, queue, blind=blind))


def read_outcome_file(workspace: Workspace, queue: str, source: Any) -> OutcomeFile:
    """Match a file (CSV, Excel, Parquet; a path, bytes or file object) or a frame with a queue; nothing is kept yet."""
    frame = source if isinstance(source, pd.DataFrame) else read_table(source, name="outcomes").frame
    return read_outcomes(frame, {entry.user: entry.row for entry in workspace.queues.entries(queue)})


def record_outcomes(
    workspace: Workspace, queue: str, lines: Iterable[OutcomeLine], *, source: str = "", only_new: bool = True
) -> int:
    """Keep outcomes; those that are known already are not kept twice. Returns how many are new."""
    known = {record.row: _standing(record) for record in workspace.queues.outcomes(queue)}
    fresh = [line for line in lines if not only_new or known.get(line.row) != (line.outcome, line.day)]
    detail = {"source": source} if source else {}
    return workspace.queues.record(queue, [CheckOutcome(line.row, line.outcome, line.day, detail) for line in fresh])


@dataclass(frozen=True, eq=False)
class LoopChecks:
    """Finished checks; `row` is a row of the dataset of the `queue`, and `open` checks have no outcome yet."""

    checks: Checks
    row: np.ndarray
    queue: np.ndarray
    open: Mapping[str, int]
    asked_days: np.ndarray

    def __len__(self) -> int:
        return len(self.checks)

    def only(self, keep: Any) -> LoopChecks:
        return LoopChecks(self.checks.only(keep), self.row[keep], self.queue[keep], self.open, self.asked_days)

    @property
    def by_row(self) -> RowChecks:
        """The same for feedback into the table."""
        return RowChecks(self.row, self.checks.arm.astype(object), self.checks.outcome, self.checks.day)


def checks_of(workspace: Workspace, dataset: str) -> LoopChecks:
    """The standing outcomes of the rows of a dataset (and of its ancestors), in the order they happened."""
    return _gathered(workspace, workspace.queues.list(*workspace.feedbacks.family(dataset)))


def checks_in_loop(workspace: Workspace, dataset: str) -> LoopChecks:
    """The same with the checks of other populations that models of this dataset asked for; `row` is one of theirs."""
    return _gathered(workspace, loop_queues(workspace, dataset))


def _gathered(workspace: Workspace, queues: Sequence[QueueRecord]) -> LoopChecks:
    lines: list[tuple[Any, ...]] = []
    open_checks: dict[str, int] = {}
    asked: list[np.datetime64] = []
    for queue in reversed(queues):
        found = {record.row: record for record in workspace.queues.outcomes(queue.id)}
        entries = workspace.queues.entries(queue.id)
        where = where_names_hold(workspace, queue.dataset)
        lines += [
            _line(queue, f"{where}{entry.user}", entry.arm, found[entry.row]) for entry in entries if entry.row in found
        ]
        for entry in entries:
            if entry.row not in found:
                open_checks[entry.arm] = open_checks.get(entry.arm, 0) + 1
                asked.append(np.datetime64(queue.made.date(), "D"))
    if not lines:
        raise WorkspaceError("No outcome was recorded yet: send a queue out, and record what comes back.")
    names = ("made", "user", "arm", "outcome", "day", "asked", "row", "queue")
    frame = pd.DataFrame(lines, columns=list(names)).sort_values(["day", "made"], kind="stable", ignore_index=True)
    return LoopChecks(
        Checks.read(frame[["user", "arm", "outcome", "day", "asked"]]),
        frame["row"].to_numpy(dtype=np.int64),
        frame["queue"].to_numpy(dtype=object),
        open_checks,
        np.array(asked, dtype="datetime64[D]"),
    )


def answer_delay(found: LoopChecks, today: str, *, wanted: float = 0.9) -> LabelDelay:
    """How long outcomes take after a check was asked for; open checks are those that have not been answered yet."""
    start = np.concatenate([found.checks.asked, found.asked_days])
    answered = np.concatenate([found.checks.day, np.full(found.asked_days.size, np.datetime64("NaT", "D"))])
    return replace(label_delay(start, answered, today, wanted=wanted), what="outcomes")


def old_enough(found: LoopChecks, today: str, days: int) -> LoopChecks:
    """Only checks that were asked for at least so many days ago: all of them have had that long to be answered."""
    return found.only(found.checks.asked <= np.datetime64(today, "D") - np.timedelta64(days, "D"))


def _line(queue: QueueRecord, user: str, arm: str, record: OutcomeRecord) -> tuple[Any, ...]:
    day = record.detail.get("day") or record.made.date().isoformat()
    asked = min(queue.made.date().isoformat(), str(day))
    return record.made.isoformat(), user, arm, record.detail["outcome"], day, asked, record.row, queue.id


def _said(record: OutcomeRecord | None, name: str) -> str:
    return "" if record is None else str(record.detail.get(name, ""))


def _standing(record: OutcomeRecord) -> tuple[str, str]:
    return str(record.detail["outcome"]), str(record.detail.get("day", ""))
