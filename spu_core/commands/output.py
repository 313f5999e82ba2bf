"""What commands share: JSON or words on standard output, tables to files, progress on standard error."""

from __future__ import annotations

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
from spu_core.tables import Table, read_table
from spu_core.training import TrainProgress

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")]
STANDARD = "-"


def say(value: Any, words: str, as_json: bool) -> None:
    """Print a result: as JSON for programs, in words for people."""
    typer.echo(json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) if as_json else words)


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
        return read_table(sys.stdin.buffer.read(), name="standard input")
    return read_table(Path(source))


def write_frame(frame: pd.DataFrame, target: str, *, raw: bool = False) -> None:
    """A table to a `.csv` or `.parquet` file, or as CSV to standard output where the name is `-`.

    Text that a spreadsheet would run as a formula is neutralised in CSV, unless `raw`.
    """
    if target == STANDARD:
        sys.stdout.write(to_csv(frame, raw=raw))
    elif target.endswith(".parquet"):
        frame.to_parquet(target, index=False)
    elif target.endswith(".csv"):
        Path(target).write_text(to_csv(frame, raw=raw), encoding="utf-8", newline="")
    else:
        raise SpuError(f"The name {target!r} must end in .csv or .parquet, or be - for standard output.")


def read_text(path: Path) -> str:
    """A small text file, or the reason why not."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise SpuError(f"{str(path)!r} cannot be read: {problem}.") from None


@contextmanager
def training_bar(quiet: bool) -> Iterator[Callable[[TrainProgress], None]]:
    """A progress bar on standard error; silent for programs."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, quiet=quiet)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("training", total=1.0)

        def show(progress: TrainProgress) -> None:
            bar.update(task, completed=progress.share, description=f"{progress.candidate}, {progress.step}")

        yield show
