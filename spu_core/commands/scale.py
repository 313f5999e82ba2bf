"""Commands for more rows than memory: convert a large file to a folder, label a folder part by part."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from spu_core.commands.output import STANDARD, AsJson, progress_bar, read_input, rows_input, say
from spu_core.engines.places import ENGINES, SCHEDULER_VARIABLE, Engine
from spu_core.engines.study import Study
from spu_core.engines.ways import refused_on, way_on
from spu_core.errors import SpuError
from spu_core.export import Bundle, ScoreReport, Scoring, save_bundle
from spu_core.export.row_files import write_tables
from spu_core.labels import SoftLabels, soft_labels_for
from spu_core.rules import RuleSet
from spu_core.tables import Table, TableFolder, convert_table, open_folder
from spu_core.training.way import training_way

EngineName = Annotated[
    str | None,
    typer.Option(
        "--engine", help="Where the fits run: here, or dask (a cluster).", autocompletion=lambda: list(ENGINES)
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        envvar=SCHEDULER_VARIABLE,
        help="Address of a Dask scheduler, tcp://host:port; without it, --engine dask starts workers on this computer.",
    ),
]


def add_to(app: typer.Typer) -> None:
    """Register the commands of this file."""
    app.command("convert")(convert)


def convert(
    file: Annotated[str, typer.Argument(help="A CSV, TSV or other text file, also larger than memory; - for input.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="A new folder for the parquet files.")],
    as_json: AsJson = False,
) -> None:
    """Convert a large file once to a folder of parquet files, which `profile`, `label`, `plan` and `train` take."""
    with progress_bar(as_json, "reading") as show:
        folder, reading = convert_table(rows_input(file), output, on_progress=lambda share: show(share, "writing"))
    value = {"folder": str(output), "rows": len(folder), "files": len(folder.files), "reading": reading}
    words = f"{reading.describe()}\n{output}: {len(folder):,} rows in {len(folder.files)} files, {folder.size:,} bytes"
    say(value, words, as_json)


def open_input(source: str) -> Table | TableFolder:
    """A table from a file or standard input, or a table over a folder of parquet files."""
    return open_folder(source) if source != STANDARD and Path(source).is_dir() else read_input(source)


def score_on_cluster(engine: Engine, bundle: Bundle, source: str, target: str, scoring: Scoring) -> ScoreReport:
    """Score a folder of parquet files into another folder, file by file on the workers of a cluster."""
    from spu_core.engines.dask import open_cluster, score_folder_on

    with tempfile.TemporaryDirectory() as folder:
        data = save_bundle(bundle, Path(folder) / "model.spu").read_bytes()
    with open_cluster(engine.scheduler) as cluster:
        return score_folder_on(cluster, data, source, target, scoring)


def labelled_folder(folder: TableFolder, rules: RuleSet, output: str) -> SoftLabels:
    """Write all rows with their soft labels, part by part, and return the soft labels."""
    if output == STANDARD:
        raise SpuError("The rows of a folder do not go to standard output; name a .csv or .parquet file.")
    soft_labels = soft_labels_for(folder, rules.fit(folder))
    write_tables(_with_soft_labels(folder, soft_labels), Path(output), raw=False)
    return soft_labels


def tell_way(engine: Engine, table: Table | TableFolder, study: Study) -> None:
    """Say on standard error, before anything starts, what fits into memory and which way is taken."""
    here = training_way(
        len(table),
        len(table.features),
        study.plan.candidates,
        study.plan.config,
        from_files=isinstance(table, TableFolder),
        refine=study.refine,
    )
    way = way_on(engine, here)
    is_plain = engine.name == "here" and isinstance(table, Table)
    if not is_plain or not way.fits:
        typer.echo(way.words, file=sys.stderr)
    if refused := refused_on(engine, here, study.plan.candidates, study.plan.config):
        typer.echo(refused, file=sys.stderr)


def _with_soft_labels(folder: TableFolder, soft_labels: SoftLabels) -> Iterator[pd.DataFrame]:
    for frame in folder.frames():
        rows: Any = slice(frame.index[0], frame.index[-1] + 1)
        yield frame.assign(soft_label=soft_labels.value[rows], rule_score=soft_labels.rule_score[rows])
