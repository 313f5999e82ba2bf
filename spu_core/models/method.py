"""A method: a target source times a learner, described well enough to make forms, help and docs from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from spu_core.errors import TrainingError
from spu_core.models.evidence import Evidence, StopRule
from spu_core.models.learners import LEARNERS
from spu_core.models.settings import SEED, Setting, complete
from spu_core.models.state import Model
from spu_core.models.trainer import Trainer
from spu_core.models.watch import EarlyStop, Watch


class Need(StrEnum):
    """What a method must be given."""

    LABELS = "labels"
    SOFT_LABELS = "soft labels"
    RULE_SCORE = "rule score"
    PRIOR = "prior"
    TRUTH = "truth"


@dataclass(frozen=True, kw_only=True)
class Method:
    """A target source times a learner: either `target` (a value per row) or `source` (fits by itself) is set."""

    key: str
    title: str
    group: str
    words: str
    needs: tuple[Need, ...]
    keeps_rule_columns: bool
    learners: tuple[str, ...] = ()
    target: Callable[[Evidence, Mapping[str, Any]], np.ndarray] | None = None
    source: Callable[[Evidence, Trainer], Model] | None = None
    own_settings: tuple[Setting, ...] = ()
    learner_defaults: tuple[tuple[str, Any], ...] = ()
    scores_with_rules: bool = False

    def stops_early(self, learner: str | None = None) -> bool:
        """Whether held-out rows can stop a fit with this learner: one target, one fit, grown in rounds."""
        learner = learner or (self.learners[0] if self.learners else None)
        return self.target is not None and learner is not None and LEARNERS[learner].stops_early

    def options(self) -> tuple[Setting, ...]:
        """Settings of the method itself, whatever the learner."""
        keep = Setting(
            name="keep_rule_columns",
            default=self.keeps_rule_columns,
            help="Learn from the columns that rules read, too.",
        )
        choose = (
            Setting(
                name="learner",
                default=self.learners[0],
                choices=self.learners,
                help="The learner that is fitted.",
            )
            if len(self.learners) > 1
            else None
        )
        return (*self.own_settings, keep, *([choose] if choose else []), SEED)

    def settings(self, learner: str | None = None) -> tuple[Setting, ...]:
        """All settings with this learner (its first one by default), each name once."""
        learner = learner or (self.learners[0] if self.learners else None)
        changed = dict(self.learner_defaults)
        inner = LEARNERS[learner].settings if learner else ()
        own = {setting.name: setting for setting in self.options()}
        from_learner = tuple(_with_default(s, changed) for s in inner if s.name not in own)
        return (*own.values(), *from_learner)

    def complete(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Given settings checked, the others at their defaults."""
        learner = given.get("learner")
        if learner is not None and learner not in self.learners:
            raise TrainingError(
                f"{self.key} can use the learners {', '.join(map(repr, self.learners)) or 'none'}, got {learner!r}."
            )
        return complete(self.settings(learner), given, f"Method {self.key!r}")

    def fit(
        self,
        rows: Evidence,
        given: Mapping[str, Any],
        *,
        watch: Watch | None = None,
        stop: StopRule | None = None,
    ) -> Model:
        """Train on these rows; `given` are settings that differ from the defaults."""
        settings = self.complete(given)
        self._check_needs(rows)
        if not settings["keep_rule_columns"]:
            rows = rows.without_rule_columns()
        trainer = self._trainer(settings, watch or Watch())
        if stop is not None and not self.stops_early(trainer.learner):
            raise TrainingError(f"{self.why_not_stopped(trainer.learner)} Fit it without early stopping.")
        return self._fit_target(rows, trainer, stop) if self.source is None else self.source(rows, trainer)

    def why_not_stopped(self, learner: str | None = None) -> str:
        """In words, why held-out rows cannot stop a fit with this learner.

        >>> from spu_core.models import METHODS
        >>> METHODS["logistic"].why_not_stopped()
        'logistic cannot be stopped early: Logistic regression has no rounds that build on each other.'
        """
        if self.source is not None:
            return f"{self.key} cannot be stopped early: it is not one fit that grows in rounds."
        title = LEARNERS[learner or self.learners[0]].title
        return f"{self.key} cannot be stopped early: {title} has no rounds that build on each other."

    def _fit_target(self, rows: Evidence, trainer: Trainer, stop: StopRule | None) -> Model:
        assert self.target is not None
        target = self.target(rows, trainer.options)
        if stop is not None:
            held_out = self.target(stop.rows, trainer.options)
            early = EarlyStop(stop.rows.features, held_out, stop.rows.weight, stop.patience, stop.loss)
            watch = Watch(trainer.watch.on_progress, early)
            trainer = Trainer(trainer.learner, trainer.settings, trainer.options, watch)
        return trainer.fit(rows.features, target, rows.weight)

    def _trainer(self, settings: Mapping[str, Any], watch: Watch) -> Trainer:
        learner = settings.get("learner", self.learners[0] if self.learners else "")
        names = {setting.name for setting in LEARNERS[learner].settings} if learner else set()
        return Trainer(learner, {name: settings[name] for name in settings if name in names}, settings, watch)

    def _check_needs(self, rows: Evidence) -> None:
        if Need.LABELS in self.needs:
            rows.need_labels(self.key)
        if Need.RULE_SCORE in self.needs and rows.rule_score is None:
            raise TrainingError(
                f"{self.key} needs the rule score of each row (before labels override it); pass rule_score=."
            )


def _with_default(setting: Setting, changed: Mapping[str, Any]) -> Setting:
    return replace(setting, default=changed[setting.name]) if setting.name in changed else setting
