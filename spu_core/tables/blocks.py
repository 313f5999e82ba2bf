"""The rows of a text file, block by block, with every line that does not fit kept with its number and reason."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from spu_core.errors import TableError
from spu_core.tables.numbers import MISSING_MARKS
from spu_core.tables.reading import LISTED_LINES, Dialect, ReadLimits, RejectedLine
from spu_core.tables.scratch import Scratch
from spu_core.tables.streams import Borrowed

_SMALLEST_BLOCK = 4 << 20
# Each blank line is passed over in Python, so that many of them would take minutes.
MOST_BLANK_LINES = 5_000_000


@dataclass(frozen=True)
class TextPlan:
    """Where the rows start, what their columns are called, and how cells are written.

    `shortcuts` are columns that the parser itself converts, since the sample shows plain numbers or few levels:
    that saves half of the time. A cell that does not fit sends the whole file through the careful way. `as_text` asks
    for cells as they stand in the file, and `is_padded` says that a blank follows each separator.
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
        """How much is parsed at once; a record must fit in it."""
        return max(_SMALLEST_BLOCK, 4 * self.limits.cell_bytes)

    @property
    def missing_marks(self) -> tuple[str, ...]:
        """All marks that mean *no value* in every column."""
        if self.as_text:
            return ("",)
        return (*MISSING_MARKS, *self.dialect.missing)


class ShortcutError(Exception):
    """A cell of a column that the parser should convert does not fit."""


class LongRecordError(TableError):
    """A record or a cell is longer than the limits allow, perhaps since a quote never closes."""


@dataclass
class BlockReader:
    """One pass over the rows; after it, `kept` rows, `rejected` lines and `empty` lines make up all records.

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
        """Blocks of rows as text, with null for missing marks; lines without a single value are left out."""
        plan = self.plan
        plan.stream.seek(plan.start)
        if plan.as_text and not plan.stream.read(1):
            return
        plan.stream.seek(plan.start)
        try:
            with arrow_csv.open_csv(Borrowed(plan.stream), **self._options()) as reader:
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
            raise _in_words(error, plan) from error

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
        """Which cells hold nothing; None if every cell holds something."""
        if not self.empty_marks:
            return pc.is_null(column) if column.null_count else None
        null = pc.is_in(column, value_set=pa.array([*self.empty_marks, None]))
        return null if pc.any(null).as_py() else None

    def _has_too_many(self) -> bool:
        """Whether to stop; blank and rejected lines count as well, since a file of nothing else must end, too."""
        return self.records > self.plan.limits.rows or len(self.empty) > max(MOST_BLANK_LINES, self.kept)

    def _check_rows(self) -> None:
        if not self._has_too_many():
            return
        if self.records > self.plan.limits.rows:
            raise TableError(
                f"{self.plan.name!r} has more than {self.plan.limits.rows:,} rows, which is the limit; split it."
            )
        raise TableError(
            f"{self.plan.name!r} has more than {MOST_BLANK_LINES:,} blank lines, and fewer rows; remove these lines."
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
        f"{plan.name!r} holds a record of more than {plan.block_bytes:,} bytes, perhaps since a quote never closes; "
        "set the quote to none, or repair the file."
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


def _in_words(error: pa.ArrowInvalid, plan: TextPlan) -> TableError:
    if "Empty CSV" in str(error):
        return TableError(f"{plan.name!r} has no rows below its header.")
    if "straddling" in str(error):
        return record_too_long(plan)
    return TableError(f"{plan.name!r} cannot be read as a table: {str(error).splitlines()[0][:200]}.")
