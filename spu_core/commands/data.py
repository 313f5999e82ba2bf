"""Commands on data: samples, profiles, soft labels."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from spu_core.commands.output import AsJson, check_table_name, read_text, say, write_frame
from spu_core.commands.scale import labelled_folder, open_input
from spu_core.engines.study import soft_labels_of
from spu_core.labels import audit_soft_labels
from spu_core.metrics import auc_spu_ceiling
from spu_core.rules import RuleSet
from spu_core.tables import TableFolder
from spu_core.tables.samples import SAMPLES, sample_files


def add_to(app: typer.Typer) -> None:
    """Register the commands of this file."""
    app.command("sample")(sample)
    app.command("profile")(profile)
    app.command("label")(label)


def _samples(start: str) -> list[tuple[str, str]]:
    return [(key, entry.description) for key, entry in SAMPLES.items() if key.startswith(start)]


def sample(
    name: Annotated[
        str | None, typer.Argument(help="Name of a sample; without one, all are listed.", autocompletion=_samples)
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to put its files into.")] = Path("."),
    as_json: AsJson = False,
) -> None:
    """List the samples, or copy one with its rules into a folder."""
    if name is None:
        listed = {key: entry.description for key, entry in SAMPLES.items()}
        say(listed, "\n".join(f"{key:<28}{words}" for key, words in listed.items()), as_json)
        return
    output.mkdir(parents=True, exist_ok=True)
    written = [shutil.copy(path, output) for path in sample_files(name)]
    say([str(path) for path in written], "\n".join(map(str, written)), as_json)


def profile(
    file: Annotated[
        str, typer.Argument(help="A CSV, Parquet or Excel file, or a folder of Parquet files; - for standard input.")
    ],
    as_json: AsJson = False,
) -> None:
    """Say what a file holds: how it was read, its columns, and what deserves a look."""
    table = open_input(file)
    found, reading = table.profile(), getattr(table, "reading", None)
    words = [reading.describe() if reading else table.name, "", found.to_frame().to_string(index=False), ""]
    words += [str(finding) for finding in found.findings]
    value = {
        "reading": reading,
        "columns": found.to_frame(),
        "findings": found.findings,
        "labeled": found.labeled,
    }
    say(value, "\n".join(words), as_json)


def label(
    file: Annotated[
        str, typer.Argument(help="A CSV, Parquet or Excel file, or a folder of Parquet files; - for standard input.")
    ],
    output: Annotated[str, typer.Option("--output", "-o", help="Where to: .csv, .parquet, or - for standard output.")],
    rules: Annotated[str, typer.Option(help="A rule set as JSON.")],
    as_json: AsJson = False,
) -> None:
    """Give each row its soft label by a rule set."""
    check_table_name(output)
    table, chosen = open_input(file), RuleSet.from_json(read_text(rules))
    if isinstance(table, TableFolder):
        soft_labels = labelled_folder(table, chosen, output)
    else:
        soft_labels = soft_labels_of(table, chosen)
        rows = table.frame if output.endswith(".parquet") else table.as_written()
        write_frame(rows.assign(soft_label=soft_labels.value, rule_score=soft_labels.rule_score), output)
    audit = audit_soft_labels(soft_labels)
    value = {"rows": len(table), "mean": soft_labels.mean, "ceiling": auc_spu_ceiling(soft_labels.value)}
    words = f"{len(table):,} rows, mean soft label {value['mean']:.4f}, ceiling {value['ceiling']:.4f}"
    notes = "\n".join(str(finding) for finding in audit.findings)
    say({**value, "findings": audit.findings}, f"{words}\n{notes}".rstrip(), as_json, beside=output)
