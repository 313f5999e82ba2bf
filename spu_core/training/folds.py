"""Who is scored by whom: folds that are seeded, stratified by (is_labeled, S bin) and keep groups together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from spu_core.checks import check_groups
from spu_core.errors import TrainingError
from spu_core.training.config import TrainConfig

HELD_OUT = -1
S_BINS = 5


@dataclass(frozen=True, eq=False)
class Part:
    """One fit: `train` and `score` are row flags; no row is in both, nor is any group."""

    number: int
    train: np.ndarray
    score: np.ndarray


@dataclass(frozen=True, eq=False)
class Split:
    """The fold of each row; −1 marks rows held out of all folds, at random or because they are the latest.

    >>> split = Split(np.array([0, 1, 0, 1, -1]))
    >>> [(part.number, part.train.sum(), part.score.sum()) for part in split.parts()]
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

    def parts(self) -> Iterator[Part]:
        """Every fit that is needed until each row has its score."""
        inside = self.fold >= 0
        for number in np.unique(self.fold[inside]).tolist():
            yield Part(number, inside & (self.fold != number), self.fold == number)
        if not inside.all():
            yield Part(HELD_OUT, self._before(inside), ~inside)

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
    # Dealing goes on from stratum to stratum, so that folds differ by one row at most.
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
    """Groups, the largest first, each to the fold where its strata are rarest."""
    code = check_groups(groups, strata.size)
    count = int(code.max()) + 1
    if count < folds:
        raise TrainingError(
            f"{folds} folds need at least {folds} groups, but the group column has {count}; use fewer folds."
        )
    width = int(strata.max()) + 1
    content = np.bincount(code * width + strata, minlength=count * width).reshape(count, width).astype(float)
    price = content / np.maximum(content.sum(axis=0), 1.0) ** 2
    order = rng.permutation(count)
    order = order[np.argsort(-content.sum(axis=1)[order], kind="stable")]
    load = np.zeros((folds, width))
    home = np.empty(count, dtype=np.int64)
    for group in order:
        cost = (load * price[group]).sum(axis=1)
        home[group] = np.lexsort((load.sum(axis=1), cost))[0]
        load[home[group]] += content[group]
    return home[code]


def split_rows(
    strata: np.ndarray, config: TrainConfig, *, groups: np.ndarray | None = None, times: np.ndarray | None = None
) -> Split:
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
    return Split(fold, bool(config.out_of_time), groups)


def _random_part(strata: np.ndarray, groups: np.ndarray | None, config: TrainConfig) -> np.ndarray:
    """A stratified share of the rows: some of twenty fine folds, of as many groups if there are fewer."""
    fine = 20 if groups is None else min(20, int(np.unique(groups).size))
    # Another stream than that of the folds, so that hold-out and folds are not the same shuffle.
    fold = assign_folds(strata, groups, min(fine, strata.size), config.seed + 1_000_003)
    return fold < max(1, round(config.hold_out * (int(fold.max()) + 1)))
