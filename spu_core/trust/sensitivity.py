"""Sensitivity: would another candidate be best if the beliefs were a little different, or if a rule were wrong?

For bounds, the odds that a row is positive are supposed to lie within a factor Γ of those that its soft label claims
(the marginal sensitivity model). Every probability then lies in an interval, and the expected AUC depends on them
through P = Σp and T = Σ r p, where r is the rank of a row. For each P the largest T has the upper limits above some
rank and the lower limits below it, so one sort and a pass over all cuts give the sharp bound. A difference of two
models has the same form, with the difference of the ranks. A row that is certain (S is 0 or 1, or confirmed) stays
certain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.special import expit, logit

from spu_core.checks import check_choice, check_number, check_share
from spu_core.errors import TrainingError
from spu_core.labels import SoftLabels, assign_soft_labels
from spu_core.rules import RuleMatrix
from spu_core.training import Run, TrainingCancelled
from spu_core.training.config import check_whole
from spu_core.training.evaluation import fold_rows

# In this share of the draws one rule is left out or reversed, which a shift of its belief cannot represent.
WRONG = 0.2
FAULTS = ("dropped", "reversed")


# Rows times draws that are evaluated in a few seconds.
_AFFORDABLE_WORK = 4_000_000


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """AUC_SPU of each run under each draw of the beliefs (`auc`: draws × runs).

    A draw shifts every rule's belief on the log-odds scale by a normal number with standard deviation `spread`; a
    belief of exactly 0 or 1 stays. In a share `wrong` of the draws one rule, chosen at random, is left out or reversed:
    its beliefs then apply to the rows on which it does not fire, with the same sum.
    """

    names: tuple[str, ...]
    auc: np.ndarray
    spread: float
    wrong: float = 0.0

    @property
    def stays_best(self) -> dict[str, float]:
        """Share of the draws in which each run is the best; a tie counts in equal parts."""
        best = self.auc == self.auc.max(axis=1, keepdims=True)
        share = (best / best.sum(axis=1, keepdims=True)).mean(axis=0)
        return dict(zip(self.names, share.tolist(), strict=True))

    @property
    def table(self) -> pd.DataFrame:
        """Per run: share of draws in which it is the best, and the range of 90 % of its AUC_SPU values."""
        low, middle, high = np.quantile(self.auc, [0.05, 0.5, 0.95], axis=0)
        columns = {"name": self.names, "stays_best": list(self.stays_best.values())}
        table = pd.DataFrame({**columns, "low": low, "median": middle, "high": high})
        return table.sort_values("stays_best", ascending=False, kind="stable", ignore_index=True)

    @property
    def sentence(self) -> str:
        name, share = max(self.stays_best.items(), key=lambda entry: entry[1])
        faults = f" In {self.wrong:.0%} of the draws one rule is left out or reversed." if self.wrong else ""
        draws = f"{share:.0%} of {len(self.auc)} random changes of your beliefs"
        return f"{name!r} has the highest AUC_SPU in {draws}.{faults}"


def affordable_draws(rows: int) -> int:
    """Number of draws that take a few seconds with this many rows, from 20 to 200.

    >>> affordable_draws(1_000), affordable_draws(100_000), affordable_draws(10_000_000)
    (200, 40, 20)
    """
    return max(20, min(200, _AFFORDABLE_WORK // max(rows, 1)))


def belief_sensitivity(
    runs: Sequence[Run],
    soft_labels: SoftLabels,
    *,
    draws: int = 200,
    spread: float = 0.5,
    wrong: float = WRONG,
    seed: int = 0,
    should_stop: Callable[[], bool] | None = None,
) -> Sensitivity:
    """Evaluate stored scores with soft labels from shifted beliefs and wrong rules; no model is trained again."""
    finished = [run for run in runs if run.score is not None]
    if not finished:
        raise TrainingError("No run has scores to evaluate; train at least one model first.")
    ranked = [FoldRanks.of(run) for run in finished]
    aucs = []
    for shifted in shifted_labels(soft_labels, draws=draws, spread=spread, wrong=wrong, seed=seed):
        if should_stop is not None and should_stop():
            raise TrainingCancelled("The sensitivity check was cancelled.")
        aucs.append([ranks.auc_spu(shifted.value) for ranks in ranked])
    return Sensitivity(tuple(run.name for run in finished), np.array(aucs), spread, wrong=wrong)


@dataclass(frozen=True, eq=False)
class RuleInfluence:
    """Effect of one rule at a time: its belief shifted by `shift` on the log-odds scale, left out, or reversed.

    `table` has a line per rule, the most influential first: the AUC_SPU of the best run with the belief shifted down
    and up, the largest change of AUC_SPU of any run, the best run after each shift, and the best run if the rule is
    left out or reversed.
    """

    table: pd.DataFrame
    leader: str
    shift: float

    @property
    def sentence(self) -> str:
        if self.table.empty:
            return "There is no rule whose belief can be shifted."
        first = self.table.iloc[0]
        shifted = (self.table[["leads_down", "leads_up"]] != self.leader).any(axis=1)
        wrong = (self.table[["leads_dropped", "leads_reversed"]] != self.leader).any(axis=1)
        most = f"Rule {first['rule']!r} matters most: shifting it changes AUC_SPU by up to {first['change']:.3f}"
        if not (shifted | wrong).any():
            kept = f"{self.leader!r} keeps the highest AUC_SPU if any single rule is shifted, left out or reversed."
            return f"{most}. {kept}"
        how = "shifting" if shifted.any() else "leaving out or reversing"
        names = ", ".join(repr(name) for name in self.table["rule"][shifted if shifted.any() else wrong][:3])
        return f"{most}. {self.leader!r} no longer has the highest AUC_SPU after {how} only {names}."


def rule_influence(runs: Sequence[Run], soft_labels: SoftLabels, *, shift: float = 1.0) -> RuleInfluence:
    """Shift, leave out and reverse each rule alone, and evaluate the stored scores again."""
    finished = [run for run in runs if run.score is not None]
    if not finished:
        raise TrainingError("No run has scores to evaluate; train at least one model first.")
    if check_number(shift, "shift", TrainingError) <= 0:
        raise TrainingError(f"shift must be above 0, got {shift:g}.")
    matrix, combine = _rules_of(soft_labels)
    ranked, names = [FoldRanks.of(run) for run in finished], [run.name for run in finished]

    def aucs_for(changed: RuleMatrix) -> np.ndarray:
        labels = assign_soft_labels(changed, soft_labels.is_labeled, combine, floor=soft_labels.floor)
        return np.array([ranks.auc_spu(labels.value) for ranks in ranked])

    def leader(auc: np.ndarray) -> str:
        """The best run; the present one if AUC_SPU is undefined because no belief is left."""
        return names[int((now if np.isnan(auc).any() else auc).argmax())]

    now = aucs_for(matrix)
    lines = []
    for place, rule in enumerate(matrix.names):
        moves = np.zeros(matrix.n_rules)
        moves[place] = shift
        line = _influence_line(rule, names, now, aucs_for(_shifted(matrix, -moves)), aucs_for(_shifted(matrix, moves)))
        faults = {f"leads_{fault}": leader(aucs_for(_with_fault(matrix, place, fault))) for fault in FAULTS}
        lines.append({**line, **faults})
    table = pd.DataFrame(lines).sort_values("change", ascending=False, kind="stable", ignore_index=True)
    return RuleInfluence(table, names[int(now.argmax())], shift)


def _influence_line(
    rule: str, names: Sequence[str], now: np.ndarray, down: np.ndarray, up: np.ndarray
) -> dict[str, object]:
    leader = int(now.argmax())
    return {
        "rule": rule,
        "now": float(now[leader]),
        "down": float(down[leader]),
        "up": float(up[leader]),
        "change": float(max(np.abs(down - now).max(), np.abs(up - now).max())),
        "leads_down": names[int(down.argmax())],
        "leads_up": names[int(up.argmax())],
    }


def shifted_labels(
    soft_labels: SoftLabels, *, draws: int, spread: float, wrong: float = WRONG, seed: int = 0
) -> Iterator[SoftLabels]:
    """Soft labels with randomly shifted beliefs: one shift per rule, and in some draws one rule is wrong."""
    check_whole(draws, "draws", 1)
    if check_number(spread, "spread", TrainingError) <= 0:
        raise TrainingError(f"spread must be above 0, got {spread:g}.")
    check_share(wrong, "wrong", TrainingError, closed=True)
    matrix, combine = _rules_of(soft_labels)
    rng, chance = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    for _ in range(draws):
        shifted = _shifted(matrix, rng.normal(0.0, spread, matrix.n_rules))
        found = assign_soft_labels(shifted, soft_labels.is_labeled, combine, floor=soft_labels.floor)
        if chance.random() < wrong:
            faulty = _with_fault(shifted, int(chance.integers(matrix.n_rules)), FAULTS[int(chance.integers(2))])
            changed = assign_soft_labels(faulty, soft_labels.is_labeled, combine, floor=soft_labels.floor)
            # If all soft labels became equal, AUC_SPU would be undefined.
            found = changed if np.ptp(changed.value) > 0.0 else found
        yield found


def _rules_of(soft_labels: SoftLabels) -> tuple[RuleMatrix, str]:
    if soft_labels.matrix is None or soft_labels.combine is None:
        raise TrainingError(
            "These soft labels are ready-made values, so there are no beliefs to shift; create them from rules."
        )
    return soft_labels.matrix, soft_labels.combine


def _shifted(matrix: RuleMatrix, shift: np.ndarray) -> RuleMatrix:
    beliefs = tuple(_shift_belief(belief, move) for belief, move in zip(matrix.beliefs, shift, strict=True))
    return replace(matrix, beliefs=beliefs)


def _with_fault(matrix: RuleMatrix, place: int, fault: str) -> RuleMatrix:
    """The same rules, but one of them is left out or reversed (with the same sum of beliefs)."""
    fired, beliefs, believed = matrix.fired.copy(order="F"), list(matrix.beliefs), matrix.belief_of(place).sum()
    fired[:, place] = ~fired[:, place] if fault == "reversed" else False
    beliefs[place] = float(min(1.0, believed / max(1, int(fired[:, place].sum()))))
    return replace(matrix, fired=fired, beliefs=tuple(beliefs))


def _shift_belief(belief: float | np.ndarray, move: float) -> float | np.ndarray:
    # The logits of 0 and 1 are infinite, so these beliefs do not change.
    moved = expit(logit(np.asarray(belief, dtype=np.float64)) + move)
    return moved if isinstance(belief, np.ndarray) else float(moved)


@dataclass(frozen=True, eq=False)
class FoldRanks:
    """Midranks of one run's scores within folds, from which AUC_SPU of any S is one sum.

    Σ_i w_i s_i R_i with R_i = Σ_j w_j h_ij is the mass that positives outrank; the part among positives is S²/2.
    """

    rows: tuple[np.ndarray, ...]
    weight: tuple[np.ndarray, ...]
    rank: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, run: Run) -> FoldRanks:
        rows = tuple(fold_rows(run.evaluation))
        whole = np.ones(run.fold.size) if run.evaluation.weight is None else run.evaluation.weight
        weight = tuple(whole[part] for part in rows)
        score = run.need_score()
        return cls(rows, weight, tuple(_midranks(score[part], w) for part, w in zip(rows, weight, strict=True)))

    def auc_spu(self, soft_label: np.ndarray) -> float:
        values, sizes = [], []
        for rows, weight, rank in zip(self.rows, self.weight, self.rank, strict=True):
            mass = weight * soft_label[rows]
            positive, total = mass.sum(), weight.sum()
            if 0.0 < positive < total:
                outranked = np.einsum("i,i->", mass, rank) - 0.5 * positive**2
                values.append(outranked / (positive * (total - positive)))
                sizes.append(rows.size)
        return float(np.average(values, weights=sizes)) if values else float("nan")


def _midranks(score: np.ndarray, weight: np.ndarray) -> np.ndarray:
    _, code = np.unique(score, return_inverse=True)
    mass = np.bincount(code, weights=weight)
    return (np.cumsum(mass) - 0.5 * mass)[code]


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
            return f"{self.first!r} stays ahead of {self.second!r} even if odds are wrong by a factor of {LARGEST:g}."
        if self.tipping <= 1.0:
            return f"{self.first!r} is not ahead of {self.second!r} even if the soft labels are right."
        return f"{self.first!r} stays ahead of {self.second!r} up to odds wrong by a factor of {self.tipping:.2g}."


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
        certain = f" {self.certain:.0%} of the rows have a soft label of 0 or 1, so they cannot be wrong here."
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
