"""CSV that is safe to open in a spreadsheet: text that would run as a formula is made plain text.

A cell that starts, after blanks or characters without width, with = + − @, a tab or a line break is run by
spreadsheets. Such text gets an apostrophe in front, which they show as text. Numbers stay numbers, also where a text
column holds them. A line break inside a cell is always in quotes: a reader that ends lines at CR would otherwise see a
new row, which may start with =.
"""

from __future__ import annotations

import csv
import io
import itertools
import os
import re
from collections.abc import Iterable
from typing import Any, Literal

import pandas as pd

# Blanks, control characters, and characters without width: soft hyphens, joiners, direction and byte-order marks.
_INVISIBLE = (
    r"\s\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    r"\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
)
# The wide forms of the signs, common in East Asian input, are run as well.
_DANGEROUS = re.compile(f"[{_INVISIBLE}]*[=+\\-@＝＋－＠\\t\\r\\n|]")
# Amounts such as -$1,200.50 or -5% are numbers as well: digits and signs cannot form a function call.
_NUMBER = re.compile(r"\s*[+-]?[$€£]?(?=[.,]?\d)(\d{1,3}([.,' ]\d{3})+|\d+)?([.,]\d*)?([eE][+-]?\d+)?\s?[%€$£]?\s*")


def is_dangerous(text: str) -> bool:
    """Whether a spreadsheet could run this cell.

    >>> [is_dangerous(text) for text in ("=1+1", " @SUM(A1)", "-5", "-$1,200.50", "-5+cmd|'x'!A1", "a=b")]
    [True, True, False, False, True, False]
    """
    return bool(_DANGEROUS.match(text)) and not _NUMBER.fullmatch(text)


def safe_text(text: str) -> str:
    """The text, with an apostrophe in front where a spreadsheet could run it."""
    return f"'{text}" if is_dangerous(text) else text


def safe_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """A copy in which no header and no text cell is a formula; number, date and flag columns are untouched.

    >>> safe_frame(pd.DataFrame({"=x": ["=1", "a"], "n": [-1, 2]})).to_csv(index=False)
    "'=x,n\\n'=1,-1\\na,2\\n"
    """
    columns = [_safe_column(frame.iloc[:, place]) for place in range(frame.shape[1])]
    safe = pd.concat(columns, axis=1) if columns else frame.copy()
    safe.columns = pd.Index(safe_names(frame.columns))
    return safe


def safe_names(names: Iterable[object]) -> list[str]:
    """Headers that no spreadsheet runs; different names stay different.

    >>> safe_names(["=x", "'=x", "y"])
    ["''=x", "'=x", 'y']
    """
    written = [str(name) for name in names]
    taken, safe = set(written), []
    for name in written:
        new = safe_text(name)
        while new != name and new in taken:
            new = f"'{new}"
        taken.add(new)
        safe.append(new)
    return safe


def to_csv(frame: pd.DataFrame, *, raw: bool = False) -> str:
    """CSV text, safe for spreadsheets unless `raw` asks for the cells as they are."""
    text = io.StringIO(newline="")
    write_csv(frame, text, raw=raw)
    return text.getvalue()


def write_csv(
    frame: pd.DataFrame, path: str | os.PathLike[str] | Any, *, raw: bool = False, header: bool = True
) -> None:
    """Write safe CSV to a path or an open text file."""
    written = frame if raw else safe_frame(frame)
    # Python quotes a cell only for the line end that it writes itself, so a CR would not be quoted.
    quoting: Literal[0, 2] = csv.QUOTE_NONNUMERIC if _has_cr(written) else csv.QUOTE_MINIMAL
    written.to_csv(path, index=False, header=header, lineterminator="\n", encoding="utf-8", quoting=quoting)


def _has_cr(frame: pd.DataFrame) -> bool:
    texts = (frame.iloc[:, place] for place in range(frame.shape[1]))
    found = (set(pd.unique(values)) for values in texts if _is_text(values))
    return any("\r" in str(text) for text in itertools.chain(frame.columns, *found))


def _is_text(values: pd.Series) -> bool:
    kind = values.dtype
    return (
        isinstance(kind, pd.CategoricalDtype)
        or pd.api.types.is_object_dtype(kind)
        or bool(pd.api.types.is_string_dtype(kind))
    )


def _safe_column(values: pd.Series) -> pd.Series:
    if not _is_text(values):
        return values
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype("object")
    # Many cells share a few different texts.
    codes, found = pd.factorize(values)
    safe = [safe_text(value) if isinstance(value, str) else value for value in found]
    changed = pd.Series([*safe, None], dtype=object).take(codes)
    changed.index, changed.name = values.index, values.name
    return changed
