"""Frozen beliefs as JSON, read back strictly: shapes, ranges and order are checked before any number is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields as dataclass_fields
from itertools import pairwise
from typing import Any

from spu_core.errors import RuleError
from spu_core.rules.fields import Fields, check_json_number
from spu_core.rules.frozen import (
    FrozenBelief,
    FrozenConstant,
    FrozenRamp,
    FrozenRatios,
    FrozenReadyMade,
    FrozenRecords,
)

MAX_NUMBERS = 100_000


def frozen_as_data(belief: FrozenBelief) -> dict[str, Any]:
    """A frozen belief as plain JSON values.

    >>> frozen_as_data(FrozenConstant(0.5))
    {'kind': 'constant', 'value': 0.5}
    """
    values = {field.name: getattr(belief, field.name) for field in dataclass_fields(belief)}  # type: ignore[arg-type]
    return {"kind": belief.kind} | {name: _plain(value) for name, value in values.items() if value is not None}


def frozen_of_data(data: Any, place: str) -> FrozenBelief:
    """A frozen belief from plain JSON values."""
    fields = Fields(data, place)
    belief = _READ[fields.choice("kind", _READ)](fields)
    fields.done()
    return belief


def _ramp(fields: Fields) -> FrozenBelief:
    knots, beliefs = fields.numbers("knots", MAX_NUMBERS), _shares(fields, "beliefs")
    _check(fields, len(knots) == len(beliefs) > 0, "needs as many beliefs as knots")
    _check(fields, all(left < right for left, right in pairwise(knots)), "needs knots in growing order")
    below, above = (_share(fields, name) if name in fields else None for name in ("below", "above"))
    return FrozenRamp(fields.text("column"), knots, beliefs, below, above)


def _ratios(fields: Fields) -> FrozenBelief:
    table = fields.get("values")
    inner = Fields(table, fields.at("values"))
    values = {name: _share(inner, name) for name in inner.value}
    columns = (fields.text("rule_column"), fields.text("outcome_column"))
    return FrozenRatios(*columns, fields.texts("failed", 1_000), values)


def _records(fields: Fields) -> FrozenBelief:
    grid, density = _shares(fields, "grid"), fields.numbers("density", MAX_NUMBERS)
    _check(fields, len(grid) == len(density) > 0, "needs one density per grid point")
    _check(fields, min(density) >= 0 and any(density), "needs a density that is not negative and not all 0")
    return FrozenRecords(fields.text("checks_column"), fields.text("passes_column"), grid, density)


def _share(fields: Fields, name: str) -> float:
    return _check_share(fields.number(name), fields.at(name))


def _shares(fields: Fields, name: str) -> tuple[float, ...]:
    numbers = enumerate(fields.numbers(name, MAX_NUMBERS))
    return tuple(_check_share(number, f"{fields.at(name)}[{i}]") for i, number in numbers)


def _check_share(value: Any, place: str) -> float:
    if not 0.0 <= check_json_number(value, place) <= 1.0:
        raise RuleError(f"{place} must lie in [0, 1], got {value:g}.")
    return float(value)


def _check(fields: Fields, holds: bool, law: str) -> None:
    if not holds:
        raise RuleError(f"{fields.place} {law}; fit the rules again.")


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


_READ: Mapping[str, Callable[[Fields], FrozenBelief]] = {
    FrozenConstant.kind: lambda fields: FrozenConstant(_share(fields, "value")),
    FrozenRamp.kind: _ramp,
    FrozenReadyMade.kind: lambda fields: FrozenReadyMade(fields.text("column")),
    FrozenRatios.kind: _ratios,
    FrozenRecords.kind: _records,
}
