"""Columns that the parser itself may convert, judged by the sample: plain numbers, short dates and few levels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa

from spu_core.tables.blocks import TextPlan
from spu_core.tables.column_types import ColumnType
from spu_core.tables.sniffing import looks_like_date, looks_like_number

_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})")
# A long number without a fraction may be a code with more digits than a float holds.
_FRACTIONS = {
    mark: re.compile(rf"-?(0|[1-9]\d{{0,14}})({re.escape(mark)}\d+)?([eE][+-]?\d{{1,2}})?") for mark in (".", ",")
}
_LEVELS = pa.dictionary(pa.int32(), pa.string())
_FEWEST_CELLS = 100
_LONGEST_DAY = len("2024-01-31")


def find_shortcuts(
    rows: Sequence[tuple[str, ...]], plan: TextPlan, types: Mapping[str, ColumnType]
) -> dict[str, pa.DataType]:
    """The type to which the parser may convert each column, without columns in doubt or with a type asked for."""
    missing = frozenset(plan.missing_marks)
    columns = zip(*(row for row in rows if len(row) == len(plan.columns)), strict=True)
    found = {}
    for name, column in zip(plan.columns, columns, strict=False):
        cells = [cell for cell in column if cell not in missing]
        kind = _kind(cells, plan) if cells and name not in types else None
        if kind is not None:
            found[name] = kind
    return found


def without_whole_numbers(shortcuts: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
    """The shortcuts that remain when some cell may be a code such as 007.

    >>> sorted(without_whole_numbers({"n": pa.int64(), "x": pa.float64()}))
    ['x']
    """
    return {name: kind for name, kind in shortcuts.items() if not pa.types.is_integer(kind)}


def _kind(cells: list[str], plan: TextPlan) -> pa.DataType | None:
    if all(map(_WHOLE.fullmatch, cells)):
        return pa.int64()
    if not plan.dialect.thousands and all(map(_FRACTIONS[plan.dialect.decimal or "."].fullmatch, cells)):
        return pa.float64()
    if len(cells) < _FEWEST_CELLS or any(map(looks_like_number, cells)):
        return None
    return _LEVELS if len(set(cells)) < 0.1 * len(cells) or _are_days(cells) else None


def _are_days(cells: list[str]) -> bool:
    """Dates without a clock repeat in any long table."""
    return all(len(cell) <= _LONGEST_DAY and looks_like_date(cell) for cell in cells)
