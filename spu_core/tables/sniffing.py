"""Separator and quote of a text file, judged by how evenly each choice cuts the lines."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

SEPARATORS = (",", ";", "\t", "|", ":", " ", "^", "~", "\x01", "\x1f")
# Signs that also stand inside plain text, so that a cut by them must be clearly better to be believed.
_DOUBTFUL = {":": 0.6, " ": 0.5, "^": 0.9, "~": 0.9}
_NUMBER = re.compile(r"[+-]?[$€£]?(\d{1,3}([ \u00a0\u202f.,']\d{3})+|\d+)?([.,]\d*)?([eE][+-]?\d+)?\s?[%€$£]?")
_CLOCK = r"[T ]\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[APap][Mm])?(Z|[+-]\d\d:?\d\d)?"
_DATE = re.compile(rf"\d{{1,4}}([-/.])\d{{1,2}}\1\d{{1,4}}({_CLOCK})?")
_WORD = re.compile(r"[^\W\d_][\w .\-/&+]{0,40}|")
SAMPLE_RECORDS = 400


@dataclass(frozen=True, slots=True)
class Cut:
    """One way of cutting the sample: separator, quote, the usual number of fields, and how well it fits in [0, 1]."""

    separator: str
    quote: str
    width: int
    fit: float


def sniff_cut(sample: str) -> Cut:
    """The separator and quote that cut the lines most evenly into cells that look like values.

    >>> cut = sniff_cut("a;b\\n1,5;x\\n2,5;y\\n")
    >>> cut.separator, cut.width
    (';', 2)
    """
    cuts = [cut_with(sample, separator, quote) for separator in SEPARATORS for quote in _quotes_in(sample)]
    best = max(cuts, key=lambda cut: cut.fit)
    return best if best.fit > 0.0 else Cut(",", '"', 1, 0.0)


def cut_with(sample: str, separator: str, quote: str) -> Cut:
    """How well one separator and quote fit the sample."""
    records = [record for record in split_records(sample, separator, quote) if any(record)]
    width = usual_width(records)
    if width < 2:
        return Cut(separator, quote, 1, 0.0)
    usual = [record for record in records if len(record) == width]
    even = len(usual) / len(records)
    # Cells that look like values speak for a cut; a quote sign left inside a cell speaks against it.
    cells = [cell for record in usual[1:101] or usual for cell in record]
    typed = sum(_looks_like_value(cell.strip()) for cell in cells) / len(cells)
    stray = sum(cell[:1] in "\"'" and cell[:1] != "" for cell in cells) / len(cells)
    fit = even**2 * (0.2 + 0.8 * typed) * (1.0 - stray) * (1.0 - 0.4 / width) * _DOUBTFUL.get(separator, 1.0)
    return Cut(separator, quote, width, fit * (1.0 if quote == '"' else 0.99))


def split_records(sample: str, separator: str, quote: str) -> list[list[str]]:
    """The sample's records as lists of cells; a record that never ends is left out."""
    reader = _reader(io.StringIO(sample, newline=""), separator, quote)
    records: list[list[str]] = []
    # A cell beyond the csv module's size ends the sample; what came before it is sample enough.
    with contextlib.suppress(csv.Error):
        records.extend(itertools.islice(reader, SAMPLE_RECORDS))
    return records


def usual_width(records: list[list[str]]) -> int:
    """The most frequent number of fields; the larger one when two are equally frequent.

    >>> usual_width([["title"], ["a", "b"], ["1", "2"]])
    2
    """
    counts = Counter(len(record) for record in records if any(record))
    return max(counts, key=lambda width: (counts[width], width), default=0)


def looks_like_number(cell: str) -> bool:
    """Whether a cell is a number in any usual notation.

    >>> [looks_like_number(cell) for cell in ("-1.5e3", "1.234,50", "12 %", "1-2", "")]
    [True, True, True, False, False]
    """
    return bool(cell) and any(map(str.isdigit, cell)) and _NUMBER.fullmatch(cell) is not None


def looks_like_date(cell: str) -> bool:
    """Whether a cell is a date or a date with a time, in figures.

    >>> looks_like_date("2024-01-31 10:15"), looks_like_date("1/2/2024"), looks_like_date("10:15")
    (True, True, False)
    """
    return _DATE.fullmatch(cell) is not None


def _reader(lines: Iterable[str], separator: str, quote: str) -> Iterator[list[str]]:
    if quote:
        return csv.reader(lines, delimiter=separator, quotechar=quote, skipinitialspace=separator != " ")
    return csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE)


def _quotes_in(sample: str) -> list[str]:
    """A single quote counts as a quote only where it opens cells; elsewhere it is an apostrophe."""
    sample = sample[:20_000]
    opens = len(re.findall(r"(?:^|[,;\t|])'[^'\n]*'(?=[,;\t|\r\n])", sample, re.MULTILINE))
    return ['"', "'"] if opens >= 3 and opens > sample.count('"') / 2 else ['"']


def _looks_like_value(cell: str) -> bool:
    return looks_like_number(cell) or looks_like_date(cell) or _WORD.fullmatch(cell) is not None
