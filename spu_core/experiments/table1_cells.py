"""The cells of Table 1: one seed of the paper's comparison, and one seed of the honest one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from spu_core.experiments.uci_draws import CHANCE, Draw, Scored, draw_trial, fit_method, known_settings
from spu_core.experiments.uci_trials import Tables, Trial, make_trial
from spu_core.models import METHODS

# The paper names no settings, so these are the libraries' own defaults.
LIBRARY_DEFAULTS: dict[str, dict[str, Any]] = {
    "xgboost": {"rounds": 100, "learning_rate": 0.3, "max_depth": 6, "min_child_weight": 1.0, "reg_lambda": 1.0},
    "lightgbm": {
        "rounds": 100,
        "learning_rate": 0.1,
        "num_leaves": 31,
        "min_child_samples": 20,
        "reg_lambda": 0.0,
    },
}
TITLES = {"xgboost": "XGB", "lightgbm": "LGBM"}
MIDDLE_CHANCE = 0.25


@dataclass(frozen=True)
class Reading:
    """One way to fill in what the paper leaves open."""

    trial: str
    words: str
    chance_in_x: bool = True
    codes: bool = False
    train_share: float | None = None

    def make(self, tables: Tables) -> Trial:
        """The trial that this reading describes."""
        trial = make_trial(self.trial, tables)
        trial = trial.with_codes() if self.codes else trial
        return trial if self.train_share is None else replace(trial, train_share=self.train_share)


@dataclass(frozen=True)
class Pair:
    """True AUC of the paper's method and of its baseline on one seed; `_level` where all test rows get the same u."""

    result: float
    baseline: float
    result_level: float | None
    baseline_level: float | None


def paper_pair(trial: Trial, learner: str, seed: int, *, chance_in_x: bool, threads: int = 1) -> Pair:
    """Soft labels without the rule columns against labelled-vs-rest with them, otherwise alike."""
    draw = draw_trial(trial, seed)
    wanted = {**LIBRARY_DEFAULTS[learner], "seed": seed, "threads": threads}
    settings = {"labeled_vs_rest": known_settings("labeled_vs_rest", learner, wanted)}
    settings[learner] = known_settings(learner, None, wanted)
    fits = {key: fit_method(draw, key, given, chance_in_x=chance_in_x) for key, given in settings.items()}
    ours, baseline = fits[learner], fits["labeled_vs_rest"]
    level = (_level_auc(ours), _level_auc(baseline)) if chance_in_x else (None, None)
    return Pair(ours.auc(), baseline.auc(), *level)


def _level_auc(fit: Scored) -> float:
    return fit.auc(fit.frame[fit.draw.test].assign(**{CHANCE: MIDDLE_CHANCE}))


# Whatever the registry calls a baseline or ours, and the paper's method with its two learners. Learners are LightGBM
# unless the method brings its own; the oracle and the paper's baseline come with both.
OWN_LEARNER = {"nnpu": None, "sar_em": "logistic", "rule_score": None, "fused": None}
TWICE = ("labeled_vs_rest", "oracle")
# Fifty turns on tens of thousands of rows would take as long as all other methods together.
FEWER = {"em_steps": 10}


def honest_methods() -> Iterator[tuple[str, str | None]]:
    """Method and learner of each row of the honest comparison."""
    yield from (("lightgbm", None), ("xgboost", None))
    for key, method in METHODS.items():
        if method.group == "soft label":
            continue
        yield key, OWN_LEARNER.get(key, "lightgbm")
        if key in TWICE:
            yield key, "xgboost"


def honest_title(method: str, learner: str | None) -> str:
    """The name of such a row.

    >>> honest_title("labeled_vs_rest", "xgboost"), honest_title("nnpu", None)
    ('Labelled against the rest, XGBoost', 'nnPU')
    """
    shown = {"xgboost": "XGBoost", "lightgbm": "LightGBM", "logistic": "logistic"}
    return METHODS[method].title + (f", {shown[learner]}" if learner else "")


def honest_auc(draw: Draw, method: str, learner: str | None, settings: Mapping[str, Any]) -> float:
    """True AUC of one method at the engine's defaults, without u in X."""
    return fit_method(draw, method, known_settings(method, learner, {**FEWER, **settings})).auc()
