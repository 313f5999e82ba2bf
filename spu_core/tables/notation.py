"""Text in a notation that the parser does not know, rewritten line by line in one that it knows.

That is a separator of two signs (`a||b`), a blank before a quote (`1, "a, b"`), quotes that are escaped by a backslash
(`"say \\"hi\\""`) or not at all (`"say "hi" to all"`). Lines keep their numbers, and lines without such signs stay
as they are.
"""

from __future__ import annotations

import io
import itertools
import re
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from spu_core.tables.encodings import TextSource
from spu_core.tables.records import LONGEST_CELL, cells_of, is_well_formed, lines_below, read_records, repaired_cells
from spu_core.tables.sniffing import SAMPLE_RECORDS, Cut
from spu_core.tables.streams import text_of

# A line that is longer stays as it is: the parser has its own limit.
_LONGEST_LINE = 1 << 20


@dataclass(frozen=True, slots=True)
class Notation:
    """How cells are written in the file: the separator of one or two signs, the quote, and what escapes a quote."""

    separator: str
    quote: str
    escape: str
    width: int


def find_notation(sample: str, cut: Cut) -> Notation | None:
    """The notation of the sample if the parser would read it wrongly, else None.

    >>> find_notation('a,b\\n1,"x, y"\\n', Cut(",", '"', 2, 1.0)) is None
    True
    >>> find_notation('a, b\\n1, "x, y"\\n', Cut(",", '"', 2, 1.0))
    Notation(separator=',', quote='"', escape='', width=2)
    """
    notation = Notation(cut.separator, cut.quote, _escape_in(sample, cut), cut.width)
    if len(cut.separator) > 1:
        return notation
    if not cut.quote or cut.quote not in sample:
        return None
    # A line in the middle of a cell with line breaks says nothing about quotes.
    lines = list(io.StringIO(sample, newline=""))
    records = read_records(sample, cut.separator, cut.quote, SAMPLE_RECORDS)
    single = (lines[record.last_line - 1] for record in records if record.first_line == record.last_line)
    return notation if any(_is_odd(line.rstrip("\r\n"), notation) for line in single) else None


def _is_odd(line: str, notation: Notation) -> bool:
    """Whether the line is a row once its quotes are repaired, and another one than the parser would see."""
    if notation.quote not in line or is_well_formed(line, notation.separator, notation.quote):
        return False
    cells = repaired_cells(line, notation.separator, notation.quote, notation.escape)
    fits = cells is not None and len(cells) == notation.width
    return fits and cells != cells_of(line, notation.separator, notation.quote)


def rewritten(source: TextSource, notation: Notation) -> TextSource:
    """The same text with separators of one sign, and with quotes that are doubled inside cells."""
    source.stream.seek(source.start)
    target = tempfile.TemporaryFile()  # noqa: SIM115 - handed on in the result
    for line in _rewritten_lines(iter(text_of(source.stream)), notation):
        target.write(line.encode())
    size = target.tell()
    target.seek(0)
    return replace(source, stream=target, start=0, size=size)


def is_padded(sample: str, separator: str) -> bool:
    """Whether a blank follows nearly every separator, so that it belongs to the separator and not to the cell.

    >>> is_padded("a, b, c\\n1, 2, 3\\n", ","), is_padded("a,b\\n1, 2\\n", ",")
    (True, False)
    """
    if separator.isspace():
        return False
    return 0 < 0.95 * sample.count(separator) <= sample.count(f"{separator} ")


def _escape_in(sample: str, cut: Cut) -> str:
    r"""A backslash, where one stands before a quote that does not end its cell; `"C:\folder\",` is none."""
    if not cut.quote:
        return ""
    end = rf"[ ]*(?:{re.escape(cut.separator)}|[\r\n]|\Z)"
    return "\\" if re.search(rf"\\{re.escape(cut.quote)}(?!{end})(?!{re.escape(cut.quote)}{end})", sample) else ""


def _rewritten_lines(lines: Iterator[str], notation: Notation) -> Iterator[str]:
    ahead = _Ahead(lines)
    while (line := ahead.next()) is not None:
        if len(line) > _LONGEST_LINE or not _may_change(line, notation):
            yield line
        elif below := _lines_below(line, ahead, notation):
            yield line
            yield from (ahead.next() or "" for _ in range(below))
        else:
            yield _rewritten(line, ahead, notation)


def _may_change(line: str, notation: Notation) -> bool:
    return len(notation.separator) > 1 or (bool(notation.quote) and notation.quote in line)


def _lines_below(line: str, ahead: _Ahead, notation: Notation) -> int:
    """How many lines below belong to this one for the parser as well; they stay as they are."""
    if len(notation.separator) > 1 or notation.escape:
        return 0
    return lines_below(line, iter(ahead), notation.width, notation.separator, notation.quote) or 0


def _rewritten(line: str, ahead: _Ahead, notation: Notation) -> str:
    bare = line.rstrip("\r\n")
    if len(notation.separator) == 1 and is_well_formed(bare, notation.separator, notation.quote):
        return line
    cells: Sequence[str] | None = repaired_cells(bare, notation.separator, notation.quote, notation.escape)
    if cells is None:
        line, cells = _joined(line, ahead, notation)
        bare = line.rstrip("\r\n")
    if cells is None and len(notation.separator) > 1:
        cells = bare.split(notation.separator)
    return line if cells is None else _plain_line(cells, notation) + line[len(bare) :]


class _Ahead:
    """Lines one by one; iterating looks at those below, which stay to be taken."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines, self._seen = lines, deque[str]()

    def next(self) -> str | None:
        return self._seen.popleft() if self._seen else next(self._lines, None)

    def __iter__(self) -> Iterator[str]:
        yield from list(self._seen)
        for line in self._lines:
            self._seen.append(line)
            yield line


def _joined(line: str, ahead: _Ahead, notation: Notation) -> tuple[str, Sequence[str] | None]:
    """The line with those below it that close its quote, and their cells; the line alone if none does."""
    whole = line
    for count, below in enumerate(itertools.islice(ahead, LONGEST_CELL), start=1):
        other = repaired_cells(below.rstrip("\r\n"), notation.separator, notation.quote, notation.escape)
        whole += below
        if (other is not None and len(other) == notation.width > 1) or len(whole) > _LONGEST_LINE:
            break
        cells = repaired_cells(whole.rstrip("\r\n"), notation.separator, notation.quote, notation.escape)
        if cells is not None:
            for _ in range(count):
                ahead.next()
            return whole, cells
    return line, None


def _plain_line(cells: Sequence[str], notation: Notation) -> str:
    separator, quote = notation.separator[0], notation.quote or '"'
    special = (separator, quote, "\n", "\r")
    quoted = (
        f"{quote}{cell.replace(quote, 2 * quote)}{quote}" if any(sign in cell for sign in special) else cell
        for cell in cells
    )
    return separator.join(quoted)
