"""Review queues of a workspace: which rows reviewers check, the outcomes that they report, and all checks together.

A queue belongs to the dataset that its rows come from. The loop of a dataset also has the queues that its models filled
from other datasets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from spu_core.engines.jobs.score import score_foreign
from spu_core.engines.stored_runs import distinct_names, soft_labels_by, stored_bundle
from spu_core.errors import SpuError, WorkspaceError
from spu_core.export import Bundle, Scoring
from spu_core.export.bundle import conform
from spu_core.export.model_checks import reads_rule_score
from spu_core.export.score_report import contributions, top_reasons
from spu_core.labels import SoftLabels
from spu_core.tables import Role, Table, read_table
from spu_core.tables.spreadsheet import to_csv
from spu_core.trust.outcomes.arms import SplitBalance, assign_arms, hash_shares, split_balance
from spu_core.trust.outcomes.feedback import RowChecks
from spu_core.trust.outcomes.ratios import RANDOM, Checks, LabelDelay, label_delay
from spu_core.trust.outcomes.review_queue import (
    Disagreement,
    OutcomeFile,
    OutcomeLine,
    Queue,
    QueuePlan,
    disagreement,
    fill_queue,
    read_outcomes,
)
from spu_core.workspace import CheckOutcome, DatasetRecord, OutcomeRecord, QueueEntry, QueueRecord, RunRecord, Workspace

# Reasons shown for each row, and the number of rows of each model that get reasons.
REASONS, EXPLAINED = 3, 2_000
DISAGREEMENT = "disagreement"


def loop_queues(workspace: Workspace, dataset: str, runs: Sequence[str] = ()) -> tuple[QueueRecord, ...]:
    """The queues of a dataset and its ancestors, and those filled by their runs (or by `runs`); the newest first."""
    families = families_of(workspace, dataset, runs)
    models = {run.id for run in workspace.runs.list() if run.dataset in families}
    everywhere = {*families, *(record.id for record in workspace.datasets.list())}
    return tuple(
        queue
        for queue in workspace.queues.list(*everywhere)
        if queue.dataset in families or models & set(queue.plan.get("runs", {}).values())
    )


def families_of(workspace: Workspace, dataset: str, runs: Sequence[str] = ()) -> frozenset[str]:
    """The dataset, the datasets that the runs were trained on, and the ancestors of all of them."""
    starts = {dataset, *(workspace.runs.get(run).dataset for run in runs)}
    return frozenset(token for start in starts for token in workspace.feedbacks.family(start))


def user_namespace(workspace: Workspace, dataset: str) -> str:
    """A prefix for the names of a table's users, so that different users differ in all tables.

    Empty for tables with a column that names users. Without one, row numbers are the names, and only tables with the
    same rows share a prefix.
    """
    if {Role.GROUP, Role.ID} & set(workspace.datasets.get(dataset).roles.values()):
        return ""
    first = workspace.feedbacks.family(dataset)[-1]
    return next((each.fingerprint for each in workspace.datasets.list() if each.id == first), first)


def populations(workspace: Workspace, dataset: str, run: str) -> tuple[DatasetRecord, ...]:
    """The datasets that a run can fill a queue from: `dataset` first, then the others that it can score.

    Ancestors and descendants of `dataset` have the same rows, so they are left out. So are folders, of which only a
    sample is stored.
    """
    needed, own = set(stored_bundle(workspace, run).columns), set(workspace.feedbacks.family(dataset))
    others = [
        each
        for each in workspace.datasets.list()
        if each.folder is None and needed <= set(each.roles) and own.isdisjoint(workspace.feedbacks.family(each.id))
    ]
    return (workspace.datasets.get(dataset), *others)


@dataclass(frozen=True, kw_only=True)
class QueueRequest:
    """A queue to make: of which dataset, by which runs. Two runs get a random half of the users each.

    With `again`, users of earlier queues may be chosen, too.
    """

    dataset: str
    runs: tuple[str, ...]
    plan: QueuePlan
    name: str = ""
    again: bool = False


def make_queue(workspace: Workspace, request: QueueRequest) -> QueueRecord:
    """Choose the rows within the budget and store the queue with its lineage."""
    candidates = QueueCandidates.of(workspace, request.dataset, request.runs)
    chosen = fill_queue(
        candidates.users, candidates.scores, request.plan, is_open=candidates.is_open(workspace, request.again)
    )
    arms = dict(zip(candidates.scores, request.runs, strict=True))
    plan = {
        "kind": "top",
        **asdict(request.plan),
        "again": request.again,
        "runs": arms,
        "arms": [asdict(each) for each in chosen.plans],
        **candidates.lineage,
    }
    name = request.name or f"Queue {len(loop_queues(workspace, request.dataset, request.runs)) + 1}"
    return workspace.queues.save(request.dataset, name, plan, candidates.entries(chosen))


def make_disagreement_queue(
    workspace: Workspace, dataset: str, run: str, *, budget: int = 50, side: str = "both"
) -> QueueRecord:
    """Store a queue of the rows where run and rules disagree most. Its outcomes do not count for any model."""
    candidates = QueueCandidates.of(workspace, dataset, (run,))
    found = candidates.disagreement(workspace, budget, side)
    score = next(iter(candidates.scores.values()))[found.row]
    arm = np.full(len(found), DISAGREEMENT, dtype=object)
    chosen = Queue(found.row, candidates.users[found.row], arm, score, ())
    lineage = {"kind": DISAGREEMENT, "budget": budget, "side": side, "runs": {DISAGREEMENT: run}, **candidates.lineage}
    entries = candidates.entries(chosen, found.side.tolist())
    return workspace.queues.save(dataset, f"Disagreement, {budget} rows", lineage, entries)


@dataclass(frozen=True, eq=False)
class QueueCandidates:
    """The rows that may be checked: their users, their scores by each run, and their soft labels.

    `bundles` are those of runs that were trained here: only their models may run in this process to give reasons.
    """

    dataset: str
    table: Table
    users: np.ndarray
    scores: Mapping[str, np.ndarray]
    bundles: Mapping[str, Bundle]
    soft_labels: SoftLabels | None
    rules: tuple[str, int] | None
    runs: tuple[str, ...]

    @classmethod
    def of(cls, workspace: Workspace, dataset: str, runs: Sequence[str]) -> QueueCandidates:
        """The candidates of a dataset. Training rows have out-of-fold scores, other rows are scored by the refit."""
        if not runs or len(set(runs)) < len(runs):
            raise WorkspaceError("A queue needs one run, or two different ones to compare.")
        table, records = workspace.datasets.load(dataset), [workspace.runs.get(token) for token in runs]
        names = arm_names(workspace, dataset, records)
        loaded = [(record, stored_bundle(workspace, record.id)) for record in records]
        scores = {names[each.id]: _scores(workspace, each, found, dataset, table) for each, found in loaded}
        bundles = {names[each.id]: found for each, found in loaded if each.is_trained_here}
        rules = _rules_of(records[0])
        soft_labels = _soft_labels(workspace, table, rules)
        return cls(dataset, table, users_of(table), scores, bundles, soft_labels, rules, tuple(runs))

    @property
    def lineage(self) -> dict[str, Any]:
        """Fingerprint of the table and version of the rules, to store with a queue."""
        rules = None if self.rules is None else {"rule_set": self.rules[0], "version": self.rules[1]}
        return {"fingerprint": self.table.fingerprint, "rules": rules}

    def is_open(self, workspace: Workspace, again: bool = False) -> np.ndarray:
        """Which rows may be chosen: not those of users who are confirmed or were in a queue (unless `again`)."""
        known = set(self.users[self.table.is_labeled].tolist())
        if not again:
            own = user_namespace(workspace, self.dataset)
            queues = loop_queues(workspace, self.dataset, self.runs)
            same = [queue.id for queue in queues if user_namespace(workspace, queue.dataset) == own]
            known |= {entry.user for queue in same for entry in workspace.queues.entries(queue)}
        return ~np.isin(self.users.astype(str), list(known)) if known else np.ones(self.users.size, dtype=bool)

    def balance(self, plan: QueuePlan) -> SplitBalance:
        """A check that the random split of the users is balanced."""
        first = ~pd.Series(self.users).duplicated().to_numpy()
        arms = assign_arms(self.users[first], list(self.scores), random_share=plan.random_share, seed=plan.seed)
        rest = (1.0 - plan.random_share) / len(self.scores)
        shares = {**dict.fromkeys(self.scores, rest), **({RANDOM: plan.random_share} if plan.random_share else {})}
        values: dict[str, Any] = {f"score of {name}": score[first] for name, score in self.scores.items()}
        if self.soft_labels is not None:
            values["soft label"] = self.soft_labels.value[first]
        return split_balance(arms, shares, values)

    def disagreement(self, workspace: Workspace, budget: int, side: str = "both") -> Disagreement:
        """Rows where the first run and the rules disagree most, without users who were checked."""
        if self.soft_labels is None:
            raise WorkspaceError("This run was trained without rules, so there is nothing to disagree with.")
        score = next(iter(self.scores.values()))
        is_open = self.is_open(workspace)
        return disagreement(score, self.soft_labels.rule_score, is_open=is_open, budget=budget, side=side)

    def explained(self, found: Disagreement) -> pd.DataFrame:
        """Disagreements as a table with user, side and reasons."""
        frame, sides = found.to_frame(), found.side.tolist()
        score, arm = next(iter(self.scores.values()))[found.row], np.full(len(found), DISAGREEMENT, dtype=object)
        entries = self.entries(Queue(found.row, self.users[found.row], arm, score, ()))
        columns = {"user": [entry.user for entry in entries], "reasons": [entry.reasons for entry in entries]}
        return frame.assign(**columns, side=sides)

    def entries(self, queue: Queue, sides: Sequence[str] = ()) -> list[QueueEntry]:
        """The rows of a queue to store, with the reasons of the model and the rules that fired."""
        reasons = self._reasons(queue)
        soft = self.soft_labels
        return [
            QueueEntry(
                int(row),
                str(queue.user[at]),
                str(queue.arm[at]),
                float(queue.score[at]),
                None if soft is None else float(soft.value[row]),
                "; ".join(filter(None, [sides[at] if sides else "", reasons[at], self._rules_that_fired(int(row))])),
            )
            for at, row in enumerate(queue.row)
        ]

    def _reasons(self, queue: Queue) -> list[str]:
        """Reasons of the model for each row; none for random rows and for rows of a model from elsewhere."""
        found = [""] * len(queue)
        for arm in dict.fromkeys(queue.arm.tolist()):
            bundle = self.bundles.get(arm) or (next(iter(self.bundles.values()), None) if arm == DISAGREEMENT else None)
            places = np.flatnonzero(queue.arm == arm)[:EXPLAINED]
            if bundle is not None and places.size:
                for at, words in zip(
                    places, reasons_for(bundle, self.table.frame.iloc[queue.row[places]]), strict=True
                ):
                    found[at] = words
        return found

    def _rules_that_fired(self, row: int) -> str:
        if self.soft_labels is None or self.soft_labels.matrix is None:
            return ""
        fired = [each for each in self.soft_labels.explain(row).fired if each.amount > 0]
        return "rules: " + ", ".join(f"{each.rule} {each.belief:.2f}" for each in fired) if fired else "no rule fired"


def reasons_for(bundle: Bundle, frame: pd.DataFrame) -> list[str]:
    """For each row, the columns that raise its score most in the refitted model."""
    part = conform(bundle, frame.reset_index(drop=True))
    features = bundle.features(part)
    belief = bundle.rule_score(part) if reads_rule_score(bundle.fitted.model) else None
    found = contributions(bundle.fitted.model, features, belief, bundle.profile)
    return ["; ".join(words) for words in top_reasons(found, features, REASONS)]


def users_of(table: Table) -> np.ndarray:
    """The user of each row as text: its group, else its id, else its line number."""
    column = table.column_with(Role.GROUP) or table.column_with(Role.ID)
    if column is None:
        return np.array([str(line) for line in range(1, len(table) + 1)], dtype=object)
    values = table.frame[column]
    if values.isna().any():
        raise WorkspaceError(f"Column {column!r} names the users, but row {int(values.isna().argmax())} has none.")
    return values.astype("str").to_numpy(dtype=object)


def arm_names(workspace: Workspace, dataset: str, records: Sequence[RunRecord]) -> dict[str, str]:
    """Id → name of each run as an arm. Names differ over the families of the dataset and of the runs."""
    families = families_of(workspace, dataset, [record.id for record in records])
    listed = [run for run in workspace.runs.list() if run.dataset in families]
    names = distinct_names(listed)
    return {token: f"{name} (model)" if name in (RANDOM, DISAGREEMENT) else name for token, name in names.items()}


def _scores(workspace: Workspace, record: RunRecord, bundle: Bundle, dataset: str, table: Table) -> np.ndarray:
    has_same_rows = record.dataset in workspace.feedbacks.family(dataset)
    if bundle.rows and (has_same_rows or record.dataset_fingerprint == table.fingerprint):
        score = bundle.run.need_score()
        if score.size == len(table):
            return np.asarray(score, dtype=np.float64)
    if record.is_trained_here:
        return np.asarray(bundle.predict(table.frame), dtype=np.float64)
    return _scores_in_child(workspace, record.id, dataset)


def _scores_in_child(workspace: Workspace, run: str, dataset: str) -> np.ndarray:
    with workspace.datasets.path(dataset).open("rb") as rows:
        scored = score_foreign(workspace.runs.path(run).read_bytes(), rows, Scoring(reasons=0))
    return pd.read_parquet(scored.path, columns=["score"])["score"].to_numpy(dtype=np.float64)


def _rules_of(record: RunRecord) -> tuple[str, int] | None:
    return None if record.rule_set is None else (record.rule_set, int(record.rule_set_version or 1))


def _soft_labels(workspace: Workspace, table: Table, rules: tuple[str, int] | None) -> SoftLabels | None:
    if rules is None:
        return None
    try:
        return soft_labels_by(table, workspace.rule_sets.get(*rules))
    except SpuError:
        return None  # new rows may lack columns that the rules read; the queue then has no soft labels


def queue_table(workspace: Workspace, queue: str, *, blind: bool = False) -> pd.DataFrame:
    """A queue as a table for reviewers: user, arm, score, soft label, reasons, and columns to fill in.

    `blind` leaves out arm, score, soft label and reasons and shuffles the rows, so that reviewers do not know why a row
    was chosen.
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
            "outcome": [_detail(found.get(entry.row), "outcome") for entry in entries],
            "day": [_detail(found.get(entry.row), "day") for entry in entries],
        }
    )
    if not blind:
        return frame
    order = np.argsort(hash_shares(frame["user"], 0, queue))
    return frame.iloc[order][["user", "outcome", "day"]].reset_index(drop=True)


def queue_csv(workspace: Workspace, queue: str, *, blind: bool = False) -> str:
    """The table of a queue as CSV text that is safe in a spreadsheet."""
    return to_csv(queue_table(workspace, queue, blind=blind))


def read_outcome_file(workspace: Workspace, queue: str, source: Any) -> OutcomeFile:
    """Match a file (CSV, Excel, Parquet; a path, bytes or file object) or a frame with a queue. Stores nothing."""
    frame = source if isinstance(source, pd.DataFrame) else read_table(source, name="outcomes").frame
    return read_outcomes(frame, {entry.user: entry.row for entry in workspace.queues.entries(queue)})


def record_outcomes(workspace: Workspace, queue: str, lines: Iterable[OutcomeLine], *, source: str = "") -> int:
    """Store outcomes; known ones are not stored twice. Returns how many are new."""
    known = {record.row: _standing(record) for record in workspace.queues.outcomes(queue)}
    fresh = [line for line in lines if known.get(line.row) != (line.outcome, line.day)]
    detail = {"source": source} if source else {}
    return workspace.queues.record(queue, [CheckOutcome(line.row, line.outcome, line.day, detail) for line in fresh])


@dataclass(frozen=True, eq=False)
class LoopChecks:
    """Finished checks; `row` is a row number in the dataset of the `queue`. `open` counts open checks by arm."""

    checks: Checks
    row: np.ndarray
    queue: np.ndarray
    open: Mapping[str, int]
    open_since: np.ndarray

    def __len__(self) -> int:
        return len(self.checks)

    def only(self, keep: Any) -> LoopChecks:
        """Some of the checks, by a boolean mask."""
        return LoopChecks(self.checks.only(keep), self.row[keep], self.queue[keep], self.open, self.open_since)

    @property
    def by_row(self) -> RowChecks:
        """The checks by row number, for `feed_back`."""
        return RowChecks(self.row, self.checks.arm.astype(object), self.checks.outcome, self.checks.day)


def checks_of(workspace: Workspace, dataset: str) -> LoopChecks:
    """The latest outcomes of the rows of a dataset and its ancestors, by date."""
    return _gathered(workspace, workspace.queues.list(*workspace.feedbacks.family(dataset)))


def checks_in_loop(workspace: Workspace, dataset: str) -> LoopChecks:
    """The same, with checks that models of this dataset requested in other datasets; `row` refers to those."""
    return _gathered(workspace, loop_queues(workspace, dataset))


def _gathered(workspace: Workspace, queues: Sequence[QueueRecord]) -> LoopChecks:
    lines: list[tuple[Any, ...]] = []
    open_checks: dict[str, int] = {}
    asked: list[np.datetime64] = []
    for queue in reversed(queues):
        found = {record.row: record for record in workspace.queues.outcomes(queue.id)}
        entries = workspace.queues.entries(queue.id)
        where = user_namespace(workspace, queue.dataset)
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


def answer_delay(found: LoopChecks, today: str) -> LabelDelay:
    """The time from the request of a check to its outcome. Open checks count as not answered yet."""
    start = np.concatenate([found.checks.asked, found.open_since])
    answered = np.concatenate([found.checks.day, np.full(found.open_since.size, np.datetime64("NaT", "D"))])
    return replace(label_delay(start, answered, today), what="outcomes")


def old_enough(found: LoopChecks, today: str, days: int) -> LoopChecks:
    """Only checks that were requested at least `days` ago, so that all had the same time to be answered."""
    return found.only(found.checks.asked <= np.datetime64(today, "D") - np.timedelta64(days, "D"))


def _line(queue: QueueRecord, user: str, arm: str, record: OutcomeRecord) -> tuple[Any, ...]:
    day = record.detail.get("day") or record.made.date().isoformat()
    asked = min(queue.made.date().isoformat(), str(day))
    return record.made.isoformat(), user, arm, record.detail["outcome"], day, asked, record.row, queue.id


def _detail(record: OutcomeRecord | None, name: str) -> str:
    return "" if record is None else str(record.detail.get(name, ""))


def _standing(record: OutcomeRecord) -> tuple[str, str]:
    return str(record.detail["outcome"]), str(record.detail.get("day", ""))
