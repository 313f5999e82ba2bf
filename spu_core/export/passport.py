"""What a run cannot know of itself: its rules in frozen form, its id column, its purpose, licence and contact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import pandas as pd

from spu_core.checks import check_choice, check_share
from spu_core.errors import BundleError
from spu_core.labels import COMBINERS, SoftLabels, assign_soft_labels
from spu_core.rules import FittedRules, RuleMatrix
from spu_core.tables import Role, Table

LONGEST_TEXT = 10_000
_TEXTS = ("data_name", "fingerprint", "purpose", "licence", "contact", "chosen_because")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How soft labels are made from rules: the rules with their frozen numbers, the combiner and the floor."""

    rules: FittedRules
    combine: str = "noisy_or"
    floor: float = 0.0

    def __post_init__(self) -> None:
        check_choice(self.combine, COMBINERS, "combine", BundleError)
        check_share(self.floor, "floor", BundleError, closed=True)

    def apply(self, frame: pd.DataFrame) -> RuleMatrix:
        """What each rule says about each row."""
        return self.rules.apply(frame)

    def rule_score(self, matrix: RuleMatrix) -> np.ndarray:
        """The combined rule score, as training saw it."""
        nobody = np.zeros(len(matrix), dtype=bool)
        return assign_soft_labels(matrix, nobody, self.combine, self.floor).rule_score


@dataclass(frozen=True, kw_only=True)
class Passport:
    """The words and columns that travel with a bundle; all of them may be left out.

    `fingerprint` is that of the training table. `history` lists changes, the latest last, as the analyst words them.
    `chosen_because` says how this run was chosen among the candidates.
    """

    id_column: str | None = None
    data_name: str = ""
    fingerprint: str = ""
    purpose: str = ""
    licence: str = ""
    contact: str = ""
    chosen_because: str = ""
    history: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in _TEXTS:
            _check_text(getattr(self, name), name)
        if self.id_column is not None:
            _check_text(self.id_column, "id_column")
        object.__setattr__(self, "history", tuple(_check_text(entry, "history") for entry in self.history))

    @classmethod
    def of(cls, table: Table, **words: Any) -> Passport:
        """The id column, the name and the fingerprint of a table, with the given words."""
        own = {"id_column": table.column_with(Role.ID), "data_name": table.name, "fingerprint": table.fingerprint}
        return cls(**{**own, **words})

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "history": list(self.history)}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Passport:
        known = {field.name for field in fields(cls)}
        for name in found:
            if name not in known:
                raise BundleError(f"The passport has a field {str(name)[:60]!r}, which this version does not know.")
        return cls(**{**found, "history": tuple(found.get("history", ()))})


def recipe_of(soft_labels: SoftLabels, rules: FittedRules | None) -> Recipe | None:
    """The recipe of soft labels that were made from fitted rules; None where there are no rules."""
    if rules is None or soft_labels.combine is None:
        return None
    return Recipe(rules=rules, combine=soft_labels.combine, floor=soft_labels.floor)


def _check_text(value: Any, name: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise BundleError(f"{name} must be text of at most {LONGEST_TEXT:,} characters, got {str(value)[:40]!r}.")
    return value
