"""What a column holds, judged by its values: number, category, boolean, date and time, text or identifier."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum

import pandas as pd
from pandas.api import types as kinds


class ColumnType(StrEnum):
    """What a column holds."""

    NUMBER = "number"
    CATEGORY = "category"
    BOOLEAN = "boolean"
    DATETIME = "datetime"
    TEXT = "text"
    IDENTIFIER = "identifier"


# More distinct values than this make a text column free text or an identifier: nobody uses them as levels.
DEFAULT_LEVELS = 1_000
# Below this many rows, "all values differ" says nothing.
FEW_ROWS = 20
_ID_NAME = re.compile(r"(^|[_\W])(id|ids|uuid|guid|key|nbr|no|number|index|rownum)$|[a-z](Id|ID)$|^(Id|ID|UUID|No)$")


def guess_type(values: pd.Series, levels: int = DEFAULT_LEVELS) -> ColumnType:
    """The type of one column, from its dtype and its values.

    >>> guess_type(pd.Series([1.5, 2.0], name="age")), guess_type(pd.Series(["a", "b", "a"], name="city"))
    (<ColumnType.NUMBER: 'number'>, <ColumnType.CATEGORY: 'category'>)
    >>> guess_type(pd.Series(range(100), name="user_id"))
    <ColumnType.IDENTIFIER: 'identifier'>
    """
    dtype = values.dtype
    if kinds.is_bool_dtype(dtype):
        return ColumnType.BOOLEAN
    if kinds.is_datetime64_any_dtype(dtype):
        return ColumnType.DATETIME
    if kinds.is_numeric_dtype(dtype):
        return _number_or_identifier(values)
    return _text_type(values, levels)


def names_an_id(name: str) -> bool:
    """Whether a column's name says that it identifies rows: `user_id`, `patientId`, `uuid`, `row number`.

    >>> [names_an_id(name) for name in ("user_id", "encounterId", "paid", "num_cases")]
    [True, True, False, False]
    """
    return bool(_ID_NAME.search(name))


def _number_or_identifier(values: pd.Series) -> ColumnType:
    whole = kinds.is_integer_dtype(values.dtype)
    if whole and names_an_id(str(values.name)) and len(values) and values.is_unique:
        return ColumnType.IDENTIFIER
    return ColumnType.NUMBER


def _is_plain_category(values: pd.Series, levels: int) -> bool:
    """Whether the declared levels alone are few enough, so that nobody needs to count the ones in use."""
    if not isinstance(values.dtype, pd.CategoricalDtype):
        return False
    declared = len(values.cat.categories)
    return declared <= levels and max(FEW_ROWS, 2 * declared) <= int(values.count())


def _text_type(values: pd.Series, levels: int) -> ColumnType:
    if _is_plain_category(values, levels):
        return ColumnType.CATEGORY
    present, distinct = int(values.count()), int(values.nunique())
    return type_of_text(str(values.name), present, distinct, levels, lambda: _is_one_word(values))


def type_of_text(name: str, present: int, distinct: int, levels: int, one_word: Callable[[], bool]) -> ColumnType:
    """The type of a text column, from its counts; `one_word` says whether its first values are single words.

    >>> type_of_text("city", 1_000, 12, 1_000, lambda: True), type_of_text("user", 1_000, 999, 1_000, lambda: True)
    (<ColumnType.CATEGORY: 'category'>, <ColumnType.IDENTIFIER: 'identifier'>)
    """
    if names_an_id(name) and distinct == present and distinct:
        return ColumnType.IDENTIFIER
    if present < FEW_ROWS or (distinct <= levels and distinct <= 0.5 * present):
        return ColumnType.CATEGORY
    return ColumnType.IDENTIFIER if distinct >= 0.9 * present and one_word() else ColumnType.TEXT


def _is_one_word(values: pd.Series) -> bool:
    return not values.dropna().head(1_000).astype(str).str.contains(r"\s").any()
