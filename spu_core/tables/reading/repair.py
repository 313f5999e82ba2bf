"""Lines that would damage others: quotes that are never closed, repeated headers, totals at the end.

Before parsing, the bytes are also searched for whole numbers with leading zeros (007, 00501).
"""

from __future__ import annotations

import re
import tempfile
from array import array
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from spu_core.tables.reading.blocks import TextPlan, record_too_long
from spu_core.tables.reading.reading_report import LISTED_LINES, RejectedLine
from spu_core.tables.reading.record_splitter import cells_of, csv_reader, lines_below
from spu_core.tables.reading.sources import CHUNK, text_of

_TOTAL = re.compile(r"(grand |sub)?totals?:?|sum:?|summe:?|gesamt:?|total général|итого:?|合计|总计", re.IGNORECASE)
_TAIL = 1 << 14


@dataclass(frozen=True)
class Scan:
    """Results of one pass over the bytes of the rows."""

    lines: int
    repeats_header_line: bool
    last_line: str
    has_quotes: bool
    has_codes: bool


def scan_rows(plan: TextPlan, header_text: str) -> Scan:
    """Count lines, and search the rows for the header and, where the parser converts whole numbers, for codes."""
    plan.stream.seek(plan.start)
    ends, again = _LineEnds(), _HeaderSearch(header_text.encode().strip(b"\r\n"))
    codes = CodeCells(plan.dialect.separator or ",", plan.dialect.quote or "")
    looks = any(map(pa.types.is_integer, plan.shortcuts.values()))
    quote, quoted = (plan.dialect.quote or "").encode(), False
    while piece := plan.stream.read(CHUNK):
        ends.look_at(piece)
        again.look_at(piece)
        looks = looks and not codes.look_at(piece)
        quoted = quoted or (bool(quote) and quote in piece)
    return Scan(ends.lines, again.found, ends.last_line, quoted, has_codes=codes.finish())


class _LineEnds:
    """Counts lines that end with LF, CR LF or CR, and keeps the last one that is not blank.

    >>> ends = _LineEnds()
    >>> ends.look_at(b"a\\r"); ends.look_at(b"\\nb\\n c")
    >>> ends.lines, ends.last_line
    (3, ' c')
    """

    def __init__(self) -> None:
        self._feeds = self._returns = self._pairs = 0
        self._tail = b""

    def look_at(self, piece: bytes) -> None:
        """Process the next piece."""
        self._feeds += int(np.count_nonzero(np.frombuffer(piece, dtype=np.uint8) == 10))
        if b"\r" in piece or self._tail.endswith(b"\r"):
            self._returns += piece.count(b"\r")
            self._pairs += piece.count(b"\r\n") + (self._tail.endswith(b"\r") and piece.startswith(b"\n"))
        self._tail = piece[-_TAIL:] if len(piece) >= _TAIL else (self._tail + piece)[-_TAIL:]

    @property
    def lines(self) -> int:
        ended = self._tail.endswith((b"\n", b"\r")) or not self._tail
        return self._feeds + self._returns - self._pairs + (not ended)

    @property
    def last_line(self) -> str:
        tail = re.split(rb"[\r\n]+", self._tail.rstrip(b"\r\n \t"))[-1]
        return tail.decode("utf-8", errors="replace")


class _HeaderSearch:
    """Whether the header is repeated in pieces of the file.

    >>> again = _HeaderSearch(b"a,b")
    >>> again.look_at(b"1,2\\na,"); again.look_at(b"b\\n")
    >>> again.found
    True
    """

    def __init__(self, mark: bytes) -> None:
        self._mark, self._carry = mark, b""
        self.found = False

    def look_at(self, piece: bytes) -> None:
        """Process the next piece."""
        if self._mark and not self.found:
            self.found = self._mark in piece or self._mark in self._carry + piece[: len(self._mark)]
            self._carry = piece[-len(self._mark) :]


def is_total(last_line: str, plan: TextPlan) -> bool:
    """Whether the last line is a total of the others."""
    cells = cells_of(last_line, plan.dialect.separator or ",", plan.dialect.quote or "")
    first = next((cell.strip() for cell in cells if cell.strip()), "")
    return len(cells) == len(plan.columns) and len(cells) > 1 and _TOTAL.fullmatch(first) is not None


@dataclass(frozen=True)
class FaultyLines:
    """Numbers of all lines that must not be parsed, counted from the first line of the rows, which is 1.

    Eight bytes are kept for each line; reasons only for the first ones.
    """

    numbers: array[int] = field(default_factory=lambda: array("q"))
    listed: tuple[RejectedLine, ...] = ()

    def __len__(self) -> int:
        return len(self.numbers)


def faulty_lines(plan: TextPlan, header_text: str, scan: Scan) -> FaultyLines:
    """Repeated headers, a total at the end, and lines whose quote is never closed.

    Lines are streamed: at most the lines of one record are in memory.
    """
    header = header_text.strip("\r\n")
    last = _last_filled(plan) if is_total(scan.last_line, plan) else 0
    numbers, listed = array("q"), list[RejectedLine]()
    lines = _Lines(plan)
    while (line := lines.next()) is not None:
        reason = _fault(line.rstrip("\r\n"), header, lines.number == last, lines, plan)
        if reason is not None:
            numbers.append(lines.number)
            if len(listed) < LISTED_LINES:
                listed.append(RejectedLine(lines.number, reason, line.rstrip("\r\n")[:200]))
        elif plan.dialect.quote:
            lines.skip(_lines_below(line, lines, plan) or 0)
    return FaultyLines(numbers, tuple(listed))


def without_lines(plan: TextPlan, faulty: FaultyLines) -> TextPlan:
    """The plan on a copy of the rows in which these lines are blank, so that all others keep their numbers."""
    target = tempfile.TemporaryFile()  # noqa: SIM115 - handed on in the plan
    lines, gone = _Lines(plan), iter(faulty.numbers)
    next_gone = next(gone, 0)
    while (line := lines.next()) is not None:
        if lines.number == next_gone:
            line, next_gone = line[len(line.rstrip("\r\n")) :], next(gone, 0)
        target.write(line.encode())
    return replace(plan, stream=target, start=0)


def lines_of_records(plan: TextPlan, records: set[int]) -> dict[int, int]:
    """For each record number the line on which it starts, both counted from the first line of the rows."""
    plan.stream.seek(plan.start)
    reader = csv_reader(text_of(plan.stream), plan.dialect.separator or ",", plan.dialect.quote or "")
    found, before, last = {}, 0, max(records, default=0)
    for number, _ in enumerate(reader, start=1):
        if number in records:
            found[number] = before + 1
        before = reader.line_num
        if number >= last:
            break
    return found


class _Lines:
    """The lines of the rows one by one, with lookahead."""

    def __init__(self, plan: TextPlan) -> None:
        plan.stream.seek(plan.start)
        self._text, self._plan = text_of(plan.stream), plan
        self._ahead: deque[str] = deque()
        self.number = 0

    def next(self) -> str | None:
        """The next line, or None at the end."""
        line = self._ahead.popleft() if self._ahead else self._read()
        self.number += line is not None
        return line

    def ahead(self) -> Iterator[str]:
        """The lines below, without consuming them."""
        yield from list(self._ahead)
        while (line := self._read()) is not None:
            self._ahead.append(line)
            yield line

    def skip(self, count: int) -> None:
        """Skip lines."""
        for _ in range(count):
            self.next()

    def _read(self) -> str | None:
        # Limited, so that a file without line ends does not become one text of gigabytes.
        line = self._text.readline(self._plan.block_bytes)
        if len(line) == self._plan.block_bytes:
            raise record_too_long(self._plan)
        return line or None


def _fault(line: str, header: str, is_last: bool, lines: _Lines, plan: TextPlan) -> str | None:
    if header and line == header:
        return "repeats the header"
    if is_last and is_total(line, plan):
        return "sums up the rows above"
    if plan.dialect.quote and _lines_below(line, lines, plan) is None:
        return "opens a quote that is never closed"
    return None


def _lines_below(line: str, lines: _Lines, plan: TextPlan) -> int | None:
    """How many lines below belong to this record; None if its quote contains whole rows or is never closed."""
    separator, quote = plan.dialect.separator or ",", plan.dialect.quote or '"'
    return lines_below(line, _within(lines.ahead(), plan.block_bytes - len(line)), len(plan.columns), separator, quote)


def _within(lines: Iterator[str], room: int) -> Iterator[str]:
    """The lines that fit into a record."""
    for line in lines:
        room -= len(line)
        if room < 0:
            return
        yield line


def _last_filled(plan: TextPlan) -> int:
    """The number of the last line that is not blank."""
    lines, last = _Lines(plan), 0
    while (line := lines.next()) is not None:
        last = lines.number if line.strip() else last
    return last


# Pieces overlap by this much, so that a cell split between pieces is complete in the next one.
OVERLAP = 64
_LONGEST = 24
# Small enough for the CPU cache: twice as fast as whole megabytes.
_STRIDE = 1 << 16
_ZERO = ord("0")
_BLANK = ord(" ")


class CodeCells:
    """Searches pieces of a file for cells such as 007, whose zeros a parser of whole numbers would lose.

    It never misses a code. It may mistake part of a text for a code, which only costs time.

    >>> cells = CodeCells(",", '"')
    >>> cells.look_at(b"1,0,0.5\\n05/01/2024,2\\n"), cells.look_at(b"7,007\\n")
    (False, True)
    """

    def __init__(self, separator: str, quote: str) -> None:
        self._separator, self._quote = ord(separator), ord(quote or separator)
        self._ends = np.zeros(256, dtype=bool)
        self._ends[: _BLANK + 1] = self._ends[[self._separator, self._quote]] = True
        self._inner = np.zeros(256, dtype=bool)
        self._inner[list(b"0123456789abcdefABCDEFxX")] = True
        self._starts = np.empty(_STRIDE, dtype=bool)
        self._other = np.empty(_STRIDE, dtype=bool)
        self._carry = b"\n"
        self.found = False

    def look_at(self, piece: bytes) -> bool:
        """Search the next piece; returns whether a code was found so far."""
        if not self.found:
            joined = self._carry + piece
            data, quoted = np.frombuffer(joined, dtype=np.uint8), self._quote in joined
            self.found = any(self._in_stride(data, at, quoted) for at in range(0, data.size - 2, _STRIDE))
            self._carry = data[-OVERLAP:].tobytes()
        return self.found

    def finish(self) -> bool:
        """Whether a code was found; a cell at the very end of the file counts as well."""
        return self.look_at(b"\n\n")

    def _in_stride(self, data: np.ndarray, at: int, quoted: bool) -> bool:
        """Whether a code starts in one stride: a zero at the start of a cell, and a digit or letter after it."""
        after = data[at + 2 : at + 2 + _STRIDE]
        before, first = data[at : at + after.size], data[at + 1 : at + 1 + after.size]
        starts, other = self._starts[: after.size], self._other[: after.size]
        np.less_equal(before, _BLANK, out=starts)
        starts |= np.equal(before, self._separator, out=other)
        if quoted:
            starts |= np.equal(before, self._quote, out=other)
        starts &= np.equal(first, _ZERO, out=other)
        starts &= np.greater_equal(after, _ZERO, out=other)
        if self._separator >= _ZERO:
            starts &= np.not_equal(after, self._separator, out=other)
        return bool(starts.any()) and self._any_code(data, np.flatnonzero(starts) + at + 1)

    def _any_code(self, data: np.ndarray, zeros: np.ndarray) -> bool:
        """Whether one of the zeros starts a cell of digits only; 05/01/2024 and "Room 05" do not count."""
        before = data[zeros - 1]
        blank = (before <= _BLANK) & (before != self._separator) & (before != 10) & (before != 13)
        zeros = zeros[~blank | self._ends[data[np.maximum(zeros - 2, 0)]]]
        for step in range(1, _LONGEST):
            # A cell that continues beyond the piece is checked again with the next one.
            zeros = zeros[zeros + step < data.size]
            sign = data[zeros + step]
            if step > 1 and self._ends[sign].any():
                return True
            zeros = zeros[self._inner[sign]]
            if not zeros.size:
                return False
        return True
