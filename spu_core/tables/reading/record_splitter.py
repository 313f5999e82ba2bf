"""Split lines of text into records of cells, where quotes may be missing, unescaped or never closed."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

# A quoted cell may contain line breaks; more than this many mean that a quote was never closed.
LONGEST_CELL = 500
# The number of such lines that may look like rows, if the quotes around the cell are well-formed.
MOST_ROWS_IN_A_CELL = 20


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the sample with the physical lines it covers, counted from 1."""

    cells: tuple[str, ...]
    first_line: int
    last_line: int
    open_quote: bool = False

    @property
    def filled(self) -> tuple[str, ...]:
        """The cells that are not empty."""
        return tuple(cell for cell in self.cells if cell)


def read_records(sample: str, separator: str, quote: str, most: int | None = None) -> list[Record]:
    """The records of the sample, without outer blanks in their cells; at most `most`.

    Line ends are LF, CR LF or CR, and nothing else. A quote that is never closed belongs to its own line only:

    >>> [record.cells for record in read_records('a,"b,c\\n1,2,3\\n4,"x\\ny",6\\n', ",", '"')]
    [('a', 'b', 'c'), ('1', '2', '3'), ('4', 'x\\ny', '6')]
    """
    lines = list(io.StringIO(sample, newline=""))
    if not quote or not any(line.count(quote) % 2 for line in lines):
        return list(itertools.islice(_plain_records(lines, separator, quote), most))
    return list(itertools.islice(_repaired_records(lines, separator, quote), most))


def _plain_records(lines: list[str], separator: str, quote: str) -> Iterator[Record]:
    """Records of lines with paired quotes."""
    reader = csv_reader(lines, separator, quote, skipinitialspace=separator != " ")
    line = 0
    # A cell beyond the limit of the csv module ends the sample; the records before it show the layout.
    with contextlib.suppress(csv.Error):
        for cells in reader:
            yield Record(tuple(map(str.strip, cells)), line + 1, reader.line_num)
            line = reader.line_num


def _repaired_records(lines: list[str], separator: str, quote: str) -> Iterator[Record]:
    """Records of lines, some of which open a quote that others may close."""
    at, width = 0, plain_width(lines, separator, quote)
    while at < len(lines):
        others = (lines[number] for number in range(at + 1, len(lines)))
        below = lines_below(lines[at], others, width, separator, quote)
        last = at + 1 + (below or 0)
        try:
            cells = _cells_of_lines(lines[at:last], separator, quote if below is not None else "")
        except csv.Error:
            return
        strip = f"{quote} \t" if below is None else None
        yield Record(tuple(cell.strip(strip) for cell in cells), at + 1, last, below is None)
        at = last


def cells_of(line: str, separator: str, quote: str) -> list[str]:
    """The cells of one line, as the parser splits them.

    >>> cells_of('a,"b,c",d', ",", '"')
    ['a', 'b,c', 'd']
    """
    try:
        return next(csv_reader(iter([line.rstrip("\r\n")]), separator, quote), [])
    except csv.Error:  # a cell beyond the limit of the csv module
        return line.rstrip("\r\n").split(separator)


def csv_reader(lines: Iterable[str], separator: str, quote: str, **options: Any) -> Any:
    """Python's reader for these marks; nothing is quoted where `quote` is empty."""
    if quote:
        return csv.reader(lines, delimiter=separator, quotechar=quote, **options)
    return csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE)


def plain_width(lines: list[str], separator: str, quote: str) -> int:
    """The usual number of cells in lines with paired quotes; 0 if there is no such line.

    >>> plain_width(['a,"b\\n', "1,2\\n", "3,4\\n", "\\n"], ",", '"')
    2
    """
    widths: Counter[int] = Counter()
    for line in lines[:1_000]:
        if not quote or quote not in line:
            widths[line.count(separator) + 1] += bool(line.strip())
        elif line.count(quote) % 2 == 0:
            widths[len(cells_of(line, separator, quote))] += 1
    return max(widths, key=lambda width: (widths[width], width), default=0)


def lines_below(line: str, below: Iterable[str], width: int, separator: str, quote: str) -> int | None:
    """How many lines below belong to this record; None if its quote contains whole rows or is never closed.

    >>> lines_below('1,"two', ['lines"', "3,4"], 2, ",", '"'), lines_below('1,"open', ["3,4", "5,6"], 2, ",", '"')
    (1, None)
    """
    if not quote or quote not in line or not ends_inside(line, False, separator, quote):
        return 0
    lines, rows = [line], 0
    for count, other in enumerate(below, start=1):
        lines.append(other)
        rows += is_whole_row(other, width, separator, quote)
        if count > LONGEST_CELL or rows > MOST_ROWS_IN_A_CELL:
            return None
        if not ends_inside(other, True, separator, quote):
            closes = closes_a_cell(other, separator, quote)
            return count if closes and (not rows or _is_record(lines, width, separator, quote)) else None
    return None


def _is_record(lines: Sequence[str], width: int, separator: str, quote: str) -> bool:
    """Whether the lines are certainly one record: of the usual width, with quotes around whole cells only."""
    text = "".join(lines).rstrip("\r\n")
    try:
        return is_well_formed(text, separator, quote) and len(next(csv_reader(lines, separator, quote))) == width
    except csv.Error:  # a cell beyond the limit of the csv module
        return False


def ends_inside(line: str, inside: bool, separator: str, quote: str) -> bool:
    """Whether a quote is open at the end of the line, given whether one was open before it."""
    at = 0
    if not inside and line.startswith(quote):
        inside, at = True, 1
    while True:
        found = line.find(quote if inside else separator + quote, at)
        if found < 0:
            return inside
        if not inside:
            inside, at = True, found + len(separator) + 1
        elif line.startswith(quote, found + 1):
            at = found + 2
        else:
            inside, at = False, found + 1


def closes_a_cell(line: str, separator: str, quote: str) -> bool:
    """Whether the first closing quote ends its cell; a quote directly before a word opens another cell.

    >>> closes_a_cell('end",5', ",", '"'), closes_a_cell('3,"word",5', ",", '"'), closes_a_cell('end" 5', " ", '"')
    (True, False, True)
    """
    rest = line.replace(2 * quote, "").partition(quote)[2]
    return rest.strip(" \r\n") == "" or rest.startswith(separator) or rest.lstrip(" ").startswith(separator)


def is_whole_row(line: str, width: int, separator: str, quote: str) -> bool:
    """Whether a line is a row by itself, so that it cannot be part of a cell."""
    return width > 1 and line.count(quote) % 2 == 0 and len(cells_of(line, separator, quote)) == width


def is_well_formed(line: str, separator: str, quote: str) -> bool:
    """Whether quotes are around whole cells only, and are doubled inside them.

    >>> [is_well_formed(line, ",", '"') for line in ('1,"a ""b"", c"', '1, "a"', '1,"say "hi""', '5" pipe,2')]
    [True, False, False, False]
    """
    return _well_formed(separator, quote).fullmatch(line) is not None


@cache
def _well_formed(separator: str, quote: str) -> re.Pattern[str]:
    mark, cut = re.escape(quote), re.escape(separator)
    cell = rf"(?:{mark}(?:[^{mark}]|{mark}{mark})*+{mark}|[^{mark}{cut}]*+)"
    return re.compile(rf"{cell}(?:{cut}{cell})*+", re.DOTALL)


def repaired_cells(line: str, separator: str, quote: str, escape: str) -> list[str] | None:
    """The cells of one line with unusual quotes: blanks before them, an escape character, or no escape.

    A quote inside a quoted cell ends it only before a separator or the end of the line. None if a quote stays open.

    >>> repaired_cells('1, "a, b", "say \\\\"hi\\\\""', ",", '"', "\\\\")
    ['1', 'a, b', 'say "hi"']
    >>> repaired_cells('1,"say "hi" to all",2', ",", '"', "")
    ['1', 'say "hi" to all', '2']
    >>> repaired_cells('a||"b||c"||', "||", '"', "")
    ['a', 'b||c', '']
    """
    if not quote:
        return line.split(separator)
    quoted, plain = _cell_patterns(separator, quote, escape)
    cells, at = [], 0
    while True:
        match = quoted.match(line, at)
        if match is not None:
            cells.append(_unescaped(match.group(1), quote, escape))
        else:
            match = plain.match(line, at)
            if match is None or match.group(1).lstrip(" ").startswith(quote):
                return None
            cells.append(match.group(1))
        at = match.end()
        if at == len(line):
            return cells
        at += len(separator)


@cache
def _cell_patterns(separator: str, quote: str, escape: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    mark, cut = re.escape(quote), re.escape(separator)
    blanks = "" if separator.isspace() else "[ ]*+"
    end = rf"{blanks}(?={cut}|\Z)"
    inner = rf"[^{mark}{re.escape(escape)}]++|{mark}{mark}(?!{end})|{mark}(?!{end})"
    inner = f"{re.escape(escape)}.|{inner}" if escape else inner
    quoted = re.compile(rf"{blanks}{mark}((?:{inner})*+){mark}{end}", re.DOTALL)
    return quoted, re.compile(rf"(.*?)(?={cut}|\Z)", re.DOTALL)


def _unescaped(text: str, quote: str, escape: str) -> str:
    if escape:
        text = re.sub(rf"{re.escape(escape)}(.)", r"\1", text, flags=re.DOTALL)
    return text.replace(2 * quote, quote)


def _cells_of_lines(lines: list[str], separator: str, quote: str) -> list[str]:
    if len(lines) == 1 and (not quote or quote not in lines[0]):
        return lines[0].rstrip("\r\n").split(separator)
    reader: Iterator[list[str]] = csv_reader(lines, separator, quote, skipinitialspace=separator != " ")
    return next(reader, [])
