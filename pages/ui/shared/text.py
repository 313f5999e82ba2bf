"""Text for pages: user text without Markdown, LaTeX, HTML or icons in it, and numbers in words."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from spu_core.workspace import Home

# Text that a browser turns into links: the scheme of a web address, www, the name before the @ of a mail address.
_LINK = re.compile(r"\b(https?|ftp|mailto|xmpp|www)(?=[:.])|[\w.+-](?=@[\w-])", re.IGNORECASE)
_SERVER_FOLDER = re.compile(r"SPU_HOME/users/[0-9a-f]{64}")
# Any ASCII punctuation can be escaped in Markdown; these are the marks to which Streamlit gives a meaning.
_MARKS = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|$:~^=&\"'@/])")


def plain(text: object) -> str:
    """User text for places that render Markdown (titles, captions, labels, messages).

    Web and mail addresses stay text, broken by a word joiner; the folder of the server is replaced by SPU_HOME.

    >>> plain("a*b* $x$ :red[hi] <b>")
    'a\\\\*b\\\\* \\\\$x\\\\$ \\\\:red\\\\[hi\\\\] \\\\<b\\\\>'
    """
    words = _SERVER_FOLDER.sub("SPU_HOME", " ".join(str(text).split()).replace(str(Home.default().folder), "SPU_HOME"))
    return _MARKS.sub(r"\\\1", _LINK.sub(lambda found: f"{found[0]}\u2060", words))


def count(number: float) -> str:
    """A whole number with thousands separators.

    >>> count(1234567)
    '1,234,567'
    """
    return f"{number:,.0f}"


def row_count(number: int) -> str:
    """A number of rows in words.

    >>> row_count(1), row_count(1234)
    ('1 row', '1,234 rows')
    """
    return f"{count(number)} row{'s' * (number != 1)}"


def share(value: float) -> str:
    """A share in percent, with more digits where it is small.

    >>> share(0.1234), share(0.00123), share(1e-13)
    ('12.3%', '0.12%', '<0.01%')
    """
    if 0 < value < 0.0001:
        return "<0.01%"
    return f"{100 * value:.1f}%" if abs(value) >= 0.01 or value == 0 else f"{100 * value:.2g}%"


def shares(parts: Sequence[float]) -> list[str]:
    """Shares of one whole in percent, rounded by largest remainder so that they add up to 100%.

    >>> shares([1 / 3, 1 / 3, 1 / 3]), shares([0.0004, 0.9996])
    (['33.4%', '33.3%', '33.3%'], ['0.04%', '99.96%'])
    """
    whole, smallest = sum(parts), min((part for part in parts if part > 0), default=1.0)
    digits = 1 if smallest >= 0.0005 * whole else 2
    units = [1000 * 10 ** (digits - 1) * part / whole for part in parts]
    counts = [math.floor(unit) for unit in units]
    by_remainder = sorted(range(len(parts)), key=lambda place: counts[place] - units[place])
    for place in by_remainder[: round(sum(units)) - sum(counts)]:
        counts[place] += 1
    return [f"{each / 10**digits:.{digits}f}%" for each in counts]


def figure(value: float) -> str:
    """A metric with three decimals; a dash for NaN.

    >>> figure(0.81249), figure(float("nan"))
    ('0.812', '–')
    """
    return "–" if value != value else f"{value:.3f}"


def sized(bytes_: float) -> str:
    """A file size with its unit.

    >>> sized(1536), sized(3_000_000)
    ('1.5 kB', '3.0 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if bytes_ < 1000 or unit == "GB":
            return f"{bytes_:.0f} {unit}" if unit == "B" else f"{bytes_:.1f} {unit}"
        bytes_ /= 1000
    raise AssertionError("unreachable")
