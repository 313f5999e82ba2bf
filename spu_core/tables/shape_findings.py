"""Findings on the shape of a text table: ragged rows, stacked tables, one column, rejected lines."""

from __future__ import annotations

from collections.abc import Mapping

from spu_core.errors import TableError
from spu_core.tables.blocks import BlockReader, TextPlan
from spu_core.tables.columns import AnyColumn
from spu_core.tables.findings import Finding, Severity
from spu_core.tables.reading import RejectedLine

Slots = Mapping[str, AnyColumn]
_NAMED_LINES = 20
# With more of its lines rejected than this, a file was not understood at all.
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
        *_by_reason(rejected, "repeats the header", "repeated_header", "The header comes again among the rows"),
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
    return [Finding("no_rows", Severity.ERROR, "The file has a header and no rows.", "Check that it is complete.")]


def _ragged(rejected: tuple[RejectedLine, ...], count: int) -> list[Finding]:
    ragged = [item for item in rejected if " are expected" in item.reason]
    if not ragged:
        return []
    rejected_rows = "1 row was" if count == 1 else f"{count:,} rows were"
    text = f"{rejected_rows} rejected: line {ragged[0].line} {ragged[0].reason}."
    advice = "Repair these lines and read the file again; they are listed in the reading."
    return [Finding("ragged_rows", Severity.WARNING, text, advice, lines=_numbers(ragged))]


def _by_reason(rejected: tuple[RejectedLine, ...], reason: str, code: str, words: str) -> list[Finding]:
    fitting = [item for item in rejected if item.reason == reason]
    if not fitting:
        return []
    number = "1 line was" if len(fitting) == 1 else f"{len(fitting):,} lines were"
    text = f"{words} (line {fitting[0].line}{', …' if len(fitting) > 1 else ''}); {number} rejected."
    return [Finding(code, Severity.WARNING, text, "Check these lines.", lines=_numbers(fitting))]


def _stacked(reader: BlockReader, slots: Slots, lines: Mapping[int, int]) -> list[Finding]:
    """A second table below the first: a header of its own after an empty line, or a run of rows of another width."""
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
    advice = "Save each table in its own file: here their rows are mixed or rejected."
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
    text = f"{len(reader.empty):,} lines hold no value at all and were passed over."
    named = tuple(lines[record] for record in inner[:_NAMED_LINES] if record in lines)
    return [Finding("empty_lines", Severity.INFO, text, "", lines=named)]


def _numbers(items: list[RejectedLine]) -> tuple[int, ...]:
    return tuple(item.line for item in items[:_NAMED_LINES])
