"""A study: everything but the rows that decides a training.

The training job of the dashboard and `spu train` both run a study, so equal studies on equal tables give equal scores.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from spu_core.codec import Hook, decode, dump_json, encode, parse_json
from spu_core.engines.training_cost import MemoryPlan, plan_memory
from spu_core.errors import TrainingError
from spu_core.export import Bundle, LabelRules, ModelDetails
from spu_core.labels import SoftLabels, soft_labels_for
from spu_core.rules import FittedRules, RuleSet
from spu_core.rules.suggest import is_from_labels
from spu_core.tables import Role, Table
from spu_core.training import (
    Executor,
    FoldAssignment,
    LocalExecutor,
    Run,
    TrainConfig,
    TrainPlan,
    TrainProgress,
    iter_cross_fit,
)
from spu_core.training.fit_pool import can_fork, usable_processes

SCHEMA = ("schema", 1)
OnProgress = Callable[[TrainProgress], None]


@dataclass(frozen=True, kw_only=True)
class Study:
    """A training plan with its rules and the roles of the columns.

    `fingerprint` identifies the table that it was made for; with `refine`, runs are also evaluated on refined soft
    labels.

    >>> from spu_core.training import Candidate, TrainConfig
    >>> study = Study(plan=TrainPlan(TrainConfig(), (Candidate("lightgbm"),)), roles={"fraud": "label"})
    >>> Study.from_json(study.to_json()) == study
    True
    """

    plan: TrainPlan
    rules: RuleSet | None = None
    roles: Mapping[str, str] = field(default_factory=dict)
    positive_values: tuple[Any, ...] = ()
    truth_values: tuple[Any, ...] = ()
    fingerprint: str = ""
    refine: bool = True

    def __post_init__(self) -> None:
        roles = {str(column): str(role) for column, role in self.roles.items()}
        object.__setattr__(self, "roles", MappingProxyType(roles))
        object.__setattr__(self, "positive_values", tuple(self.positive_values))
        object.__setattr__(self, "truth_values", tuple(self.truth_values))

    @classmethod
    def of(cls, table: Table, rules: RuleSet | None, plan: TrainPlan, *, refine: bool = True) -> Study:
        """The study of a table with its current roles."""
        return cls(
            plan=plan,
            rules=rules,
            roles=table.roles,
            positive_values=table.positive_values,
            truth_values=table.truth_values,
            fingerprint=table.fingerprint,
            refine=refine,
        )

    def prepare(self, table: Table) -> Table:
        """The table with the roles of the study; other columns keep their roles."""
        prepared = table.with_roles(self.roles) if self.roles else table
        if self.positive_values and prepared.column_with(Role.LABEL) is not None:
            prepared = prepared.with_positive_values(*self.positive_values)
        if self.truth_values and prepared.column_with(Role.TRUTH) is not None:
            prepared = prepared.with_truth_values(*self.truth_values)
        return prepared

    def run(
        self,
        table: Table,
        on_progress: OnProgress | None = None,
        *,
        on_refit: OnProgress | None = None,
        split: FoldAssignment | None = None,
        executor: Executor | None = None,
    ) -> Iterator[tuple[Run, Bundle | None]]:
        """Each run as soon as it is finished, with its bundle; a candidate that failed has an error and no bundle.

        Parameters
        ----------
        table : Table
            The rows, with the roles of the study (`prepare`).
        on_progress, on_refit : callable, optional
            Called with the progress of the cross-fitting, and of the refit on all rows that each bundle needs.
        split : FoldAssignment, optional
            The folds of an earlier study.
        executor : Executor, optional
            Runs the fits. Default: one after the other in this process.
        """
        executor = executor or LocalExecutor()
        fitted = None if self.rules is None else self.rules.fit(table)
        soft_labels = soft_labels_of(table, None) if fitted is None else executor.label(table, fitted)
        for run in iter_cross_fit(
            table,
            soft_labels,
            self.plan.candidates,
            self._config,
            split=split,
            on_progress=on_progress,
            executor=executor,
            refine=self.refine and bool(table.is_labeled.any()),
        ):
            if run.error is not None:
                yield run, None
                continue
            refit = executor.refit(run, on_refit)
            yield run, Bundle.of(run, label_rules=_label_rules(fitted), details=_details(table), fitted=refit)

    @property
    def _config(self) -> TrainConfig:
        """The settings; confirmed cases cannot judge rules that were made from them."""
        config = self.plan.config
        is_circular = self.rules is not None and is_from_labels(self.rules)
        return replace(config, beliefs_from_labels=True) if is_circular else config

    def memory_plan(self, table: Table) -> MemoryPlan:
        """The memory that the training of this table needs in one process."""
        return plan_memory(
            len(table),
            len(table.features),
            self.plan.candidates,
            self.plan.config,
            from_files=not table.in_memory,
            refine=self.refine,
        )

    def processes(self, table: Table, wanted: int | None = None, memory: int | None = None) -> int:
        """How many processes do the fits: `wanted`, by default one per processor, as far as free memory allows.

        `memory` limits the memory of all processes together.
        """
        if not can_fork():
            return 1
        plan = self.memory_plan(table)
        free = plan.free_bytes if memory is None else min(plan.free_bytes, memory)
        return replace(plan, free_bytes=free).processes(wanted or usable_processes(self.plan.config.threads))

    def to_json(self) -> str:
        """The study as JSON text; equal studies give equal text."""
        stored = {
            "plan": json.loads(self.plan.to_json()),
            "rules": None if self.rules is None else json.loads(self.rules.to_json()),
        }
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return dump_json({**dict([SCHEMA]), **encode(own | stored)}, indent=2)

    @classmethod
    def from_json(cls, text: str | bytes) -> Study:
        """A study from untrusted JSON. Unknown and duplicate fields are refused; nothing is run as code."""
        what = "The study"
        data = parse_json(text, what, TrainingError)
        return decode(cls, data, what, TrainingError, schema=SCHEMA, hooks=_STORED)


def soft_labels_of(table: Table, rules: FittedRules | RuleSet | None) -> SoftLabels:
    """Soft labels by rules; without rules, those of the soft-label column, else of the labels alone."""
    if rules is not None:
        return soft_labels_for(table, rules)
    ready_made = table.soft_label
    value = np.zeros(len(table)) if ready_made is None else ready_made
    return SoftLabels.from_values(value, table.is_labeled)


def _label_rules(fitted: FittedRules | None) -> LabelRules | None:
    return None if fitted is None else LabelRules(rules=fitted, combine=fitted.rules.combine, floor=fitted.rules.floor)


def _details(table: Table) -> ModelDetails:
    return ModelDetails(id_column=table.column_with(Role.ID), data_name=table.name)


# Parts of a study that have a format of their own.
_STORED: dict[type, Hook] = {
    TrainPlan: lambda reader, data, place: TrainPlan.from_json(json.dumps(data)),
    RuleSet: lambda reader, data, place: RuleSet.from_json(json.dumps(data)),
}
