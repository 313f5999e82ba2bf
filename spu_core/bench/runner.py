"""Run the benchmark: every cell in a file of its own, so that a run can be stopped and resumed.

For each method: AUC, average precision and precision at 1 % and 5 % on test rows, where the class is known. For the
candidates of the standard shortlist also, from scores that are cross-fitted on the training rows, the figures that an
analyst sees without truth, and the true AUC of the same scores.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score, roc_auc_score

from spu_core.bench.adapters import Adapter, bench_adapters, fit_candidate
from spu_core.bench.cells import LABELLINGS, RULE_SETS, Cell, Fetch, TableSpec, cell_name, load_specs, make_cell
from spu_core.checks import check_choice
from spu_core.errors import SpuError, TrainingError
from spu_core.models.model import inner_folds
from spu_core.training import SHORTLIST, Candidate
from spu_core.training.evaluation import EvaluationData, folded_interval

STORED = Path(__file__).parent / "results" / "development.parquet"
FOLDS = 3
CROSS_FITTED = (*(Candidate(key) for key in SHORTLIST), Candidate("fused", without_rules=True))
FIGURES = ("auc", "average_precision", "precision_at_1", "precision_at_5")


@dataclass(frozen=True)
class BenchPlan:
    """What to run: specs, data, ways of labelling, rule sets and seeds; `output` gets the results.

    `scores` is a folder for the scores themselves (an .npz file for each cell); None stores none.
    """

    output: Path
    data: Path | None = None
    specs: Path | None = None
    tables: tuple[str, ...] = ()
    labellings: tuple[str, ...] = tuple(LABELLINGS)
    rule_sets: tuple[str, ...] = RULE_SETS
    seeds: tuple[int, ...] = (0,)
    scores: Path | None = None

    def table_specs(self) -> list[TableSpec]:
        """The chosen tables, in the order of their names."""
        listed = load_specs(self.specs)
        for name in self.tables:
            check_choice(name, [each.name for each in listed], "table")
        return [each for each in listed if not self.tables or each.name in self.tables]


@dataclass
class SharedFits:
    """Scores of methods that do not read rules, for the cells of one draw of labels."""

    test: dict[str, tuple[np.ndarray | None, float, str]] = field(default_factory=dict)
    folds: dict[str, tuple[np.ndarray | None, float]] = field(default_factory=dict)


def run_bench(
    plan: BenchPlan,
    adapters: Sequence[Adapter] | None = None,
    *,
    workers: int = 1,
    fetch: Fetch | None = None,
    on_progress: Callable[[float, str], None] = lambda share, text: None,
) -> list[str]:
    """Run what is missing of a plan; returns a sentence for each method that was skipped.

    Parameters
    ----------
    plan : BenchPlan
        Tables, ways of labelling, rule sets and seeds.
    adapters : sequence of Adapter, optional
        The methods; all of the registry and the outside ones by default.
    workers : int, default 1
        Processes; each works on one draw of labels at a time. Adapters of your own must be importable there.
    fetch : callable, optional
        Gets the table with this number from OpenML.
    on_progress : callable, optional
        Called with the share that is done, and a text.
    """
    chosen = list(bench_adapters() if adapters is None else adapters)
    (plan.output / "cells").mkdir(parents=True, exist_ok=True)
    draws = list(product(plan.seeds, plan.table_specs(), plan.labellings))
    ready = [each for each in chosen if each.is_installed]
    if workers == 1:
        for place, (seed, spec, labelling) in enumerate(draws):
            on_progress(place / len(draws), f"{spec.name}, {labelling}, seed {seed}")
            run_draw(plan, spec, labelling, seed, ready, fetch)
    else:
        _run_in_processes(plan, draws, ready, workers, on_progress)
    return [f"{each.name} was skipped: install {each.needs} to run it." for each in chosen if not each.is_installed]


def _run_in_processes(
    plan: BenchPlan,
    draws: list[tuple[int, TableSpec, str]],
    adapters: list[Adapter],
    workers: int,
    on_progress: Callable[[float, str], None],
) -> None:
    names = [each.name for each in adapters]
    if set(names) - {each.name for each in bench_adapters()}:
        raise SpuError("Methods of your own run in one process; use workers=1.")
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        jobs = {
            pool.submit(
                _draw_by_name, plan, spec.name, labelling, seed, names
            ): f"{spec.name}, {labelling}, seed {seed}"
            for seed, spec, labelling in draws
        }
        for done, job in enumerate(as_completed(jobs), start=1):
            job.result()
            on_progress(done / len(jobs), jobs[job])


def _draw_by_name(plan: BenchPlan, table: str, labelling: str, seed: int, names: list[str]) -> None:
    spec = next(each for each in plan.table_specs() if each.name == table)
    run_draw(plan, spec, labelling, seed, [each for each in bench_adapters() if each.name in names], None)


def run_draw(
    plan: BenchPlan, spec: TableSpec, labelling: str, seed: int, adapters: list[Adapter], fetch: Fetch | None
) -> None:
    """The cells of one draw of labels: methods that do not read rules are fitted once."""
    shared, data = SharedFits(), None
    for rule_set in plan.rule_sets:
        path = plan.output / "cells" / f"{cell_name(spec.name, labelling, rule_set, seed)}.parquet"
        known = pd.read_parquet(path) if path.is_file() else None
        missing = [each for each in adapters if known is None or each.name not in set(known["method"])]
        if not missing:
            continue
        data = spec.load(plan.data, fetch=fetch) if data is None else data
        cell = make_cell(spec, data, labelling, rule_set, seed)
        found, scores = run_cell(cell, missing, shared)
        if plan.scores is not None:
            _store_scores(plan.scores / f"{cell.name}.npz", scores)
        _store_table(path, found if known is None else pd.concat([known, found], ignore_index=True))


def run_cell(cell: Cell, adapters: Sequence[Adapter], shared: SharedFits) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
    """One row per method, and the scores behind it."""
    crossed = {each.name: each for each in CROSS_FITTED}
    facts = {
        "table": cell.table,
        "labelling": cell.labelling,
        "rules": cell.rule_set,
        "seed": cell.seed,
        "train_rows": len(cell.rows),
        "test_rows": len(cell.test),
        "positives": int(cell.truth.sum()),
        "labels": int(cell.is_labeled.sum()),
    }
    fold = inner_folds(cell.is_labeled, None, FOLDS, cell.seed)
    assert cell.rows.rule_score is not None
    scores: dict[str, np.ndarray] = {
        "is_labeled": cell.is_labeled,
        "truth": cell.truth,
        "fold": fold,
        "rule_score": cell.rows.rule_score,
        "soft_label": cell.rows.soft_label,
        "truth_test": cell.truth_test,
        "rule_score_test": cell.rule_score_test,
    }
    if any(each.name in crossed for each in adapters):
        scores["refined"] = _refined(cell)
    rows: list[dict[str, Any]] = []
    for each in adapters:
        score, seconds, error = _test_scores(cell, each, shared)
        row = {**facts, "method": each.name, "seconds": seconds, "error": error}
        if score is not None:
            row |= _test_figures(cell.truth_test, score)
            scores[f"test/{each.name}"] = score.astype(np.float32)
        if each.name in crossed:
            out, crossing = _out_of_fold(cell, crossed[each.name], each.reads_rules, fold, shared)
            if out is not None:
                scores[f"oof/{each.name}"] = out
                row |= {"cv_seconds": crossing, **_yardsticks(cell, out, fold, scores["refined"])}
        rows.append(row)
    return pd.DataFrame(rows), scores


def _test_scores(cell: Cell, adapter: Adapter, shared: SharedFits) -> tuple[np.ndarray | None, float, str]:
    if adapter.name in shared.test:
        return shared.test[adapter.name]
    begun = time.process_time()
    try:
        score, error = np.asarray(adapter.score(cell), dtype=np.float64), ""
    except Exception as problem:  # a method that fails must not end the benchmark
        score, error = None, f"{type(problem).__name__}: {problem}"
    found = score, time.process_time() - begun, error
    if not adapter.reads_rules:
        shared.test[adapter.name] = found
    return found


def _out_of_fold(
    cell: Cell, candidate: Candidate, reads_rules: bool, fold: np.ndarray, shared: SharedFits
) -> tuple[np.ndarray | None, float]:
    if candidate.name in shared.folds:
        return shared.folds[candidate.name]
    begun, score = time.process_time(), np.empty(len(cell.rows))
    assert cell.rows.rule_score is not None
    try:
        for number in range(FOLDS):
            held = fold == number
            model = fit_candidate(candidate, cell.rows.take(~held), cell.seed)
            score[held] = model.score_rows(cell.rows.features.take(held), cell.rows.rule_score[held])
    except TrainingError:  # too few labels for this method within a fold
        return None, 0.0
    found = score, time.process_time() - begun
    if not reads_rules:
        shared.folds[candidate.name] = found
    return found


def _refined(cell: Cell) -> np.ndarray:
    """Refined S of the training rows: fused is fitted once, its own scores are cross-fitted inside."""
    found = fit_candidate(Candidate("fused"), cell.rows, cell.seed).refined_soft_label
    assert found is not None
    return np.clip(found, 0.0, 1.0)


def _test_figures(truth: np.ndarray, score: np.ndarray) -> dict[str, float]:
    return {
        "auc": float(roc_auc_score(truth, score)),
        "average_precision": float(average_precision_score(truth, score)),
        "precision_at_1": precision_at(truth, score, 0.01),
        "precision_at_5": precision_at(truth, score, 0.05),
    }


def precision_at(truth: np.ndarray, score: np.ndarray, share: float) -> float:
    """Share of positives among the highest scores; of tied rows at the border, the expected share.

    >>> precision_at(np.array([1, 0, 1, 0]), np.array([0.9, 0.5, 0.5, 0.1]), 0.5)
    0.75
    """
    count = max(1, round(share * score.size))
    border = np.sort(score)[-count]
    above, tied = score > border, score == border
    return float((truth[above].sum() + (count - above.sum()) * truth[tied].mean()) / count)


def _yardsticks(cell: Cell, score: np.ndarray, fold: np.ndarray, refined: np.ndarray) -> dict[str, float]:
    assert cell.rows.rule_score is not None
    evaluation = EvaluationData(
        soft_label=cell.rows.soft_label,
        is_labeled=cell.is_labeled,
        rule_score=cell.rows.rule_score,
        fold=fold,
        judged=np.ones(fold.size, dtype=bool),
    )
    targets = {
        "auc_spu": cell.rows.soft_label,
        "known_positive_auc": cell.is_labeled.astype(np.float64),
        "refined_auc_spu": refined,
        "true_auc": cell.truth.astype(np.float64),
    }
    found = {name: folded_interval(target, score, evaluation) for name, target in targets.items()}
    figures = {f"cv_{name}": each.estimate for name, each in found.items() if each is not None}
    errors = {f"cv_{name}_se": each.standard_error for name, each in found.items() if each is not None}
    return {**figures, **errors}


def _store_table(path: Path, found: pd.DataFrame) -> None:
    part = path.with_suffix(".part")
    found.to_parquet(part, index=False)
    part.replace(path)


def _store_scores(path: Path, scores: dict[str, np.ndarray]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    known = dict(np.load(path)) if path.is_file() else {}
    part = path.with_suffix(".part.npz")
    np.savez_compressed(part, **{**known, **scores})
    part.replace(path)


def forget_methods(output: Path, names: Sequence[str]) -> None:
    """Drop the results of these methods, so that the next run computes them again."""
    for path in sorted((output / "cells").glob("*.parquet")) if names else ():
        known = pd.read_parquet(path)
        _store_table(path, known[~known["method"].isin(names)])


def read_results(output: Path) -> pd.DataFrame:
    """All results of a folder, or of one stored parquet file: one row per cell and method."""
    if output.is_file():
        return pd.read_parquet(output)
    found = sorted((output / "cells").glob("*.parquet"))
    if not found:
        raise SpuError(f"There are no results in {str(output)!r}; run `spu bench run` first.")
    return pd.concat([pd.read_parquet(path) for path in found], ignore_index=True)
