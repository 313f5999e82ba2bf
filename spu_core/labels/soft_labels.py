"""Soft labels: our belief that each row is positive, made from rules and confirmed labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spu_core.checks import check_flags, check_share, check_soft_label
from spu_core.errors import SoftLabelError
from spu_core.labels.explain import Explanation, explain_row
from spu_core.rules import FittedRules, RuleMatrix, RuleSet
from spu_core.rules.combine import combiner_of
from spu_core.tables import Table, TableFolder


@dataclass(frozen=True, eq=False)
class SoftLabels:
    """One soft label per row, with what training must know about where it came from.

    `value` is S: 1 for confirmed positives, else the rule score. `rule_score` is what the rules alone say, before
    labels override it (the only one that may be a feature: S = 1 of a labelled row would leak its label).
    `rule_columns` are the columns that the rules read. `matrix` and `combine` are None where values came ready-made.
    """

    value: np.ndarray
    rule_score: np.ndarray
    is_labeled: np.ndarray
    rule_columns: tuple[str, ...] = ()
    combine: str | None = None
    floor: float = 0.0
    matrix: RuleMatrix | None = None

    def __post_init__(self) -> None:
        value = check_soft_label(self.value, "value")
        rule_score = check_soft_label(self.rule_score, "rule_score")
        is_labeled = check_flags(self.is_labeled, value.size, "is_labeled")
        if rule_score.size != value.size:
            raise SoftLabelError(f"rule_score has {rule_score.size} rows, but value has {value.size}.")
        if (value[is_labeled] != 1.0).any():
            row = int(np.flatnonzero(is_labeled & (value != 1.0))[0])
            raise SoftLabelError(f"Row {row} is a confirmed positive, so its soft label must be 1, got {value[row]:g}.")
        for name, array in (("value", value), ("rule_score", rule_score), ("is_labeled", is_labeled)):
            object.__setattr__(self, name, _read_only(array))
        object.__setattr__(self, "rule_columns", tuple(self.rule_columns))

    @classmethod
    def from_values(cls, value: Any, is_labeled: Any, rule_columns: Sequence[str] = ()) -> SoftLabels:
        """Soft labels that are ready-made; confirmed positives become 1.

        >>> SoftLabels.from_values([0.2, 0.7, 0.1], [False, False, True]).value.tolist()
        [0.2, 0.7, 1.0]
        """
        rule_score = check_soft_label(value, "value")
        is_labeled = check_flags(is_labeled, rule_score.size, "is_labeled")
        return cls(np.where(is_labeled, 1.0, rule_score), rule_score, is_labeled, tuple(rule_columns))

    def __len__(self) -> int:
        return self.value.size

    @property
    def mean(self) -> float:
        """E[S]."""
        return float(self.value.mean())

    def take(self, rows: Any) -> SoftLabels:
        """Only some rows, by number or by flag."""
        rows = np.asarray(rows)
        matrix = None if self.matrix is None else self.matrix.take(rows)
        parts = (self.value[rows], self.rule_score[rows], self.is_labeled[rows])
        return SoftLabels(*parts, self.rule_columns, self.combine, self.floor, matrix)

    @property
    def first_suspected_row(self) -> int:
        """The first unconfirmed row that a rule suspects; 0 where there is none."""
        suspected = (self.rule_score > self.floor) & ~self.is_labeled
        return int(suspected.argmax()) if suspected.size else 0

    def explain(self, row: int) -> Explanation:
        """Why this row has its S: what each rule, the floor and the label contribute; they add up to S."""
        return explain_row(self, row)


def assign_soft_labels(
    matrix: RuleMatrix, is_labeled: Any, combine: str = "noisy_or", floor: float = 0.0
) -> SoftLabels:
    """Soft labels from what the rules say: combined per row, not below `floor`, and 1 for confirmed positives.

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


def soft_labels_for(table: Table | TableFolder, rules: RuleSet | FittedRules) -> SoftLabels:
    """The soft labels that a rule set gives a table, combined as the set says; unfitted rules are fitted to it.

    >>> import pandas as pd
    >>> from spu_core.rules import Compare, Rule
    >>> table = Table.from_frame(pd.DataFrame({"gain": [0, 9, 3, 0], "label": [0, 0, 0, 1]}))
    >>> soft_labels_for(table, RuleSet((Rule("rich", 0.5, Compare("gain", ">", 5)),))).value.tolist()
    [0.0, 0.5, 0.0, 1.0]
    """
    if isinstance(table, TableFolder):
        from spu_core.labels.folder_labels import soft_labels_for_folder

        return soft_labels_for_folder(table, rules)
    fitted = rules.fit(table) if isinstance(rules, RuleSet) else rules
    recipe = fitted.rules
    return assign_soft_labels(fitted.apply(table.frame), table.is_labeled, recipe.combine, recipe.floor)


def _read_only(array: np.ndarray) -> np.ndarray:
    """A view that cannot be written through; the caller's own array keeps its freedom only if it is copied."""
    if array.flags.writeable:
        array = array.copy()
        array.flags.writeable = False
    return array
