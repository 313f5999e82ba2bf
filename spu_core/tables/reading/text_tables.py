"""Read text files (CSV, TSV and similar) into typed columns: dialect, layout, rows, types."""

from __future__ import annotations

import io
from collections.abc import Mapping, MutableSequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from spu_core.errors import TableError, nearest_hint
from spu_core.tables.reading.blocks import (
    BlockReader,
    LongRecordError,
    ShortcutError,
    TextPlan,
    find_shortcuts,
    shape_findings,
    without_whole_numbers,
)
from spu_core.tables.reading.column_builders import AnyColumn, NumberColumn, RawColumn, Scratch, TextColumn
from spu_core.tables.reading.dialect import (
    DialectGuess,
    find_notation,
    guess_dialect,
    is_padded,
    rate_dialect,
    rewritten,
)
from spu_core.tables.reading.encoding import TextSource
from spu_core.tables.reading.layout import Layout, layout_of
from spu_core.tables.reading.reading_report import LISTED_LINES, Dialect, Finding, ReadLimits, RejectedLine
from spu_core.tables.reading.record_splitter import read_records
from spu_core.tables.reading.repair import (
    FaultyLines,
    Scan,
    faulty_lines,
    is_total,
    lines_of_records,
    scan_rows,
    without_lines,
)
from spu_core.tables.reading.typed_columns import (
    NEEDS_TEXT,
    NOTATION_ROWS,
    TypedColumn,
    Written,
    finish_number,
    finish_raw,
    finish_text,
    how_written,
    is_number,
)
from spu_core.tables.reading.values import ColumnType, Marks, detect_marks

_SAMPLE = 1 << 18
_LARGEST_SAMPLE = 1 << 22
_FEWEST_LINES = 10


@dataclass(frozen=True)
class TextTable:
    """A text file as a typed frame, with the detected dialect and the rejected lines."""

    frame: pd.DataFrame
    types: dict[str, ColumnType]
    dialect: Dialect
    layout: Layout
    rejected_rows: int
    rejected: tuple[RejectedLine, ...]
    empty_lines: int
    findings: tuple[Finding, ...]
    written: Mapping[str, Written] = field(default_factory=dict)


def read_text_table(
    source: TextSource,
    name: str,
    given: Dialect,
    limits: ReadLimits,
    types: Mapping[str, ColumnType],
    scratch: Scratch | None = None,
    *,
    as_text: bool = False,
) -> TextTable:
    """Read the whole text; `types` overrides what the values of a column suggest, `scratch` keeps columns in files.

    `as_text` returns every cell unchanged.
    """
    sample = _sample(source)
    cut = _cut(sample, given)
    padded = is_padded(sample, cut.separator)
    notation = find_notation(sample, cut)
    if notation is not None:
        source = rewritten(source, notation)
        sample, cut = _sample(source), replace(cut, separator=cut.separator[0])
    records = read_records(sample, cut.separator, cut.quote)
    layout = layout_of(records, cut.separator, given.header)
    _check_shape(layout, sample, name, limits)
    _check_type_names(types, layout.names)
    rows = [record.cells for record in records if record.first_line > layout.lines_before_rows]
    dialect = replace(given.over(_detected(rows, source, cut, layout)), separator=cut.separator)
    start = source.start + _bytes_of_lines(sample, layout.lines_before_rows)
    plan = TextPlan(
        name,
        source.stream,
        start,
        layout.lines_before_rows,
        layout.names,
        dialect,
        limits,
        scratch=scratch,
        as_text=as_text,
        is_padded=padded,
    )
    plan = plan if as_text else replace(plan, shortcuts=find_shortcuts(rows, plan, types))
    try:
        passed = _read_rows(plan, _line(sample, layout), types)
    except ShortcutError:
        passed = _read_rows(replace(plan, shortcuts={}), _line(sample, layout), types)
    typed = _without_filler(plan, passed.columns)
    written = {} if as_text or scratch is not None else _written(plan, typed, rows, passed)
    frame = pd.DataFrame({str(column.values.name): column.values for column in typed}, copy=False)
    return TextTable(
        frame=frame,
        types={str(column.values.name): column.type for column in typed},
        dialect=dialect if notation is None else replace(dialect, separator=notation.separator),
        layout=layout,
        rejected_rows=passed.rejected_rows,
        rejected=passed.rejected,
        empty_lines=passed.empty_lines,
        findings=(
            *source.findings,
            *layout.findings,
            *passed.findings,
            *(finding for column in typed for finding in column.findings),
        ),
        written=written,
    )


@dataclass(frozen=True)
class _Pass:
    columns: list[TypedColumn]
    rejected_rows: int
    rejected: tuple[RejectedLine, ...]
    empty_lines: int
    findings: tuple[Finding, ...]
    plan: TextPlan


def _read_rows(plan: TextPlan, header_text: str, types: Mapping[str, ColumnType]) -> _Pass:
    scan = scan_rows(plan, header_text)
    plan = replace(plan, has_quotes=scan.has_quotes, most_rows=scan.lines)
    if scan.has_codes:
        # The parser would read 007 as 7, so whole numbers are converted without it.
        plan = replace(plan, shortcuts=without_whole_numbers(plan.shortcuts))
    parsed = _parse(plan, header_text, scan, types)
    reader, slots, faulty = parsed.reader, parsed.slots, parsed.faulty
    if not reader.kept and not (plan.as_text and plan.dialect.header and not reader.rejected):
        raise TableError(f"{plan.name!r} has no rows below its header{_rejected_note(reader)}.")
    columns = _finish(parsed.plan, slots, types)
    lines = _line_numbers(parsed.plan, reader, slots, reader.records == scan.lines)
    listed = [replace(item, line=lines[item.line]) for item in reader.listed]
    named = [replace(item, line=item.line + plan.lines_before) for item in faulty.listed]
    rejected = tuple(sorted([*listed, *named], key=lambda item: item.line)[:LISTED_LINES])
    found = shape_findings(parsed.plan, reader, slots, lines, rejected, reader.rejected + len(faulty))
    return _Pass(
        columns=columns,
        rejected_rows=reader.rejected + len(faulty),
        rejected=rejected,
        empty_lines=len(reader.empty) - len(faulty),
        findings=tuple(found),
        plan=parsed.plan,
    )


# A column with one of these findings has cells that its type would write differently.
_CHANGED = {"units_removed", "mixed_column", "infinite_values"}


def _written(
    plan: TextPlan, typed: list[TypedColumn], rows: list[tuple[str, ...]], passed: _Pass
) -> dict[str, Written]:
    """How cells are written in the file, for columns whose type would write them differently."""
    first = [row for row in rows[:NOTATION_ROWS] if len(row) == len(plan.columns)]
    cells = dict(zip(plan.columns, zip(*first, strict=True), strict=False))
    missing, decimal = frozenset(plan.missing_marks), plan.dialect.decimal or "."
    found = {}
    for column in typed:
        name = str(column.values.name)
        how = how_written(column.values, cells.get(name, ()), missing, decimal, column.texts)
        if is_number(column.values) and any(finding.code in _CHANGED for finding in column.findings):
            how = NEEDS_TEXT
        if how is not None:
            found[name] = how
    texts = _texts_of(passed.plan, tuple(name for name, how in found.items() if how is NEEDS_TEXT))
    return {**found, **{name: Written(text) for name, text in texts.items()}}


def _texts_of(plan: TextPlan, names: tuple[str, ...]) -> dict[str, pd.Series]:
    """The unchanged cells of these columns, read in one more pass."""
    if not names:
        return {}
    reader = BlockReader(replace(plan, as_text=True, shortcuts={}), empty_marks=plan.missing_marks)
    slots = {name: _raw_slot(name, plan) for name in names}
    for block in reader.blocks(names):
        for slot, cells in zip(slots.values(), block.columns, strict=True):
            slot.add(cells)
    # Repeated texts need little memory as categories.
    return {name: finish_raw(name, slot).values.astype("category") for name, slot in slots.items()}


@dataclass(frozen=True)
class _Parsed:
    plan: TextPlan
    faulty: FaultyLines
    reader: BlockReader
    slots: dict[str, AnyColumn]


def _parse(plan: TextPlan, header_text: str, scan: Scan, types: Mapping[str, ColumnType]) -> _Parsed:
    """Stream the rows; if there are faulty lines, stream them again without the lines that would damage others."""
    searched = scan.repeats_header_line or is_total(scan.last_line, plan)
    faulty = faulty_lines(plan, header_text, scan) if searched else FaultyLines()
    if faulty:
        return _parse_without(plan, faulty, types)
    may_repair = scan.has_quotes and not searched
    try:
        parsed = _Parsed(plan, faulty, *_stream(plan, types))
    except LongRecordError:
        faulty = faulty_lines(plan, header_text, scan) if may_repair else faulty
        if not faulty:
            raise
        return _parse_without(plan, faulty, types)
    # Fewer records than lines: cells with line breaks, or quotes around several rows.
    if may_repair and parsed.reader.records != scan.lines:
        faulty = faulty_lines(plan, header_text, scan)
    return _parse_without(plan, faulty, types) if faulty else parsed


def _parse_without(plan: TextPlan, faulty: FaultyLines, types: Mapping[str, ColumnType]) -> _Parsed:
    rest = without_lines(plan, faulty)
    return _Parsed(rest, faulty, *_stream(rest, types))


def _stream(plan: TextPlan, types: Mapping[str, ColumnType]) -> tuple[BlockReader, dict[str, AnyColumn]]:
    reader = BlockReader(plan)
    slots: dict[str, AnyColumn] = {name: _new_slot(name, plan, types) for name in plan.columns}
    first = True
    for block in reader.blocks():
        for name, cells in zip(plan.columns, block.columns, strict=True):
            slot = slots[name]
            slot.add(cells)
            if first and isinstance(slot, NumberColumn) and slot.why_text == "words":
                slots[name] = _text_slot(plan, why="words", odd=slot.odd_rows())
                slots[name].add(cells)
        first = first and block.num_rows == 0
    return reader, slots


def _new_slot(name: str, plan: TextPlan, types: Mapping[str, ColumnType]) -> AnyColumn:
    if plan.as_text:
        return _raw_slot(name, plan)
    asked = types.get(name)
    levelled = pa.types.is_dictionary(plan.shortcuts.get(name, pa.string()))
    if (asked is None and not levelled) or asked is ColumnType.NUMBER:
        room = np.empty if plan.scratch is None else plan.scratch.array
        return NumberColumn(_marks(plan.dialect), plan.most_rows, forced=asked is not None, room=room)
    return _text_slot(plan)


def _text_slot(plan: TextPlan, **facts: Any) -> TextColumn:
    chunks: MutableSequence[pa.Array] = [] if plan.scratch is None else plan.scratch.chunks()
    return TextColumn(plan.limits.levels, plan.missing_marks, chunks, **facts)


def _raw_slot(name: str, plan: TextPlan) -> RawColumn:
    chunks: MutableSequence[pa.Array] = [] if plan.scratch is None else plan.scratch.chunks()
    return RawColumn(chunks, is_padded=plan.is_padded and name != plan.columns[0])


def _finish(
    plan: TextPlan,
    slots: dict[str, AnyColumn],
    types: Mapping[str, ColumnType],
) -> list[TypedColumn]:
    late = _late_texts(plan, slots)
    columns = []
    for name in plan.columns:
        slot = late.get(name) or slots[name]
        if isinstance(slot, NumberColumn):
            column = finish_number(name, slot, plan.limits.levels)
        elif isinstance(slot, RawColumn):
            column = finish_raw(name, slot)
        else:
            column = finish_text(name, slot, _marks(plan.dialect), types.get(name))
            slot.chunks.clear()
        columns.append(column if plan.scratch is None else replace(column, values=plan.scratch.kept(column.values)))
    return columns


def _late_texts(plan: TextPlan, slots: dict[str, AnyColumn]) -> dict[str, TextColumn]:
    """Columns that turned out to be text only after their first block are read once more."""
    if any(isinstance(slot, NumberColumn) and slot.needs_a_closer_look() for slot in slots.values()):
        raise ShortcutError("a number has more digits than a float holds")
    late = {}
    for name, slot in slots.items():
        if isinstance(slot, NumberColumn) and (slot.why_text or slot.loses_digits()):
            late[name] = _text_slot(plan, why=slot.why_text or "huge_integers")
    if late:
        for block in BlockReader(replace(plan, shortcuts={})).blocks(tuple(late)):
            for name, cells in zip(late, block.columns, strict=True):
                late[name].add(cells)
    return late


def _line_numbers(
    plan: TextPlan, reader: BlockReader, slots: Mapping[str, AnyColumn], one_line_each: bool
) -> dict[int, int]:
    """The line number of each record that a finding may refer to."""
    rows = [row for slot in slots.values() for row in slot.odd_rows()]
    records = {item.line for item in reader.listed} | set(reader.empty[:LISTED_LINES])
    records |= {reader.record_of(row) for row in rows}
    found = {record: record for record in records} if one_line_each else lines_of_records(plan, records)
    return {record: found.get(record, record) + plan.lines_before for record in records}


def _sample(source: TextSource) -> str:
    source.stream.seek(source.start)
    head, size = source.stream.read(_SAMPLE), _SAMPLE
    # A header of thousands of names can be longer than the sample, but a few rows below it are needed.
    while len(head) == size < _LARGEST_SAMPLE and head.count(b"\n") + head.count(b"\r") < _FEWEST_LINES:
        head, size = head + source.stream.read(size), 2 * size
    text = head.decode("utf-8", errors="ignore")
    if len(head) < size:
        return text
    return text[: max(text.rfind("\n"), text.rfind("\r")) + 1] or text


def _cut(sample: str, given: Dialect) -> DialectGuess:
    if given.separator is None:
        cut = guess_dialect(sample)
        return cut if given.quote is None else rate_dialect(sample, cut.separator, given.quote)
    cut = rate_dialect(sample, given.separator, '"' if given.quote is None else given.quote)
    return replace(cut, separator=given.separator)


def _detected(rows: list[tuple[str, ...]], source: TextSource, cut: DialectGuess, layout: Layout) -> Dialect:
    marks = detect_marks((cell for row in rows[:500] for cell in row), cut.separator)
    return Dialect(
        encoding=source.encoding,
        separator=cut.separator,
        quote=cut.quote,
        decimal=marks.decimal,
        thousands=marks.thousands,
        header=layout.header is not None,
    )


def _marks(dialect: Dialect) -> Marks:
    return Marks(dialect.decimal or ".", dialect.thousands or "")


def _check_shape(layout: Layout, sample: str, name: str, limits: ReadLimits) -> None:
    if not sample.strip():
        raise TableError(f"{name!r} contains only blanks, not a table.")
    if len(layout.names) > limits.columns:
        raise TableError(
            f"{name!r} has {len(layout.names):,} columns; the limit is {limits.columns:,}. Leave out some of them."
        )


def _check_type_names(types: Mapping[str, ColumnType], names: tuple[str, ...]) -> None:
    for column in types:
        if column not in names:
            raise TableError(
                f"types names the column {column!r}, but the file does not have it. {nearest_hint(column, names)}"
            )


def _bytes_of_lines(sample: str, lines: int) -> int:
    text = io.StringIO(sample, newline="")
    return sum(len(text.readline().encode()) for _ in range(lines))


def _line(sample: str, layout: Layout) -> str:
    """The text of the header, to find repetitions among the rows."""
    if layout.header is None or layout.header.first_line != layout.header.last_line:
        return ""
    text = io.StringIO(sample, newline="")
    for _ in range(layout.header.first_line):
        line = text.readline()
    return line


def _rejected_note(reader: BlockReader) -> str:
    if not reader.rejected:
        return ""
    first = reader.listed[0]
    return f": all {reader.rejected:,} lines were rejected, the first because it {first.reason}"


def _without_filler(plan: TextPlan, columns: list[TypedColumn]) -> list[TypedColumn]:
    """The columns without the empty one that comes from a separator at the end of every line."""
    made_up = plan.columns[-1] == f"column_{len(plan.columns)}" and plan.dialect.header is not False
    return columns[:-1] if made_up and len(columns) > 1 and columns[-1].values.isna().all() else columns
