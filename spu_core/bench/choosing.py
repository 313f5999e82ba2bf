"""Choosing a model without truth, studied on the cells of the benchmark: the record that `recommend` starts from, and
how good its recommendations are on tables that the record has not seen.

`spu bench choose SCORES --record FILE` reads the out-of-fold scores that the benchmark stored
(`<table>.<labelling>.<rules>.<seed>.npz`), writes the record of all tables, and prints the study that leaves out one
table at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from spu_core.training import Candidate, Comparison, EvaluationData, Run, TrainConfig, compare_runs, recommend
from spu_core.training.evaluation import folded_auc, joint_covariance
from spu_core.training.record import BenchmarkRecord, rank_distance

DEFAULT = "fused"
METHODS = ("fused without rules", "labeled_vs_rest", "elkan_noto", "lightgbm", "rule_score")
# Labellings by scenario, with the share of the scenario among analysts who do not know how their cases were found.
SCENARIOS = {"chance": (2 / 3, ("even", "scarce")), "selected": (1 / 3, ("biased",))}
# Nearer rankings say nothing about a method; correlations are shrunk, since there are few tables.
NEAREST, SHRINK = 0.02, 0.2
# The standard error of a difference assumes that models find only noise, which doubles its variance.
NOISE = 0.5


@dataclass(frozen=True, eq=False)
class ChoosingCell:
    """One table with one labelling and one rule set: the comparison without truth, and the truth of each run.

    `distance`, `true`, `error` and `noise` concern the methods of the record minus the default: rank distance,
    difference in true AUC, error of the difference in known-positive AUC, and the covariance of that error by chance.
    """

    table: str
    labelling: str
    rules: str
    labels: int
    comparison: Comparison
    true_auc: dict[str, float]
    distance: np.ndarray
    true: np.ndarray
    error: np.ndarray | None
    noise: np.ndarray | None


def read_cell(path: Path) -> ChoosingCell:
    """A cell from the scores that the benchmark stored."""
    table, labelling, rules, _ = path.stem.split(".")
    with np.load(path) as stored:
        labels, fold = stored["is_labeled"].astype(bool), stored["fold"]
        judged = np.ones(labels.size, dtype=bool)
        data = EvaluationData(stored["soft_label"].astype(float), labels, stored["rule_score"], fold, judged)
        runs = [_run(name, stored[f"oof/{name}"].astype(float), data) for name in (DEFAULT, *METHODS)]
        truth = stored["truth"].astype(float)
    comparison = compare_runs(runs)
    aucs = [folded_auc(truth, run.need_score(), data) for run in runs]
    value = np.array([np.nan if auc is None else auc.value for auc in aucs])
    known = comparison.figures["known_positive_auc"]
    error, noise = None, None
    if known.value and known.too_few is None:
        found = [known.aucs[run.name] for run in runs]
        measured, covariance = np.array([auc.value for auc in found]), joint_covariance(found)[0]
        contrast = np.hstack([-np.ones((len(METHODS), 1)), np.eye(len(METHODS))])
        error, noise = contrast @ (measured - value), contrast @ covariance @ contrast.T
    return ChoosingCell(
        table=table,
        labelling=labelling,
        rules=rules,
        labels=int(labels.sum()),
        comparison=comparison,
        true_auc=dict(zip((run.name for run in runs), value, strict=True)),
        distance=rank_distance(runs),
        true=value[1:] - value[0],
        error=error,
        noise=noise,
    )


def make_record(cells: Sequence[ChoosingCell]) -> dict[str, Any]:
    """The record as plain values, for `BenchmarkRecord.from_dict`. Every table counts the same.

    Only cells with enough confirmed cases to compare by them count: the record is used only in these.
    """
    used = [cell for cell in cells if cell.error is not None]
    mean, covariance = _moments(used, [cell.true for cell in used])
    scenarios = {}
    for name, (share, labellings) in SCENARIOS.items():
        group = [cell for cell in used if cell.labelling in labellings]
        bias, spread = _moments(group, [cell.error for cell in group if cell.error is not None])
        noise = np.nanmean([_per_distance(cell, cell.noise) for cell in group if cell.noise is not None], axis=0)
        scenarios[name] = {"share": share, "mean": bias.tolist(), "covariance": _positive(spread - NOISE * noise)}
    tables = sorted({cell.table for cell in cells})
    return {
        "schema": 1,
        "made_from": f"{len(used)} cells of {len(tables)} tables: {', '.join(tables)}",
        "default": DEFAULT,
        "methods": list(METHODS),
        "mean": mean.tolist(),
        "covariance": _positive(covariance),
        "scenarios": scenarios,
    }


def study(cells: Sequence[ChoosingCell], origin: str = "unknown") -> pd.DataFrame:
    """The recommendation for each cell, with a record of all other tables, beside the truth."""
    lines = []
    for table in sorted({cell.table for cell in cells}):
        record = BenchmarkRecord.from_dict(make_record([cell for cell in cells if cell.table != table]))
        lines += [_line(cell, record, origin) for cell in cells if cell.table == table]
    found = pd.DataFrame(lines)
    return found[found["labelling"].isin(SCENARIOS["chance"][1])] if origin == "chance" else found


def summary(found: pd.DataFrame) -> dict[str, Any]:
    """The figures that a rule for choosing is judged by."""
    clear = found[found["confidence"] == "clear"]
    leads = found[(found["lead"] > 0.03) & (found["labels"] >= 40)]
    yes, no = found["help"] == "yes", found["help"] == "no"
    wrong = (yes & (found["gain_of_rules"] <= 0.005)) | (no & (found["gain_of_rules"] >= -0.005))
    return {
        "cells": len(found),
        "gain over the default, mean over tables": float(found.groupby("table")["gain"].mean().mean()),
        "share with regret above .05": float((found["regret"] > 0.05).mean()),
        "left the default": int((found["model"] != DEFAULT).sum()),
        "clear": len(clear),
        "clear and right": int((clear["regret"] == 0.0).sum()),
        "lead above .03 with 40 labels": len(leads),
        "of these clear": int((leads["confidence"] == "clear").sum()),
        "rules help: yes, no, wrong": (int(yes.sum()), int(no.sum()), int(wrong.sum())),
        "rules truly help, hurt": tuple(int(n) for n in _signs(found["gain_of_rules"])),
    }


def _run(name: str, score: np.ndarray, data: EvaluationData) -> Run:
    candidate = Candidate(name.removesuffix(" without rules"), name=name, without_rules=name.endswith("without rules"))
    return Run(name, candidate, TrainConfig(), data, score=score).judged_by(data)


def _line(cell: ChoosingCell, record: BenchmarkRecord, origin: str) -> dict[str, Any]:
    found = recommend(cell.comparison, origin=origin, record=record)
    value = {name: auc for name, auc in cell.true_auc.items() if name != "rule_score"}
    best, second = sorted(value.values(), reverse=True)[:2]
    own = value[found.model] if found.model is not None else value[DEFAULT]
    return {
        "table": cell.table,
        "labelling": cell.labelling,
        "rules": cell.rules,
        "labels": cell.labels,
        "model": found.model or DEFAULT,
        "confidence": found.confidence,
        "help": found.help_of_rules,
        "gain": own - value[DEFAULT],
        "regret": best - own,
        "lead": best - second,
        "gain_of_rules": value[DEFAULT] - value["fused without rules"],
    }


def _moments(cells: Sequence[ChoosingCell], values: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance over cells per unit of rank distance, with equal weights of tables."""
    counts = pd.Series([cell.table for cell in cells]).value_counts()
    weight = np.sqrt([[1.0 / counts[cell.table]] for cell in cells])
    scaled = np.array([_per_distance(cell, value) for cell, value in zip(cells, values, strict=True)])
    seen = ~np.isnan(scaled)
    mean = np.nansum(scaled * weight**2, axis=0) / (seen * weight**2).sum(axis=0)
    apart = np.where(seen, scaled - mean, 0.0) * weight
    number = (seen * weight).T @ (seen * weight)
    return mean, apart.T @ apart / number


def _per_distance(cell: ChoosingCell, value: np.ndarray) -> np.ndarray:
    """Per unit of rank distance; unknown where rankings are nearly the same."""
    distance = np.where(cell.distance > NEAREST, cell.distance, np.nan)
    return value / (distance if value.ndim == 1 else np.outer(distance, distance))


def _positive(covariance: np.ndarray) -> list[list[float]]:
    """A covariance with shrunk correlations, made positive definite."""
    shrunk = (1.0 - SHRINK) * covariance + SHRINK * np.diag(np.diag(covariance).clip(1e-4))
    values, vectors = np.linalg.eigh((shrunk + shrunk.T) / 2.0)
    return ((vectors * values.clip(1e-4)) @ vectors.T).round(6).tolist()


def _signs(difference: pd.Series) -> tuple[int, int]:
    return int((difference > 0.005).sum()), int((difference < -0.005).sum())
