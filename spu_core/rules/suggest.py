"""Where confirmed cases concentrate: columns ranked by how well they separate them, and rules that the data suggest.

Everything here reads the labels. A rule made from it carries the note `FROM_LABELS`, because figures on confirmed cases
are no longer independent of such a rule.

Rows are split at random into two halves; rows of a group stay together. To rank a column, the shares of confirmed cases
in one half rank the rows of the other half, both ways, so a column of noise has an AUC near ½. A suggested rule is
searched in one half and tested in the other, with Holm's correction for the number of rules that are tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from spu_core.rules.columns import Kind, column_of, kind_of
from spu_core.rules.draft import LEVELS, RANGE, DraftCondition, RuleDraft, level_value, moment_of
from spu_core.rules.rule_set import RuleSet
from spu_core.tables import Table
from spu_core.tables.profiles import as_numbers, nearest_quantiles
from spu_core.theory.check_ratio import wilson_interval

FROM_LABELS = "Suggested from confirmed cases."
# Fewer confirmed cases in a half cannot confirm anything.
FEWEST_CONFIRMED = 5
MOST_BINS = 12
MOST_LEVELS = 40
MOST_CHOSEN = 5
MOST_ROWS = 200_000
MOST_TESTED = 20
PAIRED = 6
MOST_SUGGESTED = 5
LARGEST_SHARE = 0.5
# Two rules that mostly fire on the same rows are one suggestion.
SAME_ROWS = 0.8
# Weight of the overall share in the share of a bin, in rows.
PRIOR_ROWS = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class ColumnSeparation:
    """How well one column separates confirmed cases from the rest: AUC with a 95% interval, and its bins.

    `names`, `rows` and `confirmed` describe the bins (ranges of equally many rows, or the largest categories). `draft`
    is a rule on the bins where confirmed cases concentrate; None where no bin stands out.
    """

    column: str
    auc: float
    low: float
    high: float
    names: tuple[str, ...]
    rows: np.ndarray
    confirmed: np.ndarray
    draft: RuleDraft | None


@dataclass(frozen=True, slots=True)
class SuggestedRule:
    """A draft that was found in one half of the rows and confirmed in the other half.

    `rows`, `confirmed` and `lift` with its 95% interval are those of the other half; `p_value` is corrected for all
    `tested` rules.
    """

    draft: RuleDraft
    rows: int
    confirmed: int
    lift: float
    low: float
    high: float
    p_value: float
    tested: int

    @property
    def text(self) -> str:
        """The evidence in one sentence."""
        return (
            f"{self.lift:.1f} times as many confirmed cases as in all rows ({self.low:.1f} to {self.high:.1f}): "
            f"{self.confirmed:,} in {self.rows:,} rows that were not used to find the rule"
        )


def rank_columns(table: Table, columns: Sequence[str], *, seed: int = 0) -> tuple[ColumnSeparation, ...]:
    """The columns by how well they separate confirmed cases from the rest, best first.

    Parameters
    ----------
    table : Table
        Rows in memory with a label. Above 200,000 rows, a random sample is used.
    columns : sequence of str
        Columns to rank.
    seed : int, default 0
        Seed of the split and of the sample.

    Returns
    -------
    tuple of ColumnSeparation
        Empty where fewer than ten rows are confirmed.
    """
    split = _Split.of(table, seed)
    if split is None:
        return ()
    found = [_separation(binned, split) for name in columns if (binned := _binned(split.table, name)) is not None]
    return tuple(sorted(found, key=lambda each: -each.auc))


def suggest_rules(
    table: Table, columns: Sequence[str], *, level: float = 0.05, seed: int = 0
) -> tuple[SuggestedRule, ...]:
    """A few rules on one or two columns, found in one half of the rows and confirmed in the other half.

    Parameters
    ----------
    table : Table
        Rows in memory with a label. Above 200,000 rows, a random sample is used.
    columns : sequence of str
        Columns to search.
    level : float, default 0.05
        Largest probability that any of the suggestions is due to chance.
    seed : int, default 0
        Seed of the split and of the sample.

    Returns
    -------
    tuple of SuggestedRule
        The strongest first; empty where nothing is confirmed.
    """
    split = _Split.of(table, seed)
    if split is None:
        return ()
    binned = [each for name in columns if (each := _binned(split.table, name)) is not None]
    candidates = _candidates(binned, split)
    return _confirmed(candidates, split, level)


def is_from_labels(rules: RuleSet) -> bool:
    """Whether an active rule was made from the labels, so that confirmed cases cannot judge it."""
    return any(FROM_LABELS in rule.note for rule in rules.active)


@dataclass(frozen=True, eq=False)
class _Split:
    """The rows (or a sample of them), which of them are confirmed, the two halves, and one row of each group."""

    table: Table
    confirmed: np.ndarray
    first: np.ndarray
    is_counted: np.ndarray

    @classmethod
    def of(cls, table: Table, seed: int) -> _Split | None:
        table = table.sample(MOST_ROWS, seed) if len(table) > MOST_ROWS else table
        confirmed, rng = table.is_labeled, np.random.default_rng(seed)
        groups = table.groups
        if groups is None:
            first, is_counted = np.zeros(len(table), dtype=bool), np.ones(len(table), dtype=bool)
            for rows in (np.flatnonzero(confirmed), np.flatnonzero(~confirmed)):
                first[rng.permutation(rows)[: rows.size // 2]] = True
        else:
            code, names = pd.factorize(groups)
            first = (rng.random(len(names)) < 0.5)[code]
            is_counted = ~pd.Series(code).duplicated().to_numpy()
        fewest = min(int(confirmed[first].sum()), int(confirmed[~first].sum()))
        return None if fewest < FEWEST_CONFIRMED else cls(table, confirmed, first, is_counted)


@dataclass(frozen=True, eq=False)
class _Binned:
    """A column in bins: the bin of each row (−1 where missing), and what each bin means."""

    column: str
    kind: Kind
    code: np.ndarray
    names: tuple[str, ...]
    edges: tuple[float, ...] = ()
    levels: tuple[Any, ...] = ()
    is_whole: bool = False

    def counts(self, rows: np.ndarray) -> np.ndarray:
        code = self.code[rows]
        return np.bincount(code[code >= 0], minlength=len(self.names)).astype(np.float64)

    def condition(self, chosen: Sequence[int]) -> DraftCondition:
        """The condition that holds in these bins; bins of numbers are neighbours."""
        if self.levels:
            return DraftCondition(self.column, LEVELS, tuple(self.levels[place] for place in sorted(chosen)))
        first, last = min(chosen), max(chosen)
        low = None if first == 0 else self._limit(self.edges[first])
        high = None if last == len(self.names) - 1 else self._limit(self.edges[last + 1] - self.is_whole)
        return DraftCondition(self.column, RANGE, (low, high))

    def choices(self, rows: np.ndarray, confirmed: np.ndarray) -> list[tuple[int, ...]]:
        """Sets of bins to try: neighbours for numbers, the categories with the largest shares otherwise."""
        bins = range(len(self.names))
        if not self.levels:
            pairs = combinations(range(len(bins) + 1), 2)
            return [tuple(range(start, end)) for start, end in pairs if end - start < len(bins)]
        share = _smoothed(rows, confirmed)
        order = [int(place) for place in np.argsort(-share, kind="stable") if place < len(self.levels)]
        return [tuple(order[:size]) for size in range(1, min(MOST_CHOSEN, len(order) - 1) + 1)]

    def _limit(self, edge: float) -> Any:
        if self.kind is Kind.DATE:
            return moment_of(edge)
        return int(edge) if self.is_whole else float(edge)


def _binned(table: Table, name: str) -> _Binned | None:
    """The bins of a column; None for a column with a single value, or with a different text in nearly every row."""
    values = column_of(table.frame, name)
    numbers = as_numbers(values)
    kind = kind_of(values)
    return _levels(name, kind, values) if numbers is None else _ranges(name, kind, numbers)


def _ranges(name: str, kind: Kind, numbers: np.ndarray) -> _Binned | None:
    finite = np.isfinite(numbers)
    ordered = np.sort(numbers[finite])
    if not ordered.size or ordered[0] == ordered[-1]:
        return None
    is_whole = kind is Kind.NUMBER and bool((ordered == np.floor(ordered)).all())
    edges = nearest_quantiles(ordered, np.linspace(0.0, 1.0, MOST_BINS + 1))[1:-1]
    if kind is Kind.NUMBER and not is_whole:
        digits = max(0, 2 - int(np.floor(np.log10(ordered[-1] - ordered[0]))))
        edges = np.round(edges, digits)
    if kind is Kind.DATE:
        edges = np.floor(edges / 86_400e9) * 86_400e9
    inner = np.unique(edges[(edges > ordered[0]) & (edges <= ordered[-1])])
    if not inner.size:
        inner = np.array([ordered[ordered > ordered[0]][0]])
    code = np.where(finite, np.searchsorted(inner, np.where(finite, numbers, 0.0), side="right"), -1)
    ends = (float(ordered[0]), *inner.tolist(), float(ordered[-1]))
    made = _Binned(name, kind, code, ("",) * (inner.size + 1), ends, (), is_whole)
    return replace(made, names=tuple(_range_name(made, place) for place in range(inner.size + 1)))


def _range_name(binned: _Binned, place: int) -> str:
    low, high = binned._limit(binned.edges[place]), binned._limit(binned.edges[place + 1])
    return f"{low:g} to {high:g}" if isinstance(low, int | float) else f"{low} to {high}"


def _levels(name: str, kind: Kind, values: pd.Series) -> _Binned | None:
    code, found = pd.factorize(values)
    counts = np.bincount(code[code >= 0], minlength=len(found))
    order = np.argsort(-counts, kind="stable")[:MOST_LEVELS]
    if len(found) < 2 or counts[order].sum() < 0.5 * counts.sum():
        return None
    place = np.full(len(found) + 1, len(order))  # rarer categories share one bin, which no rule names
    place[order], place[-1] = np.arange(len(order)), -1
    levels = tuple(level_value(found[at], kind) for at in order)
    names = (*map(str, levels), *(["other"] if len(found) > len(order) else []))
    return _Binned(name, kind, place[code], names, levels=levels)


def _separation(binned: _Binned, split: _Split) -> ColumnSeparation:
    halves = [
        (binned.counts(side), binned.counts(side & split.confirmed), binned.counts(side & ~split.confirmed))
        for side in (split.first, ~split.first)
    ]
    figures = [
        _auc(_smoothed(other[0], other[1]), mine[1], mine[2]) for mine, other in (halves, (halves[1], halves[0]))
    ]
    auc = float(np.mean([figure[0] for figure in figures]))
    # Both halves share the errors of the shares. For noise, that doubles the variance of the mean.
    error = float(np.sqrt(np.mean([figure[1] for figure in figures])))
    inside = min(max(auc, 1e-3), 1.0 - 1e-3)
    reach = 1.96 * error / (inside * (1.0 - inside))
    centre = np.log(inside / (1.0 - inside))
    low, high = (float(1.0 / (1.0 + np.exp(-end))) for end in (centre - reach, centre + reach))
    everything = np.ones(len(split.confirmed), dtype=bool)
    rows, confirmed = binned.counts(everything), binned.counts(split.confirmed)
    chosen = _best(binned, rows, confirmed)
    draft = None if chosen is None else _draft([binned.condition(chosen)])
    return ColumnSeparation(binned.column, auc, low, high, binned.names, rows, confirmed, draft)


def _smoothed(rows: np.ndarray, confirmed: np.ndarray) -> np.ndarray:
    overall = confirmed.sum() / max(rows.sum(), 1.0)
    return (confirmed + PRIOR_ROWS * overall) / (rows + PRIOR_ROWS)


def _auc(score: np.ndarray, confirmed: np.ndarray, rest: np.ndarray) -> tuple[float, float]:
    """AUC of a score per bin and its variance (DeLong), from the numbers of confirmed and other rows in each bin."""
    _, tied = np.unique(score, return_inverse=True)
    positive, negative = np.bincount(tied, confirmed), np.bincount(tied, rest)
    n_positive, n_negative = positive.sum(), negative.sum()
    if n_positive < 2 or n_negative < 2:
        return 0.5, 0.25
    below = (np.cumsum(negative) - 0.5 * negative) / n_negative
    above = 1.0 - (np.cumsum(positive) - 0.5 * positive) / n_positive
    auc = float(positive @ below / n_positive)
    spread = positive @ (below - auc) ** 2 / (n_positive - 1), negative @ (above - auc) ** 2 / (n_negative - 1)
    return auc, float(spread[0] / n_positive + spread[1] / n_negative)


def _best(binned: _Binned, rows: np.ndarray, confirmed: np.ndarray) -> tuple[int, ...] | None:
    """The bins whose rows are confirmed most clearly more often than all rows; None where none stands out."""
    total, hits = rows.sum(), confirmed.sum()
    scored = [
        (_excess(rows[list(chosen)].sum(), confirmed[list(chosen)].sum(), total, hits), chosen)
        for chosen in binned.choices(rows, confirmed)
    ]
    excess, chosen = max(scored, default=(0.0, ()))
    return chosen if excess > 1.0 else None


def _excess(rows: float, confirmed: float, total: float, hits: float) -> float:
    """How many standard errors the confirmed cases among these rows lie above what chance would give."""
    if not 0 < rows <= LARGEST_SHARE * total or confirmed < FEWEST_CONFIRMED:
        return 0.0
    share = hits / total
    spread = rows * share * (1.0 - share) * (1.0 - rows / total)
    return float((confirmed - rows * share) / np.sqrt(spread))


def _draft(conditions: list[DraftCondition]) -> RuleDraft:
    return RuleDraft(conditions=tuple(conditions), note=FROM_LABELS)


@dataclass(frozen=True, eq=False)
class _Candidate:
    draft: RuleDraft
    fires: np.ndarray
    excess: float


def _candidates(binned: list[_Binned], split: _Split) -> list[_Candidate]:
    """The best rule on each column in the first half, and on pairs of the best columns where both are needed."""
    total, hits = int(split.first.sum()), int((split.first & split.confirmed).sum())

    def candidate(conditions: list[DraftCondition], fires: np.ndarray) -> _Candidate:
        found = fires & split.first
        excess = _excess(found.sum(), (found & split.confirmed).sum(), total, hits)
        return _Candidate(_draft(conditions), fires, excess)

    alone = []
    for column in binned:
        chosen = _best(column, column.counts(split.first), column.counts(split.first & split.confirmed))
        if chosen is not None:
            alone.append(candidate([column.condition(chosen)], np.isin(column.code, chosen)))
    alone.sort(key=lambda each: -each.excess)
    together = [
        candidate([*one.draft.conditions, *other.draft.conditions], one.fires & other.fires)
        for one, other in combinations(alone[:PAIRED], 2)
    ]
    better = [pair for pair in together if pair.excess > alone[0].excess] if alone else []
    return sorted([*alone, *better], key=lambda each: -each.excess)[:MOST_TESTED]


def _confirmed(candidates: list[_Candidate], split: _Split, level: float) -> tuple[SuggestedRule, ...]:
    """Test each candidate in the second half, one row per group, and keep those that Holm's procedure accepts."""
    tested = ~split.first & split.is_counted
    total, hits = int(tested.sum()), int((tested & split.confirmed).sum())
    found = []
    for each in candidates:
        rows, confirmed = int((tested & each.fires).sum()), int((tested & each.fires & split.confirmed).sum())
        chance = float(stats.hypergeom.sf(confirmed - 1, total, hits, rows)) if rows else 1.0
        found.append((chance, rows, confirmed, each))
    found.sort(key=lambda each: each[0])
    kept: list[SuggestedRule] = []
    fired: list[np.ndarray] = []
    corrected = 0.0
    for place, (chance, rows, confirmed, each) in enumerate(found):
        corrected = max(corrected, min(1.0, chance * (len(found) - place)))
        if corrected > level or len(kept) == MOST_SUGGESTED:
            break
        if any((each.fires & other).sum() > SAME_ROWS * (each.fires | other).sum() for other in fired):
            continue
        low, high = (float(limit) * total / hits for limit in wilson_interval(confirmed, rows))
        lift = confirmed / rows * total / hits
        kept.append(SuggestedRule(each.draft, rows, confirmed, lift, low, high, corrected, len(found)))
        fired.append(each.fires)
    return tuple(kept)
