"""Soft labels: the belief that each row is positive, from rules and confirmed labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from spu_core.checks import check_flags, check_kind, check_share, check_soft_label, read_only
from spu_core.errors import RuleError, SoftLabelError
from spu_core.html_table import Plotted, Tabular, count, html_table, short_repr
from spu_core.labels.belief_suggestions import labels_follow_rules, rules_reach_labels
from spu_core.rules import FittedRules, RuleMatrix, RuleSet
from spu_core.rules.combine import combiner_of
from spu_core.rules.matrix import covered
from spu_core.tables import Role, Table


@dataclass(frozen=True, eq=False)
class SoftLabels(Plotted):
    """One soft label per row, with its origin.

    Parameters
    ----------
    value : ndarray of float
        S: 1 for confirmed cases, else the rule score.
    rule_score : ndarray of float
        Score from the rules alone, without labels. Only this may be used as a feature: S = 1 of a labelled row would
        leak its label.
    is_labeled : ndarray of bool
        Confirmed cases.
    rule_columns : tuple of str, default ()
        Columns that the rules read.
    combine : str, optional
        Combiner. None for ready-made values.
    floor : float, default 0
        Soft label where no rule fires.
    matrix : RuleMatrix, optional
        Beliefs of each rule. None for ready-made values, and for tables in files, whose matrix would need too much
        memory.
    refined_from : ndarray of float, optional
        The analyst's own S, where a model has refined `value`.
    rules_chose_labels : bool, default False
        Whether the rules seem to have decided which rows were checked; used only if there is no matrix.

    Raises
    ------
    SoftLabelError
        If values lie outside [0, 1], lengths differ, or a confirmed case has a soft label below 1.

    See Also
    --------
    assign_soft_labels : From a rule matrix.
    soft_labels_for : From a table and a rule set.
    SoftLabels.from_values : From ready-made values.

    Examples
    --------
    >>> labels = SoftLabels.from_values([0.2, 0.7, 0.1], [False, False, True])
    >>> labels.value.tolist(), labels.rule_score.tolist()
    ([0.2, 0.7, 1.0], [0.2, 0.7, 0.1])
    """

    value: np.ndarray
    rule_score: np.ndarray
    is_labeled: np.ndarray
    rule_columns: tuple[str, ...] = ()
    combine: str | None = None
    floor: float = 0.0
    matrix: RuleMatrix | None = None
    refined_from: np.ndarray | None = None
    rules_chose_labels: bool = False

    def __post_init__(self) -> None:
        value = check_soft_label(self.value, "value")
        rule_score = check_soft_label(self.rule_score, "rule_score")
        is_labeled = check_flags(self.is_labeled, value.size, "is_labeled")
        if rule_score.size != value.size:
            raise SoftLabelError(f"rule_score has {rule_score.size} rows, but value has {value.size}.")
        if (value[is_labeled] != 1.0).any():
            row = int(np.flatnonzero(is_labeled & (value != 1.0))[0])
            raise SoftLabelError(f"Row {row} is a confirmed case, so its soft label must be 1, got {value[row]:g}.")
        for name, array in (("value", value), ("rule_score", rule_score), ("is_labeled", is_labeled)):
            object.__setattr__(self, name, read_only(array))
        object.__setattr__(self, "rule_columns", tuple(self.rule_columns))

    @classmethod
    def from_values(cls, value: Any, is_labeled: Any, rule_columns: Sequence[str] = ()) -> SoftLabels:
        """Soft labels from given values; confirmed cases become 1.

        >>> SoftLabels.from_values([0.2, 0.7, 0.1], [False, False, True]).value.tolist()
        [0.2, 0.7, 1.0]
        """
        rule_score = check_soft_label(value, "value")
        is_labeled = check_flags(is_labeled, rule_score.size, "is_labeled")
        return cls(np.where(is_labeled, 1.0, rule_score), rule_score, is_labeled, tuple(rule_columns))

    def __repr__(self) -> str:
        confirmed = f"{int(np.count_nonzero(self.is_labeled)):,} confirmed"
        mean = f"mean {self.mean:.3f}" if len(self) else None
        refined = "refined" if self.is_refined else None
        return short_repr("SoftLabels", None, count(len(self), "row"), confirmed, mean, refined)

    def to_frame(self) -> pd.DataFrame:
        """A row for each row of the table: S, the score of the rules alone, and whether it is a confirmed case."""
        return pd.DataFrame({"soft_label": self.value, "rule_score": self.rule_score, "is_labeled": self.is_labeled})

    def _repr_html_(self) -> str:
        rest = ~self.is_labeled
        sorts = {
            "confirmed": self.is_labeled,
            "raised by a rule": rest & (self.rule_score > self.floor),
            "at the floor": rest & (self.rule_score <= self.floor),
        }
        lines = [
            (name, f"{np.count_nonzero(rows):,}", *_mean_and_ends(self.value[rows])) for name, rows in sorts.items()
        ]
        return html_table(
            repr(self), pd.DataFrame(lines, columns=["rows that are", "number", "mean S", "lowest", "highest"])
        )

    def __len__(self) -> int:
        return self.value.size

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The values, so that metrics, classifiers and NumPy take soft labels as they are."""
        return np.array(self.value, dtype=dtype, copy=copy)

    @property
    def mean(self) -> float:
        """E[S]."""
        return float(self.value.mean())

    @property
    def is_refined(self) -> bool:
        """Whether a model has refined the values."""
        return self.refined_from is not None

    @property
    def of_analyst(self) -> np.ndarray:
        """The analyst's own S, before a model refined it."""
        return self.value if self.refined_from is None else self.refined_from

    @property
    def labels_chosen_by_rules(self) -> bool:
        """Whether the rules seem to have decided which rows were checked."""
        if self.matrix is None:
            return self.rules_chose_labels
        return labels_follow_rules(self.matrix, self.is_labeled)

    def take(self, rows: Any) -> SoftLabels:
        """Only some rows, by number or by flag."""
        rows = np.asarray(rows)
        matrix = None if self.matrix is None else self.matrix.take(rows)
        parts = (self.value[rows], self.rule_score[rows], self.is_labeled[rows])
        refined_from = None if self.refined_from is None else self.refined_from[rows]
        return SoftLabels(*parts, self.rule_columns, self.combine, self.floor, matrix, refined_from)

    @property
    def first_suspected_row(self) -> int:
        """The first unconfirmed row that a rule suspects; 0 where there is none."""
        suspected = (self.rule_score > self.floor) & ~self.is_labeled
        return int(suspected.argmax()) if suspected.size else 0

    def explain(self, row: int) -> Explanation:
        """The contributions of each rule, the floor and the label to the S of one row; they add up to S."""
        return explain_row(self, row)


def assign_soft_labels(
    matrix: RuleMatrix, is_labeled: Any, combine: str = "noisy_or", floor: float = 0.0
) -> SoftLabels:
    """Soft labels from a rule matrix: beliefs combined per row, at least `floor`, and 1 for confirmed cases.

    Parameters
    ----------
    matrix : RuleMatrix
        Beliefs of every rule for every row: `RuleSet.fit(table).apply(frame)`.
    is_labeled : array-like of bool
        Confirmed cases.
    combine : str, default "noisy_or"
        How beliefs are combined: "strongest", "noisy_or", "mean_of_fired", "first_match" or "logit_sum".
    floor : float, default 0
        Soft label where no rule fires.

    Returns
    -------
    SoftLabels

    Raises
    ------
    SoftLabelError
        If an argument is not valid.

    Examples
    --------
    >>> matrix = RuleMatrix.from_arrays(["a", "b"], [[0.5, 0.5], [0.3, 0.0], [0.0, 0.0], [0.0, 0.2]])
    >>> soft_labels = assign_soft_labels(matrix, [False, False, False, True], floor=0.05)
    >>> soft_labels.value.tolist(), soft_labels.rule_score.tolist()
    ([0.75, 0.3, 0.05, 1.0], [0.75, 0.3, 0.05, 0.2])
    """
    if not isinstance(matrix, RuleMatrix):
        raise SoftLabelError(
            f"assign_soft_labels needs a RuleMatrix (RuleSet.fit(table).apply(frame)), got {type(matrix).__name__}."
        )
    combiner = combiner_of(combine)
    floor = check_share(floor, "floor", SoftLabelError, closed=True)
    is_labeled = check_flags(is_labeled, len(matrix), "is_labeled")
    rule_score = np.maximum(combiner.combine(matrix), floor)
    value = np.where(is_labeled, 1.0, rule_score)
    return SoftLabels(value, rule_score, is_labeled, matrix.columns, combiner.name, floor, matrix)


def soft_labels_for(table: Table, rules: RuleSet | FittedRules) -> SoftLabels:
    """Soft labels of a table from a rule set, with the combiner and floor of the rule set.

    Parameters
    ----------
    table : Table
        The rows, with their label column.
    rules : RuleSet or FittedRules
        A `RuleSet` is fitted to the table first.

    Returns
    -------
    SoftLabels

    Raises
    ------
    RuleError
        If a rule does not fit the table (unknown column, wrong type).

    Examples
    --------
    >>> import pandas as pd
    >>> from spu_core.rules import Compare, Rule
    >>> table = Table.from_frame(pd.DataFrame({"gain": [0, 9, 3, 0], "label": [0, 0, 0, 1]}))
    >>> soft_labels_for(table, RuleSet((Rule("rich", 0.5, Compare("gain", ">", 5)),))).value.tolist()
    [0.0, 0.5, 0.0, 1.0]
    """
    use = "use RuleSet.from_json(text)" if isinstance(rules, str) else "use RuleSet((rule,))"
    check_kind(rules, (RuleSet, FittedRules), "The rules must be a RuleSet", use, RuleError)
    fitted = rules.fit(table) if isinstance(rules, RuleSet) else rules
    check_kind(table, Table, "The table must be a Table", "use Table.from_frame(frame)", RuleError)
    if table.in_memory:
        return _soft_labels_of(table, fitted)
    return join_labels(table, fitted, part_labels(table.parts(columns_for(table, fitted)), fitted))


def _soft_labels_of(part: Table, fitted: FittedRules) -> SoftLabels:
    matrix = fitted.apply_to_part(part.frame)
    return assign_soft_labels(matrix, part.is_labeled, fitted.rules.combine, fitted.rules.floor)


@dataclass(frozen=True, slots=True)
class Contribution:
    """The belief of one rule for one row, and its contribution to S."""

    rule: str
    fired: bool
    belief: float
    amount: float


@dataclass(frozen=True, slots=True)
class Explanation(Tabular):
    """The S of one row as a sum of contributions; all amounts add up to `value`."""

    row: int
    value: float
    rule_score: float
    combine: str | None
    contributions: tuple[Contribution, ...]
    ready_made: float
    floor_lift: float
    label_lift: float

    def __repr__(self) -> str:
        return short_repr(
            "Explanation", None, f"row {self.row}", f"S = {self.value:.3f}", count(len(self.fired), "rule") + " fired"
        )

    @property
    def fired(self) -> tuple[Contribution, ...]:
        """Only the rules that fired, the largest contribution first."""
        return tuple(sorted((c for c in self.contributions if c.fired), key=lambda c: -c.amount))

    @property
    def text(self) -> str:
        """The explanation in one sentence."""
        parts = [f"{c.rule!r} (belief {c.belief:.2f}) gives {c.amount:.2f}" for c in self.fired]
        lifts = (
            ("the ready-made value gives", self.ready_made),
            ("the floor adds", self.floor_lift),
            ("being a confirmed case adds", self.label_lift),
        )
        parts += [f"{source} {amount:.2f}" for source, amount in lifts if amount > 0]
        reason = "; ".join(parts) if parts else "no rule fired, and the floor is 0"
        return f"Soft label {self.value:.2f}: {reason}."

    def __str__(self) -> str:
        return self.text

    def to_frame(self) -> pd.DataFrame:
        """What adds up to S: a line for each rule that fired, and for what else raises S."""
        lines = [(each.rule, each.belief, each.amount) for each in self.fired]
        lifts = {"ready-made value": self.ready_made, "floor": self.floor_lift, "confirmed case": self.label_lift}
        lines += [(source, np.nan, amount) for source, amount in lifts.items() if amount > 0]
        return pd.DataFrame(lines, columns=["from", "belief", "contribution"])

    def table(self) -> pd.DataFrame:
        """One line per rule: fired, belief, contribution."""
        lines = [(c.rule, c.fired, c.belief, c.amount) for c in self.contributions]
        return pd.DataFrame(lines, columns=["rule", "fired", "belief", "contribution"]).set_index("rule")


def _mean_and_ends(value: np.ndarray) -> tuple[float, float, float]:
    return (value.mean(), value.min(), value.max()) if value.size else (np.nan, np.nan, np.nan)


def explain_row(soft_labels: SoftLabels, row: int) -> Explanation:
    """The contributions to the S of one row."""
    if not 0 <= row < len(soft_labels):
        raise SoftLabelError(f"There is no row {row}; rows are counted from 0 to {len(soft_labels) - 1}.")
    value, rule_score = float(soft_labels.value[row]), float(soft_labels.rule_score[row])
    contributions = _contributions(soft_labels, row)
    combined = sum(contribution.amount for contribution in contributions)
    is_ready_made = soft_labels.matrix is None
    return Explanation(
        row=int(row),
        value=value,
        rule_score=rule_score,
        combine=soft_labels.combine,
        contributions=contributions,
        ready_made=rule_score if is_ready_made else 0.0,
        floor_lift=0.0 if is_ready_made or rule_score > soft_labels.floor else rule_score - combined,
        label_lift=value - rule_score,
    )


def _contributions(soft_labels: SoftLabels, row: int) -> tuple[Contribution, ...]:
    matrix, name = soft_labels.matrix, soft_labels.combine
    if matrix is None or name is None:
        return ()
    one_row = matrix.take(np.array([row]))
    combiner = combiner_of(name)
    belief, fired = one_row.belief[0], one_row.fired[0]
    amount = combiner.shares(belief, fired) * combiner.combine(one_row)[0]
    cells = zip(matrix.names, fired.tolist(), belief.tolist(), amount.tolist(), strict=True)
    return tuple(Contribution(*cell) for cell in cells)


def columns_for(table: Table, fitted: FittedRules) -> tuple[str, ...]:
    """The columns that rules and labels need. If they need none, the first column, to count the rows."""
    needed = {*fitted.columns, *table.columns_with(Role.LABEL)}
    return tuple(name for name in table.column_names if name in needed) or table.column_names[:1]


@dataclass(frozen=True, eq=False)
class PartLabels:
    """Soft labels of one part: their values, and the number of rows on which a rule fired."""

    value: np.ndarray
    rule_score: np.ndarray
    reached: int
    reached_labeled: int


def part_labels(parts: Iterable[Table], fitted: FittedRules) -> Iterator[PartLabels]:
    """The soft labels of parts, without their rule matrices."""
    for part in parts:
        found = _soft_labels_of(part, fitted)
        assert found.matrix is not None
        fired = covered(found.matrix)
        yield PartLabels(found.value, found.rule_score, int(fired.sum()), int(fired[found.is_labeled].sum()))


def join_labels(table: Table, fitted: FittedRules, parts: Iterable[PartLabels]) -> SoftLabels:
    """The soft labels of all rows, 17 bytes each, from those of the parts in order."""
    value, rule_score = np.empty(len(table)), np.empty(len(table))
    reached = reached_labeled = start = 0
    for part in parts:
        rows = slice(start, start + part.value.size)
        value[rows], rule_score[rows] = part.value, part.rule_score
        reached, reached_labeled = reached + part.reached, reached_labeled + part.reached_labeled
        start = rows.stop
    for array in (value, rule_score):
        array.flags.writeable = False
    labeled = int(table.is_labeled.sum())
    follows = rules_reach_labels(reached_labeled, labeled, reached, len(table))
    return SoftLabels(
        value,
        rule_score,
        table.is_labeled,
        fitted.columns,
        fitted.rules.combine,
        fitted.rules.floor,
        rules_chose_labels=follows,
    )
