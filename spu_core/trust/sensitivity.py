"""Sensitivity: would another candidate be best if the beliefs were a little different, or if a rule were wrong?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.special import expit, logit

from spu_core.checks import check_number, check_share
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
        return f"{name!r} is best in {share:.0%} of {len(self.auc)} random changes of your beliefs.{faults}"


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
            return f"{most}. {self.leader!r} stays best if any single rule is shifted, left out or reversed."
        how = "shifting" if shifted.any() else "leaving out or reversing"
        names = ", ".join(repr(name) for name in self.table["rule"][shifted if shifted.any() else wrong][:3])
        return f"{most}. {self.leader!r} is no longer best after {how} only {names}."


def rule_influence(
    runs: Sequence[Run], soft_labels: SoftLabels, *, shift: float = 1.0, should_stop: Callable[[], bool] | None = None
) -> RuleInfluence:
    """Shift, leave out and reverse each rule alone, and evaluate the stored scores again."""
    finished = [run for run in runs if run.score is not None]
    if not finished:
        raise TrainingError("No run has scores to evaluate; train at least one model first.")
    if check_number(shift, "shift", TrainingError) <= 0:
        raise TrainingError(f"shift must be above 0, got {shift:g}.")
    matrix, combine = _rules_of(soft_labels)
    ranked, names = [FoldRanks.of(run) for run in finished], [run.name for run in finished]

    def aucs_for(changed: RuleMatrix) -> np.ndarray:
        if should_stop is not None and should_stop():
            raise TrainingCancelled("The sensitivity check was cancelled.")
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
