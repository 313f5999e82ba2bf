"""Finished columns: their type, findings about their cells, and how the cells were written in the file.

A type changes the text of some cells: `$1.50` becomes 1.5, `31.01.2024` becomes 2024-01-31, `NA` becomes missing. For
most number columns a notation describes how to write them again (two decimals for `12.50`, `NA` for missing); where
none fits, the text is stored with the column. A notation is inferred from the first rows of the file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api import types as kinds

from spu_core.tables.reading.column_builders import NumberColumn, RawColumn, TextColumn
from spu_core.tables.reading.reading_report import Finding, Severity
from spu_core.tables.reading.values import (
    SOFT_MARKS,
    ColumnType,
    Marks,
    guess_type,
    looks_like_date,
    parse_dates,
    to_numbers,
)

_TEXTUAL = (ColumnType.CATEGORY, ColumnType.TEXT, ColumnType.IDENTIFIER)
_TRUE_FALSE = ({"true", "false"}, {"t", "f"})


@dataclass(frozen=True)
class TypedColumn:
    """One finished column; `texts` holds its original cells, if they were converted to dates or flags."""

    values: pd.Series
    type: ColumnType
    findings: tuple[Finding, ...] = ()
    texts: pd.Series | None = None


def finish_number(name: str, column: NumberColumn, levels: int) -> TypedColumn:
    """A number column, with findings on cells that were not numbers."""
    values = pd.Series(column.finish(), name=name, copy=False)
    found = [
        *_bad_cells(name, column),
        *_units(name, column),
        *_infinite(name, column),
        *empty_findings(name, values),
    ]
    return TypedColumn(values, guess_type(values, levels), tuple(found))


def finish_text(name: str, column: TextColumn, marks: Marks, asked: ColumnType | None) -> TypedColumn:
    """A text column as booleans, dates, categories or strings: the requested type, or the one that fits all values."""
    whole, why = column.finish(), column.why
    values = _to_pandas(whole, name)
    typed = None if asked in _TEXTUAL else _as_boolean(values) or _as_dates(values)
    if typed is not None:
        return replace(typed, texts=values)
    kind = asked if asked in _TEXTUAL else guess_type(values, column.levels)
    if kind is ColumnType.CATEGORY and not isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype("category")
    if kind is not ColumnType.CATEGORY and isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype("str")
    found = [
        *_kept_as_text(name, why),
        *_mixed(values, marks, why),
        *_soft_marks(values),
        *empty_findings(name, values),
    ]
    return TypedColumn(values, kind, tuple(found))


def finish_raw(name: str, column: RawColumn) -> TypedColumn:
    """A column of unchanged cells."""
    values = pd.Series(column.finish().to_pandas(), name=name).astype("str")
    column.chunks.clear()
    return TypedColumn(values, ColumnType.TEXT)


def empty_findings(name: str, values: pd.Series) -> list[Finding]:
    """Findings on columns without information: all values missing, or one value everywhere."""
    # Most columns have two different values in their first rows.
    if not len(values) or values.iloc[:1_000].nunique() > 1:
        return []
    if values.isna().all():
        return [
            Finding(
                "empty_column",
                Severity.WARNING,
                f"Column {name!r} has no value in any row.",
                "Ignore it.",
                name,
            )
        ]
    first = values.iloc[0]
    if not values.isna().any() and len(values) > 1 and bool((values == first).all()):
        text = f"Column {name!r} holds {str(first)[:50]!r} in every row."
        return [Finding("constant_column", Severity.INFO, text, "It contains no information.", name)]
    return []


def _to_pandas(whole: pa.ChunkedArray, name: str) -> pd.Series:
    if not pa.types.is_dictionary(whole.type):
        return pd.Series(whole.to_pandas(), name=name).astype("str")
    # Alphabetical categories, so that they do not depend on the order of rows.
    levels = sorted(set().union(*(chunk.dictionary.to_pylist() for chunk in whole.chunks)))
    place = {level: at for at, level in enumerate(levels)}
    codes = np.empty(len(whole), dtype=np.min_scalar_type(-max(len(levels), 1)))
    at = 0
    for chunk in whole.chunks:
        codes[at : at + len(chunk)] = _codes(chunk, place, codes.dtype)
        at += len(chunk)
    return pd.Series(pd.Categorical.from_codes(codes, pd.Index(levels, dtype="str")), name=name)


def _codes(chunk: pa.DictionaryArray, place: Mapping[str, int], dtype: np.dtype) -> np.ndarray:
    """The index of each cell's category, -1 where the cell is missing."""
    codes = np.array([*map(place.__getitem__, chunk.dictionary.to_pylist()), -1], dtype=dtype)
    return codes[chunk.indices.fill_null(len(chunk.dictionary)).to_numpy(zero_copy_only=False)]


def _as_boolean(values: pd.Series) -> TypedColumn | None:
    if not isinstance(values.dtype, pd.CategoricalDtype):
        return None
    words = {str(level).lower() for level in values.cat.categories}
    if words not in _TRUE_FALSE:
        return None
    codes = values.cat.codes.to_numpy()
    flags = np.array([str(level).lower() in ("true", "t") for level in values.cat.categories])[codes]
    gaps = codes < 0
    typed = pd.Series(pd.arrays.BooleanArray(flags, gaps) if gaps.any() else flags, name=values.name)
    return TypedColumn(typed, ColumnType.BOOLEAN)


def _as_dates(values: pd.Series) -> TypedColumn | None:
    few = values.cat.categories[:20] if isinstance(values.dtype, pd.CategoricalDtype) else values.dropna().head(20)
    # A few values are tried first, to skip the search in columns of words.
    if not any(looks_like_date(str(value)) for value in few):
        return None
    codes, levels = _coded(values)
    dates = parse_dates(codes, pd.Series(levels, dtype="object"))
    if dates is None:
        return None
    found = []
    if dates.ambiguous:
        text = f"Column {values.name!r}: every date fits day-first and month-first; it was read as {dates.format}."
        found = [Finding("ambiguous_dates", Severity.WARNING, text, "Write dates as YYYY-MM-DD.", str(values.name))]
    return TypedColumn(dates.values.rename(str(values.name)), ColumnType.DATETIME, tuple(found))


def _coded(values: pd.Series) -> tuple[np.ndarray, pd.Index]:
    if isinstance(values.dtype, pd.CategoricalDtype):
        return values.cat.codes.to_numpy(), values.cat.categories
    return pd.factorize(values)


def _bad_cells(name: str, column: NumberColumn) -> list[Finding]:
    if not column.bad:
        return []
    shown = ", ".join(repr(text[:30]) for _, text in column.examples[:3])
    text = f"Column {name!r} holds numbers, but {column.bad:,} of {column.present:,} cells are not: {shown}."
    advice = "These cells were set to missing; correct them, or read the column as text."
    return [Finding("mixed_column", Severity.WARNING, text, advice, name)]


def _units(name: str, column: NumberColumn) -> list[Finding]:
    if not column.units:
        return []
    text = f"Column {name!r}: a currency or percent sign was left out of {column.units:,} cells; 12 % was read as 12."
    return [Finding("units_removed", Severity.INFO, text, "Check that all rows use one unit.", name)]


def _infinite(name: str, column: NumberColumn) -> list[Finding]:
    if not column.infinite:
        return []
    text = f"Column {name!r} holds {column.infinite:,} infinite numbers."
    return [Finding("infinite_values", Severity.WARNING, text, "Models need finite numbers; correct these.", name)]


_WHY_TEXT = {
    "leading_zeros": "has numbers with leading zeros, like postal codes; it was kept as text so that none is lost",
    "huge_integers": "has whole numbers too long for exact arithmetic; it was kept as text so that no digit is lost",
}


def _kept_as_text(name: str, why: str | None) -> list[Finding]:
    if why not in _WHY_TEXT:
        return []
    return [Finding(why, Severity.INFO, f"Column {name!r} {_WHY_TEXT[why]}.", "Read it as number if it is one.", name)]


def _mixed(values: pd.Series, marks: Marks, why: str | None) -> list[Finding]:
    """A finding where most cells of a text column are numbers: it is probably a damaged number column."""
    levels = _some_levels(values)
    if why in _WHY_TEXT or not len(levels):
        return []
    numbers = to_numbers(pa.array(levels, type=pa.string()), marks).values
    numeric = numbers.is_valid().to_numpy(zero_copy_only=False)
    if not numeric.any():
        return []
    counts = _level_counts(values, levels)
    good, total = int(counts[numeric].sum()), int(counts.sum())
    if good < 0.5 * total or good == total:
        return []
    name, bad = str(values.name), total - good
    shown = ", ".join(repr(str(text)[:30]) for text in levels[~numeric][:3])
    text = f"Column {name!r} mixes {good:,} numbers with {bad:,} other cells ({shown}); it was kept as text."
    return [Finding("mixed_column", Severity.WARNING, text, "Correct the cells, or read the column as number.", name)]


# A thousand cells show whether free text is mostly numbers.
_SOME_CELLS = 1_000


def _some_levels(values: pd.Series) -> np.ndarray:
    """The levels of a category; of free text, the first cells."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        return values.cat.categories.to_numpy(dtype=object)
    return values.dropna().head(_SOME_CELLS).to_numpy(dtype=object)


def _level_counts(values: pd.Series, levels: np.ndarray) -> np.ndarray:
    if not isinstance(values.dtype, pd.CategoricalDtype):
        return np.ones(len(levels), dtype=np.int64)
    codes = values.cat.codes.to_numpy()
    return np.bincount(codes[codes >= 0], minlength=len(levels))


def _soft_marks(values: pd.Series) -> list[Finding]:
    if not isinstance(values.dtype, pd.CategoricalDtype):
        return []
    marks = [level for level in values.cat.categories if level in SOFT_MARKS]
    if not marks:
        return []
    count = int(values.isin(marks).sum())
    shown = ", ".join(map(repr, marks))
    text = f"Column {values.name!r} holds {shown} in {count:,} rows; kept as its own category."
    advice = "If it means a missing value, set it as missing under Types and missing values."
    return [Finding("level_like_missing", Severity.INFO, text, advice, str(values.name))]


# In a stored table, the text of a column is in another column; its name is this prefix and the name of the column.
TEXT_COLUMN = "\u2063as written: "
# The number of rows from which the notation of a column is inferred.
NOTATION_ROWS = 200
_ISO_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_ISO_SECOND = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
_FRACTION = re.compile(r"-?\d+\.(\d+)")


@dataclass(frozen=True, eq=False)
class Written:
    """How a column is written: by the text of every cell, or by a notation.

    `style` is "" (as Python writes numbers), "short" (5 instead of 5.0), or the number of decimals.

    >>> Written(style="2", missing="NA").cells(pd.Series([12.5, None, 3.0])).tolist()
    ['12.50', 'NA', '3.00']
    """

    texts: pd.Series | None = None
    style: str = ""
    decimal: str = "."
    missing: str = ""

    def cells(self, values: pd.Series) -> pd.Series:
        """The cells of these rows as text; `values` keeps the row numbers of the table as its index."""
        if self.texts is not None:
            found = self.texts.iloc[values.index].astype(object)
            return found.where(found.notna(), self.missing).set_axis(values.index)
        written = [self.missing if gap else self._text(value) for gap, value in zip(values.isna(), values, strict=True)]
        return pd.Series(written, index=values.index, name=values.name, dtype=object)

    def only(self, rows: Any) -> Written:
        """The same for some of the rows."""
        if self.texts is None:
            return self
        texts = self.texts.iloc[rows].reset_index(drop=True)
        return Written(texts, self.style, self.decimal, self.missing)

    def _text(self, value: Any) -> str:
        text = number_text(value, self.style) if isinstance(value, float) else str(value)
        return text if self.decimal == "." else text.replace(".", self.decimal)


def number_text(value: float, style: str) -> str:
    """A number in one style; a style that would lose digits is not used.

    >>> number_text(5.0, "short"), number_text(2.5, "2"), number_text(2.125, "2")
    ('5', '2.50', '2.125')
    """
    plain = repr(value)
    if style == "short":
        return plain.removesuffix(".0")
    if not style:
        return plain
    fixed = f"{value:.{style}f}"
    return fixed if float(fixed) == value else plain


def how_written(
    values: pd.Series, cells: Sequence[str], missing: Collection[str], decimal: str, texts: pd.Series | None
) -> Written | None:
    """How a column is to be written, from its first cells; None if its values are written in the default way.

    `texts` is the text of the whole column, where it is available; the result `NEEDS_TEXT` requests it.

    >>> how_written(pd.Series([1.5, 2.0]), ["1.50", "2.00"], {""}, ".", None).style
    '2'
    >>> how_written(pd.Series([1.5, 2.0]), ["$1.50", "$2"], {""}, ".", None) is NEEDS_TEXT
    True
    >>> how_written(pd.Series([1, 2]), ["1", "2"], {""}, ".", None) is None
    True
    """
    gaps = {cell for cell in cells if cell in missing}
    if len(gaps) > 1:
        return NEEDS_TEXT
    mark = next(iter(gaps), "")
    present = [cell for cell in cells if cell not in missing]
    if texts is not None:
        return None if not mark and _are_iso(values, present) else Written(texts, missing=mark)
    if is_number(values):
        return _how_numbers_are_written(values, present, decimal, mark)
    return Written(missing=mark) if mark else None


def is_number(values: pd.Series) -> bool:
    """Whether a column holds numbers; flags are not numbers."""
    return kinds.is_numeric_dtype(values.dtype) and not kinds.is_bool_dtype(values.dtype)


def _how_numbers_are_written(values: pd.Series, cells: Sequence[str], decimal: str, mark: str) -> Written | None:
    whole = kinds.is_integer_dtype(values.dtype)
    style = _style_of(cells, decimal, whole=whole)
    if style is None:
        return NEEDS_TEXT
    is_plain = not style and not mark and (decimal == "." or whole)
    return None if is_plain else Written(style=style, decimal=decimal, missing=mark)


NEEDS_TEXT = Written()


def _style_of(cells: Sequence[str], decimal: str, *, whole: bool) -> str | None:
    """The style that writes all of these numbers unchanged, None if there is none.

    >>> _style_of(["1.5", "2.25"], ".", whole=False), _style_of(["1", "2.5"], ".", whole=False)
    ('', 'short')
    >>> _style_of(["1,50", "2,25"], ",", whole=False), _style_of(["1e3"], ".", whole=False)
    ('2', None)
    """
    plain = [cell.replace(decimal, ".") for cell in cells]
    try:
        if whole:
            return "" if all(str(int(cell)) == cell for cell in plain) else None
        numbers = [float(cell) for cell in plain]
    except ValueError:
        return None
    for style in ("", "short", *_decimals(plain)):
        if all(number_text(number, style) == cell for number, cell in zip(numbers, plain, strict=True)):
            return style
    return None


def _decimals(cells: Sequence[str]) -> list[str]:
    """The number of decimals, if all cells have the same."""
    found = {len(match.group(1)) if (match := _FRACTION.fullmatch(cell)) else -1 for cell in cells}
    return [str(found.pop())] if len(found) == 1 and -1 not in found else []


def _are_iso(values: pd.Series, cells: Sequence[str]) -> bool:
    """Whether dates and flags would be written unchanged."""
    if kinds.is_bool_dtype(values.dtype):
        return all(cell in ("True", "False") for cell in cells)
    return all(map(_ISO_DAY.fullmatch, cells)) or all(map(_ISO_SECOND.fullmatch, cells))
