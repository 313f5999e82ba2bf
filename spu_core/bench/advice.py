"""Which method for my data? The stored benchmark, cut to the cells that are like a table at hand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

from spu_core.bench.report import DEFAULT, NOT_RIVALS, TWIN, cell_means, over_tables
from spu_core.bench.runner import STORED
from spu_core.checks import check_choice
from spu_core.errors import SpuError
from spu_core.models import METHODS, Need

# How confirmed cases were found (as `recommend` asks), and the ways of labelling in the benchmark that are like it.
LABELLINGS = {
    "chance": ("even", "scarce"),
    "rules": ("biased",),
    "other": ("biased",),
    "unknown": ("even", "scarce", "biased"),
}
RULES = {"strong": ("strong",), "weak": ("weak",), "unknown": ("strong", "weak", "wrong"), "none": ("weak",)}
# Cells count as alike if they have at least a third and at most three times as many labels.
NEAR = 3.0
FEWEST_TABLES = 4


@dataclass(frozen=True)
class MethodAdvice:
    """A method to begin with, and what the benchmark says about it. Made by `advise_method`.

    Attributes
    ----------
    method : str
        Key of the method.
    advised, rival : str
        The advised method and the next best, as the benchmark calls them ("fused without rules" is `fused`).
    sentence : str
        The advice with its reason.
    tables, cells : int
        How many tables and cells of the benchmark are like the data.
    ranking : DataFrame
        The methods by their mean regret in these cells: `method`, `regret` (true AUC lost against the best method of
        each cell), `difference` (true AUC minus that of the advised method) and its standard error over tables.
    """

    method: str
    advised: str
    rival: str
    sentence: str
    tables: int
    cells: int
    ranking: pd.DataFrame


def advise_method(
    confirmed: int, *, origin: str = "unknown", rules: str = "unknown", results: pd.DataFrame | None = None
) -> MethodAdvice:
    """Advise a method to begin with, from the cells of the benchmark that are like the data.

    Parameters
    ----------
    confirmed : int
        How many confirmed cases there are.
    origin : {"chance", "rules", "other", "unknown"}, default "unknown"
        How they were found.
    rules : {"strong", "weak", "unknown", "none"}, default "unknown"
        How good the rules are; "none" where there are no rules.
    results : DataFrame, optional
        Results of a benchmark (`read_results`); by default those that come with the package.

    Returns
    -------
    MethodAdvice

    Raises
    ------
    SpuError
        If there is no confirmed case, or if a word is not one of those above.
    """
    check_choice(origin, tuple(LABELLINGS), "origin", SpuError)
    check_choice(rules, tuple(RULES), "rules", SpuError)
    if confirmed < 1:
        raise SpuError(
            "There is no confirmed case, so no method can learn from labels. Mark some rows as confirmed first."
        )
    means, regret = _alike(_stored() if results is None else results, confirmed, origin, rules)
    first = TWIN if rules == "none" else DEFAULT
    found = []
    for name in means:
        mean, error = over_tables(means[name] - means[first])
        found.append({"method": name, "regret": over_tables(regret[name])[0], "difference": mean, "error": error})
    ranking = pd.DataFrame(found).sort_values("regret", ignore_index=True)
    # The default is left only where another method is clearly better.
    better = ranking[ranking["difference"] > 2.0 * ranking["error"]]
    chosen = str(better["method"].iloc[0]) if len(better) else first
    tables = means.index.get_level_values("table").nunique()
    lost = float(ranking.set_index("method")["regret"][chosen])
    rival = ranking[~ranking["method"].isin((chosen, DEFAULT, TWIN))].iloc[0]
    # Without rules there is only one fused model, and everything else calls it 'fused'.
    named = DEFAULT if rules == "none" and chosen == TWIN else chosen
    sentence = (
        f"Begin with {_title(named)}. In the {len(means)} benchmark settings most like your data ({tables} tables), "
        f"its true AUC was on average {lost:.3f} below that of the best method. The next best method was "
        f"{_title(rival['method'])}: its true AUC was on average {_beside(rival)} "
        f"(± {rival['error']:.3f}, standard error)."
    )
    return MethodAdvice(
        DEFAULT if chosen == TWIN else chosen, chosen, str(rival["method"]), sentence, tables, len(means), ranking
    )


def _beside(rival: pd.Series) -> str:
    """How the true AUC of a method compares with that of the advised one, in words."""
    gap = float(rival["difference"])
    return "the same" if abs(gap) < 0.0005 else f"{abs(gap):.3f} {'higher' if gap > 0.0 else 'lower'}"


def _title(name: str) -> str:
    return f"{METHODS[DEFAULT].title} without rules" if name == TWIN else METHODS[name].title


@cache
def _stored() -> pd.DataFrame:
    return pd.read_parquet(STORED)


def _alike(results: pd.DataFrame, confirmed: int, origin: str, rules: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(AUC, regret) by cell and method, in the cells that are like the data; the number of labels gives way first."""
    part = results[results["labelling"].isin(LABELLINGS[origin]) & results["rules"].isin(RULES[rules])]
    ratio = part["labels"] / confirmed
    near = part[(ratio >= 1.0 / NEAR) & (ratio <= NEAR)]
    if near["table"].nunique() < FEWEST_TABLES:
        cells = part.drop_duplicates(["table", "labelling", "rules", "seed"]).copy()
        cells["distance"] = np.abs(np.log(cells["labels"] / confirmed))
        nearest = cells.sort_values("distance").drop_duplicates("table").head(FEWEST_TABLES)
        near = part.merge(nearest[["table", "labelling", "rules", "seed"]])
    means = cell_means(near)
    offered = [name for name in means if name in {*METHODS, TWIN} and name not in NOT_RIVALS]
    if rules == "none":
        offered = [name for name in offered if name == TWIN or not _reads_rules(name)]
    means = means[offered].dropna(axis=1)
    return means, means.rsub(means.max(axis=1), axis=0)


def _reads_rules(name: str) -> bool:
    return name == DEFAULT or bool({Need.SOFT_LABELS, Need.RULE_SCORE} & {*METHODS[name].needs})
