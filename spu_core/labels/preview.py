"""Preview of an unsaved rule, fast enough for interactive use: rows are grouped into a few states.

The *state* of a row is the result of the other rules: their combined belief, what else the combiner needs (for the
mean, how many fired), and whether the row is a confirmed case. The effect of one more rule depends only on the
state, so it is counted per state and belief, not computed per row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import SoftLabelError
from spu_core.labels.belief_suggestions import BeliefSuggestion, Prior, suggest_belief
from spu_core.labels.soft_label_audit import ceiling_or_nan
from spu_core.rules import Rule, RuleMatrix, RuleSet
from spu_core.rules.checking import check_kinds, refuse_errors
from spu_core.rules.columns import Columns, kind_of
from spu_core.rules.combine import combiner_of
from spu_core.rules.matrix import lift_interval
from spu_core.rules.rule_set import apply_rule, freeze_rule
from spu_core.tables import Table

BINS = 20
# With more than MOST_VALUES distinct values, combined beliefs are rounded to this grid. The error is at most 0.0005,
# and 0 on average.
GRID = 1_000
MOST_VALUES = 1_024
# The same for graded beliefs of a draft (ramps). With both, the error of S is at most 0.0025, that of its mean far
# smaller.
BELIEF_GRID = 250
# More pairs of state and belief than this are grouped by their S before they are sorted.
MOST_CELLS = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class RulePreview:
    """The effect of a draft: the rows on which it fires, their labels, and S with the draft included.

    `share_suspected` is the share of rows that are unlabelled and have an S above the floor.
    """

    n_rows: int
    n_labeled: int
    rows: int
    labeled_rows: int
    lift: float
    lift_low: float
    lift_high: float
    mean: float
    ceiling: float
    share_between: float
    share_suspected: float
    bin_edges: np.ndarray
    bin_rows: np.ndarray
    bin_labeled: np.ndarray
    suggestion: BeliefSuggestion | None = None

    @property
    def share(self) -> float:
        """The share of all rows on which the draft fires."""
        return self.rows / self.n_rows


@dataclass(frozen=True, slots=True, eq=False)
class PreviewBase:
    """A table with its saved rules, prepared to preview one more.

    `state` is the index of each row into the arrays with one entry per state.

    >>> from spu_core.rules import Compare
    >>> frame = pd.DataFrame({"age": [20, 40, 60, 80], "label": [0, 0, 0, 1]})
    >>> saved = RuleSet((Rule("old", 0.5, Compare("age", ">", 50)),))
    >>> preview = preview_base(Table.from_frame(frame), saved).preview(Rule("adult", 0.5, Compare("age", ">", 30)))
    >>> preview.rows, preview.mean
    (3, 0.5625)
    """

    columns: Columns
    is_labeled: np.ndarray
    combine: str
    floor: float
    state: np.ndarray
    value: np.ndarray
    memory: np.ndarray
    state_labeled: np.ndarray
    rows: np.ndarray

    def preview(self, draft: Rule | None, *, prior: Prior | None = None) -> RulePreview:
        """S with the draft included (None: only the saved rules). With a class prior, also a suggested belief."""
        if draft is None:
            fired, mean_belief = np.zeros(self.state.size, dtype=bool), float("nan")
            parts = [self._part(np.arange(self.value.size), None, self.rows)]
        else:
            fired, belief = self._apply(draft)
            mean_belief, parts = self._counted(fired, belief)
        value, labeled, rows = (np.concatenate(column) for column in zip(*parts, strict=True))
        hits = int(np.count_nonzero(fired & self.is_labeled))
        n_labeled, touched = int(np.count_nonzero(self.is_labeled)), int(np.count_nonzero(fired))
        lift, low, high = lift_interval(hits, n_labeled, touched, fired.size)
        return RulePreview(
            n_rows=fired.size,
            n_labeled=n_labeled,
            rows=touched,
            labeled_rows=hits,
            lift=lift,
            lift_low=low,
            lift_high=high,
            suggestion=self._suggestion(draft, fired, mean_belief, prior),
            **_figures(value, labeled, rows, self.floor),  # type: ignore[arg-type]
            **_histogram(value, labeled, rows),  # type: ignore[arg-type]
        )

    def _suggestion(
        self, draft: Rule | None, fired: np.ndarray, mean_belief: float, prior: Prior | None
    ) -> BeliefSuggestion | None:
        if draft is None or prior is None:
            return None
        known = None if np.isnan(mean_belief) else mean_belief
        return suggest_belief(fired, self.is_labeled, prior=prior, belief=known, rule=draft.name)

    def _apply(self, draft: Rule) -> tuple[np.ndarray, float | np.ndarray]:
        """Where the draft fires, and its belief."""
        unknown = [name for name in draft.columns if name not in self.columns.kinds]
        if unknown:
            raise SoftLabelError(f"Rule {draft.name!r} uses column {unknown[0]!r}, which is not in the data.")
        refuse_errors(check_kinds(draft, self.columns.kinds))
        fired = np.empty(self.state.size, dtype=bool)
        return fired, apply_rule(draft, freeze_rule(draft, self.columns), self.columns, fired)

    def _counted(self, fired: np.ndarray, belief: float | np.ndarray) -> tuple[float, list[Any]]:
        """The mean belief of the draft, and parts of (S, is labelled, rows) by state and belief."""
        states = self.state[fired]
        size = self.value.size
        if isinstance(belief, float):
            levels, touched = np.array([belief]), np.bincount(states, minlength=size)[:, None]
        else:
            levels = np.arange(BELIEF_GRID + 1) / BELIEF_GRID
            level = np.rint(belief[fired] * BELIEF_GRID).astype(np.int64)
            touched = np.bincount(states * levels.size + level, minlength=size * levels.size)
            touched = touched.reshape(size, levels.size)
        place, level = np.nonzero(touched)
        rows = touched[place, level]
        mean_belief = float((levels[level] * rows).sum() / rows.sum()) if rows.size else float("nan")
        rest = self.rows - touched.sum(axis=1)
        left = np.flatnonzero(rest)
        return mean_belief, [self._part(place, levels[level], rows), self._part(left, None, rest[left])]

    def _part(self, place: np.ndarray, belief: np.ndarray | None, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        value = self.value[place] if belief is None else self._merged(place, belief)
        labeled = self.state_labeled[place]
        return np.where(labeled, 1.0, np.maximum(value, self.floor)), labeled, rows

    def _merged(self, place: np.ndarray, belief: np.ndarray) -> np.ndarray:
        """The combined value of each state with one more fired rule."""
        return combiner_of(self.combine).merge(self.value[place], self.memory[place], belief)


def preview_base(
    table: Table, rules: RuleSet, *, matrix: RuleMatrix | None = None, instead_of: str | None = None
) -> PreviewBase:
    """Prepare the preview of a draft; `instead_of` is the id of the rule that the draft will replace.

    `matrix` is the rule matrix of the active rules, if it has already been computed.
    """
    active = rules.active
    matrix = active.fit(table).apply(table.frame) if matrix is None else matrix
    place = _place(rules, instead_of)
    is_active = instead_of is not None and rules[instead_of].on
    others = matrix.without(matrix.names[place]) if is_active else matrix
    combiner = combiner_of(rules.combine)
    memory = np.zeros(len(others), dtype=np.int64) if combiner.memory is None else combiner.memory(others, place)
    kinds = {name: kind_of(table.frame[name]) for name in table.frame.columns}
    return PreviewBase(
        Columns(table.frame, kinds),
        table.is_labeled,
        rules.combine,
        rules.floor,
        *_compressed(combiner.combine(others), memory, table.is_labeled),
    )


def _place(rules: RuleSet, instead_of: str | None) -> int:
    """The number of active rules before the draft."""
    ids = [rule.id for rule in rules]
    before = ids.index(instead_of) if instead_of is not None else len(ids)
    return sum(rule.on for rule in rules.rules[:before])


def _compressed(value: np.ndarray, memory: np.ndarray, is_labeled: np.ndarray) -> tuple[np.ndarray, ...]:
    """The state of each row, then the value, memory, label and number of rows of each state."""
    # The first rows often show already that there are too many distinct values.
    if np.unique(value[: 10 * MOST_VALUES]).size > MOST_VALUES or pd.Series(value).nunique() > MOST_VALUES:
        code, values = np.rint(value * GRID).astype(np.int64), np.arange(GRID + 1) / GRID
    else:
        code, values = pd.factorize(value)
    key = (code * (int(memory.max(initial=0)) + 1) + memory) * 2 + is_labeled
    state, keys = pd.factorize(key)
    first = np.zeros(len(keys), dtype=np.int64)
    first[state[::-1]] = np.arange(state.size)[::-1]
    parts = (values[code[first]], memory[first], is_labeled[first])
    return (state, *parts, np.bincount(state, minlength=len(keys)))


def _figures(value: np.ndarray, labeled: np.ndarray, rows: np.ndarray, floor: float) -> dict[str, float]:
    total = rows.sum()
    between = rows[(value > 0.0) & (value < 1.0)].sum() / total
    suspected = rows[(value > floor) & ~labeled].sum() / total
    mean = (value * rows).sum() / total
    if value.size > MOST_CELLS:
        rows = np.bincount(np.rint(value * MOST_CELLS).astype(np.int64), weights=rows, minlength=MOST_CELLS + 1)
        value = np.arange(rows.size) / MOST_CELLS
        value, rows = value[rows > 0], rows[rows > 0]
    ceiling = ceiling_or_nan(value, rows.astype(np.float64))
    return {
        "mean": float(mean),
        "ceiling": ceiling,
        "share_between": float(between),
        "share_suspected": float(suspected),
    }


def _histogram(value: np.ndarray, labeled: np.ndarray, rows: np.ndarray) -> dict[str, np.ndarray]:
    edges = np.linspace(0.0, 1.0, BINS + 1)
    all_rows = np.histogram(value, edges, weights=rows)[0]
    bin_labeled = np.histogram(value[labeled], edges, weights=rows[labeled])[0]
    return {"bin_edges": edges, "bin_rows": all_rows, "bin_labeled": bin_labeled}
