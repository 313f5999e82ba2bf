"""Text to dates: one format for a whole column, found from all of its distinct values."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pandas as pd

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


def parse_dates(texts: pd.Series) -> Dates | None:
    """The texts as dates, if every one that is present fits one and the same format.

    >>> parse_dates(pd.Series(["31.01.2024", None, "01.02.2024"])).format
    '%d.%m.%Y'
    >>> parse_dates(pd.Series(["2024-01-31", "soon"])) is None
    True
    """
    codes, distinct = pd.factorize(texts)
    levels = pd.Series(distinct, dtype="object").astype("str")
    if levels.empty or not all(map(looks_like_date, levels.head(200))):
        return None
    fitting = [
        (layout, parsed)
        for layout in _formats(levels.iloc[0])
        if (parsed := _parse(levels, layout)) is not None
    ]
    if not fitting:
        return None
    layout, parsed = fitting[0]
    values = parsed.take(codes) if (codes >= 0).all() else parsed.reindex(codes)
    ambiguous = len(fitting) > 1 and not fitting[0][1].equals(fitting[1][1])
    return Dates(values.reset_index(drop=True), layout, ambiguous)


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
        return pd.to_datetime(levels, format=layout, utc=layout.endswith("%z") or None)
    except (ValueError, OverflowError):
        return None
