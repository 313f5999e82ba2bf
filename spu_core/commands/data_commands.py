"""Commands on data: `spu sample`, `profile`, `label` and `convert`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from spu_core.commands.command_io import (
    STANDARD,
    AsJson,
    Query,
    check_table_name,
    open_input,
    print_result,
    progress_bar,
    read_rules,
    rows_input,
    table_text,
    write_frame,
)
from spu_core.engines.study import soft_labels_of
from spu_core.errors import SpuError
from spu_core.export.row_files import write_tables
from spu_core.labels import SoftLabels, audit_soft_labels
from spu_core.metrics import auc_spu_ceiling
from spu_core.tables import Table, convert_table, parquet_store
from spu_core.tables.samples import SAMPLES, sample_files


def add_to(app: typer.Typer) -> None:
    """Register the commands of this file."""
    app.command("sample")(sample)
    app.command("profile")(profile)
    app.command("label")(label)
    app.command("convert")(convert)


def _samples(start: str) -> list[tuple[str, str]]:
    return [(key, entry.description) for key, entry in SAMPLES.items() if key.startswith(start)]


def sample(
    name: Annotated[
        str | None, typer.Argument(help="Name of a sample; without one, all are listed.", autocompletion=_samples)
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to put its files into.")] = Path("."),
    truth: Annotated[bool, typer.Option("--truth", help="Also copy the true class of each row.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the samples, or copy one with its rules into a folder."""
    if name is None:
        listed = {key: entry.description for key, entry in SAMPLES.items()}
        print_result(listed, "\n".join(f"{key:<28}{words}" for key, words in listed.items()), as_json)
        return
    output.mkdir(parents=True, exist_ok=True)
    written = [shutil.copy(path, output) for path in sample_files(name, truth=truth)]
    print_result([str(path) for path in written], "\n".join(map(str, written)), as_json)


def profile(
    file: Annotated[
        str, typer.Argument(help="A CSV, Parquet or Excel file, or a folder of Parquet files; - for standard input.")
    ],
    query: Query = None,
    as_json: AsJson = False,
) -> None:
    """Describe a file: how it was read, its columns, and findings."""
    table = open_input(file, query)
    found, reading = table.profile(), table.reading
    words = [reading.describe() if reading else table.name, "", table_text(found.to_frame()), ""]
    words += [str(finding) for finding in found.findings]
    value = {
        "reading": reading,
        "columns": found.to_frame(),
        "findings": found.findings,
        "labeled": found.labeled,
    }
    print_result(value, "\n".join(words), as_json)


def label(
    file: Annotated[
        str, typer.Argument(help="A CSV, Parquet or Excel file, or a folder of Parquet files; - for standard input.")
    ],
    output: Annotated[str, typer.Option("--output", "-o", help="Where to: .csv, .parquet, or - for standard output.")],
    rules: Annotated[str, typer.Option(help="A rule set as JSON.")],
    query: Query = None,
    as_json: AsJson = False,
) -> None:
    """Add a soft label to each row, by a rule set."""
    check_table_name(output)
    table, chosen = open_input(file, query), read_rules(rules)
    if not table.in_memory and output == STANDARD:
        raise SpuError("The rows of a folder do not go to standard output; name a .csv or .parquet file.")
    soft_labels = soft_labels_of(table, chosen)
    if not table.in_memory:
        write_tables(_with_soft_labels(table, soft_labels), Path(output), raw=False)
    else:
        rows = table.frame if output.endswith(".parquet") else table.as_written()
        write_frame(rows.assign(soft_label=soft_labels.value, rule_score=soft_labels.rule_score), output)
    audit = audit_soft_labels(soft_labels)
    value = {"rows": len(table), "mean": soft_labels.mean, "ceiling": auc_spu_ceiling(soft_labels.value)}
    words = f"{len(table):,} rows, mean soft label {value['mean']:.4f}, ceiling {value['ceiling']:.4f}"
    notes = "\n".join(str(finding) for finding in audit.findings)
    print_result({**value, "findings": audit.findings}, f"{words}\n{notes}".rstrip(), as_json, beside=output)


def convert(
    file: Annotated[str, typer.Argument(help="A CSV, TSV or other text file, also larger than memory; - for input.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="A new folder for the parquet files.")],
    as_json: AsJson = False,
) -> None:
    """Convert a large file once to a folder of parquet files, which `profile`, `label`, `plan` and `train` take."""
    with progress_bar(as_json, "reading") as show:
        folder, reading = convert_table(rows_input(file), output, on_progress=lambda share: show(share, "writing"))
    store = parquet_store(folder)
    value = {"folder": str(output), "rows": len(folder), "files": len(store.files), "reading": reading}
    words = f"{reading.describe()}\n{output}: {len(folder):,} rows in {len(store.files)} files, {store.size:,} bytes"
    print_result(value, words, as_json)


def _with_soft_labels(folder: Table, soft_labels: SoftLabels) -> Iterator[pd.DataFrame]:
    for frame in folder.frames():
        rows: Any = slice(frame.index[0], frame.index[-1] + 1)
        yield frame.assign(soft_label=soft_labels.value[rows], rule_score=soft_labels.rule_score[rows])
