"""Review queues of a workspace: who of a stored table is to be checked, for which model, and for which reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from spu_core.engines.outcomes_loop import families_of, loop_queues, where_names_hold
from spu_core.engines.scoring_files import score_foreign
from spu_core.engines.stored import names_apart, soft_labels_by, stored_bundle
from spu_core.errors import SpuError, WorkspaceError
from spu_core.export import Bundle, Scoring
from spu_core.export.conform import conform
from spu_core.export.parts import reads_rule_score
from spu_core.export.reasons import contributions, top_reasons
from spu_core.labels import SoftLabels
from spu_core.tables import Role, Table
from spu_core.trust.outcomes.arms import SplitBalance, assign_arms, split_balance
from spu_core.trust.outcomes.ratios import RANDOM
from spu_core.trust.outcomes.review_queue import Disagreement, Queue, QueuePlan, disagreement, fill_queue
from spu_core.workspace import QueueEntry, QueueRecord, RunRecord, Workspace

REASONS, EXPLAINED = 3, 2_000
DISAGREEMENT = "disagreement"


@dataclass(frozen=True, kw_only=True)
class QueueRequest:
    """Which rows of which dataset, by which runs; two runs share the users between them by a random split.

    `again` lets users be chosen who were in an earlier queue.
    """

    dataset: str
    runs: tuple[str, ...]
    plan: QueuePlan
    name: str = ""
    again: bool = False


def make_queue(workspace: Workspace, request: QueueRequest) -> QueueRecord:
    """Spend the budget and keep the queue with its lineage."""
    population = Population.of(workspace, request.dataset, request.runs)
    chosen = fill_queue(
        population.users, population.scores, request.plan, is_open=population.is_open(workspace, request.again)
    )
    arms = dict(zip(population.scores, request.runs, strict=True))
    plan = {
        "kind": "top",
        **asdict(request.plan),
        "again": request.again,
        "runs": arms,
        "arms": [asdict(each) for each in chosen.plans],
        **population.lineage,
    }
    name = request.name or f"Queue {len(loop_queues(workspace, request.dataset, request.runs)) + 1}"
    return workspace.queues.save(request.dataset, name, plan, population.entries(chosen))


def make_disagreement_queue(
    workspace: Workspace, dataset: str, run: str, *, budget: int = 50, side: str = "both", name: str = ""
) -> QueueRecord:
    """A queue of the rows where the run and the rules disagree most; its outcomes are no model's ratio."""
    population = Population.of(workspace, dataset, (run,))
    found = population.disagreement(workspace, budget, side)
    score = next(iter(population.scores.values()))[found.row]
    arm = np.full(len(found), DISAGREEMENT, dtype=object)
    chosen = Queue(found.row, population.users[found.row], arm, score, ())
    lineage = {"kind": DISAGREEMENT, "budget": budget, "side": side, "runs": {DISAGREEMENT: run}, **population.lineage}
    entries = population.entries(chosen, found.side.tolist())
    return workspace.queues.save(dataset, name or f"Disagreement, {budget} rows", lineage, entries)


@dataclass(frozen=True, eq=False)
class Population:
    """The rows that may be checked: their users, their scores by each run, and what the rules say.

    `bundles` are those of runs that were trained here: only their models may give reasons in this process.
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
    def of(cls, workspace: Workspace, dataset: str, runs: Sequence[str]) -> Population:
        """Rows that a run was trained on keep their out-of-fold scores; other rows are scored by its refit."""
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
        rules = None if self.rules is None else {"rule_set": self.rules[0], "version": self.rules[1]}
        return {"fingerprint": self.table.fingerprint, "rules": rules}

    def is_open(self, workspace: Workspace, again: bool = False) -> np.ndarray:
        """Rows that may be chosen: users who are confirmed, or were in a queue, are left out."""
        known = set(self.users[self.table.is_labeled].tolist())
        if not again:
            own = where_names_hold(workspace, self.dataset)
            queues = loop_queues(workspace, self.dataset, self.runs)
            same = [queue.id for queue in queues if where_names_hold(workspace, queue.dataset) == own]
            known |= {entry.user for queue in same for entry in workspace.queues.entries(queue)}
        return ~np.isin(self.users.astype(str), list(known)) if known else np.ones(self.users.size, dtype=bool)

    def balance(self, plan: QueuePlan) -> SplitBalance:
        """Whether the split of the users looks random."""
        first = ~pd.Series(self.users).duplicated().to_numpy()
        arms = assign_arms(self.users[first], list(self.scores), random_share=plan.random_share, seed=plan.seed)
        rest = (1.0 - plan.random_share) / len(self.scores)
        shares = {**dict.fromkeys(self.scores, rest), **({RANDOM: plan.random_share} if plan.random_share else {})}
        values: dict[str, Any] = {f"score of {name}": score[first] for name, score in self.scores.items()}
        if self.soft_labels is not None:
            values["soft label"] = self.soft_labels.value[first]
        return split_balance(arms, shares, values)

    def disagreement(self, workspace: Workspace, budget: int, side: str = "both") -> Disagreement:
        """Rows where the first run and the rules disagree most, without those who were checked."""
        if self.soft_labels is None:
            raise WorkspaceError("This run was trained without rules, so there is nothing to disagree with.")
        score = next(iter(self.scores.values()))
        is_open = self.is_open(workspace)
        return disagreement(score, self.soft_labels.rule_score, is_open=is_open, budget=budget, side=side)

    def explained(self, found: Disagreement) -> pd.DataFrame:
        """Disagreements as people read them: who, by how much, and the reasons of both."""
        frame, sides = found.to_frame(), found.side.tolist()
        score, arm = next(iter(self.scores.values()))[found.row], np.full(len(found), DISAGREEMENT, dtype=object)
        entries = self.entries(Queue(found.row, self.users[found.row], arm, score, ()))
        told = {"user": [entry.user for entry in entries], "reasons": [entry.reasons for entry in entries]}
        return frame.assign(**told, side=sides)

    def entries(self, queue: Queue, sides: Sequence[str] = ()) -> list[QueueEntry]:
        """The rows of a queue as they are kept, with the model's reasons and the rules that fired."""
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
        """Random rows get none: they were not chosen for anything. Nor do rows of a model from elsewhere."""
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
    """For each row the columns that raise its score most, by the refitted model."""
    part = conform(bundle, frame.reset_index(drop=True))
    features = bundle.features(part)
    belief = bundle.rule_score(part) if reads_rule_score(bundle.fitted.model) else None
    found = contributions(bundle.fitted.model, features, belief, bundle.profile)
    return ["; ".join(words) for words in top_reasons(found, features, REASONS)]


def users_of(table: Table) -> np.ndarray:
    """The user of each row as text: the group where rows belong together, else the id, else the line."""
    column = table.column_with(Role.GROUP) or table.column_with(Role.ID)
    if column is None:
        return np.array([str(line) for line in range(1, len(table) + 1)], dtype=object)
    values = table.frame[column]
    if values.isna().any():
        raise WorkspaceError(f"Column {column!r} names the users, but row {int(values.isna().argmax())} has none.")
    return values.astype("str").to_numpy(dtype=object)


def arm_names(workspace: Workspace, dataset: str, records: Sequence[RunRecord]) -> dict[str, str]:
    """The name of each run's arm: equal names are told apart over the families of the dataset and of the runs."""
    families = families_of(workspace, dataset, [record.id for record in records])
    listed = [run for run in workspace.runs.list() if run.dataset in families]
    names = names_apart(listed)
    return {token: f"{name} (model)" if name in (RANDOM, DISAGREEMENT) else name for token, name in names.items()}


def _scores(workspace: Workspace, record: RunRecord, bundle: Bundle, dataset: str, table: Table) -> np.ndarray:
    has_same_rows = record.dataset in workspace.feedbacks.family(dataset)
    if bundle.rows and (has_same_rows or record.dataset_fingerprint == table.fingerprint):
        score = bundle.run.need_score()
        if score.size == len(table):
            return np.asarray(score, dtype=np.float64)
    if record.is_trained_here:
        return np.asarray(bundle.predict(table.frame), dtype=np.float64)
    return _scores_apart(workspace, record.id, dataset)


def _scores_apart(workspace: Workspace, run: str, dataset: str) -> np.ndarray:
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
        return None  # new rows may lack the columns that the rules read; the queue then says nothing of S
