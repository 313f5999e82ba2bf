"""Writing scored rows chunk by chunk; a file is whole or absent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pandas as pd

from spu_core.errors import BundleError, words_of_system
from spu_core.tables.spreadsheet import write_csv


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
        raise BundleError(f"{target.name!r} cannot be written: {words_of_system(problem)}.") from problem
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
