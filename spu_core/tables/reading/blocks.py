"""The rows of a text file, block by block; rejected lines are kept with their numbers and reasons.

The sample shows which columns the parser may convert: plain numbers, short dates and few distinct texts. After a pass,
findings describe the shape: ragged rows, stacked tables, a single column, rejected lines.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from spu_core.errors import TableError
from spu_core.tables.reading.column_builders import AnyColumn, Scratch
from spu_core.tables.reading.reading_report import LISTED_LINES, Dialect, Finding, ReadLimits, RejectedLine, Severity
from spu_core.tables.reading.sources import NonClosing
from spu_core.tables.reading.values import MISSING_MARKS, ColumnType, looks_like_date, looks_like_number

_SMALLEST_BLOCK = 4 << 20
# Each blank line is skipped in Python, so that many of them would take minutes.
MOST_BLANK_LINES = 5_000_000


@dataclass(frozen=True)
class TextPlan:
    """The start of the rows, the names of the columns, and the notation of the cells.

    `shortcuts` are columns that the parser converts, because the sample shows plain numbers or few distinct texts;
    this halves the time. If a cell does not fit, the whole file is read again without shortcuts. `as_text` returns the
    cells unchanged, and `is_padded` means that a blank follows each separator.
    """

    name: str
    stream: IO[bytes]
    start: int
    lines_before: int
    columns: tuple[str, ...]
    dialect: Dialect
    limits: ReadLimits
    shortcuts: Mapping[str, pa.DataType] = field(default_factory=dict)
    has_quotes: bool = True
    most_rows: int = 0
    scratch: Scratch | None = None
    as_text: bool = False
    is_padded: bool = False

    @property
    def block_bytes(self) -> int:
        """Bytes that are parsed at once; a record must fit in them."""
        return max(_SMALLEST_BLOCK, 4 * self.limits.cell_bytes)

    @property
    def missing_marks(self) -> tuple[str, ...]:
        """All marks that mean *no value* in every column."""
        if self.as_text:
            return ("",)
        return (*MISSING_MARKS, *self.dialect.missing)


class ShortcutError(Exception):
    """A cell does not have the type to which the parser should convert its column."""


class LongRecordError(TableError):
    """A record or a cell is longer than the limits allow, perhaps because a quote is never closed."""


@dataclass
class BlockReader:
    """One pass over the rows; after it, every record is counted in `kept`, `rejected` or `empty`.

    A row is empty if all of its cells are null, or one of the `empty_marks`.
    """

    plan: TextPlan
    empty_marks: tuple[str, ...] = ()
    kept: int = 0
    rejected: int = 0
    listed: list[RejectedLine] = field(default_factory=list)
    widths: list[tuple[int, int]] = field(default_factory=list)
    empty: array[int] = field(default_factory=lambda: array("q"))
    _gone: array[int] = field(default_factory=lambda: array("q"))
    _seen: int = 0

    @property
    def records(self) -> int:
        """All records of the pass: rows, rejected ones and empty ones."""
        return self.kept + self.rejected + len(self.empty)

    def blocks(self, columns: tuple[str, ...] | None = None) -> Iterator[pa.RecordBatch]:
        """Blocks of rows as text, with null for missing marks; lines without any value are left out."""
        plan = self.plan
        plan.stream.seek(plan.start)
        if plan.as_text and not plan.stream.read(1):
            return
        plan.stream.seek(plan.start)
        try:
            with arrow_csv.open_csv(NonClosing(plan.stream), **self._options()) as reader:
                for block in reader:
                    rows = self._without_empty(block)
                    self._seen += block.num_rows
                    self.kept += rows.num_rows
                    self._check_rows()
                    self._check_cells(rows)
                    yield rows if columns is None else rows.select(list(columns))
        except pa.ArrowInvalid as error:
            self._check_rows()
            if "conversion error" in str(error):
                raise ShortcutError(str(error)) from error
            raise _table_error(error, plan) from error

    def record_of(self, row: int) -> int:
        """The record number, from 1, of a kept row, counted from 0."""
        gone = np.sort(np.concatenate([_numbers(self._gone), _numbers(self.empty)]))
        return int(_nth_others(np.array([row]), gone)[0])

    def _options(self) -> dict[str, object]:
        plan = self.plan
        quote = plan.dialect.quote if plan.has_quotes else ""
        return {
            "read_options": arrow_csv.ReadOptions(
                use_threads=False, block_size=plan.block_bytes, column_names=list(plan.columns)
            ),
            "parse_options": arrow_csv.ParseOptions(
                delimiter=plan.dialect.separator,
                quote_char=quote or False,
                newlines_in_values=bool(quote),
                ignore_empty_lines=False,
                invalid_row_handler=self._reject,
            ),
            "convert_options": arrow_csv.ConvertOptions(
                column_types={name: plan.shortcuts.get(name, pa.string()) for name in plan.columns},
                null_values=list(plan.missing_marks),
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
                check_utf8=False,
                decimal_point=plan.dialect.decimal or ".",
            ),
        }

    def _reject(self, row: arrow_csv.InvalidRow) -> str:
        if self._has_too_many():
            return "error"
        if not row.text.strip():
            self.empty.append(row.number)
            return "skip"
        self.rejected += 1
        self._gone.append(row.number)
        if len(self.listed) < LISTED_LINES:
            found = f"{row.actual_columns} field{'s' * (row.actual_columns != 1)}"
            reason = f"has {found} where {row.expected_columns} are expected"
            self.listed.append(RejectedLine(row.number, reason, row.text[:200]))
            self.widths.append((row.number, row.actual_columns))
        return "skip"

    def _without_empty(self, block: pa.RecordBatch) -> pa.RecordBatch:
        hollow = None
        for column in block.columns:
            null = self._is_null(column)
            if null is None:
                return block
            hollow = null if hollow is None else pc.and_(hollow, null)
        rows = np.flatnonzero(np.asarray(hollow))
        if not rows.size:
            return block
        self.empty.extend(_nth_others(self._seen + rows, _numbers(self._gone)).tolist())
        return block.filter(pc.invert(hollow))

    def _is_null(self, column: pa.Array) -> pa.Array | None:
        """Which cells are null; None if no cell is."""
        if not self.empty_marks:
            return pc.is_null(column) if column.null_count else None
        null = pc.is_in(column, value_set=pa.array([*self.empty_marks, None]))
        return null if pc.any(null).as_py() else None

    def _has_too_many(self) -> bool:
        """Whether to stop; blank and rejected lines count as well, so that a file of such lines is also limited."""
        return self.records > self.plan.limits.rows or len(self.empty) > max(MOST_BLANK_LINES, self.kept)

    def _check_rows(self) -> None:
        if not self._has_too_many():
            return
        if self.records > self.plan.limits.rows:
            raise TableError(
                f"{self.plan.name!r} has more than {self.plan.limits.rows:,} rows, which is the limit; split it."
            )
        raise TableError(
            f"{self.plan.name!r} has more than {MOST_BLANK_LINES:,} blank lines, and fewer rows; remove the blank "
            "lines."
        )

    def _check_cells(self, rows: pa.RecordBatch) -> None:
        limit = self.plan.limits.cell_bytes
        for name, cells in zip(self.plan.columns, rows.columns, strict=True):
            longest = longest_cell(cells)
            if longest > limit:
                raise LongRecordError(
                    f"{self.plan.name!r} has a cell of {longest:,} bytes in column {name!r}; the limit is {limit:,}. "
                    "Shorten it, or raise the limit 'cell_bytes'."
                )


def record_too_long(plan: TextPlan) -> LongRecordError:
    """The error for a record that does not fit in a block."""
    return LongRecordError(
        f"{plan.name!r} holds a record of more than {plan.block_bytes:,} bytes, perhaps because a quote is never "
        "closed; set the quote to none, or repair the file."
    )


def longest_cell(cells: pa.Array) -> int:
    """Bytes of the longest text; 0 for numbers, which cannot be long.

    >>> longest_cell(pa.array(["a", "ü", None])), longest_cell(pa.array([1, 2]))
    (2, 0)
    """
    texts = cells.dictionary if pa.types.is_dictionary(cells.type) else cells
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        return 0
    return int(pc.max(pc.binary_length(texts)).as_py() or 0)


def _numbers(records: array[int]) -> np.ndarray:
    return np.asarray(records, dtype=np.int64)


def _nth_others(rows: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """The record numbers of rows 0, 1, … when the records in `gone` (sorted, from 1) are not counted."""
    rows_before = gone - np.arange(gone.size) - 1
    return rows + 1 + np.searchsorted(rows_before, rows, side="right")


def _table_error(error: pa.ArrowInvalid, plan: TextPlan) -> TableError:
    if "Empty CSV" in str(error):
        return TableError(f"{plan.name!r} has no rows below its header.")
    if "straddling" in str(error):
        return record_too_long(plan)
    return TableError(f"{plan.name!r} cannot be read as a table: {str(error).splitlines()[0][:200]}.")


_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})")
# A long whole number may be a code with more digits than a float can hold.
_FRACTIONS = {
    mark: re.compile(rf"-?(0|[1-9]\d{{0,14}})({re.escape(mark)}\d+)?([eE][+-]?\d{{1,2}})?") for mark in (".", ",")
}
_LEVELS = pa.dictionary(pa.int32(), pa.string())
_FEWEST_CELLS = 100
_LONGEST_DAY = len("2024-01-31")


def find_shortcuts(
    rows: Sequence[tuple[str, ...]], plan: TextPlan, types: Mapping[str, ColumnType]
) -> dict[str, pa.DataType]:
    """The types to which the parser may convert columns; without uncertain columns and those with a given type."""
    missing = frozenset(plan.missing_marks)
    columns = zip(*(row for row in rows if len(row) == len(plan.columns)), strict=True)
    found = {}
    for name, column in zip(plan.columns, columns, strict=False):
        cells = [cell for cell in column if cell not in missing]
        kind = _kind(cells, plan) if cells and name not in types else None
        if kind is not None:
            found[name] = kind
    return found


def without_whole_numbers(shortcuts: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
    """The shortcuts that remain when some cell may be a code such as 007.

    >>> sorted(without_whole_numbers({"n": pa.int64(), "x": pa.float64()}))
    ['x']
    """
    return {name: kind for name, kind in shortcuts.items() if not pa.types.is_integer(kind)}


def _kind(cells: list[str], plan: TextPlan) -> pa.DataType | None:
    if all(map(_WHOLE.fullmatch, cells)):
        return pa.int64()
    if not plan.dialect.thousands and all(map(_FRACTIONS[plan.dialect.decimal or "."].fullmatch, cells)):
        return pa.float64()
    if len(cells) < _FEWEST_CELLS or any(map(looks_like_number, cells)):
        return None
    return _LEVELS if len(set(cells)) < 0.1 * len(cells) or _are_days(cells) else None


def _are_days(cells: list[str]) -> bool:
    """Whether all cells are dates without a time; such dates repeat in any long table."""
    return all(len(cell) <= _LONGEST_DAY and looks_like_date(cell) for cell in cells)


Slots = Mapping[str, AnyColumn]
_NAMED_LINES = 20
# If a larger share of lines is rejected, the dialect is wrong, and the file is refused.
_MOST_REJECTED = 0.5


def shape_findings(
    plan: TextPlan,
    reader: BlockReader,
    slots: Slots,
    lines: Mapping[int, int],
    rejected: tuple[RejectedLine, ...],
    rejected_rows: int,
) -> list[Finding]:
    """All findings on the shape; an error when most lines do not fit."""
    if rejected_rows > _MOST_REJECTED * (rejected_rows + reader.kept):
        first = rejected[0]
        raise TableError(
            f"{plan.name!r}: {rejected_rows:,} of {rejected_rows + reader.kept:,} rows do not fit (line {first.line} "
            f"{first.reason}). Set the separator, or repair the file."
        )
    return [
        *_no_rows(reader),
        *_ragged(rejected, reader.rejected),
        *_by_reason(rejected, "repeats the header", "repeated_header", "The header is repeated among the rows"),
        *_by_reason(rejected, "sums up the rows above", "total_row", "The last row sums up the others"),
        *_by_reason(
            rejected,
            "opens a quote that is never closed",
            "unclosed_quote",
            "A quote is opened and never closed",
        ),
        *_stacked(reader, slots, lines),
        *_one_column(plan),
        *_empty_lines(reader, lines),
    ]


def _no_rows(reader: BlockReader) -> list[Finding]:
    if reader.kept:
        return []
    return [Finding("no_rows", Severity.ERROR, "The file has a header but no rows.", "Check that it is complete.")]


def _ragged(rejected: tuple[RejectedLine, ...], count: int) -> list[Finding]:
    ragged = [item for item in rejected if " are expected" in item.reason]
    if not ragged:
        return []
    rejected_rows = "1 row was" if count == 1 else f"{count:,} rows were"
    text = f"{rejected_rows} rejected: line {ragged[0].line} {ragged[0].reason}."
    advice = "Repair these lines and read the file again; they are listed in the reading."
    return [Finding("ragged_rows", Severity.WARNING, text, advice, lines=_line_numbers(ragged))]


def _by_reason(rejected: tuple[RejectedLine, ...], reason: str, code: str, words: str) -> list[Finding]:
    fitting = [item for item in rejected if item.reason == reason]
    if not fitting:
        return []
    number = "1 line was" if len(fitting) == 1 else f"{len(fitting):,} lines were"
    text = f"{words} (line {fitting[0].line}{', …' if len(fitting) > 1 else ''}); {number} rejected."
    return [Finding(code, Severity.WARNING, text, "Check these lines.", lines=_line_numbers(fitting))]


def _stacked(reader: BlockReader, slots: Slots, lines: Mapping[int, int]) -> list[Finding]:
    """A second table below the first: another header after an empty line, or many rows of another width."""
    examples = [row for slot in slots.values() for row in slot.odd_rows()]
    empty = set(reader.empty)
    headers = sorted({record for row in examples if (record := reader.record_of(row)) - 1 in empty})
    runs = [
        number
        for (number, width), (after, width_after) in zip(reader.widths, reader.widths[1:], strict=False)
        if after == number + 1 and width == width_after and width > 1 and number - 1 in empty
    ]
    starts = sorted(lines[record] for record in {*headers, *runs} if record in lines)
    if not starts:
        return []
    text = f"Another table seems to start on line {starts[0]}, below the first one."
    advice = "Save each table in its own file; otherwise their rows are mixed or rejected."
    return [Finding("stacked_tables", Severity.ERROR, text, advice, lines=tuple(starts[:_NAMED_LINES]))]


def _one_column(plan: TextPlan) -> list[Finding]:
    if len(plan.columns) > 1:
        return []
    text = "Only one column was found."
    return [Finding("one_column", Severity.ERROR, text, "If the file has more, set its separator.")]


def _empty_lines(reader: BlockReader, lines: Mapping[int, int]) -> list[Finding]:
    inner = [record for record in reader.empty if record < reader.records - len(reader.empty)]
    if not inner:
        return []
    text = f"{len(reader.empty):,} lines have no value and were skipped."
    named = tuple(lines[record] for record in inner[:_NAMED_LINES] if record in lines)
    return [Finding("empty_lines", Severity.INFO, text, "", lines=named)]


def _line_numbers(items: list[RejectedLine]) -> tuple[int, ...]:
    return tuple(item.line for item in items[:_NAMED_LINES])
