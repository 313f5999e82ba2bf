"""Model selection: does choosing by AUC_SPU, without truth, pick the model with the best true AUC?"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

from spu_core.experiments.catalog import (
    Claim,
    ExperimentResult,
    ExperimentSettings,
    OnProgress,
    ResultTable,
    provenance,
    quiet,
)
from spu_core.experiments.runners import SeedAverage, average, paired, verdict_of
from spu_core.experiments.runners.uci import (
    Draw,
    Trial,
    data_folder,
    draw_with_labels,
    fit_method,
    known_settings,
    load_uci,
    make_trial,
    rule_columns,
)
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
    """The part of each row: training, validation (as many rows) or test; small tables are cut into thirds."""
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


TRIALS = ("adult", "breast_cancer", "diabetes_diagnosis", "bank")
SIZES = (3_000, 8_000)
SOFT, ALL = "soft-label models", "all methods"
POOLS = {SOFT: np.array([each.is_soft for each in CONFIGURATIONS]), ALL: np.ones(len(CONFIGURATIONS), dtype=bool)}
CHOICES = (
    "Nothing was chosen by looking at printed figures: the paper prints none for model selection.",
    "Labels are drawn with u ~ U[0, ½], u is not in X. Candidates train on 3,000 rows (a third of Breast Cancer), are "
    "judged without truth on as many others, and with truth on up to 8,000 further rows.",
    f"{int(POOLS[SOFT].sum())} soft-label configurations are the paper's setting; {SOFT!r} ranks them alone. "
    f"{ALL!r} adds baselines, a model that keeps the rule columns, and the rules themselves.",
    "Refined S is the fused posterior; fused itself is no candidate, since it must not be judged by it.",
    "Regret is the true AUC of the best candidate minus that of the chosen one; a random choice is shown for scale.",
)


def run(settings: ExperimentSettings, on_progress: OnProgress = quiet) -> ExperimentResult:
    """All data sets over seeds; the smoke scale takes Breast Cancer alone."""
    begun = time.process_time()
    seeds = settings.count_of_seeds(smoke=2, full=5)
    trials = ("breast_cancer",) if settings.is_smoke else TRIALS
    folder = None if settings.is_smoke else data_folder(settings.data)
    names = () if settings.is_smoke else ("adult", "diabetes130", "bank_full")
    data = {name: load_uci(name, folder) for name in names}
    tables = {name: each.frame for name, each in data.items()}
    judged: dict[str, list[Judged]] = {}
    for place, name in enumerate(trials):
        trial = make_trial(name, tables)
        judged[trial.title] = []
        for seed in range(seeds):
            on_progress((place + seed / seeds) / len(trials), f"{trial.title}, seed {seed}")
            judged[trial.title].append(judge_configurations(trial, CONFIGURATIONS, SIZES, seed, settings.threads))
    made = (_rank_table(judged), _difference_table(judged))
    return ExperimentResult(
        name="selection",
        title="Model selection without truth",
        tables=made,
        claims=claims({table.name: table for table in made}),
        choices=CHOICES,
        provenance=provenance(
            settings, time.process_time() - begun, seeds=seeds, data={name: each.source for name, each in data.items()}
        ),
        series={title: _points(seeds_of[0]) for title, seeds_of in judged.items()},
    )


def rank_correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's rank correlation; 0 where all values of one argument are equal.

    >>> rank_correlation(np.array([0.1, 0.2, 0.4]), np.array([3.0, 5.0, 9.0]))
    1.0
    """
    one, other = rankdata(first), rankdata(second)
    if np.ptp(one) == 0.0 or np.ptp(other) == 0.0:
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


def regret(criterion: np.ndarray, truth: np.ndarray) -> float:
    """The true AUC that is lost by choosing with this criterion.

    >>> round(regret(np.array([0.7, 0.9]), np.array([0.8, 0.75])), 3)
    0.05
    """
    return float(truth.max() - truth[int(np.argmax(criterion))])


def _figures(seeds_of: list[Judged], pool: np.ndarray) -> dict[str, tuple[list[float], list[float]]]:
    """Rank correlations and regrets of each criterion over seeds; last, of a random choice."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    for place, name in enumerate(CRITERIA):
        values = [(each.criteria[pool, place], each.truth[pool]) for each in seeds_of]
        found[name] = [rank_correlation(*pair) for pair in values], [regret(*pair) for pair in values]
    random = [float(each.truth[pool].max() - each.truth[pool].mean()) for each in seeds_of]
    return {**found, "random choice": ([], random)}


def _rank_table(judged: Mapping[str, list[Judged]]) -> ResultTable:
    rows: list[tuple[Any, ...]] = []
    for title, seeds_of in judged.items():
        for pool, inside in POOLS.items():
            for name, (ranks, regrets) in _figures(seeds_of, inside).items():
                rank = average(ranks) if ranks else SeedAverage(0.0, None, 0)
                lost = average(regrets)
                shown = (rank.mean, rank.error) if ranks else (None, None)
                rows.append((title, pool, int(inside.sum()), name, *shown, lost.mean, lost.error, lost.count))
    columns = ("data", "candidates", "count", "chosen by", "rank correlation", "SE", "regret", "SE of regret", "seeds")
    note = "Rank correlation (Spearman) of the figure with the true AUC over candidates, averaged over seeds."
    return ResultTable("ranks", "Figures without truth against true AUC", columns, tuple(rows), note)


def _difference_table(judged: Mapping[str, list[Judged]]) -> ResultTable:
    rows: list[tuple[Any, ...]] = []
    for title, seeds_of in judged.items():
        for pool, inside in POOLS.items():
            found = _figures(seeds_of, inside)
            for name in CRITERIA[:2]:
                rank = paired(found[name][0], found["known-positive AUC"][0])
                lost = paired(found[name][1], found["known-positive AUC"][1])
                rows.append((title, pool, name, rank.mean, rank.error, lost.mean, lost.error, rank.count))
    columns = ("data", "candidates", "figure", "rank correlation", "SE", "regret", "SE of regret", "seeds")
    note = (
        "Each figure minus known-positive AUC, paired by seed; a positive rank correlation and a negative regret win."
    )
    return ResultTable("differences", "Against choosing by known-positive AUC", columns, tuple(rows), note)


def _points(judged: Judged) -> dict[str, Any]:
    """The first seed, for a chart: one point per configuration."""
    names = [f"{each.method} {each.settings}" for each in CONFIGURATIONS]
    figures = {name: judged.criteria[:, place].tolist() for place, name in enumerate(CRITERIA)}
    return {"configuration": names, **figures, "true AUC": judged.truth.tolist()}


def claims(tables: Mapping[str, ResultTable]) -> tuple[Claim, ...]:
    """Verdicts from rank correlations and their paired differences."""
    ranks, gaps = tables["ranks"].records(), tables["differences"].records()
    return (
        _follows(ranks, SOFT, "Model selection can be done by AUC_SPU in place of the real AUC."),
        _follows(ranks, ALL, "The same when baselines and the rules themselves are candidates, too."),
        _beats(
            gaps, "AUC_SPU", SOFT, "AUC_SPU chooses better than known positives alone (the paper does not compare)."
        ),
        _beats(
            gaps, "AUC_SPU on refined S", ALL, "Not a claim of the paper: refined S chooses better among all methods."
        ),
    )


def _follows(rows: list[dict[str, Any]], pool: str, text: str) -> Claim:
    chosen = [row for row in rows if row["chosen by"] == "AUC_SPU" and row["candidates"] == pool]
    signs = [SeedAverage(row["rank correlation"], row["SE"], row["seeds"]).sign for row in chosen]
    listed = "; ".join(
        f"{row['data']} {_with_error(row['rank correlation'], row['SE'], 2)}, regret {row['regret']:.3f}"
        for row in chosen
    )
    return Claim(text, verdict_of(signs), f"Rank correlation with true AUC: {listed}.")


def _beats(rows: list[dict[str, Any]], figure: str, pool: str, text: str) -> Claim:
    chosen = [row for row in rows if row["figure"] == figure and row["candidates"] == pool]
    signs = [SeedAverage(row["rank correlation"], row["SE"], row["seeds"]).sign for row in chosen]
    listed = "; ".join(f"{row['data']} {_with_error(row['rank correlation'], row['SE'], 2, '+')}" for row in chosen)
    return Claim(text, verdict_of(signs), f"Difference in rank correlation: {listed}.")


def _with_error(value: float, error: float | None, digits: int, sign: str = "") -> str:
    return f"{value:{sign}.{digits}f}" + ("" if error is None else f" ± {error:.{digits}f}")
