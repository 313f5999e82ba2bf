"""The rules of a bundle as a part of its ONNX graph: conditions, beliefs and the combiner give the rule score.

Every value is rows × 1. As in the native code, a comparison with a missing value neither holds nor fails. Where the
native code refuses a row (a belief outside [0, 1], an impossible record of checks), the graph gives NaN.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from spu_core.errors import BundleError
from spu_core.export.bundle_parts import LabelRules
from spu_core.export.onnx_graph import MISSING_TEXT, Graph, interpolate
from spu_core.models.columns import DAY_NS
from spu_core.rules.beliefs import (
    MAX_CHECKS,
    FrozenBelief,
    FrozenConstant,
    FrozenRamp,
    FrozenRatios,
    FrozenReadyMade,
    FrozenRecords,
)
from spu_core.rules.columns import Kind, level_text
from spu_core.rules.conditions import AllOf, Compare, Condition, Not, comparable
from spu_core.rules.operators import ORDERED_KINDS, operator_of
from spu_core.theory.check_prior import CheckPrior

Beliefs = Sequence[tuple[str, str]]
"""For each rule the names of two values: whether it fired, and its belief, 0 where it did not."""


@dataclass
class RuleGraph:
    """Adds rules to a graph. `kinds` is the kind of each input, `refused` collects the rows that have no score."""

    graph: Graph
    label_rules: LabelRules
    kinds: Mapping[str, str]
    refused: list[str] = field(default_factory=list)

    def score(self) -> str:
        """The rule score, as double."""
        rules = self.label_rules.rules
        beliefs = [self._rule(rule.when, frozen) for rule, frozen in zip(rules.rules, rules.beliefs, strict=True)]
        combine = _COMBINERS.get(self.label_rules.combine)
        if combine is None:
            raise BundleError(f"Rules that are combined by {self.label_rules.combine!r} cannot become ONNX.")
        floor = self.graph.constant([[self.label_rules.floor]])
        if not beliefs:
            return self.graph.add("Where", self._always(), floor, floor)
        return self.graph.add("Max", combine(self.graph, beliefs), floor)

    def _rule(self, when: Condition | None, frozen: FrozenBelief) -> tuple[str, str]:
        graph = self.graph
        fired = self._always() if when is None else self._holds(when, False)
        belief = _BELIEFS[type(frozen)](self, frozen)
        if not isinstance(frozen, FrozenConstant):
            fired = graph.add("And", fired, graph.add("Greater", belief, graph.constant([[0.0]])))
        return fired, graph.add("Where", fired, belief, graph.constant([[0.0]]))

    def _always(self) -> str:
        name, kind = next(iter(self.kinds.items()))
        missing = self.graph.is_missing(name, kind)
        return self.graph.add("Or", missing, self.graph.add("Not", missing))

    def _holds(self, condition: Condition, negated: bool) -> str:
        if isinstance(condition, Not):
            return self._holds(condition.condition, not negated)
        if isinstance(condition, Compare):
            return self._compare(condition, negated)
        join = "And" if isinstance(condition, AllOf) != negated else "Or"
        parts = [self._holds(part, negated) for part in condition.parts]
        return reduce(lambda left, right: self.graph.add(join, left, right), parts)

    def _compare(self, compare: Compare, negated: bool) -> str:
        graph, operator, kind = self.graph, operator_of(compare.operator), self._kind(compare.column)
        missing = graph.is_missing(compare.column, self.kinds[compare.column])
        if operator.asks_missing:
            return self._pick(missing, operator.evaluate(np.array([False, True]), []) ^ negated)
        wanted = [comparable(value, kind) for value in compare.values]
        if kind is Kind.FLAG:
            is_one = graph.add("Greater", compare.column, graph.constant([[0.5]]))
            found = self._pick(is_one, operator.evaluate(np.array([False, True], dtype=object), wanted))
        else:
            table = _ORDERED if kind in ORDERED_KINDS else _TEXTS
            if operator.sign not in table:
                raise BundleError(f"A rule with {operator.words!r} on column {compare.column!r} cannot become ONNX.")
            if kind is Kind.DATE:
                wanted = [value.astype("datetime64[ns]").astype(np.int64) / DAY_NS for value in wanted]
            found = table[operator.sign](self, compare.column, wanted)
        found = graph.add("Not", found) if negated else found
        return graph.add("And", found, graph.add("Not", missing))

    def _pick(self, flag: str, results: np.ndarray) -> str:
        """`results[0]` where the flag is false, `results[1]` where it is true."""
        opposite = self.graph.add("Not", flag)
        if results[0] == results[1]:
            return self.graph.add("Or" if results[0] else "And", flag, opposite)
        return flag if results[1] else opposite

    def _kind(self, column: str) -> Kind:
        return self.label_rules.rules.kinds[column]

    def level_index(self, column: str, levels: Sequence[str]) -> str:
        """The position of the value among these texts, as int64; their number where it is none of them."""
        graph, kind = self.graph, self.kinds[column]
        if kind == "text":
            places = {**{level: place for place, level in enumerate(levels)}, MISSING_TEXT: len(levels)}
            return graph.add(
                "LabelEncoder",
                column,
                domain="ai.onnx.ml",
                keys_strings=list(places),
                values_int64s=list(places.values()),
                default_int64=len(levels),
            )
        if kind == "days":
            raise BundleError(f"A rule that reads the dates of column {column!r} as categories cannot become ONNX.")
        numbers = graph.constant([[_number_of(level, kind) for level in levels]])
        fits = graph.cast(graph.add("Equal", column, numbers), np.float64)
        before = graph.add("MatMul", fits, graph.constant(np.arange(-float(len(levels)), 0.0)[:, None]))
        return graph.cast(graph.add("Add", before, graph.constant(float(len(levels)))), np.int64)

    def is_one_of(self, column: str, levels: Sequence[str]) -> str:
        return self.graph.add("Less", self.level_index(column, levels), self.graph.constant(len(levels), np.int64))

    def is_match(self, column: str, pattern: str) -> str:
        if self.kinds[column] != "text":
            raise BundleError(f"A rule that searches a text in column {column!r} cannot become ONNX; it holds no text.")
        return self.graph.add("RegexFullMatch", column, pattern=pattern)

    def refuse_unless(self, accepted: str) -> None:
        self.refused.append(self.graph.add("Not", accepted))


def _number_of(level: str, kind: str) -> float:
    """The number that is called by this text; NaN, which equals nothing, where there is none."""
    if kind == "flag" and level in ("False", "True"):
        return float(level == "True")
    try:
        number = float(level)
    except ValueError:
        return np.nan
    return number if level_text(number) == level else np.nan


def _order(kind: str) -> Callable[[RuleGraph, str, list[Any]], str]:
    return lambda rules, column, wanted: rules.graph.add(kind, column, rules.graph.constant([[float(wanted[0])]]))


def _between(rules: RuleGraph, column: str, wanted: list[Any]) -> str:
    low, high = (_order(kind)(rules, column, [end]) for kind, end in zip(_ENDS, wanted, strict=True))
    return rules.graph.add("And", low, high)


def _equals_one(rules: RuleGraph, column: str, wanted: list[Any]) -> str:
    graph = rules.graph
    fits = graph.cast(graph.add("Equal", column, graph.constant([list(map(float, wanted))])), np.int64)
    return graph.cast(graph.add("ReduceMax", fits, graph.constant([1], np.int64), keepdims=1), bool)


def _not(test: Callable[[RuleGraph, str, list[Any]], str]) -> Callable[[RuleGraph, str, list[Any]], str]:
    return lambda rules, column, wanted: rules.graph.add("Not", test(rules, column, wanted))


_ENDS = ("GreaterOrEqual", "LessOrEqual")
# Operators on numbers and dates, and on texts, by sign; the values are already of the kind of the column.
_ORDERED: dict[str, Callable[[RuleGraph, str, list[Any]], str]] = {
    "<": _order("Less"),
    "<=": _order("LessOrEqual"),
    ">": _order("Greater"),
    ">=": _order("GreaterOrEqual"),
    "between": _between,
    "=": _equals_one,
    "!=": _not(_equals_one),
    "in": _equals_one,
}
_TEXTS: dict[str, Callable[[RuleGraph, str, list[Any]], str]] = {
    "=": RuleGraph.is_one_of,
    "!=": _not(RuleGraph.is_one_of),
    "in": lambda rules, column, wanted: rules.is_one_of(column, list(dict.fromkeys(wanted))),
    "contains": lambda rules, column, wanted: rules.is_match(column, f"(?s).*{re.escape(wanted[0])}.*"),
}


def _constant(rules: RuleGraph, belief: Any) -> str:
    return rules.graph.constant([[belief.value]])


def _ramp(rules: RuleGraph, belief: Any) -> str:
    graph, column = rules.graph, belief.column
    found = interpolate(graph, column, belief.knots, belief.beliefs)
    for kind, end, outside in (("Less", belief.knots[0], belief.below), ("Greater", belief.knots[-1], belief.above)):
        if outside is not None:
            beyond = graph.add(kind, column, graph.constant([[end]]))
            found = graph.add("Where", beyond, graph.constant([[outside]]), found)
    return found


def _ready_made(rules: RuleGraph, belief: Any) -> str:
    valid = _between(rules, belief.column, [0.0, 1.0])
    rules.refuse_unless(rules.graph.add("Or", valid, rules.graph.add("IsNaN", belief.column)))
    return belief.column


def _ratios(rules: RuleGraph, belief: Any) -> str:
    graph, names = rules.graph, list(belief.values)
    ratio = graph.constant([*belief.values.values(), np.nan])
    found = graph.add("Gather", ratio, rules.level_index(belief.rule_column, names))
    failed = rules.is_one_of(belief.outcome_column, list(dict.fromkeys(belief.failed)))
    return graph.add("Where", failed, found, graph.constant([[np.nan]]))


def _records(rules: RuleGraph, belief: Any) -> str:
    """1 − E[θ | k, n] on the grid of the prior, where k < n."""
    graph, n, k = rules.graph, belief.checks_column, belief.passes_column
    prior = CheckPrior(np.array(belief.grid), np.array(belief.density), 0.0, 0, 0.0)
    failed = graph.add("Sub", n, k)
    with np.errstate(divide="ignore"):
        parts = [np.log(prior.grid), np.log1p(-prior.grid), np.log(prior.mass)]
    log_pass, log_fail, log_mass = (graph.constant(np.maximum(part, -1e300)[None, :]) for part in parts)
    likelihood = graph.add("Add", graph.add("Mul", k, log_pass), graph.add("Mul", failed, log_fail))
    mass = graph.add("Softmax", graph.add("Add", likelihood, log_mass), axis=1)
    chance = graph.add("MatMul", mass, graph.constant(prior.grid[:, None]))
    known = graph.add("Not", graph.add("IsNaN", failed))
    whole = [graph.add("Equal", value, graph.add("Floor", value)) for value in (n, k)]
    small = graph.add("Less", n, graph.constant([[float(MAX_CHECKS)]]))
    positive = [graph.add("GreaterOrEqual", value, graph.constant([[0.0]])) for value in (k, failed)]
    valid = reduce(lambda left, right: graph.add("And", left, right), [*whole, small, *positive])
    rules.refuse_unless(graph.add("Or", valid, graph.add("Not", known)))
    some_failed = graph.add("Greater", failed, graph.constant([[0.0]]))
    return graph.add(
        "Where", some_failed, graph.add("Sub", graph.constant([[1.0]]), chance), graph.constant([[np.nan]])
    )


_BELIEFS: dict[type[FrozenBelief], Callable[[RuleGraph, Any], str]] = {
    FrozenConstant: _constant,
    FrozenRamp: _ramp,
    FrozenReadyMade: _ready_made,
    FrozenRatios: _ratios,
    FrozenRecords: _records,
}


# Combiners, in the same order of operations as in `spu_core.rules.combine`.


def _largest_two(graph: Graph, beliefs: Beliefs) -> tuple[str, str]:
    largest = second = graph.constant([[0.0]])
    for _, belief in beliefs:
        second = graph.add("Max", second, graph.add("Min", largest, belief))
        largest = graph.add("Max", largest, belief)
    return largest, second


def _strongest(graph: Graph, beliefs: Beliefs) -> str:
    return _largest_two(graph, beliefs)[0]


def _noisy_or(graph: Graph, beliefs: Beliefs) -> str:
    largest, second = _largest_two(graph, beliefs)
    one = graph.constant([[1.0]])
    missed = reduce(lambda left, each: graph.add("Mul", left, graph.add("Sub", one, each[1])), beliefs, one)
    both = graph.add("Max", largest, graph.add("Sub", one, missed))
    return graph.add("Where", graph.add("Greater", second, graph.constant([[0.0]])), both, largest)


def _mean_of_fired(graph: Graph, beliefs: Beliefs) -> str:
    total = reduce(lambda left, each: graph.add("Add", left, each[1]), beliefs, graph.constant([[0.0]]))
    count = reduce(
        lambda left, each: graph.add("Add", left, graph.cast(each[0], np.float64)), beliefs, graph.constant([[0.0]])
    )
    mean = graph.add("Div", total, graph.add("Max", count, graph.constant([[1.0]])))
    return graph.add("Min", mean, _strongest(graph, beliefs))


def _first_match(graph: Graph, beliefs: Beliefs) -> str:
    value = graph.constant([[0.0]])
    for fired, belief in reversed(beliefs):
        value = graph.add("Where", fired, belief, value)
    return value


def _logit_sum(graph: Graph, beliefs: Beliefs) -> str:
    largest, second = _largest_two(graph, beliefs)
    one = graph.constant([[1.0]])
    odds = one
    for _, belief in beliefs:
        own = graph.add("Div", belief, graph.add("Sub", one, belief))
        odds = graph.add("Mul", odds, graph.add("Max", own, one))
    joined = graph.add("Sub", one, graph.add("Div", one, graph.add("Add", one, odds)))
    both = graph.add("Max", largest, joined)
    return graph.add("Where", graph.add("Greater", second, graph.constant([[0.5]])), both, largest)


_COMBINERS: dict[str, Callable[[Graph, Beliefs], str]] = {
    "noisy_or": _noisy_or,
    "strongest": _strongest,
    "mean_of_fired": _mean_of_fired,
    "first_match": _first_match,
    "logit_sum": _logit_sum,
}
