"""How the cells of a typed column stood in the file, so that exports can write them as they were.

A type changes the text of some cells: `$1.50` becomes 1.5, `31.01.2024` becomes 2024-01-31, `NA` becomes nothing. For
most number columns a notation says how to write them again (`12.50` has two decimals, `NA` stands for nothing); where
none fits, the text itself is kept beside the column. A notation is judged by the first rows of the file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from pandas.api import types as kinds

# In a stored table, the text of a column stands in a column of this name with its own name behind it.
TEXT_COLUMN = "\u2063as written: "
# As many rows show the notation of a column.
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
    """How a column is to be written, from its first cells; None if its own values say it all.

    `texts` is the text of the whole column, where it is at hand; `NEEDS_TEXT` asks for it.

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
    """Whether a column holds numbers; flags are none."""
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
    """The style that writes all of these numbers as they stand, None if there is none.

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
    """Whether dates and flags would be written as they stand."""
    if kinds.is_bool_dtype(values.dtype):
        return all(cell in ("True", "False") for cell in cells)
    return all(map(_ISO_DAY.fullmatch, cells)) or all(map(_ISO_SECOND.fullmatch, cells))
