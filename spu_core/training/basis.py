"""What scores are judged by: soft labels, labels and truth of the same rows, with folds, weights and groups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

FOLLOWS_RULES = (
    "The rules decided who was checked, so confirmed positives follow the rules and this figure can be flattered "
    "by them; mark randomly checked rows to have an independent one."
)
FROM_LABELS = "Beliefs were taken from labels or checks, so this figure is no longer independent of the rules."


@dataclass(frozen=True, eq=False)
class Basis:
    """What every score of one comparison is judged by; `judged` flags the rows that count.

    `refined` is the second opinion on S (None where it was not computed). `labels_note` says why confirmed positives
    are not independent of the rules, where they are not. `data_notes` are sentences about the rows and their split.
    """

    soft_label: np.ndarray
    is_labeled: np.ndarray
    rule_score: np.ndarray
    fold: np.ndarray
    judged: np.ndarray
    truth: np.ndarray | None = None
    weight: np.ndarray | None = None
    groups: np.ndarray | None = None
    refined: np.ndarray | None = None
    randomly_checked: np.ndarray | None = None
    labels_note: str | None = None
    data_notes: tuple[str, ...] = ()
    budget: float = 0.02
    level: float = 0.95

    def only(self, rows: np.ndarray) -> Basis:
        """The same basis with other rows judged."""
        return replace(self, judged=rows)

    def of(self, name: str, rows: np.ndarray | None = None) -> Any:
        """One part on the judged rows (or those given); None where the part is."""
        values = getattr(self, name)
        return None if values is None else values[self.judged if rows is None else rows]

    def common(self, rows: np.ndarray | None = None) -> dict[str, Any]:
        """The keyword arguments of every interval."""
        parts = {"sample_weight": self.of("weight", rows), "groups": self.of("groups", rows)}
        return {"level": self.level, **parts}

    @property
    def positives_rows(self) -> np.ndarray:
        """Rows on which confirmed positives are compared with the rest: the randomly checked ones where marked."""
        return self.judged if self.randomly_checked is None else self.judged & self.randomly_checked

    def same_as(self, other: Basis) -> bool:
        """Whether two runs are judged by the same S on the same rows."""
        names = ("soft_label", "judged", "is_labeled")
        return self is other or all(np.array_equal(getattr(self, n), getattr(other, n)) for n in names)
