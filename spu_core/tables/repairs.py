"""Lines that would damage others: quotes that never close, headers that come again, totals at the end."""

from __future__ import annotations

import csv
import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from spu_core.tables.blocks import TextPlan
from spu_core.tables.reading import RejectedLine
from spu_core.tables.sources import CHUNK
from spu_core.tables.streams import text_of

_TOTAL = re.compile(r"(grand |sub)?totals?:?|sum:?|summe:?|gesamt:?|total général|итого:?|合计|总计", re.IGNORECASE)
# A quoted cell may hold line breaks; more than this many are a quote that was never closed.
_LONGEST_CELL = 500
_TAIL = 1 << 14


@dataclass(frozen=True)
class Scan:
    """What one pass over the bytes of the rows shows."""

    lines: int
    header_again: bool
    last_line: str


def scan_rows(plan: TextPlan, header_text: str) -> Scan:
    """Count lines, and look for the header among the rows."""
    plan.stream.seek(plan.start)
    mark = header_text.encode().strip(b"\r\n")
    feeds = returns = pairs = 0
    again, carry = False, b""
    last = b""
    while piece := plan.stream.read(CHUNK):
        feeds += piece.count(b"\n")
        if b"\r" in piece or carry.endswith(b"\r"):
            returns += piece.count(b"\r")
            pairs += piece.count(b"\r\n") + (carry.endswith(b"\r") and piece.startswith(b"\n"))
        again = again or (bool(mark) and (mark in piece or mark in carry + piece[: len(mark)]))
        carry = piece[-max(len(mark), 1) :]
        last = piece[-_TAIL:] if len(piece) >= _TAIL else (last + piece)[-_TAIL:]
    ended = last.endswith((b"\n", b"\r")) or not last
    tail = re.split(rb"[\r\n]+", last.rstrip(b"\r\n \t"))[-1]
    return Scan(feeds + returns - pairs + (not ended), again, tail.decode("utf-8", errors="replace"))


def is_total(last_line: str, plan: TextPlan) -> bool:
    """Whether the last line sums up the others."""
    cells = _cells(last_line, plan)
    first = next((cell.strip() for cell in cells if cell.strip()), "")
    return len(cells) == len(plan.columns) and len(cells) > 1 and _TOTAL.fullmatch(first) is not None


def faulty_lines(plan: TextPlan, header_text: str) -> list[RejectedLine]:
    """Lines that must not be parsed, numbered from the first line of the rows, which is 1."""
    lines = _lines(plan)
    header = header_text.strip("\r\n")
    faulty: list[RejectedLine] = []
    at, last = 0, _last_filled(lines)
    while at < len(lines):
        line = lines[at].rstrip("\r\n")
        if line == header and header:
            faulty.append(RejectedLine(at + 1, "repeats the header", line[:200]))
        elif at == last and is_total(line, plan):
            faulty.append(RejectedLine(at + 1, "sums up the rows above", line[:200]))
        elif plan.dialect.quote and plan.dialect.quote in line:
            end = _end_of_record(lines, at, plan)
            if end is None:
                faulty.append(RejectedLine(at + 1, "opens a quote that is never closed", line[:200]))
            else:
                at = end
        at += 1
    return faulty


def without_lines(plan: TextPlan, faulty: list[RejectedLine]) -> TextPlan:
    """The plan on a copy of the rows in which these lines are blank, so that all others keep their numbers."""
    numbers = {rejected.line for rejected in faulty}
    target = tempfile.TemporaryFile()  # noqa: SIM115 - handed on in the plan
    for number, line in enumerate(_lines(plan), start=1):
        ending = line[len(line.rstrip("\r\n")) :]
        target.write((ending if number in numbers else line).encode())
    return replace(plan, stream=target, start=0)


def lines_of_records(plan: TextPlan, records: set[int]) -> dict[int, int]:
    """For each record number the line on which it starts, both counted from the first line of the rows."""
    plan.stream.seek(plan.start)
    reader = _csv_reader(text_of(plan.stream), plan)
    found, before, last = {}, 0, max(records, default=0)
    for number, _ in enumerate(reader, start=1):
        if number in records:
            found[number] = before + 1
        before = reader.line_num
        if number >= last:
            break
    return found


def _end_of_record(lines: list[str], start: int, plan: TextPlan) -> int | None:
    """The last line of the record that starts here; None if its quote swallows whole rows or never closes."""
    inside = _ends_inside(lines[start], False, plan)
    at = start
    while inside:
        at += 1
        if at >= len(lines) or at - start > _LONGEST_CELL:
            return None
        if _is_whole_row(lines[at], plan):
            return None
        inside = _ends_inside(lines[at], True, plan)
    return at


def _ends_inside(line: str, inside: bool, plan: TextPlan) -> bool:
    """Whether a quote is open at the end of the line, given whether one was open before it."""
    quote, separator = plan.dialect.quote or '"', plan.dialect.separator or ","
    at, cell_start = 0, True
    while at < len(line):
        sign = line[at]
        if inside:
            if sign == quote and line[at + 1 : at + 2] == quote:
                at += 1
            elif sign == quote:
                inside = False
        elif sign == quote and cell_start:
            inside = True
        cell_start = not inside and sign == separator
        at += 1
    return inside


def _is_whole_row(line: str, plan: TextPlan) -> bool:
    quote = plan.dialect.quote or '"'
    return len(plan.columns) > 1 and line.count(quote) % 2 == 0 and len(_cells(line, plan)) == len(plan.columns)


def _cells(line: str, plan: TextPlan) -> list[str]:
    return next(_csv_reader(iter([line.rstrip("\r\n")]), plan), [])


def _csv_reader(lines: Iterable[str], plan: TextPlan) -> Any:
    separator = plan.dialect.separator or ","
    if plan.dialect.quote:
        return csv.reader(lines, delimiter=separator, quotechar=plan.dialect.quote)
    return csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE)


def _lines(plan: TextPlan) -> list[str]:
    plan.stream.seek(plan.start)
    return list(text_of(plan.stream))


def _last_filled(lines: list[str]) -> int:
    return next((at for at in range(len(lines) - 1, -1, -1) if lines[at].strip()), -1)
