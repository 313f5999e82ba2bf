"""From stored results to figures: methods, groups of cells, and how well figures without truth choose.

A cell counts once, as the mean over its seeds. Standard errors are over tables: the cells of a table share its rows, so
their mean is one observation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import studentized_range

from spu_core.bench.adapters import bench_adapters
from spu_core.bench.runner import FIGURES
from spu_core.errors import SpuError

CELL = ["table", "labelling", "rules"]
DEFAULT, TWIN, REFERENCE = "fused", "fused without rules", "labeled_vs_rest"
# An oracle has seen the truth, and the rules alone are no model; both are shown and neither is a rival.
NOT_RIVALS = ("oracle", "rule_score")
YARDSTICKS = {
    "auc_spu": "AUC_SPU",
    "known_positive_auc": "known-positive AUC",
    "refined_auc_spu": "AUC_SPU on refined S",
}
CLEAR = 0.01


def cell_means(results: pd.DataFrame, figure: str = "auc") -> pd.DataFrame:
    """A figure by cell (rows) and method (columns), averaged over seeds."""
    return results.pivot_table(index=CELL, columns="method", values=figure, aggfunc="mean")


def over_tables(values: pd.Series) -> tuple[float, float]:
    """(mean, standard error) of the means of tables.

    >>> index = pd.MultiIndex.from_tuples([("a", "x"), ("a", "y"), ("b", "x")], names=["table", "rules"])
    >>> over_tables(pd.Series([1.0, 3.0, 4.0], index))
    (3.0, 1.0)
    """
    means = values.dropna().groupby(level="table").mean()
    error = float(means.std(ddof=1) / np.sqrt(means.size)) if means.size > 1 else np.nan
    return float(means.mean()), error


def rivals_of(results: pd.DataFrame, name: str) -> list[str]:
    """The methods that this one is compared with in hindsight: those that were run with as many seeds.

    A method with fewer seeds has more noise, and would be the best of a cell too often.
    """
    seeds = results.groupby("method")["seed"].nunique()
    return [str(each) for each in seeds.index[seeds >= seeds[name]] if each not in (*NOT_RIVALS, name)]


def method_table(results: pd.DataFrame) -> pd.DataFrame:
    """One row per method: mean figures, mean rank, regret, clear losses and cost, best regret first."""
    means = {figure: cell_means(results, figure) for figure in FIGURES}
    rivals = means["auc"].drop(columns=[name for name in NOT_RIVALS if name in means["auc"]])
    seeds = results.groupby("method")["seed"].nunique()
    ranks, best = rivals.rank(axis=1, ascending=False), rivals.loc[:, seeds[rivals.columns] == seeds.max()].max(axis=1)
    seconds = cell_means(results, "seconds")
    cost = seconds.div(seconds[REFERENCE], axis=0).median().to_dict() if REFERENCE in seconds else {}
    assumes = {each.name: each.assumes for each in bench_adapters()}
    rows = []
    for name in map(str, means["auc"]):
        regret = (best - means["auc"][name]).clip(lower=0.0)
        is_rival = name in rivals
        rows.append(
            {
                "method": name,
                **{figure: over_tables(means[figure][name])[0] for figure in FIGURES},
                "rank": over_tables(ranks[name])[0] if is_rival else np.nan,
                "regret": over_tables(regret)[0] if is_rival else np.nan,
                "clear_losses": int(clear_losses(results, name).sum()) if is_rival else None,
                "cells": int(means["auc"][name].notna().sum()),
                "seeds": int(seeds[name]),
                "cost": cost.get(name, np.nan),
                "assumes": assumes.get(name, ""),
            }
        )
    return pd.DataFrame(rows).sort_values("regret", na_position="last").reset_index(drop=True)


def clear_losses(results: pd.DataFrame, name: str) -> pd.Series:
    """By cell: whether the best rival is better by more than .01 and by more than two standard errors over seeds.

    The rival is chosen in hindsight among methods with as many seeds. With one seed there is no standard error, and .01
    alone decides.
    """
    rivals = rivals_of(results, name)
    by_seed = results.pivot_table(index=[*CELL, "seed"], columns="method", values="auc")
    best = by_seed[rivals].groupby(level=CELL).mean().idxmax(axis=1)
    found = {}
    for cell, rival in best.items():
        seeds = by_seed.xs(cell, level=tuple(CELL))
        loss = (seeds[rival] - seeds[name]).dropna()
        error = loss.std(ddof=1) / np.sqrt(loss.size) if loss.size > 1 else 0.0
        found[cell] = bool(loss.mean() > max(CLEAR, 2.0 * error))
    return pd.Series(found, dtype=bool).rename_axis(CELL)


def differences(results: pd.DataFrame, figure: str = "auc") -> pd.DataFrame:
    """Fused minus each other method: mean and standard error over tables, and in how many cells fused is better."""
    means = cell_means(results, figure)
    rows = []
    for name in means.columns.drop(DEFAULT):
        gap = (means[DEFAULT] - means[name]).dropna()
        mean, error = over_tables(gap)
        rows.append({"method": name, "difference": mean, "error": error, "better": float((gap > 0).mean())})
    return pd.DataFrame(rows).sort_values("difference").reset_index(drop=True)


def gain_of_rules(results: pd.DataFrame, figure: str = "auc") -> pd.DataFrame:
    """Fused minus fused without rules, by way of labelling and rule set."""
    means = cell_means(results, figure)
    gap = means[DEFAULT] - means[TWIN]
    rows = []
    for labelling, same in gap.groupby(level="labelling"):
        for rules, part in same.groupby(level="rules"):
            mean, error = over_tables(part)
            rows.append({"labelling": labelling, "rules": rules, "difference": mean, "error": error})
    return pd.DataFrame(rows)


def yardstick_table(results: pd.DataFrame) -> pd.DataFrame:
    """How well each figure without truth chooses among cross-fitted candidates: rank correlation and regret by group.

    Refined S is built by fused, which is therefore never chosen by it. "always fused" needs no figure at all.
    """
    rows = []
    for name, found in filter(lambda choice: choice[1], _choices(results)):
        frame = pd.DataFrame(found).set_index(CELL)
        row = {
            "chosen_by": name,
            "spearman": over_tables(frame["spearman"])[0],
            "regret": over_tables(frame["regret"])[0],
        }
        for group in ("rules", "labelling"):
            for value, part in frame.groupby(level=group):
                row[str(value)] = over_tables(part["regret"])[0]
        rows.append(row)
    return pd.DataFrame(rows)


def _choices(results: pd.DataFrame) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    cells = [(cell, part.set_index("method")) for cell, part in _judged(results).groupby([*CELL, "seed"])]
    for yardstick, title in YARDSTICKS.items():
        found = []
        for cell, part in cells:
            seen = part[f"cv_{yardstick}"].dropna()
            if yardstick == "refined_auc_spu":
                seen = seen.drop(index=[DEFAULT, TWIN], errors="ignore")
            if seen.empty:
                continue
            truth = part["cv_true_auc"]
            rank = seen.corr(truth[seen.index], method="spearman") if len(seen) > 2 else np.nan
            found.append(_choice(cell, rank, truth.max() - truth[str(seen.idxmax())]))
        yield title, found
    for name in (DEFAULT, TWIN):
        listed = [(cell, part["cv_true_auc"]) for cell, part in cells if name in part.index]
        yield f"always {name}", [_choice(cell, np.nan, truth.max() - truth[name]) for cell, truth in listed]


def _choice(cell: Any, rank: float, regret: float) -> dict[str, Any]:
    return {**dict(zip(CELL, cell, strict=False)), "spearman": rank, "regret": float(regret)}


def _judged(results: pd.DataFrame) -> pd.DataFrame:
    """The rows of candidates that were cross-fitted, without the rules alone."""
    found = results[results["cv_true_auc"].notna() & ~results["method"].isin(NOT_RIVALS)]
    if found.empty:
        raise SpuError("These results hold no cross-fitted candidates.")
    return found


def mean_ranks(results: pd.DataFrame) -> tuple[pd.Series, float]:
    """(mean rank of each method over tables, critical difference of Nemenyi's test at 5 %).

    Methods are ranked by their mean AUC within each table; methods that lack a table are left out.
    """
    means = cell_means(results).drop(columns=list(NOT_RIVALS), errors="ignore")
    by_table = means.groupby(level="table").mean().dropna(axis=1)
    ranks = by_table.rank(axis=1, ascending=False).mean().sort_values()
    methods, tables = by_table.shape[1], by_table.shape[0]
    quantile = studentized_range.ppf(0.95, methods, np.inf) / np.sqrt(2.0)
    return ranks, float(quantile * np.sqrt(methods * (methods + 1) / (6.0 * tables)))
