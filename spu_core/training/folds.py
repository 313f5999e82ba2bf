"""Folds: which model scores which rows.

Rows of a table are dealt to folds evenly: seeded, stratified by (is_labeled, bin of S), groups kept together. That
needs all rows at once. The fold of a row of a folder is a seeded hash of its id, so that the same row lands in the same
fold however the rows are partitioned; the sizes of such folds differ by about √N.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from spu_core.checks import check_groups
from spu_core.errors import TrainingError
from spu_core.models.fit_inputs import grouped_folds
from spu_core.tables.reading.values import moment_bits
from spu_core.training.config import TrainConfig

HELD_OUT = -1
S_BINS = 5
# Hold-out and folds need different random numbers, or one of them would determine the other.
_HOLD_OUT_STREAM = 1_000_003


@dataclass(frozen=True, eq=False)
class Fold:
    """The rows that a model learns from (`train`) and those it scores (`score`), as flags; no group is in both."""

    number: int
    train: np.ndarray
    score: np.ndarray


@dataclass(frozen=True, eq=False)
class FoldAssignment:
    """The fold of each row; −1 marks rows held out of all folds, at random or because they are the latest.

    >>> split = FoldAssignment(np.array([0, 1, 0, 1, -1]))
    >>> [(fold.number, fold.train.sum(), fold.score.sum()) for fold in split.folds()]
    [(0, np.int64(2), np.int64(2)), (1, np.int64(2), np.int64(2)), (-1, np.int64(4), np.int64(1))]
    """

    fold: np.ndarray
    out_of_time: bool = False
    groups: np.ndarray | None = None

    def __post_init__(self) -> None:
        fold = np.array(self.fold, dtype=np.int64)
        numbers = np.unique(fold[fold >= 0])
        if numbers.size < 2 or fold.min() < HELD_OUT:
            raise TrainingError("A split needs at least two folds, numbered from 0; −1 marks held-out rows.")
        fold.setflags(write=False)
        object.__setattr__(self, "fold", fold)

    @property
    def judged(self) -> np.ndarray:
        """The rows that the leaderboard counts: the latest ones out of time, else all that are in a fold."""
        return self.fold == HELD_OUT if self.out_of_time else self.fold >= 0

    @property
    def held_out(self) -> np.ndarray:
        return self.fold == HELD_OUT

    def folds(self) -> Iterator[Fold]:
        """All folds, and the held-out rows as the last one, so that each row is scored once."""
        inside = self.fold >= 0
        for number in np.unique(self.fold[inside]).tolist():
            yield Fold(number, inside & (self.fold != number), self.fold == number)
        if not inside.all():
            yield Fold(HELD_OUT, self._before(inside), ~inside)

    def _before(self, inside: np.ndarray) -> np.ndarray:
        """Rows to learn from for the held-out ones: none of a group that is among them."""
        if self.groups is None:
            return inside
        train = inside & ~np.isin(self.groups, self.groups[~inside])
        if not train.any():
            raise TrainingError(
                "Every group has rows in the held-out part, so no row is left to learn from; "
                "hold out less, or use another group column."
            )
        return train


def strata_of(soft_label: np.ndarray, is_labeled: np.ndarray) -> np.ndarray:
    """A stratum for each row: labelled; else without belief; else by one of five equally filled bins of S.

    >>> strata_of(np.array([1.0, 0.0, 0.2, 0.9]), np.array([True, False, False, False])).tolist()
    [0, 1, 2, 6]
    """
    believed = soft_label[~is_labeled & (soft_label > 0)]
    inner = np.linspace(0, 1, S_BINS + 1)[1:-1]
    edges = np.quantile(believed, inner) if believed.size else np.zeros(S_BINS - 1)
    stratum = 2 + np.searchsorted(edges, soft_label, side="left")
    stratum[soft_label == 0] = 1
    stratum[is_labeled] = 0
    return stratum


def assign_folds(strata: np.ndarray, groups: np.ndarray | None, folds: int, seed: int) -> np.ndarray:
    """The fold of each row: every stratum is spread evenly, rows of one group stay together."""
    rng = np.random.default_rng(seed)
    if groups is not None:
        return _grouped(strata, groups, folds, rng)
    if strata.size < folds:
        raise TrainingError(f"{folds} folds need at least {folds} rows, but there are {strata.size}.")
    shuffled = rng.permutation(strata.size)
    by_stratum = shuffled[np.argsort(strata[shuffled], kind="stable")]
    fold = np.empty(strata.size, dtype=np.int64)
    # Dealing continues from stratum to stratum, so that the sizes of folds differ by one row at most.
    fold[by_stratum] = np.arange(strata.size) % folds
    return fold


def latest_rows(times: np.ndarray, share: float) -> np.ndarray:
    """Flags for (about) the latest `share` of rows; rows of the same moment are on the same side."""
    values = pd.Series(times)
    if values.isna().any():
        row = int(values.isna().to_numpy().argmax())
        raise TrainingError(f"The time column is missing in row {row}; fill or remove such rows to split by time.")
    rank = values.rank(method="min").to_numpy()
    late = rank > (1.0 - share) * len(values)
    if not late.any() or late.all():
        raise TrainingError(
            f"The time column cannot set the latest {share:.0%} of rows apart: too many rows share one moment. "
            "Use a finer time column, or random folds."
        )
    return late


def _grouped(strata: np.ndarray, groups: np.ndarray, folds: int, rng: np.random.Generator) -> np.ndarray:
    code = check_groups(groups, strata.size)
    count = int(code.max()) + 1
    if count < folds:
        raise TrainingError(
            f"{folds} folds need at least {folds} groups, but the group column has {count}; use fewer folds."
        )
    return grouped_folds(strata, code, folds, rng)


def split_rows(
    strata: np.ndarray, config: TrainConfig, *, groups: np.ndarray | None = None, times: np.ndarray | None = None
) -> FoldAssignment:
    """The split a config asks for."""
    held_out = np.zeros(strata.size, dtype=bool)
    if config.out_of_time:
        assert times is not None
        held_out = latest_rows(times, config.out_of_time)
    elif config.hold_out:
        held_out = _random_part(strata, groups, config)
    fold = np.full(strata.size, HELD_OUT)
    inside = ~held_out
    inner = None if groups is None else groups[inside]
    fold[inside] = assign_folds(strata[inside], inner, config.folds, config.seed)
    return FoldAssignment(fold, bool(config.out_of_time), groups)


def _random_part(strata: np.ndarray, groups: np.ndarray | None, config: TrainConfig) -> np.ndarray:
    """A stratified share of the rows: some of twenty fine folds, of as many groups if there are fewer."""
    fine = 20 if groups is None else min(20, int(np.unique(groups).size))
    # Another stream than that of the folds, so that hold-out and folds are not the same shuffle.
    fold = assign_folds(strata, groups, min(fine, strata.size), config.seed + 1_000_003)
    return fold < max(1, round(config.hold_out * (int(fold.max()) + 1)))


def hash_rows(row_id: Any, seed: int = 0) -> np.ndarray:
    """A well-mixed 64-bit number for each id; 5, 5.0 and nothing else are the same id, as are equal texts.

    >>> bool((hash_rows([1, 2, 3]) == hash_rows(np.array([1.0, 2.0, 3.0]))).all())
    True
    >>> hash_rows(["a", "b"])[1] == hash_rows(["b"])[0]
    np.True_
    """
    stream = np.uint64(0x9E3779B97F4A7C15 * (2 * seed + 1) % 2**64)
    return _mixed(_plain_keys(row_id) + stream)


def hash_folds(row_id: Any, config: TrainConfig) -> np.ndarray:
    """The fold of each row, 0 … folds − 1, or −1 where the config holds it out; give groups in place of ids to keep
    them together.

    >>> hash_folds(range(8), TrainConfig(folds=2)).tolist() == [
    ...     int(hash_folds([row], TrainConfig(folds=2))[0]) for row in range(8)
    ... ]
    True
    """
    fold = (hash_rows(row_id, config.seed) % np.uint64(config.folds)).astype(np.int64)
    if config.hold_out:
        share = hash_rows(row_id, config.seed + _HOLD_OUT_STREAM) / 2.0**64
        fold[share < config.hold_out] = HELD_OUT
    return fold


def _plain_keys(row_id: Any) -> np.ndarray:
    """64 bits that depend on the value of an id only, never on its dtype or its neighbours."""
    values = pd.Series(row_id) if not isinstance(row_id, pd.Series) else row_id
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype(values.cat.categories.dtype)
    _refuse_missing(values)
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        return moment_bits(values).view(np.uint64)
    if pd.api.types.is_numeric_dtype(values.dtype):
        return _number_keys(values.to_numpy())
    texts = values.astype("str").astype(object).to_numpy()
    return pd.util.hash_array(texts, categorize=False)


def _number_keys(numbers: np.ndarray) -> np.ndarray:
    if numbers.dtype.kind in "bui":
        return numbers.astype(np.int64).view(np.uint64)
    numbers = numbers.astype(np.float64) + 0.0
    whole = numbers.astype(np.int64)
    return np.where(whole == numbers, whole, numbers.view(np.int64)).view(np.uint64)


def _refuse_missing(values: pd.Series) -> None:
    missing = values.isna().to_numpy()
    if missing.any():
        raise TrainingError(
            f"The id of a row is missing (first: row {int(missing.argmax())}), so its fold is not known; "
            "fill the id column, or give it another role: rows then go by their number."
        )


def _mixed(key: np.ndarray) -> np.ndarray:
    """The finalizer of splitmix64: every bit of the key moves every bit of the result."""
    with np.errstate(over="ignore"):
        key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))
