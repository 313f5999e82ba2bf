"""Rows to be scored, chunk by chunk, and files for their results.

A large text file is cut between records into pieces, and each piece is read by the reader of tables with the dialect
that was found at the beginning of the file, so that its size does not change how its cells are read. Results are
written chunk by chunk, completely or not at all.
"""

from __future__ import annotations

import csv
import io
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, TextIO

import numpy as np
import pandas as pd

from spu_core.errors import BundleError, TableError, os_error_reason
from spu_core.tables import ColumnType, Dialect, ReadLimits, Table, open_folder, read_table
from spu_core.tables.folders import is_folder
from spu_core.tables.reading.encoding import TextSource, open_text
from spu_core.tables.reading.sources import Upload, expand_gzip, open_upload
from spu_core.tables.reading.typed_columns import TEXT_COLUMN
from spu_core.tables.spreadsheet import write_csv
from spu_core.tables.table import as_pandas

# A multiple of the block sizes of the learners, so that chunks and whole tables get the same scores to the bit.
CHUNK_ROWS = 1 << 16
PIECE_BYTES = 16 << 20
HEAD_BYTES = 1 << 20
# Scored rows are not kept in memory, so a file may be larger than one to train on.
LIMITS = ReadLimits(bytes=1 << 40, expanded_bytes=1 << 40, rows=1 << 40)


@dataclass(frozen=True, eq=False)
class RowSource:
    """Column names, a function that reads the rows from the beginning, and roughly how many there are."""

    names: tuple[str, ...]
    chunks: Callable[[], Iterator[pd.DataFrame]]
    about: int


def open_rows(source: Any, text_columns: frozenset[str] = frozenset(), *, piece_bytes: int = PIECE_BYTES) -> RowSource:
    """Rows of a frame, a folder, a path, bytes or a file object; `text_columns` are read as text whatever they hold."""
    if isinstance(source, pd.DataFrame) or hasattr(source, "to_pandas"):
        return _from_frame(as_pandas(source))
    if isinstance(source, Table) or is_folder(source):
        table = source if isinstance(source, Table) else open_folder(source)
        return RowSource(table.column_names, table.frames, len(table))
    upload = open_upload(source, None, LIMITS)
    inner = expand_gzip(upload, LIMITS) if upload.kind == "gzip" else upload
    if inner.kind == "parquet":
        return _from_parquet(inner.stream)
    if inner.kind == "text":
        return _from_text(inner, text_columns, piece_bytes)
    upload.stream.seek(0)
    return _from_frame(read_table(upload.stream, name=upload.name).frame)


def _from_frame(frame: pd.DataFrame) -> RowSource:
    return RowSource(tuple(map(str, frame.columns)), lambda: _parts(frame), len(frame))


def _parts(frame: pd.DataFrame) -> Iterator[pd.DataFrame]:
    for start in range(0, len(frame), CHUNK_ROWS):
        yield frame.iloc[start : start + CHUNK_ROWS]


def _from_parquet(stream: IO[bytes]) -> RowSource:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    try:
        # Without this, every part that was read stays in memory until the end.
        file = parquet.ParquetFile(stream, pre_buffer=False)
    except (pa.ArrowInvalid, OSError) as problem:
        raise TableError(f"The parquet file is damaged: {str(problem)[:120]}.") from problem

    # A table written by this program may hold the original text of a column in a second column.
    names = [str(name) for name in file.schema_arrow.names if not str(name).startswith(TEXT_COLUMN)]

    def chunks() -> Iterator[pd.DataFrame]:
        for batch in file.iter_batches(batch_size=CHUNK_ROWS, columns=names):
            yield batch.to_pandas()

    return RowSource(tuple(names), chunks, file.metadata.num_rows)


def _from_text(upload: Upload, text_columns: frozenset[str], piece_bytes: int) -> RowSource:
    text = open_text(upload, None)
    text.stream.seek(text.start)
    head = text.stream.read(HEAD_BYTES)
    whole = len(head) < HEAD_BYTES
    first = read_table(head if whole else head[: head.rfind(b"\n") + 1], name=upload.name, limits=LIMITS)
    names = tuple(map(str, first.frame.columns))
    reading = first.reading
    assert reading is not None
    dialect = replace(reading.dialect, encoding="utf-8", header=reading.header_line is not None)
    # The first piece still has whatever stands before the header; all other pieces get a plain header.
    at_head = replace(dialect, header=None if dialect.header else False)
    types: dict[str, ColumnType | str] = {name: ColumnType.TEXT for name in names if name in text_columns}

    def read(piece: bytes, found: Dialect) -> pd.DataFrame:
        return read_table(piece, name=upload.name, dialect=found, limits=LIMITS, types=types).frame

    def chunks() -> Iterator[pd.DataFrame]:
        # No variable keeps a piece: its memory is free before the next one is read.
        dialects = itertools.chain([at_head], itertools.repeat(dialect))
        for frame in map(read, _pieces(text, dialect, names, piece_bytes), dialects):
            yield from _parts(frame)
            del frame

    size = text.stream.seek(0, os.SEEK_END) - text.start
    return RowSource(names, chunks, round(len(first.frame) * size / max(len(head), 1)))


def _pieces(text: TextSource, dialect: Dialect, names: tuple[str, ...], size: int) -> Iterator[bytes]:
    """Pieces of the text that end between records; all but the first get the header again."""
    header = _header_line(dialect, names) if dialect.header else b""
    text.stream.seek(text.start)
    rest, before = b"", b""
    while data := text.stream.read(size):
        rest += data
        del data
        end = _last_record_end(rest, dialect.quote or "")
        if end:
            # `pop` gives up the reference, so that there is no second copy of a piece.
            piece, rest = [rest[:end]], rest[end:]
            if not piece[0].isspace():
                yield before + piece.pop()
            before = header
        elif len(rest) > 8 * size:
            raise TableError(
                f"No record ends within {len(rest):,} bytes, perhaps because a quote is never closed; repair the file."
            )
    if rest.strip():
        yield before + rest


def _header_line(dialect: Dialect, names: tuple[str, ...]) -> bytes:
    line = io.StringIO()
    quoting: dict[str, Any] = {"quotechar": dialect.quote} if dialect.quote else {"quoting": csv.QUOTE_NONE}
    separator = dialect.separator or ","
    if len(separator) > 1:
        return (separator.join(names) + "\n").encode()
    csv.writer(line, delimiter=separator, lineterminator="\n", **quoting).writerow(names)
    return line.getvalue().encode()


def _last_record_end(data: bytes, quote: str) -> int:
    """Where the last complete record ends: after a line end with an even number of quotes before it; 0 if nowhere.

    >>> _last_record_end(b'a,"x\\ny"\\nb,"z\\n', '"')
    8
    """
    if not quote:
        return data.rfind(b"\n") + 1
    cells = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(cells == ord("\n"))
    if not ends.size:
        return 0
    quotes = np.flatnonzero(cells == ord(quote))
    outside = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return int(outside[-1]) + 1 if outside.size else 0


def write_tables(tables: Iterator[pd.DataFrame], target: Path, *, raw: bool) -> None:
    """Parquet by the name of the target, else CSV, safe in a spreadsheet unless `raw`."""
    with _whole_or_absent(target) as draft:
        if target.suffix == ".parquet":
            _write_parquet(tables, draft)
        else:
            _write_csv(tables, draft, raw)


def write_stream(tables: Iterator[pd.DataFrame], stream: TextIO, *, raw: bool) -> None:
    """CSV to an open stream, safe in a spreadsheet unless `raw`."""
    for number, table in enumerate(tables):
        write_csv(table, stream, raw=raw, header=number == 0)


@contextmanager
def _whole_or_absent(target: Path) -> Iterator[Path]:
    """A file beside the target that takes its name once it is written."""
    draft = target.with_name(f".{target.name}.writing")
    try:
        yield draft
        os.replace(draft, target)
    except OSError as problem:
        raise BundleError(f"{target.name!r} cannot be written: {os_error_reason(problem)}.") from problem
    finally:
        draft.unlink(missing_ok=True)


def _write_csv(tables: Iterator[pd.DataFrame], target: Path, raw: bool) -> None:
    with target.open("w", encoding="utf-8", newline="") as stream:
        write_stream(tables, stream, raw=raw)


def _write_parquet(tables: Iterator[pd.DataFrame], target: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    writer = None
    try:
        for table in tables:
            block = pa.Table.from_pandas(table, preserve_index=False)
            writer = writer or parquet.ParquetWriter(target, block.schema)
            writer.write_table(block.cast(writer.schema))
    finally:
        if writer is not None:
            writer.close()
