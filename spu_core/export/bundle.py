"""A bundle: an exported run with everything needed to score, explain, check and compare it, and nothing that runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from spu_core.errors import BundleError
from spu_core.export.facts import RunFacts, row_parts, run_from
from spu_core.export.flagging import FlagPoint
from spu_core.export.parts import active_columns, keeps_training_rows, reads_rule_score
from spu_core.export.passport import Passport, Recipe
from spu_core.export.profile import Profile, profile_of
from spu_core.models import Features
from spu_core.training import FittedCandidate, Run, TrainPlan

if TYPE_CHECKING:
    from spu_core.export.score_report import ScoreReport, ScoreTable, Scoring
    from spu_core.export.score_work import OnProgress

PROBE_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Bundle:
    """A run as it leaves the studio.

    `fitted` is the candidate refitted on all rows, `facts` what is remembered of the run, `point` where rows are
    flagged, `profile` the training rows in outline, `recipe` the rules with their frozen numbers (None without rules),
    `rows` the out-of-fold scores and what they were judged by (empty where they were left out).
    """

    fitted: FittedCandidate
    facts: RunFacts
    point: FlagPoint
    profile: Profile
    recipe: Recipe | None = None
    passport: Passport = field(default_factory=Passport)
    rows: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        run: Run,
        *,
        recipe: Recipe | None = None,
        passport: Passport | None = None,
        point: FlagPoint | None = None,
        fitted: FittedCandidate | None = None,
        keep_rows: bool = True,
    ) -> Bundle:
        """Refit the run on all rows (unless it is given `fitted`) and gather what belongs to it.

        `keep_rows=False` leaves out the out-of-fold scores, soft labels and labels of the training rows: the bundle
        scores as before, but its run cannot be compared again.
        """
        _check_recipe(run, recipe)
        bundle = cls(
            fitted=run.fit_all() if fitted is None else fitted,
            facts=RunFacts.of(run),
            point=FlagPoint.at_budget(run) if point is None else point,
            profile=profile_of(run),
            recipe=recipe,
            passport=passport or Passport(),
            rows=row_parts(run) if keep_rows else {},
        )
        probe = bundle._probe_score()
        return replace(bundle, profile=replace(bundle.profile, probe=tuple(probe.tolist())))

    @property
    def name(self) -> str:
        return self.facts.name

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that a table must have to be scored."""
        names = [self.fitted.encoder.names[place] for place in active_columns(self.fitted.model)]
        if self.reads_rules and self.recipe is not None:
            names += [name for name in self.recipe.rules.columns if name not in names]
        return tuple(names)

    @cached_property
    def reads_rules(self) -> bool:
        """Whether the score depends on what the rules say of a row."""
        return reads_rule_score(self.fitted.model) and not self.fitted.candidate.without_rules

    @property
    def keeps_training_rows(self) -> bool:
        """Whether whoever has the bundle has values of training rows: nearest neighbours compare with them."""
        return keeps_training_rows(self.fitted.model)

    @cached_property
    def run(self) -> Run:
        """The run with its out-of-fold scores, to be compared with others; its table is not in the bundle."""
        return run_from(self.facts, self.fitted.candidate, self.rows)

    @property
    def plan(self) -> TrainPlan:
        """The configuration that trains this candidate again, as the command line reads it."""
        return TrainPlan(self.facts.config, (self.fitted.candidate,))

    def with_point(self, point: FlagPoint) -> Bundle:
        return replace(self, point=point)

    def with_passport(self, passport: Passport) -> Bundle:
        return replace(self, passport=passport)

    def without_rows(self) -> Bundle:
        """The same bundle without anything that is kept per training row."""
        return replace(self, rows={})

    def score(self, source: Any, scoring: Scoring | None = None) -> ScoreTable:
        """Score a frame, a path, bytes or a file object: id, score, flag, rank, percentile, reasons, fired rules.

        Training rows scored here look better than they are, since the model has seen them; the studio always shows
        their out-of-fold scores.
        """
        from spu_core.export.scoring import score_rows

        return score_rows(self, source, scoring)

    def score_file(
        self,
        source: Any,
        target: str | os.PathLike[str],
        scoring: Scoring | None = None,
        *,
        raw: bool = False,
        on_progress: OnProgress | None = None,
    ) -> ScoreReport:
        """The same from file to file, for tables larger than memory."""
        from spu_core.export.scoring import score_file

        return score_file(self, source, target, scoring, raw=raw, on_progress=on_progress)

    def predict(self, frame: pd.DataFrame, rule_score: np.ndarray | None = None) -> np.ndarray:
        """The bare scores of a frame that has the columns; equal to `run.fit_all().score(…)` to the bit."""
        from spu_core.export.conform import check_names, conform

        check_names(self, tuple(map(str, frame.columns)))
        fitting = conform(self, frame)
        return self.score_features(fitting, self.features(fitting), rule_score)

    def features(self, frame: pd.DataFrame) -> Features:
        """The encoded rows; columns that the model does not read need not be there."""
        names = self.fitted.encoder.names
        unread = [name for name in names if name not in self.columns and name in frame.columns]
        return self.fitted.encoder.transform(frame.drop(columns=unread) if unread else frame, needed=self.columns)

    def score_features(
        self, frame: pd.DataFrame, features: Features, rule_score: np.ndarray | None = None
    ) -> np.ndarray:
        """The scores of encoded rows; the frame they came from says what the rules say."""
        if reads_rule_score(self.fitted.model) and rule_score is None:
            rule_score = self.rule_score(frame)
        return self.fitted.model.score_rows(features, rule_score)

    def rule_score(self, frame: pd.DataFrame) -> np.ndarray:
        """What the rules say of each row, combined as at training."""
        if self.fitted.candidate.without_rules:
            return np.zeros(len(frame))
        if self.recipe is None:
            raise BundleError(
                f"The score of {self.name!r} depends on the rules, but the bundle was saved without them; save it with "
                "recipe=, or pass rule_score= of the same rows."
            )
        return self.recipe.rule_score(self.recipe.apply(frame))

    def check_probe(self) -> None:
        """Refuse a model that says otherwise here than where it was exported."""
        expected, found = np.array(self.profile.probe), self._probe_score()
        if expected.shape != found.shape or not np.all(np.abs(found - expected) <= PROBE_TOLERANCE):
            worst = float(np.max(np.abs(found - expected))) if expected.shape == found.shape else np.nan
            raise BundleError(
                f"The model of bundle {self.name!r} gives other scores here than at its export (off by up to "
                f"{worst:.3g} on its test rows); it was damaged, or the libraries differ too much: {self._versions()}."
            )

    def _probe_score(self) -> np.ndarray:
        features = Features.of(self.profile.probe_rows(), self.fitted.encoder.columns)
        return self.fitted.model.score_rows(features, self.profile.probe_rule_score())

    def _versions(self) -> str:
        return ", ".join(f"{name} {number}" for name, number in self.facts.versions.items())


def _check_recipe(run: Run, recipe: Recipe | None) -> None:
    """Rules of another table or another version would score silently wrong."""
    if recipe is None:
        return
    known: Any = run.need_data().rows.rule_columns
    if set(known) != set(recipe.rules.columns):
        raise BundleError(
            f"The rules of the recipe read {sorted(recipe.rules.columns)}, but {run.name!r} was trained with rules "
            f"that read {sorted(known)}; pass the fitted rules that made its soft labels."
        )
