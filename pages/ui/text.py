"""Data is always text: what people typed never becomes Markdown, LaTeX, HTML or an icon on a page."""

from __future__ import annotations

import re

from spu_core.workspace import Home

# Every ASCII punctuation mark may be escaped in Markdown; those that Streamlit gives a meaning are among them.
# What the browser would turn into a link: an address of the web up to its colon, www, a name before the @ of mail.
_LINK = re.compile(r"\b(https?|ftp|mailto|xmpp|www)(?=[:.])|[\w.+-](?=@[\w-])", re.IGNORECASE)
_SERVER_FOLDER = re.compile(r"SPU_HOME/users/[0-9a-f]{64}")
_MARKS = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|$:~^=&\"'@/])")


def plain(text: object) -> str:
    """User text for places that render Markdown (titles, captions, labels, messages).

    Addresses of the web and of mail stay text, broken by a joiner without width; the folder of the server is not told.

    >>> plain("a*b* $x$ :red[hi] <b>")
    'a\\\\*b\\\\* \\\\$x\\\\$ \\\\:red\\\\[hi\\\\] \\\\<b\\\\>'
    """
    words = _SERVER_FOLDER.sub("SPU_HOME", " ".join(str(text).split()).replace(str(Home.default().folder), "SPU_HOME"))
    return _MARKS.sub(r"\\\1", _LINK.sub(lambda found: f"{found[0]}\u2060", words))


def count(number: float) -> str:
    """A whole number for people.

    >>> count(1234567)
    '1,234,567'
    """
    return f"{number:,.0f}"


def share(value: float) -> str:
    """A share for people: more digits where it is small.

    >>> share(0.1234), share(0.00123)
    ('12.3%', '0.12%')
    """
    return f"{100 * value:.1f}%" if abs(value) >= 0.01 or value == 0 else f"{100 * value:.2g}%"


def figure(value: float) -> str:
    """A metric for people: three decimals, a dash where there is none.

    >>> figure(0.81249), figure(float("nan"))
    ('0.812', '–')
    """
    return "–" if value != value else f"{value:.3f}"


def sized(bytes_: float) -> str:
    """A file size for people.

    >>> sized(1536), sized(3_000_000)
    ('1.5 kB', '3.0 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if bytes_ < 1000 or unit == "GB":
            return f"{bytes_:.0f} {unit}" if unit == "B" else f"{bytes_:.1f} {unit}"
        bytes_ /= 1000
    raise AssertionError("unreachable")
