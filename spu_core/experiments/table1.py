"""Table 1: soft labels against labels only on UCI data, as the paper did it and honestly."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from spu_core.experiments.averages import SO, average, corrected, paired
from spu_core.experiments.data import data_folder, load_uci
from spu_core.experiments.result import ExperimentResult, ResultTable
from spu_core.experiments.settings import ExperimentSettings, OnProgress, provenance, quiet
from spu_core.experiments.table1_cells import (
    TITLES,
    Pair,
    Reading,
    honest_auc,
    honest_methods,
    honest_title,
    paper_pair,
)
from spu_core.experiments.table1_words import CHOICES, PRINTED, claims
from spu_core.experiments.uci_draws import draw_trial
from spu_core.experiments.uci_trials import Tables, Trial, make_trial
from spu_core.models import METHODS

__all__ = ["claims", "run"]

CLOSEST = (
    Reading("diabetes_closest", "closest found"),
    Reading("adult", "closest found"),
    Reading("breast_cancer_few", "closest found"),
)
OTHER = (
    Reading("diabetes_diagnosis", "four counts as rules"),
    Reading("diabetes_readmitted", "target readmitted, four counts as rules"),
    Reading("diabetes_medicated", "target medication, four counts as rules"),
    Reading("diabetes_closest", "categories as numbers", codes=True),
    Reading("diabetes_closest", "5 % of the rows for training", train_share=0.05),
    Reading("diabetes_closest", "u left out of X", chance_in_x=False),
    Reading("adult", "categories as numbers", codes=True),
    Reading("adult", "5 % of the rows for training", train_share=0.05),
    Reading("adult", "1 % of the rows for training", train_share=0.01),
    Reading("adult", "u left out of X", chance_in_x=False),
    Reading("breast_cancer", "two thirds of the rows for training"),
    Reading("breast_cancer_few", "u left out of X", chance_in_x=False),
)
HONEST = ("diabetes_diagnosis", "diabetes_closest", "adult", "breast_cancer", "breast_cancer_few")
LEARNERS = ("xgboost", "lightgbm")
SMOKE_ROWS = 600
# What two cores finish in minutes; the closest reading always uses all rows.
READING_ROWS, HONEST_ROWS = 40_000, 12_000


def run(settings: ExperimentSettings, on_progress: OnProgress = quiet) -> ExperimentResult:
    """All cells over seeds; the smoke scale takes few rows and few readings."""
    begun, folder = time.process_time(), data_folder(settings.data)
    data = {name: load_uci(name, folder) for name in ("diabetes130", "adult")}
    tables = {name: each.frame for name, each in data.items()}
    work = _Work(settings, tables, on_progress)
    other = OTHER[-2:] if settings.is_smoke else OTHER
    honest = HONEST[-1:] if settings.is_smoke else HONEST
    seeds = settings.count_of_seeds(smoke=2, full=5)
    paper, series = work.paper_table(CLOSEST, seeds)
    variants, more = work.paper_table(other, seeds, start=0.3, rows=READING_ROWS)
    honest_table, honest_series = work.honest_table(honest, seeds)
    made = (_closest(paper), _variants(variants), honest_table)
    sources = {name: each.source for name, each in data.items()}
    return ExperimentResult(
        name="table1",
        title="Table 1: UCI data, soft labels against labels only",
        tables=made,
        claims=claims({table.name: table for table in made}),
        choices=CHOICES,
        provenance=provenance(settings, time.process_time() - begun, seeds=seeds, data=sources),
        series={"paper": series, "readings": more, "honest": honest_series},
    )


class _Work:
    """Runs cells seed by seed and says how far it is."""

    def __init__(self, settings: ExperimentSettings, tables: Tables, on_progress: OnProgress) -> None:
        self.settings, self.tables, self.on_progress = settings, tables, on_progress

    def paper_table(
        self, readings: Iterable[Reading], seeds: int, start: float = 0.0, rows: int | None = None
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """One record per reading and learner, and the figures of each seed."""
        records, series, listed = [], {}, list(readings)
        for place, reading in enumerate(listed):
            self.on_progress(start + 0.3 * place / len(listed), f"{reading.trial}, {reading.words}")
            trial = self._sized(reading.make(self.tables), rows)
            for learner in LEARNERS:
                pairs = [
                    paper_pair(trial, learner, seed, chance_in_x=reading.chance_in_x, threads=self.settings.threads)
                    for seed in range(seeds)
                ]
                records.append(_record(reading, trial, learner, pairs))
                key = f"{reading.trial}, {reading.words}, {TITLES[learner]}"
                series[key] = {
                    "result": [pair.result for pair in pairs],
                    "baseline": [pair.baseline for pair in pairs],
                }
        return records, series

    def honest_table(self, names: Iterable[str], seeds: int) -> tuple[ResultTable, dict[str, Any]]:
        """Every method of the registry on the same draws, against labelled-vs-rest with LightGBM."""
        rows: list[tuple[Any, ...]] = []
        series: dict[str, Any] = {}
        listed = list(names)
        for place, name in enumerate(listed):
            self.on_progress(0.6 + 0.4 * place / len(listed), f"honest comparison on {name}")
            trial = self._sized(make_trial(name, self.tables), HONEST_ROWS)
            found = self._honest_aucs(trial, seeds)
            base = found["labeled_vs_rest", "lightgbm"]
            for (method, learner), aucs in found.items():
                mean, gap = average(aucs), paired(aucs, base)
                wide = corrected(gap, _test_per_train(trial))
                cells = (
                    mean.mean,
                    mean.error,
                    gap.mean,
                    gap.error,
                    wide.error,
                    mean.count,
                    SO[gap.sign],
                    SO[wide.sign],
                )
                rows.append((name, trial.title, honest_title(method, learner), METHODS[method].group, *cells))
                series[f"{name}, {honest_title(method, learner)}"] = aucs
        columns = ("trial", "data", "method", "group", "AUC", "SE", "against labels only", "SE of it")
        return ResultTable(
            "honest", "Honest mode: u is not in X", (*columns, *VERDICT_COLUMNS), tuple(rows), HONEST_NOTE
        ), series

    def _honest_aucs(self, trial: Trial, seeds: int) -> dict[tuple[str, str | None], list[float]]:
        found: dict[tuple[str, str | None], list[float]] = {key: [] for key in honest_methods()}
        for seed in range(seeds):
            draw = draw_trial(trial, seed, grouped=True)
            for method, learner in found:
                given = {"seed": seed, "threads": self.settings.threads}
                found[method, learner].append(honest_auc(draw, method, learner, given))
        return found

    def _sized(self, trial: Trial, rows: int | None) -> Trial:
        return trial.sample(SMOKE_ROWS if self.settings.is_smoke else rows or len(trial.frame))


VERDICT_COLUMNS = ("corrected SE", "seeds", "over seeds", "corrected")
VERDICT_NOTE = (
    "'over seeds' is about these rows: Student's 95 % interval over seeds leaves 0 out. 'corrected' uses the standard "
    "error of Nadeau and Bengio, since seeds split the same rows."
)
HONEST_NOTE = (
    "True AUC on test rows. Diabetes is split by patient, the others by row. All methods run at the defaults of this "
    "program on the same draws (SAR-EM with 10 turns instead of 50); learners are LightGBM where a method can choose. "
    "At most 12,000 rows, of whole patients, are used. The oracle learns from the truth. "
    f"{VERDICT_NOTE}"
)
PAPER_NOTE = (
    "Paper mode: u is a column of X; the soft-label method does not see the rule columns, the baseline does. Test rows "
    "get a fresh u ~ U[0, ½]; the columns 'u = ¼' give all test rows the same u instead. SE are over seeds; 'gain' is "
    f"paired on the same draws. {VERDICT_NOTE}"
)


def _record(reading: Reading, trial: Trial, learner: str, pairs: list[Pair]) -> dict[str, Any]:
    result, baseline = average([p.result for p in pairs]), average([p.baseline for p in pairs])
    gain = paired([p.result for p in pairs], [p.baseline for p in pairs])
    wide = corrected(gain, _test_per_train(trial))
    level: dict[str, float | None] = {"result, u = ¼": None, "baseline, u = ¼": None}
    if reading.chance_in_x:
        level["result, u = ¼"] = average([p.result_level or 0.0 for p in pairs]).mean
        level["baseline, u = ¼"] = average([p.baseline_level or 0.0 for p in pairs]).mean
    return {
        "trial": reading.trial,
        "data": trial.title,
        "reading": reading.words,
        "model": TITLES[learner],
        "result": result.mean,
        "SE": result.error,
        "baseline": baseline.mean,
        "SE of baseline": baseline.error,
        "gain": gain.mean,
        "SE of gain": gain.error,
        **level,
        **dict(zip(VERDICT_COLUMNS, (wide.error, gain.count, SO[gain.sign], SO[wide.sign]), strict=True)),
    }


def _test_per_train(trial: Trial) -> float:
    return (1.0 - trial.train_share) / trial.train_share


def _closest(records: list[dict[str, Any]]) -> ResultTable:
    rows = []
    for record in records:
        printed = PRINTED[record["trial"], record["model"]]
        shown = {name: value for name, value in record.items() if name != "reading"}
        first = {"trial": shown.pop("trial"), "data": shown.pop("data"), "model": shown.pop("model")}
        rows.append({**first, "printed result": printed[0], "printed baseline": printed[1], **shown})
    return _table("paper", "Paper mode: the closest reading found", rows)


def _variants(records: list[dict[str, Any]]) -> ResultTable:
    note = f"{PAPER_NOTE} At most 40,000 rows, of whole patients, are used here."
    return _table("readings", "Paper mode: other readings of what the paper leaves open", records, note)


def _table(name: str, title: str, records: list[dict[str, Any]], note: str = PAPER_NOTE) -> ResultTable:
    columns = tuple(records[0])
    return ResultTable(name, title, columns, tuple(tuple(record.values()) for record in records), note)
