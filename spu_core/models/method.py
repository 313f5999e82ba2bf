"""A method: what to learn from (its target) and a learner to learn it. Forms, help and docs are made from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np

from spu_core.errors import TrainingError
from spu_core.models.features import Features
from spu_core.models.learners import LEARNERS, SoftLearner
from spu_core.models.model import FitMonitor, Model, StopRule, TrainingRows, inner_folds
from spu_core.models.settings import SEED, Setting, complete

Options: TypeAlias = Mapping[str, Any]
"""All settings of a method by name, complete."""

TREES_FIRST = ("lightgbm", "xgboost", "logistic", "neural_net", "extra_trees", "nearest_neighbors")
FOLDS = Setting(name="folds", default=4, low=2, high=20, help="Inner folds: a row's own label never makes its target.")


class Need(StrEnum):
    """What a method must be given."""

    LABELS = "labels"
    SOFT_LABELS = "soft labels"
    RULE_SCORE = "rule score"
    PRIOR = "prior"
    TRUTH = "truth"


@dataclass(frozen=True, eq=False)
class LearnerFitter:
    """Fits the learner of a method as often as the method asks; `options` are all settings of the method."""

    learner: str
    settings: Mapping[str, Any]
    options: Options
    monitor: FitMonitor

    @property
    def seed(self) -> int:
        return int(self.options["seed"])

    def fit(
        self,
        features: Features,
        target: np.ndarray,
        weight: np.ndarray | None = None,
        *,
        stage: int = 1,
        of: int = 1,
    ) -> SoftLearner:
        """A new learner, fitted as step `stage` of `of`; the seed moves with the stage, so that bags differ."""
        settings = dict(self.settings)
        if "seed" in settings:
            settings["seed"] = self.seed + stage - 1
        return LEARNERS[self.learner](**settings).fit_rows(features, target, weight, self.monitor.at(stage, of))

    def out_of_fold(self, rows: TrainingRows, target: np.ndarray, *, folds: int, of: int) -> np.ndarray:
        """Scores of each row by a learner that has not seen it; stages 1 … folds of `of`."""
        score = np.empty(len(rows))
        for stage, inside, outside in inner_splits(rows, folds, self.seed):
            weight = None if rows.weight is None else rows.weight[inside]
            model = self.fit(rows.features.take(inside), target[inside], weight, stage=stage, of=of)
            score[outside] = model.score_rows(rows.features.take(outside))
        return score


def inner_splits(rows: TrainingRows, folds: int, seed: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """(number from 1, rows to learn from, rows to score) of each inner fold."""
    fold = inner_folds(rows.is_labeled, rows.groups, folds, seed)
    for number in range(int(fold.max()) + 1):
        yield number + 1, fold != number, fold == number


@dataclass(frozen=True, kw_only=True)
class Method:
    """A target and a learner.

    Exactly one of two functions is set: `target` or `source`.

    Parameters
    ----------
    key, title : str
        The name in code and on pages.
    group : str
        "ours", "soft label" or "baseline".
    description : str
        What the method does, in a sentence or two.
    needs : tuple of Need
        What it must be given.
    keeps_rule_columns : bool
        Whether it learns from the columns that rules read, unless the setting `keep_rule_columns` says otherwise.
    learners : tuple of str
        Keys of the learners that can be used; the first is the default.
    target : callable, optional
        Gives a value in [0, 1] per row, which the learner then learns.
    source : callable, optional
        Does the whole fit, for methods that fit several models or none.
    own_settings : tuple of Setting
        Settings besides those of the learner.
    learner_defaults : tuple of pairs
        Settings of the learner that have another default in this method.
    scores_with_rules : bool
        Whether rows must come with their rule score to be scored.

    Examples
    --------
    >>> from spu_core.models import METHODS
    >>> METHODS["lightgbm"].title, METHODS["lightgbm"].learners
    ('Soft labels, LightGBM', ('lightgbm',))
    """

    key: str
    title: str
    group: str
    description: str
    needs: tuple[Need, ...]
    keeps_rule_columns: bool
    learners: tuple[str, ...] = ()
    target: Callable[[TrainingRows, Options], np.ndarray] | None = None
    source: Callable[[TrainingRows, LearnerFitter], Model] | None = None
    own_settings: tuple[Setting, ...] = ()
    learner_defaults: tuple[tuple[str, Any], ...] = ()
    scores_with_rules: bool = False

    @property
    def words(self) -> str:
        """The name of `description` until version 0.3."""
        return self.description

    def stops_early(self, learner: str | None = None) -> bool:
        """Whether held-out rows can stop a fit with this learner: it must be one fit that grows in rounds."""
        learner = learner or self._first_learner
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
        learner = learner or self._first_learner
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
        rows: TrainingRows,
        given: Mapping[str, Any],
        *,
        monitor: FitMonitor | None = None,
        stop: StopRule | None = None,
    ) -> Model:
        """Train on these rows.

        Parameters
        ----------
        rows : TrainingRows
            What to learn from.
        given : mapping
            The settings that differ from the defaults.
        monitor : FitMonitor, optional
            Whom to tell about progress.
        stop : StopRule, optional
            Held-out rows that end the fit early.

        Returns
        -------
        Model

        Raises
        ------
        TrainingError
            If a setting is not allowed, the rows lack something that the method needs, or it cannot be stopped early.
        """
        options, monitor = self.complete(given), monitor or FitMonitor()
        self._check_needs(rows)
        if not options["keep_rule_columns"]:
            rows = rows.without_rule_columns()
        learner = options.get("learner", self._first_learner)
        if stop is not None and not self.stops_early(learner):
            raise TrainingError(f"{self.why_not_stopped(learner)} Fit it without early stopping.")
        names = {setting.name for setting in LEARNERS[learner].settings} if learner else set()
        settings = {name: options[name] for name in options if name in names}
        if self.source is not None:
            return self.source(rows, LearnerFitter(learner or "", settings, options, monitor))
        assert self.target is not None
        assert learner is not None
        target = self.target(rows, options)
        if stop is not None:
            monitor = replace(monitor, stop=stop.with_target(self.target(stop.rows, options)))
        return LEARNERS[learner](**settings).fit_rows(rows.features, target, rows.weight, monitor)

    def why_not_stopped(self, learner: str | None = None) -> str:
        """Why held-out rows cannot stop a fit with this learner.

        >>> from spu_core.models import METHODS
        >>> METHODS["logistic"].why_not_stopped()
        'logistic cannot be stopped early: Logistic regression has no rounds that build on each other.'
        """
        if self.source is not None:
            return f"{self.key} cannot be stopped early: it is not one fit that grows in rounds."
        title = LEARNERS[learner or self.learners[0]].title
        return f"{self.key} cannot be stopped early: {title} has no rounds that build on each other."

    @property
    def _first_learner(self) -> str | None:
        return self.learners[0] if self.learners else None

    def _check_needs(self, rows: TrainingRows) -> None:
        if Need.LABELS in self.needs:
            rows.need_labels(self.key)
        if Need.RULE_SCORE in self.needs and rows.rule_score is None:
            raise TrainingError(
                f"{self.key} needs the rule score of each row (before labels override it); pass rule_score=."
            )


def _with_default(setting: Setting, changed: Mapping[str, Any]) -> Setting:
    return replace(setting, default=changed[setting.name]) if setting.name in changed else setting
