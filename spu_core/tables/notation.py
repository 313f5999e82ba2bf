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
from spu_core.tables.records import LONGEST_CELL, cells_of, repaired_cells
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
    lines = (line.rstrip("\r\n") for line in io.StringIO(sample, newline="") if cut.quote in line)
    for line in itertools.islice(lines, SAMPLE_RECORDS):
        cells = repaired_cells(line, notation.separator, notation.quote, notation.escape)
        if cells is not None and len(cells) == cut.width and cells != cells_of(line, cut.separator, cut.quote):
            return notation
    return None


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
    ahead: deque[str] = deque()
    while (line := ahead.popleft() if ahead else next(lines, None)) is not None:
        quoted = bool(notation.quote) and notation.quote in line
        if len(line) > _LONGEST_LINE or (not quoted and len(notation.separator) == 1):
            yield line
            continue
        bare = line.rstrip("\r\n")
        cells = repaired_cells(bare, notation.separator, notation.quote, notation.escape) if quoted else None
        if cells is None and quoted:
            line, cells = _joined(line, lines, ahead, notation)
            bare = line.rstrip("\r\n")
        if cells is None:
            cells = bare.split(notation.separator) if len(notation.separator) > 1 else None
        yield line if cells is None else _plain_line(cells, notation) + line[len(bare) :]


def _joined(line: str, lines: Iterator[str], ahead: deque[str], notation: Notation) -> tuple[str, Sequence[str] | None]:
    """The line with those below it that close its quote, and their cells; the line alone if none does."""
    whole = line
    for count in range(LONGEST_CELL):
        if count == len(ahead):
            below = next(lines, None)
            if below is None:
                break
            ahead.append(below)
        other = repaired_cells(ahead[count].rstrip("\r\n"), notation.separator, notation.quote, notation.escape)
        if (other is not None and len(other) == notation.width > 1) or len(whole) > _LONGEST_LINE:
            break
        whole += ahead[count]
        cells = repaired_cells(whole.rstrip("\r\n"), notation.separator, notation.quote, notation.escape)
        if cells is not None:
            for _ in range(count + 1):
                ahead.popleft()
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
