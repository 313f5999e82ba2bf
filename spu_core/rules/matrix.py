"""The rule matrix (rows × rules), and the analysis of rules: coverage, overlap, conflict, lift, findings.

coverage      share of rows on which the rule fires
overlap       share of rows on which it fires and another rule fires too
conflict      share of rows on which it fires and the belief of another fired rule differs by more than CONFLICT_GAP
redundancy    share of its rows on which another fired rule has at least the same belief; with the combiner *strongest*,
              removing the rule would not change these rows
lift          P(fires | labelled) / P(fires), with a confidence interval; 1 means that the rule fires on labelled rows
              as often as on all rows
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from spu_core.checks import check_choice, check_flags, check_kind, check_share, read_only
from spu_core.errors import RuleError, nearest_hint
from spu_core.html_table import Tabular, count, short_repr
from spu_core.tables import Finding, Severity
from spu_core.theory.check_ratio import wilson_interval


@dataclass(frozen=True, eq=False)
class RuleMatrix(Tabular):
    """Rows × rules: where each rule fired, and its belief there.

    Made by `FittedRules.apply(frame)`, or from arrays with `RuleMatrix.from_arrays`.

    Parameters
    ----------
    names, ids : tuple of str
        Name and id of each rule.
    fired : ndarray of bool, shape (rows, rules)
        Where each rule fired.
    beliefs : tuple of float or ndarray
        Belief of each rule: one number for all rows, or one per row. `.belief` is the dense array, 0 where not fired.
    columns : tuple of str, default ()
        Columns that the rules read.

    Examples
    --------
    >>> matrix = RuleMatrix.from_arrays(["a", "b"], [[0.5, 0.0], [0.5, 0.8], [0.0, 0.0]])
    >>> matrix.fired.sum(axis=0).tolist(), matrix.belief_of(1).tolist()
    ([2, 1], [0.0, 0.8, 0.0])
    """

    names: tuple[str, ...]
    ids: tuple[str, ...]
    fired: np.ndarray
    beliefs: tuple[float | np.ndarray, ...]
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "fired", read_only(self.fired))
        beliefs = (read_only(b) if isinstance(b, np.ndarray) else b for b in self.beliefs)
        object.__setattr__(self, "beliefs", tuple(beliefs))

    @classmethod
    def from_arrays(
        cls, names: Sequence[str], belief: Any, fired: Any = None, columns: Sequence[str] = ()
    ) -> RuleMatrix:
        """A matrix from arrays of rows × rules; without `fired`, a rule fired where its belief is above 0."""
        belief = np.asarray(belief, dtype=np.float64)
        fired = belief > 0 if fired is None else np.asarray(fired, dtype=bool)
        if belief.ndim != 2 or belief.shape[1] != len(names) or fired.shape != belief.shape:
            raise RuleError(f"belief must have one column for each of {len(names)} rules, got shape {belief.shape}.")
        if not ((belief >= 0.0) & (belief <= 1.0)).all():
            raise RuleError("belief must lie in [0, 1] in every row and rule.")
        beliefs = tuple(np.where(fired[:, j], belief[:, j], 0.0) for j in range(len(names)))
        return cls(tuple(names), tuple(names), np.asfortranarray(fired), beliefs, tuple(columns))

    @classmethod
    def from_label_matrix(cls, L: Any, beliefs: Mapping[str, float | tuple[float, float]]) -> RuleMatrix:
        """A matrix from the votes of Snorkel's labelling functions.

        Parameters
        ----------
        L : array-like of int, shape (rows, functions)
            1 is a vote for positive, 0 for negative, -1 no vote, as `PandasLFApplier.apply` returns it.
        beliefs : mapping of name to belief
            A name for each column of `L`, in their order, with the belief that a row is positive where the function
            votes 1; a vote of 0 then has the belief 0. A pair gives both: (where it votes 0, where it votes 1).

        Returns
        -------
        RuleMatrix
            `assign_soft_labels(matrix, is_labeled)` makes soft labels from it.

        Raises
        ------
        RuleError
            If the shape, a vote or a belief is not valid.

        Examples
        --------
        >>> matrix = RuleMatrix.from_label_matrix([[1, -1], [0, 1], [-1, -1]], {"late": 0.6, "large": (0.1, 0.8)})
        >>> matrix.fired.tolist(), matrix.belief.tolist()
        ([[True, False], [True, True], [False, False]], [[0.6, 0.0], [0.0, 0.8], [0.0, 0.0]])
        """
        check_kind(beliefs, Mapping, "beliefs must be a dictionary", "name each column of L", RuleError)
        votes = np.asarray(L)
        if votes.ndim != 2 or votes.shape[1] != len(beliefs):
            raise RuleError(f"L must have one column for each of {len(beliefs)} beliefs, got shape {votes.shape}.")
        strange = votes[~np.isin(votes, (-1, 0, 1))]
        if strange.size:
            raise RuleError(f"L must hold votes of 1, 0 and -1 (no vote), but holds {strange.flat[0]}.")
        belief = np.zeros(votes.shape)
        for place, (name, given) in enumerate(beliefs.items()):
            pair = given if isinstance(given, Sequence) and len(given) == 2 else (0.0, given)
            low, high = (check_share(each, f"The belief of {name!r}", RuleError, closed=True) for each in pair)
            belief[:, place] = np.select([votes[:, place] == 0, votes[:, place] == 1], [low, high], 0.0)
        return cls.from_arrays(list(beliefs), belief, votes >= 0)

    def __repr__(self) -> str:
        return short_repr("RuleMatrix", None, count(len(self), "row"), count(len(self.names), "rule"))

    def to_frame(self) -> pd.DataFrame:
        """A line for each rule: in how many rows it fired, their share of all rows, and its mean belief there."""
        fired = self.fired.sum(axis=0)
        belief = [self.belief_of(rule).sum() / fired[rule] if fired[rule] else np.nan for rule in range(self.n_rules)]
        share = fired / max(len(self), 1)
        return pd.DataFrame({"rule": self.names, "rows": fired, "share": share, "mean belief": belief})

    def __len__(self) -> int:
        return self.fired.shape[0]

    @property
    def n_rules(self) -> int:
        return len(self.names)

    @cached_property
    def belief(self) -> np.ndarray:
        """Beliefs as one float array of rows × rules, 0 where a rule did not fire."""
        dense = np.empty(self.fired.shape, order="F")
        for j in range(self.n_rules):
            dense[:, j] = self.belief_of(j)
        return dense

    def belief_of(self, rule: int) -> np.ndarray:
        """The belief of one rule in every row, 0 where it did not fire."""
        belief = self.beliefs[rule]
        return belief if isinstance(belief, np.ndarray) else self.fired[:, rule] * belief

    def take(self, rows: np.ndarray) -> RuleMatrix:
        """Only some rows, by number or by flag."""
        beliefs = tuple(belief[rows] if isinstance(belief, np.ndarray) else belief for belief in self.beliefs)
        return RuleMatrix(self.names, self.ids, np.asfortranarray(self.fired[rows]), beliefs, self.columns)

    def without(self, name: str) -> RuleMatrix:
        """All rules but one."""
        place = self.place_of(name)
        keep = [j for j in range(self.n_rules) if j != place]
        return RuleMatrix(
            tuple(self.names[j] for j in keep),
            tuple(self.ids[j] for j in keep),
            self.fired[:, keep],
            tuple(self.beliefs[j] for j in keep),
            self.columns,
        )

    def place_of(self, name: str) -> int:
        if name not in self.names:
            raise RuleError(f"There is no rule named {name!r}. {nearest_hint(name, self.names)}")
        return self.names.index(name)

    @cached_property
    def together(self) -> np.ndarray:
        """Number of rows on which each pair of rules fired (rules × rules; the diagonal is the count of each rule)."""
        bits = np.packbits(self.fired, axis=0)
        counts = np.zeros((self.n_rules, self.n_rules), dtype=np.int64)
        for i in range(self.n_rules):
            for j in range(i + 1):
                counts[i, j] = counts[j, i] = np.bitwise_count(bits[:, i] & bits[:, j]).sum(dtype=np.int64)
        return counts

    def summary(self, is_labeled: Any = None, truth: Any = None, *, level: float = 0.95) -> pd.DataFrame:
        """One line per rule: see `summarize_rules`."""

        return summarize_rules(self, is_labeled, truth, level=level)

    def overlaps(self, how: str = "share") -> pd.DataFrame:
        """Rules × rules: see `overlap_table`."""

        return overlap_table(self, how)

    def findings(self, is_labeled: Any = None, *, level: float = 0.95) -> tuple[Finding, ...]:
        """Possible problems of rules: see `rule_findings`."""

        return rule_findings(self, is_labeled, level=level)


CONFLICT_GAP = 0.5
OVERLAP_KINDS = ("share", "jaccard", "rows")


def summarize_rules(
    matrix: RuleMatrix, is_labeled: Any = None, truth: Any = None, *, level: float = 0.95
) -> pd.DataFrame:
    """One line per rule. The lift is added if `is_labeled` is given, the precision if `truth` is given.

    >>> matrix = RuleMatrix.from_arrays(["a", "b"], [[0.9, 0.2], [0.9, 0.0], [0.0, 0.2], [0.0, 0.0]])
    >>> summarize_rules(matrix)[["coverage", "mean_belief", "overlap", "conflict", "redundancy"]]
          coverage  mean_belief  overlap  conflict  redundancy
    rule
    a          0.5          0.9     0.25      0.25         0.0
    b          0.5          0.2     0.25      0.25         0.5
    """
    check_share(level, "level", RuleError)
    if not len(matrix):
        raise RuleError("The rule matrix has no rows, so there is nothing to summarize.")
    table = pd.DataFrame(_coverage(matrix) | _disagreement(matrix), index=pd.Index(matrix.names, name="rule"))
    if is_labeled is not None:
        flags = check_flags(is_labeled, len(matrix), "is_labeled")
        table = table.assign(**_lift(matrix, flags, level))
    if truth is not None:
        table = table.assign(**_precision(matrix, check_flags(truth, len(matrix), "truth"), level))
    return table


def overlap_table(matrix: RuleMatrix, how: str = "share") -> pd.DataFrame:
    """Overlap of each pair of rules: share of the first rule's rows on which the second fires, Jaccard index, or rows.

    >>> matrix = RuleMatrix.from_arrays(["a", "b"], [[0.9, 0.2], [0.9, 0.0], [0.0, 0.0]])
    >>> overlap_table(matrix)
            a    b
    rule
    a     1.0  0.5
    b     1.0  1.0
    """
    check_choice(how, OVERLAP_KINDS, "how", RuleError)
    rows = matrix.together
    own = np.diagonal(rows)
    if how == "rows":
        values = rows
    else:
        base = {"share": own[:, None] + np.zeros_like(rows), "jaccard": own[:, None] + own - rows}[how]
        values = np.divide(rows, base, out=np.full(rows.shape, np.nan), where=base > 0)
    return pd.DataFrame(values, index=pd.Index(matrix.names, name="rule"), columns=list(matrix.names))


def covered(matrix: RuleMatrix) -> np.ndarray:
    """Whether at least one rule fired, for each row."""
    return np.asarray(matrix.fired.any(axis=1))


def _coverage(matrix: RuleMatrix) -> dict[str, np.ndarray]:
    rows = np.diagonal(matrix.together)
    totals = np.array([matrix.belief_of(j).sum() for j in range(matrix.n_rules)])
    others = matrix.fired.sum(axis=1) > 1
    overlap = [np.count_nonzero(matrix.fired[:, j] & others) for j in range(matrix.n_rules)]
    return {
        "rows": rows,
        "coverage": rows / len(matrix),
        "mean_belief": _ratio(totals, rows),
        "overlap": np.array(overlap) / len(matrix),
    }


def _disagreement(matrix: RuleMatrix) -> dict[str, np.ndarray]:
    """Conflict and redundancy, from the largest, second largest and smallest fired belief of each row."""
    largest, second, smallest = _extremes(matrix)
    conflict, redundant = np.zeros(matrix.n_rules), np.zeros(matrix.n_rules)
    for j in range(matrix.n_rules):
        fired, belief = matrix.fired[:, j], matrix.belief_of(j)
        far = (largest - belief > CONFLICT_GAP) | (belief - smallest > CONFLICT_GAP)
        conflict[j] = np.count_nonzero(fired & far)
        # If this rule has the largest belief, another rule is at least as strong only if the second largest is equal.
        redundant[j] = np.count_nonzero(fired & ((largest > belief) | (second >= belief)))
    rows = np.diagonal(matrix.together)
    return {"conflict": conflict / len(matrix), "redundancy": _ratio(redundant, rows)}


def _extremes(matrix: RuleMatrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    largest, second = np.full(len(matrix), -np.inf), np.full(len(matrix), -np.inf)
    smallest = np.full(len(matrix), np.inf)
    for j in range(matrix.n_rules):
        fired, belief = matrix.fired[:, j], matrix.belief_of(j)
        high = np.where(fired, belief, -np.inf)
        second = np.maximum(second, np.minimum(largest, high))
        largest = np.maximum(largest, high)
        smallest = np.minimum(smallest, np.where(fired, belief, np.inf))
    return largest, second, smallest


def _lift(matrix: RuleMatrix, is_labeled: np.ndarray, level: float) -> dict[str, np.ndarray]:
    rows = np.diagonal(matrix.together)
    labeled_rows = np.array([np.count_nonzero(matrix.fired[:, j] & is_labeled) for j in range(matrix.n_rules)])
    n_labeled = int(np.count_nonzero(is_labeled))
    limits = [lift_interval(k, n_labeled, n, len(matrix), level) for k, n in zip(labeled_rows, rows, strict=True)]
    lift, low, high = np.array(limits).reshape(-1, 3).T
    return {"labeled_rows": labeled_rows, "lift": lift, "lift_low": low, "lift_high": high}


def _precision(matrix: RuleMatrix, truth: np.ndarray, level: float) -> dict[str, np.ndarray]:
    rows = np.diagonal(matrix.together)
    hits = np.array([np.count_nonzero(matrix.fired[:, j] & truth) for j in range(matrix.n_rules)])
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = wilson_interval(hits, rows, level)
    return {"precision": _ratio(hits, rows), "precision_low": low, "precision_high": high}


def _ratio(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """Division that gives NaN where a rule never fired."""
    return np.divide(top, bottom, out=np.full(len(top), np.nan), where=bottom > 0)


# Two rules with at least this Jaccard index are reported as duplicates.
TWIN = 0.95
# A rule with at least this belief is reported if confirmed cases do not support it.
STRONG = 0.5


def rule_findings(matrix: RuleMatrix, is_labeled: Any = None, *, level: float = 0.95) -> tuple[Finding, ...]:
    """Possible problems of rules, as findings. Those that use labels are based on confidence intervals.

    >>> matrix = RuleMatrix.from_arrays(["a", "same", "never"], [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]])
    >>> [finding.message for finding in rule_findings(matrix)]
    ["Rule 'never' fires on no row.", "Rules 'a' and 'same' fire on the same rows (100% in common)."]
    """
    return findings_in(summarize_rules(matrix, is_labeled, level=level), matrix)


def findings_in(summary: pd.DataFrame, matrix: RuleMatrix) -> tuple[Finding, ...]:
    """`rule_findings` from a summary that has already been computed."""
    lines = [finding for name, line in summary.iterrows() for finding in _about_rule(str(name), line)]
    return (*lines, *_twins(overlap_table(matrix, "jaccard")))


def _about_rule(name: str, line: pd.Series) -> Iterator[Finding]:
    if line["coverage"] == 0:
        yield _warning("rule_never_fires", f"Rule {name!r} fires on no row.", "Check its condition.")
        return
    if line["coverage"] == 1 and line["mean_belief"] >= STRONG:
        message = f"Rule {name!r} fires on every row with a mean belief of {line['mean_belief']:.2f}."
        yield _warning("rule_fires_always", message, "Give it a condition, or use the floor for a base rate.")
    if line.get("lift_high", 1.0) < 1:
        message = (
            f"Rule {name!r} fires {line['lift']:.2f} times as often on confirmed cases as on all rows "
            f"({line['lift_low']:.2f}–{line['lift_high']:.2f}): the labels contradict it."
        )
        yield _warning("rule_against_labels", message, "Check its direction, or lower its belief.")
    elif line.get("lift_low", 1.0) < 1 < line.get("lift_high", 1.0) and line["mean_belief"] >= STRONG:
        message = (
            f"Rule {name!r} has a belief of {line['mean_belief']:.2f}, but the labels do not clearly support it "
            f"(lift {line['lift_low']:.2f}–{line['lift_high']:.2f})."
        )
        yield Finding("rule_not_confirmed", Severity.INFO, message, "Confirm more positives, or lower its belief.")


def _twins(common: pd.DataFrame) -> Iterator[Finding]:
    for i, first in enumerate(common.index):
        for second in common.columns[i + 1 :]:
            share = common.loc[first, second]
            if share >= TWIN:
                message = f"Rules {first!r} and {second!r} fire on the same rows ({100 * share:.3g}% in common)."
                advice = "Keep one of them: noisy-or and log-odds would count the same reason twice."
                yield _warning("rules_are_twins", message, advice)


def _warning(code: str, message: str, advice: str) -> Finding:
    return Finding(code, Severity.WARNING, message, advice)


def lift_interval(
    labeled_hits: int, n_labeled: int, hits: int, n_rows: int, level: float = 0.95
) -> tuple[float, float, float]:
    """P(fires | labelled) / P(fires) with its limits; NaN where no row is labelled or the rule never fires.

    The limits combine the Wilson limits of both shares (MOVER-R with correlation, Donner and Zou 2012). The shares are
    correlated, because labelled rows are part of all rows.

    >>> tuple(round(value, 2) for value in lift_interval(30, 100, 1_000, 10_000))
    (3.0, 2.2, 3.95)
    >>> lift_interval(0, 100, 1_000, 10_000)[:2]
    (0.0, 0.0)
    """
    if not n_labeled or not hits:
        return math.nan, math.nan, math.nan
    top, bottom = labeled_hits / n_labeled, hits / n_rows
    top_low, top_high = (float(limit) for limit in wilson_interval(labeled_hits, n_labeled, level))
    low, high = (float(limit) for limit in wilson_interval(hits, n_rows, level))
    shared = _correlation(top, n_labeled, bottom, n_rows)
    middle = top * bottom - shared * (top - top_low) * (high - bottom)
    smallest = _root(middle, top_low * (2 * top - top_low), high * (2 * bottom - high), -1.0)
    middle = top * bottom - shared * (top_high - top) * (bottom - low)
    largest = _root(middle, top_high * (2 * top - top_high), low * (2 * bottom - low), 1.0)
    lift = top / bottom
    # If both shares are close to 1, rounding must not move a limit past the estimate.
    return lift, min(max(smallest, 0.0), lift), max(largest, lift)


def _correlation(top: float, n_labeled: int, bottom: float, n_rows: int) -> float:
    """Correlation of both estimated shares: hits among labelled rows are counted in both."""
    spread = bottom * (1 - bottom) * n_rows
    return min(1.0, math.sqrt(top * (1 - top) * n_labeled / spread)) if spread > 0 else 0.0


def _root(middle: float, top: float, bottom: float, sign: float) -> float:
    return (middle + sign * math.sqrt(max(middle**2 - top * bottom, 0.0))) / bottom
