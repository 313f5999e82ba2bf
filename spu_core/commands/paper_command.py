"""The command `spu paper`: the tables and theorems of the paper, stored results or computed again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spu_core.checks import check_choice
from spu_core.commands.command_io import STANDARD, AsJson, progress_bar, write_output
from spu_core.errors import SpuError, WorkspaceError
from spu_core.experiments import EXPERIMENTS, ExperimentResult, ExperimentSettings, experiment, stored_result
from spu_core.experiments.catalog import SCALES

EVERY = "all"


def add_to(app: typer.Typer) -> None:
    """Register the command of this file."""
    app.command("paper")(paper)


def _names(start: str) -> list[tuple[str, str]]:
    listed = [(name, each.title) for name, each in EXPERIMENTS.items()] + [(EVERY, "All of them")]
    return [(name, title) for name, title in listed if name.startswith(start)]


def paper(
    name: Annotated[
        str | None,
        typer.Argument(
            help=f"{', '.join(EXPERIMENTS)} or {EVERY}; without one, they are listed.", autocompletion=_names
        ),
    ] = None,
    run: Annotated[bool, typer.Option("--run/--stored", help="Compute it now, or show the stored result.")] = False,
    data: Annotated[
        Path | None, typer.Option(help="Folder of data files; else SPU_DATA, else OpenML.", show_default=False)
    ] = None,
    scale: Annotated[str, typer.Option(help="full as stored, or smoke: seconds, to see that it runs.")] = "full",
    seeds: Annotated[int | None, typer.Option(help="Seeds or worlds; default: the experiment's own.")] = None,
    threads: Annotated[int, typer.Option(min=1, help="Processor threads.")] = 1,
    as_json: AsJson = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown instead of words.")] = False,
    output: Annotated[str, typer.Option("--output", "-o", help="A file; - for standard output.")] = STANDARD,
) -> None:
    """Print the figures of the paper, ours with standard errors, and the result for each claim."""
    if name is None:
        typer.echo(_listing())
        return
    if as_json and as_markdown:
        raise SpuError("--json and --markdown exclude each other; choose one form.")
    check_choice(scale, SCALES, "scale")
    chosen = list(EXPERIMENTS) if name == EVERY else [experiment(name).name]
    settings = ExperimentSettings(seeds=seeds, scale=scale, data=data, threads=threads)
    results = _computed(chosen, settings) if run else _stored(chosen)
    write_output(_rendered(results, as_json, as_markdown, single=name != EVERY).encode(), output)


def _listing() -> str:
    lines = [f"{name:<12}{each.title}  (about {each.typical_minutes:g} min)" for name, each in EXPERIMENTS.items()]
    return "\n".join([*lines, f"{EVERY:<12}All of them"])


def _computed(names: list[str], settings: ExperimentSettings) -> list[ExperimentResult]:
    found = []
    for name in names:
        with progress_bar(quiet=False, title=name) as show:
            found.append(EXPERIMENTS[name].run(settings, show))
    return found


def _stored(names: list[str]) -> list[ExperimentResult]:
    """Stored results. Of several, missing ones are reported and left out."""
    if len(names) == 1:
        return [_noted(stored_result(names[0]))]
    found = []
    for name in names:
        try:
            found.append(_noted(stored_result(name)))
        except WorkspaceError as problem:
            typer.echo(str(problem), err=True)
    return found


def _noted(result: ExperimentResult) -> ExperimentResult:
    typer.echo(f"{result.name}: the stored result of {result.provenance.made_on}; --run computes it again.", err=True)
    return result


def _rendered(results: list[ExperimentResult], as_json: bool, as_markdown: bool, *, single: bool) -> str:
    if as_json and single:
        return results[0].to_json()
    if as_json:
        parts = ",\n".join(f'"{result.name}": {result.to_json().strip()}' for result in results)
        return f"{{\n{parts}\n}}\n"
    if as_markdown:
        return "\n".join(result.to_markdown() for result in results)
    return "\n\n\n".join(result.to_text() for result in results) + "\n"
