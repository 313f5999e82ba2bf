"""Feature selection: do columns that are chosen without truth keep the true AUC, and is noise left out?"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from spu_core.experiments.catalog import (
    Claim,
    ExperimentResult,
    ExperimentSettings,
    OnProgress,
    ResultTable,
    provenance,
    quiet,
)
from spu_core.experiments.runners import SeedAverage, average, verdict_of
from spu_core.experiments.runners.model_selection import TRIALS, rank_correlation
from spu_core.experiments.runners.uci import Draw, Trial, data_folder, draw_with_labels, load_uci, make_trial
from spu_core.labels import SoftLabels
from spu_core.metrics import auc_spu_score
from spu_core.models import SoftLabelClassifier
from spu_core.tables import Table
from spu_core.training import Candidate, TrainConfig
from spu_core.training.feature_selection import METRICS, ColumnSets

SIZES = (3_000, 8_000)
NOISE, RANDOM_SETS = 10, 3
MARGIN = 0.005
SETTINGS = {"rounds": 40, "num_leaves": 16}
CHOICES = (
    "Nothing was chosen by looking at printed figures: the paper proposes feature selection, and prints no figure for "
    "it. Data, noise, model, margin and comparisons were fixed before the first run and not changed after it.",
    "Labels are drawn with u ~ U[0, ½], u is not in X. Columns are selected on 3,000 rows (a third of Breast Cancer); "
    "the true AUC is measured on up to 8,000 other rows.",
    f"Each table gets {NOISE} columns of noise: shuffled copies of its own columns.",
    "The model is the paper's method: LightGBM on S with 40 rounds and 16 leaves, without the columns of the rules, in "
    f"3 folds. Columns are dropped; the accepted loss is {MARGIN:g}.",
    f"A random choice takes as many columns at random, the mean of {RANDOM_SETS} draws.",
)


@dataclass(frozen=True)
class ChosenColumns:
    """The set that one figure chose: its size, the noise left in it, and true AUCs on other rows."""

    columns: int
    noise: int
    auc: float
    random_auc: float


@dataclass(frozen=True, eq=False)
class Selected:
    """One seed: all columns, the noise among them, their true AUC, the choice of each figure, and its order of sets."""

    columns: int
    noise: int
    auc: float
    choices: Mapping[str, ChosenColumns]
    ranks: Mapping[str, float]


def select_once(trial: Trial, sizes: tuple[int, int], seed: int, threads: int) -> Selected:
    """Draw rows, labels and noise; select columns by each figure; measure every choice with the truth."""
    rng = np.random.default_rng([4, seed])
    train, test = (min(size, len(trial.frame) // 3) for size in sizes)
    order = rng.permutation(len(trial.frame))
    inside, outside = np.sort(order[:train]), np.sort(order[train : train + test])
    chance = rng.uniform(0.0, 0.5, len(trial.frame))
    is_labeled = trial.truth & (rng.random(chance.size) < chance)
    draw = draw_with_labels(trial, np.isin(np.arange(chance.size), inside), is_labeled, chance)
    frame = _with_noise(trial.frame, rng)
    true_auc = _TrueAuc(draw, frame, (inside, outside), {**SETTINGS, "seed": seed, "threads": threads})
    sets = _column_sets(draw, frame.iloc[inside].reset_index(drop=True), inside, seed, threads)
    choices, ranks = {}, {}
    for metric, words in METRICS.items():
        found = sets.selection(metric, "drop", MARGIN)
        chosen = found.chosen.columns
        drawn = [rng.choice(sets.columns, len(chosen), replace=False) for _ in range(RANDOM_SETS)]
        mean = float(np.mean([true_auc(each) for each in drawn]))
        choices[words] = ChosenColumns(len(chosen), sum(map(_is_noise, chosen)), true_auc(chosen), mean)
        truths = np.array([true_auc(each.columns) for each in found.path])
        ranks[words] = rank_correlation(np.array([each.figures[metric].estimate for each in found.path]), truths)
    noise = sum(map(_is_noise, sets.columns))
    return Selected(len(sets.columns), noise, true_auc(sets.columns), choices, ranks)


def _with_noise(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    copied = rng.choice(frame.shape[1], min(NOISE, frame.shape[1]), replace=False)
    noise = {
        f"noise {number}": frame.iloc[:, place].to_numpy()[rng.permutation(len(frame))]
        for number, place in enumerate(copied)
    }
    return frame.assign(**noise)


def _is_noise(name: str) -> bool:
    return name.startswith("noise ")


def _column_sets(draw: Draw, frame: pd.DataFrame, inside: np.ndarray, seed: int, threads: int) -> ColumnSets:
    labels = draw.soft_labels
    own = SoftLabels(
        labels.value[inside], labels.rule_score[inside], labels.is_labeled[inside], tuple(labels.rule_columns)
    )
    roles = {**dict.fromkeys(map(str, frame.columns), "feature"), "labeled": "label"}
    table = Table.from_frame(frame.assign(labeled=own.is_labeled.astype(int)), roles=roles)
    config = TrainConfig(folds=3, seed=seed, threads=threads)
    return ColumnSets(table, own, Candidate("lightgbm", SETTINGS), config, 1, lambda *_: None)


@dataclass(eq=False)
class _TrueAuc:
    """The true AUC, on other rows, of the model with a set of columns; each set is measured once."""

    draw: Draw
    frame: pd.DataFrame
    rows: tuple[np.ndarray, np.ndarray]
    settings: dict[str, Any]
    known: dict[tuple[str, ...], float] = field(default_factory=dict)

    def __call__(self, columns: Any) -> float:
        key = tuple(sorted(columns))
        if key not in self.known:
            self.known[key] = self._measured(list(key))
        return self.known[key]

    def _measured(self, columns: list[str]) -> float:
        (inside, outside), seen = self.rows, self.frame[columns]
        model = SoftLabelClassifier("lightgbm", **self.settings)
        model.fit(seen.iloc[inside], self.draw.soft_labels.value[inside])
        score = model.predict_proba(seen.iloc[outside])[:, 1]
        return auc_spu_score(self.draw.trial.truth[outside].astype(np.float64), score)


def run(settings: ExperimentSettings, on_progress: OnProgress = quiet) -> ExperimentResult:
    """All data sets over seeds; the smoke scale takes Breast Cancer alone, with few rows."""
    begun = time.process_time()
    seeds = settings.count_of_seeds(smoke=1, full=5)
    trials = ("breast_cancer",) if settings.is_smoke else TRIALS
    folder = None if settings.is_smoke else data_folder(settings.data)
    names = () if settings.is_smoke else ("adult", "diabetes130", "bank_full")
    data = {name: load_uci(name, folder) for name in names}
    found: dict[str, list[Selected]] = {}
    for place, name in enumerate(trials):
        trial = make_trial(name, {name: each.frame for name, each in data.items()})
        if settings.is_smoke:
            trial = _small(trial)
        found[trial.title] = []
        for seed in range(seeds):
            on_progress((place + seed / seeds) / len(trials), f"{trial.title}, seed {seed}")
            found[trial.title].append(select_once(trial, SIZES, seed, settings.threads))
    tables = (_choice_table(found), _rank_table(found))
    return ExperimentResult(
        name="features",
        title="Feature selection without truth",
        tables=tables,
        claims=claims({table.name: table for table in tables}),
        choices=CHOICES,
        provenance=provenance(
            settings, time.process_time() - begun, seeds=seeds, data={name: each.source for name, each in data.items()}
        ),
    )


def _small(trial: Trial) -> Trial:
    """The rule columns and three others."""
    kept = ["worst radius", "worst texture", "mean area", "mean concavity", "texture error"]
    return Trial(trial.title, trial.frame[kept], trial.truth, trial.rules)


def _choice_table(found: Mapping[str, list[Selected]]) -> ResultTable:
    rows: list[tuple[Any, ...]] = []
    for title, seeds_of in found.items():
        for words in METRICS.values():
            chosen = [(each, each.choices[words]) for each in seeds_of]
            lost = average([choice.auc - each.auc for each, choice in chosen])
            better = average([choice.auc - choice.random_auc for _, choice in chosen])
            noise = average([1.0 - choice.noise / each.noise for each, choice in chosen])
            size = float(np.mean([choice.columns for _, choice in chosen]))
            whole = float(np.mean([each.auc for each in seeds_of]))
            figures = (lost.mean, lost.error, better.mean, better.error, noise.mean, noise.error, lost.count)
            rows.append((title, words, seeds_of[0].columns, size, whole, *figures))
    columns = (
        "data", "chosen by", "columns", "chosen", "true AUC of all", "chosen − all", "SE", "chosen − random",
        "SE of random", "noise dropped", "SE of noise", "seeds",
    )  # fmt: skip
    note = "True AUC on other rows; a random set has as many columns. Noise dropped is a share of the noise columns."
    return ResultTable("choices", "Columns chosen without truth", columns, tuple(rows), note)


def _rank_table(found: Mapping[str, list[Selected]]) -> ResultTable:
    rows: list[tuple[Any, ...]] = []
    for title, seeds_of in found.items():
        for words in METRICS.values():
            rank = average([each.ranks[words] for each in seeds_of])
            rows.append((title, words, rank.mean, rank.error, rank.count))
    note = "Rank correlation (Spearman) of the figure with the true AUC over the sets that the selection went through."
    return ResultTable(
        "ranks",
        "How figures order sets of columns",
        ("data", "figure", "rank correlation", "SE", "seeds"),
        tuple(rows),
        note,
    )


def claims(tables: Mapping[str, ResultTable]) -> tuple[Claim, ...]:
    """Verdicts from the paired differences over seeds."""
    rows, ranks = tables["choices"].records(), tables["ranks"].records()
    kept = [_kept(rows, words) for words in METRICS.values()]
    return (*kept, _better(rows), _ordered(ranks))


def _kept(rows: list[dict[str, Any]], words: str) -> Claim:
    """The chosen columns lose less than the margin in true AUC."""
    own = [row for row in rows if row["chosen by"] == words]
    signs = [SeedAverage(row["chosen − all"] + MARGIN, row["SE"], row["seeds"]).sign for row in own]
    listed = "; ".join(
        f"{row['data']} {row['chosen']:.0f} of {row['columns']} columns, {row['chosen − all']:+.3f} ± "
        f"{row['SE'] or 0:.3f}, {row['noise dropped']:.0%} of the noise dropped"
        for row in own
    )
    return Claim(
        f"Columns chosen by {words} lose less than {MARGIN:g} in true AUC.", verdict_of(signs), f"Over seeds: {listed}."
    )


def _better(rows: list[dict[str, Any]]) -> Claim:
    own = [row for row in rows if row["chosen by"] == METRICS["auc_spu"]]
    signs = [SeedAverage(row["chosen − random"], row["SE of random"], row["seeds"]).sign for row in own]
    listed = "; ".join(f"{row['data']} {row['chosen − random']:+.3f} ± {row['SE of random'] or 0:.3f}" for row in own)
    text = "Columns chosen by AUC_SPU have a higher true AUC than as many columns taken at random."
    return Claim(text, verdict_of(signs), f"Difference in true AUC: {listed}.")


def _ordered(rows: list[dict[str, Any]]) -> Claim:
    own = [row for row in rows if row["figure"] == METRICS["auc_spu"]]
    signs = [SeedAverage(row["rank correlation"], row["SE"], row["seeds"]).sign for row in own]
    listed = "; ".join(f"{row['data']} {row['rank correlation']:.2f} ± {row['SE'] or 0:.2f}" for row in own)
    text = "AUC_SPU orders sets of columns as the true AUC does, so that features can be selected by it."
    return Claim(text, verdict_of(signs), f"Rank correlation: {listed}.")
