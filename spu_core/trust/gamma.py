"""What if the rules are wrong? Bounds of the true AUC if soft labels are off by at most a factor Γ in the odds.

The odds that a row is positive are supposed to lie within a factor Γ of those that its soft label claims (the marginal
sensitivity model). Every probability then lies in an interval, and the expected AUC depends on them through P = Σp and
T = Σ r p, where r is the rank of a row. For each P the largest T has the upper limits above some rank and the lower
limits below it, so one sort and a pass over all cuts give the sharp bound. A difference of two models has the same
form, with the difference of the ranks. A row that is certain (S is 0 or 1, or confirmed) stays certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from spu_core.checks import check_choice
from spu_core.errors import TrainingError
from spu_core.labels import SoftLabels
from spu_core.training import Run
from spu_core.trust.sensitivity import FoldRanks

GAMMAS = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0)
LARGEST = 100.0


@dataclass(frozen=True, eq=False)
class GammaPair:
    """Lowest and highest difference of true AUC, `first` minus `second`, for each Γ.

    `tipping` is the smallest Γ at which `second` can be the better one; None if there is none up to 100.
    """

    first: str
    second: str
    gamma: np.ndarray
    low: np.ndarray
    high: np.ndarray
    tipping: float | None

    @property
    def sentence(self) -> str:
        if self.tipping is None:
            return f"{self.first!r} stays ahead of {self.second!r} up to Γ = {LARGEST:g}, the largest that was tried."
        if self.tipping <= 1.0:
            return f"{self.first!r} is not ahead of {self.second!r} even if the soft labels are right."
        return f"{self.first!r} stays ahead of {self.second!r} up to Γ = {self.tipping:.2g}."


@dataclass(frozen=True, eq=False)
class GammaBounds:
    """Bounds of the true AUC of each run for each Γ, and of the difference between the leader and each other run.

    `low` and `high` have a line for each Γ and a column for each run. `certain` is the share of rows whose soft label
    is 0 or 1, which no Γ changes. `rule` is the only rule that may be wrong; None if every row may be.
    """

    names: tuple[str, ...]
    gamma: np.ndarray
    low: np.ndarray
    high: np.ndarray
    pairs: tuple[GammaPair, ...]
    leader: str
    certain: float
    rule: str | None = None

    @property
    def table(self) -> pd.DataFrame:
        """A line for each run and Γ."""
        lines = [
            (name, float(gamma), float(self.low[at, place]), float(self.high[at, place]))
            for place, name in enumerate(self.names)
            for at, gamma in enumerate(self.gamma)
        ]
        return pd.DataFrame(lines, columns=["name", "gamma", "low", "high"])

    @property
    def tipping(self) -> float | None:
        """The smallest Γ at which another run can be better than the leader; None if there is none up to 100."""
        found = [pair.tipping for pair in self.pairs if pair.tipping is not None]
        return min(found) if found else None

    @property
    def nearest(self) -> GammaPair:
        """The pair whose order can change at the smallest Γ."""
        return min(self.pairs, key=lambda pair: LARGEST if pair.tipping is None else pair.tipping)

    @property
    def sentence(self) -> str:
        if not self.pairs:
            return f"{self.leader!r} is the only model, so no other can be better."
        certain = f" {self.certain:.0%} of the rows have a soft label of 0 or 1, and no Γ changes them."
        return self.nearest.sentence + (certain if self.certain >= 0.005 else "")


def gamma_bounds(
    runs: Sequence[Run],
    soft_labels: SoftLabels,
    *,
    leader: str | None = None,
    gammas: Sequence[float] = GAMMAS,
    rule: str | None = None,
) -> GammaBounds:
    """Sharp bounds of the true AUC of each run, if the odds of each soft label are off by at most a factor Γ.

    Parameters
    ----------
    runs : sequence of Run
        Runs with scores of the same rows.
    soft_labels : SoftLabels
        The soft labels whose odds may be wrong.
    leader : str, optional
        The run that the others are compared with. Default: the one with the highest AUC_SPU.
    gammas : sequence of float
        Factors, 1 or more.
    rule : str, optional
        Only rows on which this rule fires may be wrong. Default: all rows.

    Returns
    -------
    GammaBounds

    Raises
    ------
    TrainingError
        If no run has scores, a Γ is below 1, or the rule or leader does not exist.
    """
    finished = [run for run in runs if run.score is not None]
    if not finished:
        raise TrainingError("No run has scores to evaluate; train at least one model first.")
    for run in finished:
        if run.fold.size != len(soft_labels):
            raise TrainingError(
                f"{run.name!r} has scores of {run.fold.size:,} rows, but there are {len(soft_labels):,} soft labels; "
                "only runs of the same table can be judged together."
            )
    gamma = np.array(sorted(set(map(float, gammas))))
    if not gamma.size or gamma[0] < 1.0 or not np.isfinite(gamma).all():
        raise TrainingError("Γ must be 1 or more: 1 means that the soft labels are right.")
    names = [run.name for run in finished]
    ranks = {run.name: FoldRanks.of(run) for run in finished}
    box = _Box.of(soft_labels, rule)
    now = {name: ranks[name].auc_spu(box.soft_label) for name in names}
    first = max(now, key=now.__getitem__) if leader is None else check_choice(leader, names, "leader", TrainingError)
    bounds = np.array([[_auc_bounds(ranks[name], box, each) for name in names] for each in gamma])
    pairs = tuple(_pair(first, name, ranks, box, gamma) for name in names if name != first)
    return GammaBounds(tuple(names), gamma, bounds[..., 0], bounds[..., 1], pairs, first, box.certain, rule)


def tipping_by_rule(runs: Sequence[Run], soft_labels: SoftLabels, first: str, second: str) -> pd.DataFrame:
    """For each rule: the smallest Γ at which `second` can be better if only this rule is wrong, the smallest first.

    NaN means that none was found up to 100: this rule alone cannot change the order.
    """
    ranks = {run.name: FoldRanks.of(run) for run in runs if run.name in (first, second)}
    for name in (first, second):
        check_choice(name, ranks, "run", TrainingError)
    names = () if soft_labels.matrix is None else soft_labels.matrix.names
    found = [_tipping(ranks[first], ranks[second], _Box.of(soft_labels, name)) for name in names]
    table = pd.DataFrame({"rule": names, "tipping": [np.nan if each is None else each for each in found]})
    return table.sort_values("tipping", kind="stable", ignore_index=True)


@dataclass(frozen=True, eq=False)
class _Box:
    """Soft labels, and which of them may be wrong."""

    soft_label: np.ndarray
    is_open: np.ndarray

    @classmethod
    def of(cls, soft_labels: SoftLabels, rule: str | None) -> _Box:
        value = np.asarray(soft_labels.value, dtype=np.float64)
        is_open = ~np.asarray(soft_labels.is_labeled, dtype=bool) & (value > 0.0) & (value < 1.0)
        if rule is not None:
            matrix = soft_labels.matrix
            if matrix is None:
                raise TrainingError("These soft labels are ready-made values, so no single rule can be wrong.")
            place = matrix.names.index(check_choice(rule, matrix.names, "rule", TrainingError))
            is_open = is_open & np.asarray(matrix.fired[:, place], dtype=bool)
        return cls(value, is_open)

    @property
    def certain(self) -> float:
        return float(((self.soft_label == 0.0) | (self.soft_label == 1.0)).mean())

    def limits(self, gamma: float) -> tuple[np.ndarray, np.ndarray]:
        """The lowest and highest probability of each row."""
        s = self.soft_label
        low = np.where(self.is_open, s / (s + gamma * (1.0 - s)), s)
        high = np.where(self.is_open, gamma * s / (gamma * s + 1.0 - s), s)
        return low, high


def _auc_bounds(ranks: FoldRanks, box: _Box, gamma: float) -> tuple[float, float]:
    limits = box.limits(gamma)
    low, high, sizes = [], [], []
    for rows, weight, rank in zip(ranks.rows, ranks.weight, ranks.rank, strict=True):
        parts = weight * limits[0][rows], weight * limits[1][rows]
        # Turning the ranks round turns the lowest AUC into one minus the highest.
        top = _largest(rank, *parts, float(weight.sum()), half=True)
        bottom = 1.0 - _largest(float(weight.sum()) - rank, *parts, float(weight.sum()), half=True)
        if not np.isnan(top):
            low.append(bottom)
            high.append(top)
            sizes.append(rows.size)
    if not sizes:
        return float("nan"), float("nan")
    return float(np.average(low, weights=sizes)), float(np.average(high, weights=sizes))


def _gap_bounds(first: FoldRanks, second: FoldRanks, box: _Box, gamma: float) -> tuple[float, float]:
    limits = box.limits(gamma)
    low, high, sizes = [], [], []
    for rows, weight, one, two in zip(first.rows, first.weight, first.rank, second.rank, strict=True):
        parts = weight * limits[0][rows], weight * limits[1][rows]
        top, bottom = (_largest(gap, *parts, float(weight.sum()), half=False) for gap in (one - two, two - one))
        if not np.isnan(top):
            low.append(-bottom)
            high.append(top)
            sizes.append(rows.size)
    if not sizes:
        return float("nan"), float("nan")
    return float(np.average(low, weights=sizes)), float(np.average(high, weights=sizes))


def _largest(rank: np.ndarray, low: np.ndarray, high: np.ndarray, size: float, *, half: bool) -> float:
    """The largest (Σ r p − P²/2) / (P (N − P)) over all cuts; without `half`, the term P²/2 is left out."""
    order = np.argsort(-rank, kind="stable")
    more = (high - low)[order]
    positives = low.sum() + np.append(0.0, np.cumsum(more))
    total = float((rank * low).sum()) + np.append(0.0, np.cumsum(rank[order] * more))
    pairs = positives * (size - positives)
    usable = pairs > 1e-12 * size * size
    if not usable.any():
        return float("nan")
    outranked = (total - 0.5 * positives**2 if half else total)[usable]
    return float((outranked / pairs[usable]).max())


def _pair(first: str, second: str, ranks: dict[str, FoldRanks], box: _Box, gamma: np.ndarray) -> GammaPair:
    one, two = ranks[first], ranks[second]
    bounds = np.array([_gap_bounds(one, two, box, each) for each in gamma])
    return GammaPair(first, second, gamma, bounds[:, 0], bounds[:, 1], _tipping(one, two, box))


def _tipping(first: FoldRanks, second: FoldRanks, box: _Box) -> float | None:
    """The smallest Γ at which the difference can be 0 or less, by bisection: the lowest difference falls with Γ."""

    def is_ahead(gamma: float) -> bool:
        return _gap_bounds(first, second, box, gamma)[0] > 0.0

    if not is_ahead(1.0):
        return 1.0
    if is_ahead(LARGEST):
        return None
    low, high = 0.0, float(np.log(LARGEST))
    for _ in range(20):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_ahead(float(np.exp(middle))) else (low, middle)
    return float(np.exp(low))
