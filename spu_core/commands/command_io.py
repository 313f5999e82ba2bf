"""Input and output of the commands.

Tables, texts and runs by name; results as text or JSON on standard output, progress on standard error.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from spu_core.codec import dump_json, encode
from spu_core.engines.audit_results import with_audit
from spu_core.engines.export_files import ExportTexts, StoredModel
from spu_core.engines.study import Study
from spu_core.errors import SpuError, WorkspaceError, nearest_hint
from spu_core.export import Bundle, load_bundle
from spu_core.export.archive import write_file
from spu_core.rules import RuleSet
from spu_core.tables import ReadLimits, Table, open_folder, read_table
from spu_core.tables.reading.sources import is_address, open_address
from spu_core.tables.spreadsheet import to_csv
from spu_core.training import ORIGINS, Comparison
from spu_core.workspace import RunRecord, Workspace

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of words.")]
STANDARD = "-"


def print_result(value: Any, words: str, as_json: bool, *, beside: str = "") -> None:
    """Print a result as text, or as JSON.

    If the rows themselves go to standard output (`beside` is `-`), the result goes to standard error.
    """
    text = dump_json(plain(value), indent=2) if as_json else words
    typer.echo(text, err=beside == STANDARD)


def plain(value: Any) -> Any:
    """A result as plain JSON values: a table is a list of its rows, and what JSON lacks becomes text."""
    return encode(
        value, default=lambda other: other.to_dict("records") if isinstance(other, pd.DataFrame) else str(other)
    )


Query = Annotated[
    str | None, typer.Option("--query", help="A query (SQL) whose result is the table, if the file is a database.")
]


def read_input(source: str, query: str | None = None) -> Table:
    """A table from a file or an address, or from standard input if the name is `-`."""
    if source == STANDARD:
        return read_table(sys.stdin.buffer, name="standard input", query=query)
    return read_table(source, query=query)


def open_input(source: str, query: str | None = None) -> Table:
    """A table from a file, an address or standard input, or a table over a folder of parquet files."""
    return open_folder(source) if source != STANDARD and Path(source).is_dir() else read_input(source, query)


def rows_input(source: str) -> Any:
    """The rows to score: a path, a copy of what is at an address, or standard input if the name is `-`."""
    if is_address(source):
        rows = open_address(source, ReadLimits())
        rows.seek(0)
        return rows
    return sys.stdin.buffer if source == STANDARD else Path(source)


def read_rules(source: str) -> RuleSet:
    """The rule set in a file, or in standard input if the name is `-`; a study is named as such."""
    text = read_text(source)
    if _has_key(text, "plan"):
        raise SpuError(
            f"{source!r} is a study, not a rule set; train it with `spu train`, or give the file of its rules."
        )
    return RuleSet.from_json(text)


def read_study(source: str) -> Study:
    """The study in a file, or in standard input if the name is `-`; a rule set is named as such."""
    text = read_text(source)
    if _has_key(text, "rules") and not _has_key(text, "plan"):
        raise SpuError(
            f"{source!r} is a rule set, not a study (the file lacks its schema); make a study with "
            f"`spu plan DATA --rules {source} -o study.json`."
        )
    return Study.from_json(text)


def _has_key(text: str, key: str) -> bool:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False  # the strict reader says what is wrong
    return isinstance(found, dict) and key in found


def table_text(frame: pd.DataFrame, decimals: int = 3) -> str:
    """A table as aligned text with rounded numbers; in colour on a terminal, plain in a pipe or a file."""
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    written = io.StringIO()
    on_terminal = sys.stdout.isatty()
    # Nothing is cut or wrapped in a pipe, so that other programs can read it.
    console = Console(file=written, force_terminal=on_terminal, width=None if on_terminal else 100_000, highlight=False)
    shown = RichTable(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    numbers = {name: pd.api.types.is_numeric_dtype(frame[name]) for name in frame.columns}
    for name, is_number in numbers.items():
        shown.add_column(Text(str(name)), justify="right" if is_number else "left", overflow="fold")
    for row in frame.itertuples(index=False):
        shown.add_row(*(Text(_cell_text(value, decimals)) for value in row))
    console.print(shown)
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines())


def _cell_text(value: Any, decimals: int) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) >= 1000 else f"{value:.{decimals}f}"
    return " ".join(str(value).split())


def write_frame(frame: pd.DataFrame, target: str, *, raw: bool = False) -> None:
    """Write a table to a `.csv` or `.parquet` file, or as CSV to standard output if the name is `-`.

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
    """Refuse a file name that ends in neither .csv nor .parquet."""
    if target != STANDARD and not target.endswith((".csv", ".parquet")):
        raise SpuError(f"The name {target!r} must end in .csv or .parquet, or be - for standard output.")


Force = Annotated[bool, typer.Option("--force", help="Overwrite what exists.")]


def refuse_overwriting(target: str | Path, force: bool) -> None:
    """Refuse to overwrite a file, unless `force`."""
    if not force and str(target) != STANDARD and Path(target).is_file():
        raise SpuError(f"{str(target)!r} exists; choose another name, or overwrite it with --force.")


def write_output(data: bytes, target: str) -> None:
    """Write bytes to a file (completely or not at all), or to standard output if the name is `-`."""
    if target == STANDARD:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    elif Path(target).is_dir():
        raise SpuError(f"{target!r} is a folder; give the name of a file.")
    else:
        write_file(data, target)


def read_text(source: str) -> str:
    """The text of a file, or of standard input if the name is `-`."""
    try:
        return sys.stdin.buffer.read().decode() if source == STANDARD else Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8 text"
        raise SpuError(f"{source!r} cannot be read: {reason}.") from None


@contextmanager
def progress_bar(quiet: bool, title: str) -> Iterator[Callable[[float, str], None]]:
    """A progress bar on standard error; yields the function to update it. Shows nothing if `quiet`, or in a pipe."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True, quiet=quiet)
    # Names of runs and columns are shown as they are, even if they look like markup.
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=1.0)

        def show(share: float, words: str) -> None:
            bar.update(task, completed=share, description=words)

        yield show


Folder = Annotated[
    Path | None, typer.Option("--workspace", help="Its folder; default: SPU_HOME or your data directory.")
]
RunName = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A bundle (.spu), or the id of a run in the workspace, or its start."),
]
RunNames = Annotated[
    list[str],
    typer.Argument(metavar="RUN...", help="Bundles (.spu) of one table, or ids of runs in the workspace."),
]
StoredRunName = Annotated[str, typer.Argument(metavar="RUN", help="The id of a run in the workspace, or its start.")]
StoredRunNames = Annotated[list[str], typer.Argument(metavar="RUN...", help="Ids of runs in the workspace.")]
OriginName = Annotated[
    str | None,
    typer.Option(
        "--origin",
        help=f"How the confirmed cases were found: {', '.join(ORIGINS)}; stored runs know it.",
        autocompletion=lambda: list(ORIGINS),
    ),
]
FEWEST_LETTERS = 4


def is_file(name: str) -> bool:
    """Whether a name is a file name rather than the id of a run."""
    return name.endswith(".spu") or len(Path(name).parts) > 1 or Path(name).is_file()


def bundles_of(names: Sequence[str], folder: Path | None) -> list[Bundle]:
    """The bundles with these names, in their order. Stored runs get the names that the workspace shows."""
    found = {name: load_bundle(name) for name in names if is_file(name)}
    stored = [name for name in names if name not in found]
    if stored:
        with Workspace.open(folder) as workspace:
            found |= {name: stored_model(workspace, name).bundle for name in stored}
    return [found[name] for name in names]


def origin_of(names: Sequence[str], folder: Path | None, origin: str | None) -> str:
    """The given origin of the confirmed cases, else the one that is stored with the dataset of the first stored run."""
    stored = [name for name in names if not is_file(name)]
    if origin is not None or not stored:
        return origin or "unknown"
    with Workspace.open(folder) as workspace:
        return workspace.datasets.get(find_run(workspace, stored[0]).dataset).origin


def audited(comparison: Comparison, names: Sequence[str], folder: Path | None) -> Comparison:
    """The comparison with the audits of the dataset, if all runs are stored ones."""
    if any(map(is_file, names)):
        return comparison
    with Workspace.open(folder) as workspace:
        dataset = workspace.datasets.get(find_run(workspace, names[0]).dataset)
        return with_audit(workspace, dataset, comparison)


@contextmanager
def opened_model(name: str, folder: Path | None, words: ExportTexts | None = None) -> Iterator[StoredModel]:
    """A stored run; the workspace is open inside the context."""
    with Workspace.open(folder) as workspace:
        yield stored_model(workspace, name, words)


def stored_model(workspace: Workspace, name: str, words: ExportTexts | None = None) -> StoredModel:
    """The stored run with this id. Without `words`, it has the texts of its last export."""
    record = find_run(workspace, name)
    words = words or ExportTexts.last_used(workspace, record.id)
    return StoredModel(workspace, record, workspace.datasets.open(record.dataset), words)


def find_run(workspace: Workspace, name: str) -> RunRecord:
    """The run with this id; the start of the id is enough if only one run has it."""
    runs = workspace.runs.list()
    found = [run for run in runs if run.id.startswith(name)] if len(name) >= FEWEST_LETTERS else []
    if len(found) == 1:
        return found[0]
    if found:
        raise WorkspaceError(f"{len(found)} runs start with {name[:40]!r}; write more of the id.")
    if is_file(name):
        raise WorkspaceError(
            f"{name[:80]!r} is a file name; this command needs the id of a run in the workspace, where the dashboard "
            "stores runs. `spu workspace list` shows ids."
        )
    hint = nearest_hint(name[:40], [run.id for run in runs]) if runs else "The workspace has no runs."
    raise WorkspaceError(
        f"{name[:80]!r} is neither a file nor the id of a run in {workspace.folder}; `spu workspace list` shows ids. "
        f"{hint}"
    )
