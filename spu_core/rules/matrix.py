"""The rule matrix: what every rule says about every row; the artefact that joins rules and soft labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import RuleError, nearest_hint
from spu_core.tables import Finding


@dataclass(frozen=True, eq=False)
class RuleMatrix:
    """Rows × rules: where each rule fired, and its belief there.

    A rule with one belief for all rows keeps it as one number; `belief` spreads it out (0 where not fired).

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
        object.__setattr__(self, "fired", _read_only(self.fired))
        beliefs = (_read_only(b) if isinstance(b, np.ndarray) else b for b in self.beliefs)
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

    def belief_at(self, row: int) -> np.ndarray:
        """What every rule believes of one row, 0 where it did not fire."""
        return np.array([self.belief_of_cell(row, j) for j in range(self.n_rules)])

    def belief_of_cell(self, row: int, rule: int) -> float:
        belief = self.beliefs[rule]
        return float(belief[row]) if isinstance(belief, np.ndarray) else belief * bool(self.fired[row, rule])

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
        """How many rows each pair of rules fired on together (rules × rules; the diagonal is each rule's own count)."""
        bits = np.packbits(self.fired, axis=0)
        counts = np.zeros((self.n_rules, self.n_rules), dtype=np.int64)
        for i in range(self.n_rules):
            for j in range(i + 1):
                counts[i, j] = counts[j, i] = np.bitwise_count(bits[:, i] & bits[:, j]).sum(dtype=np.int64)
        return counts

    def summary(self, is_labeled: Any = None, truth: Any = None, *, level: float = 0.95) -> pd.DataFrame:
        """One line per rule: see `summarize_rules`."""
        from spu_core.rules.analysis import summarize_rules

        return summarize_rules(self, is_labeled, truth, level=level)

    def overlaps(self, how: str = "share") -> pd.DataFrame:
        """Rules × rules: see `overlap_table`."""
        from spu_core.rules.analysis import overlap_table

        return overlap_table(self, how)

    def findings(self, is_labeled: Any = None, *, level: float = 0.95) -> tuple[Finding, ...]:
        """Rules that deserve a second look: see `rule_findings`."""
        from spu_core.rules.rule_findings import rule_findings

        return rule_findings(self, is_labeled, level=level)


def _read_only(array: np.ndarray) -> np.ndarray:
    """A view that cannot be written through; the caller's own array stays as free as it was."""
    view = array.view()
    view.flags.writeable = False
    return view
