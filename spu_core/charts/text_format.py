"""Text and numbers in charts: text of users is escaped, numbers are rounded for reading."""

from __future__ import annotations

import math
import re
from typing import Any, TypeGuard

LONGEST_LABEL = 22

# Plotly reads a subset of HTML, LaTeX between dollar signs and %{…} in templates; entities are decoded only after all
# three were looked for, so they stay text.
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;", "%{": "&#37;{"}
_SPECIAL = re.compile("|".join(map(re.escape, _ENTITIES)))
# Control characters, line breaks, and the marks that reverse the direction of the text after them.
_INVISIBLE = re.compile("[\\s\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]+")


def plain(text: Any, longest: int | None = None) -> str:
    """User text that Plotly shows as it was typed, on one line, cut to `longest` characters where one is given.

    >>> plain("<b>bold</b> costs $5$")
    '&lt;b&gt;bold&lt;/b&gt; costs &#36;5&#36;'
    >>> plain("a very long column name", longest=10)
    'a very lo…'
    """
    line = one_line(text)
    if longest is not None and len(line) > longest:
        line = line[: longest - 1].rstrip() + "…"
    return _SPECIAL.sub(lambda match: _ENTITIES[match.group()], line)


def one_line(text: Any) -> str:
    """Text without line breaks, control characters and direction marks; for alt texts, which are never read as HTML."""
    return _INVISIBLE.sub(" ", str(text)).strip()


def label(text: Any) -> str:
    """User text short enough for an axis or a legend."""
    return plain(text, LONGEST_LABEL)


def wrapped(text: Any) -> str:
    """User text beside the lines of a chart: at most two lines, broken at a blank or an underscore.

    >>> wrapped("Soft labels, logistic regression")
    'Soft labels, logistic<br>regression'
    >>> wrapped("last_check_of_the_month_outcome")
    'last_check_of_the_<br>month_outcome'
    """
    line = one_line(text)
    if len(line) <= LONGEST_LABEL:
        return plain(line)
    end = max(line.rfind(mark, 0, LONGEST_LABEL) for mark in " _-") + 1 or LONGEST_LABEL
    return f"{plain(line[:end])}<br>{label(line[end:])}"


def decimals(value: float | None, digits: int = 3) -> str:
    """An AUC, a loss, a soft label.

    >>> decimals(0.8146), decimals(float("nan")), decimals(-0.0001)
    ('0.815', '–', '0.000')
    """
    if not _is_number(value):
        return "–"
    rounded = round(float(value), digits) + 0.0  # avoids −0.000
    return f"{rounded:.{digits}f}".replace("-", "−")


def signed(value: float | None, digits: int = 3) -> str:
    """A change or a difference, always with its sign.

    >>> signed(0.0312), signed(-0.2, 1), signed(0.0)
    ('+0.031', '−0.2', '0.000')
    """
    written = decimals(value, digits)
    return f"+{written}" if _is_number(value) and round(float(value), digits) > 0 else written


def percent(value: float | None, digits: int = 1) -> str:
    """A share.

    >>> percent(0.12), percent(1.0), percent(0.00004), percent(None)
    ('12.0%', '100%', '<0.1%', '–')
    """
    if not _is_number(value):
        return "–"
    share = 100.0 * float(value)
    if 0.0 < share < 0.5 * 10.0**-digits:
        return f"<{10.0**-digits:.{digits}f}%"
    # All shares of a column have the same decimals, except 0 % and 100 %.
    digits = 0 if share in (0.0, 100.0) else digits
    return f"{share:.{digits}f}%".replace("-", "−")


def count(value: float | None) -> str:
    """A number of rows.

    >>> count(1234567), count(12.5)
    ('1,234,567', '12.5')
    """
    if not _is_number(value):
        return "–"
    number = float(value)
    return f"{number:,.0f}" if number.is_integer() or abs(number) >= 1000 else f"{number:,.1f}"


def compact(value: float | None) -> str:
    """Any number of a table: four significant digits, thousands separated.

    >>> compact(28.9583), compact(1250000.0), compact(0.000012)
    ('28.96', '1,250,000', '1.2e-05')
    """
    if not _is_number(value):
        return "–"
    number = float(value)
    written = f"{number:,.0f}" if 1000 <= abs(number) < 1e12 else f"{number:.4g}"
    return written.replace("-", "−") if "e" not in written else written


def times(value: float | None) -> str:
    """A lift.

    >>> times(2.44), times(None)
    ('2.4×', '–')
    """
    return f"{value:.1f}×" if _is_number(value) else "–"


def interval(low: float | None, high: float | None, write: Any = decimals) -> str:
    """Both limits.

    >>> interval(0.79, 0.834)
    '0.790 to 0.834'
    """
    return f"{write(low)} to {write(high)}"


def listed(names: Any, most: int = 3) -> str:
    """Names in a sentence; for alt texts.

    >>> listed(["a", "b", "c", "d"])
    'a, b, c and 1 more'
    """
    names = [one_line(name) for name in names]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _is_number(value: float | None) -> TypeGuard[float]:
    return value is not None and not math.isnan(float(value))
