"""Where the table stands in a text file: lines before it, its header, its column names and its first row."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections import Counter
from dataclasses import dataclass

from spu_core.tables.findings import Finding, Severity
from spu_core.tables.sniffing import looks_like_date, looks_like_number, usual_width

_LONGEST_PREAMBLE = 60


@dataclass(frozen=True)
class Record:
    """One record of the sample with the physical lines it covers, counted from 1."""

    cells: tuple[str, ...]
    first_line: int
    last_line: int


@dataclass(frozen=True)
class Layout:
    """Names of the columns, the header's line, and the number of lines before the first row."""

    names: tuple[str, ...]
    header: Record | None
    lines_before_rows: int
    preamble: tuple[str, ...]
    findings: tuple[Finding, ...]


def find_layout(sample: str, separator: str, quote: str, header: bool | None) -> Layout:
    """The layout of the table at the top of the sample.

    >>> layout = find_layout("Sales 2024\\n\\nname,amount\\nAnn,3\\nBob,4\\n", ",", '"', None)
    >>> layout.names, layout.header.first_line, layout.preamble
    (('name', 'amount'), 3, ('Sales 2024',))
    """
    return layout_of(read_records(sample, separator, quote), separator, header)


def layout_of(records: list[Record], separator: str, header: bool | None) -> Layout:
    """The layout of the table in these records, which start at the top of the file."""
    records = [record for record in records if any(record.cells)]
    width = usual_width([list(record.cells) for record in records]) or 1
    start = _first_of_table(records, width)
    table = records[start:]
    short = start > 0 and width > 2 and _is_short_header(records[start - 1], table, width)
    if short and header is not False:
        start, table = start - 1, records[start - 1 :]
    has_header = header if header is not None else short or _has_header(table)
    top = table[0] if has_header and table else None
    cells, shape = _name_cells(top, table, width)
    names, renamed = unique_names(cells)
    if shape and shape[0].code == "trailing_separator":
        renamed = unique_names(cells[:-1])[1]
    preamble = tuple(separator.join(record.cells)[:200] for record in records[:start])
    before = top.last_line if top else (table[0].first_line - 1 if table else 0)
    missing = [] if has_header else [_no_header(header)]
    return Layout(names, top, before, preamble, (*_preamble_finding(preamble), *missing, *shape, *renamed))


def read_records(sample: str, separator: str, quote: str) -> list[Record]:
    """The records of the sample with their line numbers; line ends are LF, CR LF or CR, and nothing else."""
    lines = io.StringIO(sample, newline="")
    if quote:
        reader = csv.reader(lines, delimiter=separator, quotechar=quote)
    else:
        reader = csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE)
    records, line = [], 0
    try:
        for cells in reader:
            stripped = tuple(map(str.strip, cells))
            records.append(Record(stripped, line + 1, reader.line_num))
            line = reader.line_num
    except csv.Error:
        # A cell beyond the csv module's size ends the sample; what came before it shows the layout.
        return records
    return records


def unique_names(cells: list[str]) -> tuple[tuple[str, ...], list[Finding]]:
    """Non-empty, distinct column names, and findings on those that had to be made up.

    >>> unique_names(["a", "", "a"])[0]
    ('a', 'column_2', 'a_2')
    """
    tidy = [re.sub(r"\s+", " ", cell).strip().lstrip("\ufeff") for cell in cells]
    names: list[str] = []
    taken, used = set(tidy), set[str]()
    for position, name in enumerate(tidy, start=1):
        wanted = name or f"column_{position}"
        names.append(wanted if wanted not in used else _numbered(wanted, taken))
        used.add(names[-1])
        taken.add(names[-1])
    empty = [names[at] for at, name in enumerate(tidy) if not name]
    twice = sorted(name for name, count in Counter(tidy).items() if count > 1 and name)
    return tuple(names), [*_empty_names(empty), *_duplicate_names(twice)]


def _numbered(name: str, taken: set[str]) -> str:
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def _first_of_table(records: list[Record], width: int) -> int:
    """The first record of the usual width, past comment lines that happen to have it."""
    for at, record in enumerate(records[:_LONGEST_PREAMBLE]):
        if len(record.cells) != width:
            continue
        if not (_is_comment(record) and _header_below(records[at + 1 :], width)):
            return at
    return 0


def _is_comment(record: Record) -> bool:
    return record.cells[0].startswith(("#", "//", "%"))


def _header_below(records: list[Record], width: int) -> bool:
    """Whether the first record that is no comment names the columns."""
    rest = list(itertools.dropwhile(_is_comment, records))
    return len(rest) > 1 and len(rest[0].cells) == width and _has_header(rest)


def _is_short_header(record: Record, table: list[Record], width: int) -> bool:
    """A header with one name too few: rows have row names in front (R) or a separator at their end."""
    texts = all(cell and not looks_like_number(cell) for cell in record.cells)
    adjacent = len(record.cells) == width - 1 and texts and not _has_header(table)
    return adjacent and len(set(record.cells)) == len(record.cells)


def _has_header(table: list[Record]) -> bool:
    """Whether the first record names columns: no numbers in it, and the rest look different from it."""
    if not table:
        return False
    first, rest = (
        table[0].cells,
        [record.cells for record in table[1:200] if len(record.cells) == len(table[0].cells)],
    )
    values = [cell for cell in first if cell]
    if not values or any(looks_like_date(cell) for cell in values):
        return False
    numbers = [cell for cell in values if looks_like_number(cell)]
    if numbers:
        return not looks_like_number(first[0]) and _are_years(numbers) and len(numbers) == len(values) - 1
    if not rest:
        return True
    # A header that comes again among the rows must not hide the numbers below it.
    others = [cells for cells in rest if cells != first]
    if not others:
        return False
    columns = list(zip(*others, strict=True))
    if any(_mostly(column, looks_like_number) or _mostly(column, looks_like_date) for column in columns):
        return True
    # All cells are words: names of columns do not come back as values below.
    back = sum(cell in column for cell, column in zip(first, columns, strict=True) if cell)
    return back < 0.5 * len(values) and len(set(values)) == len(values)


def _are_years(cells: list[str]) -> bool:
    years = [int(cell) for cell in cells if cell.isdigit() and len(cell) == 4]
    return len(years) == len(cells) and all(1900 <= year <= 2100 for year in years) and years == sorted(set(years))


def _mostly(column: tuple[str, ...], test: object) -> bool:
    present = [cell for cell in column if cell]
    return len(present) > 0 and sum(map(test, present)) >= 0.8 * len(present)  # type: ignore[call-overload]


def _name_cells(top: Record | None, table: list[Record], width: int) -> tuple[list[str], list[Finding]]:
    """The header's cells, with one added where the rows are one cell longer."""
    if top is None:
        return [f"column_{position}" for position in range(1, width + 1)], []
    cells = list(top.cells)
    if len(cells) != width - 1:
        return cells, []
    if all(record.cells[-1] == "" for record in table[1:] if len(record.cells) == width):
        return [*cells, ""], [_SHAPES["trailing_separator"]]
    return ["row_name", *cells], [_SHAPES["row_names"]]


_SHAPES = {
    "trailing_separator": Finding(
        "trailing_separator",
        Severity.INFO,
        "Every row ends with a separator that the header does not have.",
        "The empty last column was left out.",
    ),
    "row_names": Finding(
        "row_names",
        Severity.WARNING,
        "The rows have one cell more than the header, as R writes row names; it was called 'row_name'.",
        "Check that the names stand over the right columns.",
    ),
}


def _preamble_finding(preamble: tuple[str, ...]) -> list[Finding]:
    if not preamble:
        return []
    first = repr(preamble[0][:80])
    if len(preamble) == 1:
        said, advice = f"A line stands before the table: {first}.", "It was left out; check that it is not a row."
    else:
        said = f"{len(preamble)} lines stand before the table, the first is {first}."
        advice = "They were left out; check that no row is among them."
    return [Finding("preamble", Severity.INFO, said, advice)]


def _no_header(given: bool | None) -> Finding:
    said = "as was asked" if given is False else "since the first row looks like data"
    return Finding(
        "no_header",
        Severity.INFO if given is False else Severity.WARNING,
        f"The columns were called column_1, column_2, … {said}.",
        "If the first row holds names, set header to true.",
    )


def _empty_names(empty: list[str]) -> list[Finding]:
    if not empty:
        return []
    message = f"{len(empty)} columns had no name and were called {', '.join(map(repr, empty[:5]))}."
    return [Finding("empty_header", Severity.WARNING, message, "Name them in the file.")]


def _duplicate_names(twice: list[str]) -> list[Finding]:
    if not twice:
        return []
    message = f"The header names {', '.join(map(repr, twice[:5]))} more than once; later ones were numbered."
    return [Finding("duplicate_header", Severity.WARNING, message, "Give each column its own name.")]
