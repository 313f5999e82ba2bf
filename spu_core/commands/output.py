"""What commands share: JSON or words on standard output, tables to files, progress on standard error."""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from spu_core.errors import SpuError
from spu_core.export import to_csv
from spu_core.export.archive import write_file
from spu_core.tables import Table, read_table

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")]
STANDARD = "-"


def say(value: Any, words: str, as_json: bool, *, beside: str = "") -> None:
    """Print a result: as JSON for programs, in words for people.

    Where the rows themselves go to standard output (`beside` is `-`), what is said about them goes to standard error.
    """
    text = json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) if as_json else words
    typer.echo(text, err=beside == STANDARD)


def plain(value: Any) -> Any:
    """A result as plain JSON values; numbers that JSON does not know become null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, pd.DataFrame):
        return [plain(row) for row in value.to_dict("records")]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | type(None)) else str(value)


def read_input(source: str) -> Table:
    """A table from a file, or from standard input where the name is `-`."""
    if source == STANDARD:
        return read_table(sys.stdin.buffer, name="standard input")
    return read_table(Path(source))


def rows_input(source: str) -> Any:
    """What a bundle scores: a path, or standard input where the name is `-`."""
    return sys.stdin.buffer if source == STANDARD else Path(source)


def write_frame(frame: pd.DataFrame, target: str, *, raw: bool = False) -> None:
    """A table to a `.csv` or `.parquet` file, or as CSV to standard output where the name is `-`.

    Text that a spreadsheet would run as a formula is neutralised in CSV, unless `raw`.
    """
    check_table_name(target)
    if target == STANDARD:
        sys.stdout.write(to_csv(frame, raw=raw))
    elif target.endswith(".parquet"):
        written = io.BytesIO()
        frame.to_parquet(written, index=False)
        write_output(written.getvalue(), target)
    else:
        write_output(to_csv(frame, raw=raw).encode(), target)


def check_table_name(target: str) -> None:
    """Refuse a name that says neither CSV nor Parquet, before any work is done."""
    if target != STANDARD and not target.endswith((".csv", ".parquet")):
        raise SpuError(f"The name {target!r} must end in .csv or .parquet, or be - for standard output.")


def write_output(data: bytes, target: str) -> None:
    """Bytes to a file, whole or not at all, or to standard output where the name is `-`."""
    if target == STANDARD:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    elif Path(target).is_dir():
        raise SpuError(f"{target!r} is a folder; give the name of a file.")
    else:
        write_file(data, target)


def read_text(source: str) -> str:
    """A small text file, or standard input where the name is `-`; or the reason why not."""
    try:
        return sys.stdin.buffer.read().decode() if source == STANDARD else Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8 text"
        raise SpuError(f"{source!r} cannot be read: {reason}.") from None


@contextmanager
def progress_bar(quiet: bool, title: str) -> Iterator[Callable[[float, str], None]]:
    """A bar on standard error that is told a share and what is being done; silent for programs."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, quiet=quiet)
    # Names of runs and columns are data: what looks like markup in them is shown as it is.
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=1.0)

        def show(share: float, words: str) -> None:
            bar.update(task, completed=share, description=words)

        yield show
