"""A stored run with everything that its exports tell: its bundle under its name, its rules, and its competitors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from spu_core.engines.stored import column_values, compare_on, names_apart, soft_labels_by, stored_bundle, stored_runs
from spu_core.engines.study import Study
from spu_core.export import Bundle
from spu_core.rules import RuleSet
from spu_core.tables import Role, Table, TableFolder
from spu_core.training import Comparison
from spu_core.workspace import RuleSetVersion, RunRecord, Workspace

MOST_COMPARED = 12


@dataclass(frozen=True, kw_only=True)
class ExportWords:
    """What the analyst says about a model, and whether its bundle may hold a value per training row.

    `changes` tells what is new, a line for each change.
    """

    purpose: str = ""
    licence: str = ""
    contact: str = ""
    chosen_because: str = ""
    changes: str = ""
    keep_rows: bool = True

    @classmethod
    def last_said(cls, workspace: Workspace, run: str) -> ExportWords:
        """The words of the newest export of a run, so that nobody types them twice."""
        for record in workspace.exports.list(run):
            words = record.detail.get("words")
            if isinstance(words, Mapping):
                return cls(**words)
        return cls()


@dataclass(frozen=True, eq=False)
class StoredModel:
    """A run of the workspace; `table` is the one it was trained on, with its current roles."""

    workspace: Workspace
    record: RunRecord
    table: Table | TableFolder
    words: ExportWords = field(default_factory=ExportWords)

    @cached_property
    def name(self) -> str:
        """The name that tells it from the other runs of its dataset."""
        return names_apart(self.workspace.runs.list(self.record.dataset))[self.record.id]

    @cached_property
    def bundle(self) -> Bundle:
        """The bundle under that name, with the current operating point and the analyst's words."""
        found = stored_bundle(self.workspace, self.record.id)
        # The catalogue knows the fingerprint; to compute it again would read the whole table.
        known = replace(
            found.details,
            id_column=self.table.column_with(Role.ID),
            data_name=self.table.name,
            fingerprint=self.record.dataset_fingerprint,
            history=(*found.details.history, *self.history),
        )
        named = replace(found, facts=replace(found.facts, name=self.name)).with_details(known)
        return with_words(named, self.words)

    @property
    def history(self) -> tuple[str, ...]:
        """What happened to the run in this workspace, the latest last: its training, then its operating points."""
        lineage = self.workspace.lineage(self.record.id)
        points = reversed(self.workspace.thresholds.list(self.record.id))
        moved = (
            f"{point.made:%Y-%m-%d}: flags scores above {point.threshold:.6g} ({point.flagged_share:.2%} of the "
            f"training rows out of fold), chosen as {point.name!r}"
            for point in points
        )
        return (f"{self.record.made:%Y-%m-%d}: {lineage}", *moved)

    @property
    def shared_bundle(self) -> Bundle:
        """The bundle as it leaves: without anything per training row where the analyst wants it so."""
        return self.bundle if self.words.keep_rows else self.bundle.without_rows()

    @cached_property
    def rules(self) -> RuleSetVersion | None:
        """The version of the rule set that made its soft labels."""
        if self.record.rule_set is None:
            return None
        return self.workspace.rule_sets.get(self.record.rule_set, self.record.rule_set_version)

    @cached_property
    def compared(self) -> tuple[str, ...]:
        """This run, and the newest of each name that learnt under the same rules on the same folds."""
        seen = {self.record.name: self.record.id}
        for other in self.workspace.runs.list(self.record.dataset):
            if _trained_like(other) == _trained_like(self.record):
                seen.setdefault(other.name, other.id)
        return tuple(seen.values())[:MOST_COMPARED]

    @cached_property
    def comparison(self) -> Comparison:
        """These runs side by side, judged by the soft labels of this one."""
        return compare_on(stored_runs(self.workspace, self.compared), soft_labels_by(self.table, self.rules))

    def study(self) -> Study:
        """What `spu train` needs to train this candidate again on the same table."""
        asked = self._asked
        table = self.table.with_roles(dict.fromkeys(asked.get("left_out", ()), Role.IGNORE))
        rules = None if self.rules is None else RuleSet.from_json(self.rules.text)
        return Study.of(table, rules, self.bundle.plan, refine=bool(asked.get("refine", True)))

    def scored_rows(self) -> pd.DataFrame:
        """The training rows with their out-of-fold scores: no row is scored by a model that saw it."""
        run, column = self.bundle.run, self.table.column_with(Role.ID)
        score = pd.Series(run.need_score())
        ids = np.arange(1, len(score) + 1) if column is None else column_values(self.table, column).to_numpy()
        return pd.DataFrame(
            {
                "row" if column is None else "id": ids,
                "out_of_fold_score": score,
                "flagged": self.bundle.point.flags(score.to_numpy()),
                "rank": score.rank(ascending=False, method="min").astype("Int64"),
                "soft_label": run.basis.soft_label,
                "confirmed_positive": run.basis.is_labeled,
                "fold": run.fold,
            }
        )

    @property
    def _asked(self) -> Mapping[str, Any]:
        """The parameters of the training job, which may have been removed since."""
        jobs = (job for job in self.workspace.jobs.list() if job.id == self.record.job)
        job = next(jobs, None)
        return {} if job is None else job.parameters


def with_words(bundle: Bundle, words: ExportWords) -> Bundle:
    """The bundle with what the analyst says of it; where nothing is said, its own words stay."""
    said = {name: text for name, text in asdict(words).items() if text and name not in ("keep_rows", "changes")}
    changes = tuple(line.strip() for line in words.changes.splitlines() if line.strip())
    own = bundle.details
    return bundle.with_details(replace(own, **said, history=(*own.history, *changes)))


def _trained_like(record: RunRecord) -> tuple[Any, ...]:
    same = tuple(record.config.get(name) for name in ("folds", "seed", "hold_out", "out_of_time"))
    return (record.rule_set, record.rule_set_version, *same)
