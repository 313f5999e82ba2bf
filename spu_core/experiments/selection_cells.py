"""One seed of model selection: many candidates, three figures that need no truth, and the truth on other rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spu_core.experiments.uci_draws import Draw, draw_with_labels, fit_method, known_settings, rule_columns
from spu_core.experiments.uci_trials import Trial
from spu_core.metrics import auc_spu_score, known_positive_auc_score
from spu_core.models import SoftLabelClassifier

CRITERIA = ("AUC_SPU", "AUC_SPU on refined S", "known-positive AUC")


@dataclass(frozen=True)
class Configuration:
    """A method with settings; `is_soft` marks the paper's own method."""

    method: str
    settings: dict[str, Any]
    is_soft: bool = True


def _soft_configurations() -> list[Configuration]:
    trees = [{"num_leaves": leaves, "learning_rate": rate} for leaves in (4, 8, 16, 31, 63) for rate in (0.03, 0.1)]
    deep = [{"max_depth": depth, "learning_rate": rate} for depth in (2, 4, 8) for rate in (0.05, 0.3)]
    found = [Configuration("lightgbm", {**given, "rounds": 100}) for given in trees]
    found += [Configuration("xgboost", {**given, "rounds": 100}) for given in deep]
    found += [Configuration("logistic", {"ridge": ridge}) for ridge in (0.1, 10.0, 1000.0)]
    found += [Configuration("neural_net", {"hidden": hidden, "rounds": 15}) for hidden in (8, 64)]
    return [*found, Configuration("extra_trees", {"rounds": 100})]


def _other_configurations() -> list[Configuration]:
    small = {"rounds": 100, "num_leaves": 16}
    listed = [(key, {"learner": "lightgbm", **small}) for key in ("labeled_vs_rest", "weighted_elkan_noto")]
    listed += [(key, {"learner": "lightgbm", **small}) for key in ("soft_as_positive", "soft_as_feature")]
    listed += [("bagging_pu", {"learner": "lightgbm"}), ("labeled_vs_rest", {"learner": "logistic"})]
    listed += [("lightgbm", {**small, "keep_rule_columns": True}), ("rule_score", {})]
    return [Configuration(key, given, is_soft=False) for key, given in listed]


CONFIGURATIONS = (*_soft_configurations(), *_other_configurations())


@dataclass(frozen=True, eq=False)
class Judged:
    """One row per configuration: its three figures on validation rows, and the true AUC on test rows."""

    criteria: np.ndarray
    truth: np.ndarray


def judge_configurations(
    trial: Trial, configurations: tuple[Configuration, ...], sizes: tuple[int, int], seed: int, threads: int
) -> Judged:
    """Train on the first part, judge without truth on the second of equal size, and with truth on the third."""
    rng = np.random.default_rng([3, seed])
    part = _parts(len(trial.frame), sizes, rng)
    chance = rng.uniform(0.0, 0.5, part.size)
    is_labeled = trial.truth & (rng.random(part.size) < chance)
    draw = draw_with_labels(trial, part == TRAIN, is_labeled, chance)
    valid, test = part == VALID, part == TEST
    soft_label, labeled = draw.soft_labels.value[valid], is_labeled[valid]
    refined = _refined(draw, valid, seed, threads)
    rows, truths = [], []
    for each in configurations:
        score = _scores(draw, each, valid | test, {"seed": seed, "threads": threads})
        seen, other = score[valid], score[test]
        rows.append(
            (auc_spu_score(soft_label, seen), auc_spu_score(refined, seen), known_positive_auc_score(labeled, seen))
        )
        truths.append(auc_spu_score(trial.truth[test].astype(np.float64), other))
    return Judged(np.array(rows), np.array(truths))


TRAIN, VALID, TEST, UNUSED = range(4)


def _parts(rows: int, sizes: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Who trains, who validates (as many), who tests; small tables are cut into thirds."""
    train, test = (min(size, rows // 3) for size in sizes)
    part = np.full(rows, UNUSED)
    order = rng.permutation(rows)
    part[order[:train]] = TRAIN
    part[order[train : 2 * train]] = VALID
    part[order[2 * train : 2 * train + test]] = TEST
    return part


def _scores(draw: Draw, configuration: Configuration, wanted: np.ndarray, given: dict[str, Any]) -> np.ndarray:
    learner = configuration.settings.get("learner")
    settings = {**configuration.settings, **known_settings(configuration.method, learner, given)}
    fit = fit_method(draw, configuration.method, settings)
    score = np.full(draw.train.size, np.nan)
    score[wanted] = fit.model.predict_proba(fit.frame[wanted], rule_score=draw.soft_labels.rule_score[wanted])[:, 1]
    return score


def _refined(draw: Draw, valid: np.ndarray, seed: int, threads: int) -> np.ndarray:
    """The fused posterior of the validation rows, cross-fitted on training and validation rows together."""
    both, labels = draw.train | valid, draw.soft_labels
    fused = SoftLabelClassifier("fused", seed=seed, threads=threads).fit(
        draw.trial.frame[both],
        labels.value[both],
        is_labeled=labels.is_labeled[both],
        rule_score=labels.rule_score[both],
        rule_columns=rule_columns(draw.trial),
    )
    return fused.refined_soft_label_[valid[both]]
