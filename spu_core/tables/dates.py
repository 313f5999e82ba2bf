"""Text to dates: one format for a whole column, found from all of its distinct values."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from spu_core.tables.numbers import SOFT_MARKS
from spu_core.tables.sniffing import looks_like_date

_CLOCKS = (
    "",
    " %H:%M",
    " %H:%M:%S",
    " %H:%M:%S.%f",
    "T%H:%M",
    "T%H:%M:%S",
    "T%H:%M:%S.%f",
    " %I:%M %p",
    " %I:%M:%S %p",
)


@dataclass(frozen=True)
class Dates:
    """A column as dates, the format that fits it, and whether day and month could be exchanged."""

    values: pd.Series
    format: str
    ambiguous: bool = False


def parse_dates(codes: np.ndarray, levels: pd.Series) -> Dates | None:
    """Coded texts as dates, if every level fits one and the same format; soft marks among them are missing.

    >>> parse_dates(np.array([0, -1, 1]), pd.Series(["31.01.2024", "01.02.2024"])).format
    '%d.%m.%Y'
    >>> parse_dates(np.array([0, 1]), pd.Series(["2024-01-31", "soon"])) is None
    True
    """
    texts = levels.where(~levels.isin(SOFT_MARKS), None)
    present = texts.dropna().astype("str")
    if present.empty or not all(map(looks_like_date, present.head(200))):
        return None
    fitting = [
        (layout, parsed) for layout in _formats(present.iloc[0]) if (parsed := _parse(texts, layout)) is not None
    ]
    if not fitting:
        return None
    layout, parsed = fitting[0]
    ambiguous = len(fitting) > 1 and not parsed.equals(fitting[1][1])
    return Dates(pd.Series(parsed.array.take(codes, allow_fill=True)), layout, ambiguous)


def _formats(example: str) -> list[str]:
    """Formats that the example allows; of day-first and month-first, the one usual with its mark comes first."""
    found = re.match(r"(\d{1,4})([-/.])\d{1,2}[-/.](\d{1,4})", example)
    if found is None:
        return []
    mark = found.group(2)
    if len(found.group(1)) == 4:
        days = [f"%Y{mark}%m{mark}%d"]
    else:
        year = "%Y" if len(found.group(3)) == 4 else "%y"
        day_first, month_first = f"%d{mark}%m{mark}{year}", f"%m{mark}%d{mark}{year}"
        days = [month_first, day_first] if mark == "/" else [day_first, month_first]
    zone = "%z" if re.search(r"\d(Z|[+-]\d\d:?\d\d)$", example[10:]) else ""
    return [day + clock + zone for day in days for clock in _CLOCKS]


def _parse(levels: pd.Series, layout: str) -> pd.Series | None:
    try:
        return pd.to_datetime(levels, format=layout, utc=layout.endswith("%z"))
    except (ValueError, OverflowError):
        return None
