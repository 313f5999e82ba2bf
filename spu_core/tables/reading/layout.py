"""The position of the table in a text file: lines before it, its header, its column names and its first row.

`layout_of` takes these steps in order: find the first record as wide as the table; accept a header that is wider,
narrower or has another separator (`_uneven_header`); skip title rows (`_title_rows`); decide whether the first record
is a header (`headers.py`); join names in two rows (`_group_row`); skip further header rows (`_further_rows`).
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from spu_core.tables.reading.dialect import SEPARATORS, usual_width
from spu_core.tables.reading.headers import kind_of, kind_of_column, names_columns
from spu_core.tables.reading.reading_report import Finding, Severity
from spu_core.tables.reading.record_splitter import Record

_LONGEST_PREAMBLE = 60
_MOST_HEADER_ROWS = 4
_UNIT = re.compile(r"[(\[].*[)\]]|")


@dataclass(frozen=True)
class Layout:
    """Names of the columns, the header's line, and the number of lines before the first row."""

    names: tuple[str, ...]
    header: Record | None
    lines_before_rows: int
    preamble: tuple[str, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class _Draft:
    """The result so far: the records before the table, the table from its header on, and the findings."""

    before: list[Record]
    table: list[Record]
    width: int
    is_header: bool | None = None
    names: list[str] = field(default_factory=list)
    last_header: Record | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def top(self) -> Record | None:
        return self.table[0] if self.is_header and self.table else None

    def starting_at(self, place: int) -> _Draft:
        return replace(self, before=[*self.before, *self.table[:place]], table=self.table[place:])

    def noting(self, *findings: Finding) -> _Draft:
        return replace(self, findings=(*self.findings, *findings))


def layout_of(records: list[Record], separator: str, header: bool | None) -> Layout:
    """The layout of the table in these records, which start at the top of the file."""
    records = [record for record in records if any(record.cells)]
    width = usual_width([record.cells for record in records]) or 1
    start = _first_of_table(records, width)
    draft = _Draft(records[:start], records[start:], width, is_header=header)
    draft = _uneven_header(draft) if header is not False else draft
    # header=True means the first row, whatever is below it.
    draft = _with_header_found(draft) if header is None else _named(draft)
    names, renamed = unique_names(draft.names)
    if any(finding.code == "trailing_separator" for finding in draft.findings):
        renamed = unique_names(draft.names[:-1])[1]
    preamble = tuple(separator.join(record.cells).strip(separator + " ")[:200] for record in draft.before)
    missing = [] if draft.is_header else [_no_header(header)]
    return Layout(
        names,
        draft.top,
        _lines_before_rows(draft),
        preamble,
        (*_preamble_finding(preamble), *missing, *draft.findings, *renamed),
    )


def _with_header_found(draft: _Draft) -> _Draft:
    draft = _title_rows(draft)
    if draft.is_header is None:
        draft = replace(draft, is_header=_has_header(draft.table))
    return _further_rows(_group_row(_named(draft)))


def unique_names(cells: list[str]) -> tuple[tuple[str, ...], list[Finding]]:
    """Non-empty, distinct column names, and findings on generated names.

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
    """The first record of the usual width that is not a comment."""
    for at, record in enumerate(records[:_LONGEST_PREAMBLE]):
        if len(record.cells) != width:
            continue
        if not (_is_comment(record) and _header_below(records[at + 1 :], width)):
            return at
    return 0


def _is_comment(record: Record) -> bool:
    return record.cells[0].startswith(("#", "//", "%"))


def _header_below(records: list[Record], width: int) -> bool:
    """Whether the first record that is not a comment is a header."""
    rest = list(itertools.dropwhile(_is_comment, records))
    return len(rest) > 1 and len(rest[0].cells) == width and _has_header(rest)


def _has_header(table: Sequence[Record]) -> bool:
    return bool(table) and names_columns(table[0].cells, [record.cells for record in table[1:]])


def _uneven_header(draft: _Draft) -> _Draft:
    """Use the line above the table as header, even if it has one separator too many or too few, or an open quote.

    `a,b,,c` over `1,2,3` · `x,y` over `r1,1,2` · `a,b,c,,,` over `1,2,3`
    """
    if not draft.before or not draft.table:
        return draft
    written, first = draft.before[-1], draft.table[0]
    header = _other_separator(written, draft.width)
    names = _without_blank_end(header.cells, draft.width)
    if header.last_line + 1 != first.first_line or not _could_name(header, names, draft.width):
        return draft
    below = [record.cells for record in draft.table]
    if not _are_names_missing(names, below, draft.width):
        return draft
    found = () if header is written else (_SHAPES["header_separator"],)
    draft = replace(draft, before=draft.before[:-1], table=[header, *draft.table], is_header=True)
    return draft.noting(*found)


def _other_separator(header: Record, width: int) -> Record:
    """A header with another separator than the rows: `a;b;c` over `1,2,3`.

    >>> _other_separator(Record(("a;b c;d",), 1, 1), 3).cells
    ('a', 'b c', 'd')
    """
    if len(header.cells) > 1 or width < 3:
        return header
    cuts = (tuple(map(str.strip, header.cells[0].split(sign))) for sign in SEPARATORS)
    cells = next((cut for cut in cuts if len(cut) == width and all(cut)), header.cells)
    return header if cells == header.cells else replace(header, cells=cells)


def _without_blank_end(cells: Sequence[str], width: int) -> list[str]:
    """The cells without blank ones at the end that exceed the width of the table.

    >>> _without_blank_end(["a", "b", "", ""], 2)
    ['a', 'b']
    """
    names = list(cells)
    while len(names) > width and not names[-1]:
        names.pop()
    return names


def _could_name(header: Record, names: Sequence[str], width: int) -> bool:
    filled = [name for name in names if name]
    enough = width > 2 or len(header.cells) > width
    distinct = len(set(filled)) == len(filled) >= max(1, width - 1)
    return enough and abs(len(names) - width) <= 1 and distinct and not _is_comment(header)


def _are_names_missing(names: Sequence[str], below: Sequence[Sequence[str]], width: int) -> bool:
    """Whether the table has no header of its own, so that the line above it is the header.

    Words are above numbers, wherever the header has a cell too many or too few. In a table of words, a line with as
    many words as columns is more likely a header than the line below it.
    """
    if _has_strong_header(below[0], below[1:]):
        return False
    if any(kind_of(name) not in ("", "word") for name in names):
        return False
    if any(kind_of(cell) not in ("", "word") for cell in below[0]):
        return True
    return len(names) >= min(width, 3) and all(":" not in name for name in names)


def _has_strong_header(first: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    columns = list(zip(*(row for row in below[:200] if len(row) == len(first) and row != first), strict=True))
    kinds = [(kind_of(name), kind_of_column(column)) for name, column in zip(first, columns, strict=False)]
    return any(name == "word" and kind not in ("", "word") for name, kind in kinds)


def _title_rows(draft: _Draft) -> _Draft:
    """Title rows as spreadsheets save them: `Report,,,` · `Made by Ann,2024-01-31,,` · `,,,` above the header.

    Their cells are at the left and fill less than half of the row; the header below them is full, or the kinds of its
    columns show that it is a header.
    """
    table = draft.table
    most, at = min(len(table) - 1, _LONGEST_PREAMBLE), 0
    while at < most and _is_title(table[at], draft.width) and not _fill_each_other(table[at], table[at + 1]):
        at += 1
    if not at or not _is_header_below_title(table[at], table[at + 1 :], draft.width):
        return draft
    return draft.starting_at(at)


def _is_title(record: Record, width: int) -> bool:
    """
    >>> [_is_title(Record(cells, 1, 1), 3) for cells in (("Report", "", ""), ("a", "b", "c"), ("1", "", ""))]
    [True, False, False]
    """
    filled = len(record.filled)
    at_left = all(record.cells[:filled])
    few = filled == 1 or 2 * filled <= width
    return width > 1 and len(record.cells) == width and at_left and few and kind_of(record.cells[0]) == "word"


def _is_header_below_title(header: Record, below: Sequence[Record], width: int) -> bool:
    if len(header.cells) != width or not below:
        return False
    rows = [record.cells for record in below]
    if _has_strong_header(header.cells, rows):
        return True
    return width > 2 and len(header.filled) == width and names_columns(header.cells, rows)


def _named(draft: _Draft) -> _Draft:
    """The names of the columns: the header's cells, with one name removed or added where its width differs."""
    top, width = draft.top, draft.width
    if top is None:
        return replace(draft, names=[f"column_{position}" for position in range(1, width + 1)])
    cells = _without_stray_quote(_without_blank_end(top.cells, width))
    stray = top.open_quote or ('"' in "".join(top.cells) and '"' not in "".join(cells))
    draft = replace(draft, last_header=top).noting(*((_stray_quote(top),) if stray else ()))
    if len(cells) < width:
        names, shape = _with_name_added(cells, draft)
    else:
        names, shape = _with_name_left_out(cells, width)
    if len(top.cells) > width and not shape:
        shape = [_SHAPES["header_trailing_separator"]]
    return replace(draft, names=names).noting(*shape)


def _without_stray_quote(cells: list[str]) -> list[str]:
    """The names without a single quote at the end of one of them; after a figure it means inches.

    >>> _without_stray_quote(["name", 'amount"']), _without_stray_quote(["name", '5"'])
    (['name', 'amount'], ['name', '5"'])
    """
    if "".join(cells).count('"') != 1:
        return cells
    return [cell[:-1] if re.search(r'[^\d\s]"$', cell) else cell for cell in cells]


def _with_name_added(cells: list[str], draft: _Draft) -> tuple[list[str], list[Finding]]:
    """
    >>> rows = [Record(("r1", "1", "2"), 2, 2), Record(("r2", "3", "4"), 3, 3)]
    >>> _with_name_added(["x", "y"], _Draft([], [Record(("x", "y"), 1, 1), *rows], 3))[0]
    ['row_name', 'x', 'y']
    """
    missing = draft.width - len(cells)
    rows = [record.cells for record in draft.table[1:] if len(record.cells) == draft.width]
    if missing == 1 and all(row[-1] == "" for row in rows):
        return [*cells, ""], [_SHAPES["trailing_separator"]]
    if missing == 1 and len({row[0] for row in rows}) == len(rows):
        return ["row_name", *cells], [_SHAPES["row_names"]]
    return [*cells, *[""] * missing], [_SHAPES["short_header"]]


def _with_name_left_out(cells: list[str], width: int) -> tuple[list[str], list[Finding]]:
    """
    >>> _with_name_left_out(["a", "", "b"], 2)[0], _with_name_left_out(["a", "b", "c"], 2)[0]
    (['a', 'b'], ['a', 'b'])
    """
    if len(cells) == width:
        return cells, []
    if "" in cells:
        place = cells.index("")
        return [*cells[:place], *cells[place + 1 :]][:width], [_SHAPES["long_header"]]
    return cells[:width], [_SHAPES["long_header"]]


def _group_row(draft: _Draft) -> _Draft:
    """Join names in two rows: `,2023,,2024,` over `shop,north,south,north,south`.

    Each row may also fill the gaps of the other: `name,amount,,` over `,,share,day`.
    """
    table, top = draft.table, draft.top
    if top is None or len(table) < 3:
        return draft
    below = [record.cells for record in table[2:]]
    if _fill_each_other(top, table[1]):
        groups = list(top.cells)
        if not names_columns([*map("".join, zip(groups, table[1].cells, strict=True))], below):
            return draft
    elif _are_groups(top, table[1]) and names_columns(table[1].cells, below):
        groups = _carried_on(top.cells)
    else:
        return draft
    names = [f"{group} {name}".strip() for group, name in zip(groups, table[1].cells, strict=True)]
    return replace(draft, names=names, last_header=table[1]).noting(_header_rows(top, table[1], names))


def _carried_on(cells: Sequence[str]) -> list[str]:
    """The cells with each gap filled by the cell to its left.

    >>> _carried_on(["", "2023", "", "2024"])
    ['', '2023', '2023', '2024']
    """
    carried: list[str] = []
    for cell in cells:
        carried.append(cell or (carried[-1] if carried else ""))
    return carried


def _fill_each_other(top: Record, names: Record) -> bool:
    """Whether each place is filled in exactly one of the two rows, and each row fills at least two."""
    if len(top.cells) != len(names.cells) or min(len(top.filled), len(names.filled)) < 2:
        return False
    return all(bool(upper) != bool(lower) for upper, lower in zip(top.cells, names.cells, strict=True))


def _are_groups(top: Record, names: Record) -> bool:
    """Whether the upper row has gaps between its cells, and the lower one has a name in every place."""
    if len(top.cells) != len(names.cells) or len(top.filled) < 2 or not names.filled:
        return False
    gaps = [not cell for cell in top.cells]
    inner = any(gaps[: len(gaps) - gaps[::-1].index(False)])
    return inner and len(names.filled) > len(top.filled) and len(names.filled) == len(names.cells)


def _further_rows(draft: _Draft) -> _Draft:
    """Skip further header rows: units such as `(cm),(kg)`, or words above two or more columns of numbers."""
    last = draft.last_header
    if last is None or draft.top is None:
        return draft
    # A repeated header is found later, among the rows.
    rest = [record for record in draft.table if record.first_line > last.last_line and record.cells != last.cells]
    skipped = list(itertools.takewhile(lambda record: _is_further_header(record, rest), rest[:_MOST_HEADER_ROWS]))
    if not skipped or len(skipped) == len(rest):
        return draft
    return replace(draft, last_header=skipped[-1]).noting(_header_rows_left_out(skipped))


def _is_further_header(record: Record, rest: Sequence[Record]) -> bool:
    if any(kind_of(cell) not in ("", "word") for cell in record.cells):
        return False
    below = [other.cells for other in rest if other.first_line > record.last_line][:200]
    columns = zip(*(cells for cells in below if len(cells) == len(record.cells)), strict=True)
    kinds = [kind_of_column(column) for column in columns]
    over_figures = [cell for cell, kind in zip(record.cells, kinds, strict=False) if kind not in ("", "word")]
    if over_figures and len(record.filled) > 1 and all(map(_UNIT.fullmatch, record.cells)):
        return True
    return len(over_figures) >= 2 and all(kind_of(cell) == "word" for cell in over_figures)


def _lines_before_rows(draft: _Draft) -> int:
    if draft.last_header is not None:
        return draft.last_header.last_line
    return draft.table[0].first_line - 1 if draft.table else 0


_SHAPES = {
    "trailing_separator": Finding(
        "trailing_separator",
        Severity.INFO,
        "Every row ends with a separator that the header does not have.",
        "The empty last column was left out.",
    ),
    "header_trailing_separator": Finding(
        "uneven_header",
        Severity.INFO,
        "The header ends with separators that the rows do not have.",
        "They were left out.",
    ),
    "header_separator": Finding(
        "uneven_header",
        Severity.WARNING,
        "The header has another separator than the rows; it was split by its own separator.",
        "Check that the names belong to the right columns.",
    ),
    "row_names": Finding(
        "row_names",
        Severity.WARNING,
        "The rows have one cell more than the header, as R writes row names; it was called 'row_name'.",
        "Check that the names belong to the right columns.",
    ),
    "short_header": Finding(
        "uneven_header",
        Severity.WARNING,
        "The header has fewer names than the rows have cells; the last columns got generated names.",
        "Check that the names belong to the right columns: a separator may be missing in the header.",
    ),
    "long_header": Finding(
        "uneven_header",
        Severity.WARNING,
        "The header has more names than the rows have cells; one of them was left out.",
        "Check that the names belong to the right columns: the header may have one separator too many.",
    ),
}


def _stray_quote(header: Record) -> Finding:
    return Finding(
        "uneven_header",
        Severity.WARNING,
        f"The header (line {header.first_line}) has a single quote without a partner; it was left out.",
        "Check the names of the columns.",
        lines=(header.first_line,),
    )


def _header_rows(upper: Record, lower: Record, names: Sequence[str]) -> Finding:
    example = next((name for name, cell in zip(names, lower.cells, strict=True) if cell not in ("", name)), names[0])
    return Finding(
        "header_rows",
        Severity.INFO,
        f"The names of the columns are in two rows and were joined, such as {example[:80]!r}.",
        "Check that each name belongs to its column.",
        lines=(upper.first_line, lower.first_line),
    )


def _header_rows_left_out(skipped: Sequence[Record]) -> Finding:
    shown = ",".join(skipped[0].cells)[:80]
    lines = ", ".join(str(record.first_line) for record in skipped)
    which = f"Line {lines} was" if len(skipped) == 1 else f"Lines {lines} were"
    return Finding(
        "header_rows",
        Severity.WARNING,
        f"{which} left out as part of the header: {shown!r}.",
        "These are words above columns of numbers; check that no row is among them.",
        lines=tuple(record.first_line for record in skipped),
    )


def _preamble_finding(preamble: tuple[str, ...]) -> list[Finding]:
    if not preamble:
        return []
    first = repr(preamble[0][:80])
    if len(preamble) == 1:
        said, advice = f"There is a line before the table: {first}.", "It was left out; check that it is not a row."
    else:
        said = f"There are {len(preamble)} lines before the table, the first is {first}."
        advice = "They were left out; check that no row is among them."
    return [Finding("preamble", Severity.INFO, said, advice)]


def _no_header(given: bool | None) -> Finding:
    said = "as requested" if given is False else "because the first row looks like data"
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
    message = f"The header contains {', '.join(map(repr, twice[:5]))} more than once; later ones were numbered."
    return [Finding("duplicate_header", Severity.WARNING, message, "Give each column its own name.")]
