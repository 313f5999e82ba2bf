"""Lines that would damage others: quotes that never close, headers that come again, totals at the end."""

from __future__ import annotations

import re
import tempfile
from array import array
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from spu_core.tables.blocks import TextPlan, record_too_long
from spu_core.tables.code_cells import CodeCells
from spu_core.tables.reading import LISTED_LINES, RejectedLine
from spu_core.tables.records import cells_of, csv_reader, lines_below
from spu_core.tables.sources import CHUNK
from spu_core.tables.streams import text_of

_TOTAL = re.compile(r"(grand |sub)?totals?:?|sum:?|summe:?|gesamt:?|total général|итого:?|合计|总计", re.IGNORECASE)
_TAIL = 1 << 14


@dataclass(frozen=True)
class Scan:
    """What one pass over the bytes of the rows shows."""

    lines: int
    header_again: bool
    last_line: str
    has_quotes: bool
    has_codes: bool


def scan_rows(plan: TextPlan, header_text: str) -> Scan:
    """Count lines, and look for the header and, where the parser converts whole numbers, for codes among the rows."""
    plan.stream.seek(plan.start)
    ends, again = _LineEnds(), _Again(header_text.encode().strip(b"\r\n"))
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
        """Take the next piece."""
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


class _Again:
    """Whether the header comes again in pieces of the file.

    >>> again = _Again(b"a,b")
    >>> again.look_at(b"1,2\\na,"); again.look_at(b"b\\n")
    >>> again.found
    True
    """

    def __init__(self, mark: bytes) -> None:
        self._mark, self._carry = mark, b""
        self.found = False

    def look_at(self, piece: bytes) -> None:
        """Take the next piece."""
        if self._mark and not self.found:
            self.found = self._mark in piece or self._mark in self._carry + piece[: len(self._mark)]
            self._carry = piece[-len(self._mark) :]


def is_total(last_line: str, plan: TextPlan) -> bool:
    """Whether the last line sums up the others."""
    cells = cells_of(last_line, plan.dialect.separator or ",", plan.dialect.quote or "")
    first = next((cell.strip() for cell in cells if cell.strip()), "")
    return len(cells) == len(plan.columns) and len(cells) > 1 and _TOTAL.fullmatch(first) is not None


@dataclass(frozen=True)
class FaultyLines:
    """Numbers of all lines that must not be parsed, counted from the first line of the rows, which is 1.

    Eight bytes are kept for each line; words only for the first ones.
    """

    numbers: array[int] = field(default_factory=lambda: array("q"))
    listed: tuple[RejectedLine, ...] = ()

    def __len__(self) -> int:
        return len(self.numbers)


def faulty_lines(plan: TextPlan, header_text: str, scan: Scan) -> FaultyLines:
    """Headers that come again, a total at the end, and lines whose quote never closes.

    Lines stream by: no more of them are held than one record may be long.
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
    """The lines of the rows one by one, with a look ahead."""

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
        """The lines below, which stay to be read."""
        yield from list(self._ahead)
        while (line := self._read()) is not None:
            self._ahead.append(line)
            yield line

    def skip(self, count: int) -> None:
        """Pass over lines that were looked at."""
        for _ in range(count):
            self.next()

    def _read(self) -> str | None:
        # A file without line ends must not become one text of gigabytes.
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
    """How many lines below belong to this one's record; None if its quote swallows whole rows or never closes."""
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
