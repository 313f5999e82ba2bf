"""Soft labels of a folder, part by part: what the rules say of a row does not depend on who else is in its part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from spu_core.errors import RuleError
from spu_core.labels.beliefs import rules_reach_labels
from spu_core.labels.soft_labels import SoftLabels, assign_soft_labels
from spu_core.rules import FittedRules, RuleSet
from spu_core.rules.analysis import covered
from spu_core.tables import Role, TableFolder, TablePart


@dataclass(frozen=True, eq=False)
class FolderSoftLabels(SoftLabels):
    """Soft labels without the matrix of rules, which would be larger than all the rest.

    `labels_follow_rules` keeps what the matrix would have told: whether the rules decided who was checked.
    """

    labels_follow_rules: bool = False

    @property
    def labels_chosen_by_rules(self) -> bool:
        return self.labels_follow_rules


def label_parts(folder: TableFolder, fitted: FittedRules) -> Iterator[tuple[TablePart, SoftLabels]]:
    """The parts of a folder with all columns, each with its soft labels."""
    for part in folder.parts():
        yield part, soft_labels_of_part(part, fitted)


def soft_labels_of_part(part: TablePart, fitted: FittedRules) -> SoftLabels:
    """What fitted rules say of some rows; the rows are named by their numbers in the whole table."""
    recipe = fitted.rules
    try:
        matrix = fitted.apply(part.frame)
    except RuleError as problem:
        raise RuleError(f"In the part that starts at row {part.frame.index[0]:,}: {problem}") from None
    return assign_soft_labels(matrix, part.is_labeled, recipe.combine, recipe.floor)


def soft_labels_for_folder(folder: TableFolder, rules: RuleSet | FittedRules) -> FolderSoftLabels:
    """The soft labels of all rows, 17 bytes each, in one pass over the columns that the rules read."""
    fitted = rules.fit(folder) if isinstance(rules, RuleSet) else rules
    parts = folder.parts(columns_for(folder, fitted))
    return join_labels(folder, fitted, (PartLabels.of(soft_labels_of_part(part, fitted)) for part in parts))


def columns_for(folder: TableFolder, fitted: FittedRules) -> tuple[str, ...]:
    """The columns that rules and labels read; the first one where they read none, so that rows can be counted."""
    needed = {*fitted.columns, *folder.columns_with(Role.LABEL)}
    return tuple(name for name in folder.column_names if name in needed) or folder.column_names[:1]


@dataclass(frozen=True, eq=False)
class PartLabels:
    """What is kept of the soft labels of some rows: their values, and how many rows the rules reached."""

    value: np.ndarray
    rule_score: np.ndarray
    reached: int
    reached_labeled: int

    @classmethod
    def of(cls, found: SoftLabels) -> PartLabels:
        assert found.matrix is not None
        fired = covered(found.matrix)
        return cls(found.value, found.rule_score, int(fired.sum()), int(fired[found.is_labeled].sum()))


def join_labels(folder: TableFolder, fitted: FittedRules, parts: Iterable[PartLabels]) -> FolderSoftLabels:
    """The soft labels of all rows from those of the parts, in order."""
    value, rule_score = np.empty(len(folder)), np.empty(len(folder))
    reached = reached_labeled = start = 0
    for part in parts:
        rows = slice(start, start + part.value.size)
        value[rows], rule_score[rows] = part.value, part.rule_score
        reached, reached_labeled = reached + part.reached, reached_labeled + part.reached_labeled
        start = rows.stop
    for array in (value, rule_score):
        array.flags.writeable = False
    labeled = int(folder.is_labeled.sum())
    follows = rules_reach_labels(reached_labeled, labeled, reached, len(folder))
    return FolderSoftLabels(
        value,
        rule_score,
        folder.is_labeled,
        fitted.columns,
        fitted.rules.combine,
        fitted.rules.floor,
        labels_follow_rules=follows,
    )
