"""The command `spu bench`: run the benchmark of methods, and report its results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from spu_core.bench.adapters import bench_adapters
from spu_core.bench.cells import LABELLINGS, RULE_SETS
from spu_core.bench.choosing import make_record, read_cell, study, summary
from spu_core.bench.page import results_markdown, write_page
from spu_core.bench.report import method_table
from spu_core.bench.runner import STORED, BenchPlan, forget_methods, read_results, run_bench
from spu_core.checks import check_choice
from spu_core.commands.command_io import STANDARD, AsJson, OriginName, print_result, progress_bar, write_output
from spu_core.errors import SpuError

commands = typer.Typer(no_args_is_help=True, help="Compare methods on tables whose true class is known.")


def add_to(app: typer.Typer) -> None:
    """Register the commands of this file."""
    app.add_typer(commands, name="bench")


@commands.command("run")
def run(
    output: Annotated[Path, typer.Argument(help="Folder for the results; what is there already is not run again.")],
    data: Annotated[Path | None, typer.Option(help="Folder of the data files.", show_default=False)] = None,
    specs: Annotated[
        Path | None, typer.Option(help="Folder of table specs; default: the eleven development tables.")
    ] = None,
    table: Annotated[list[str] | None, typer.Option(help="Only this table; can be repeated.")] = None,
    labelling: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(LABELLINGS)}; default: all.")] = None,
    rules: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(RULE_SETS)}; default: all.")] = None,
    method: Annotated[list[str] | None, typer.Option(help="Only this method; can be repeated.")] = None,
    again: Annotated[list[str] | None, typer.Option(help="Run this method again; can be repeated.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Draws of rows and labels for each cell.")] = 1,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    scores: Annotated[Path | None, typer.Option(help="Folder for the scores themselves (.npz).")] = None,
    as_json: AsJson = False,
) -> None:
    """Run what is missing, one file per cell; stop it at any time and run it again to go on."""
    adapters = bench_adapters()
    for chosen, known, what in (
        (labelling, LABELLINGS, "labelling"),
        (rules, RULE_SETS, "rules"),
        ([*(method or ()), *(again or ())], [each.name for each in adapters], "method"),
    ):
        for name in chosen or ():
            check_choice(name, list(known), what)
    plan = BenchPlan(
        output=output,
        data=data,
        specs=specs,
        tables=tuple(table or ()),
        labellings=tuple(labelling or LABELLINGS),
        rule_sets=tuple(rules or RULE_SETS),
        seeds=tuple(range(seeds)),
        scores=scores,
    )
    forget_methods(output, again or ())
    chosen_adapters = [each for each in adapters if not method or each.name in method]
    with progress_bar(quiet=as_json, title="benchmark") as show:
        skipped = run_bench(plan, chosen_adapters, workers=workers, on_progress=show)
    results = len(read_results(output))
    words = [*skipped, f"{results:,} results in {output}; `spu bench report {output}` sums them up."]
    print_result({"results": results, "output": str(output), "skipped": list(skipped)}, "\n".join(words), as_json)


@commands.command("report")
def report(
    results: Annotated[
        Path,
        typer.Argument(help="A folder of results, or a parquet file; default: the stored ones.", show_default=False),
    ] = STORED,
    as_json: AsJson = False,
    output: Annotated[
        str, typer.Option("--output", "-o", help="A file for the text; - for standard output.")
    ] = STANDARD,
    page: Annotated[
        Path | None, typer.Option(help="A Markdown page whose part between the marks is written again, with a picture.")
    ] = None,
    store: Annotated[Path | None, typer.Option(help="A file for all results (.parquet).")] = None,
) -> None:
    """Sum up results: figures of each method, regret, ranks, and how well figures without truth choose."""
    found = read_results(results)
    if store is not None:
        _sorted(found).to_parquet(store, index=False, compression="zstd")
    if page is not None:
        write_page(page, found)
    if as_json:
        print_result(method_table(found), "", as_json=True)
    else:
        write_output(results_markdown(found).encode(), output)


@commands.command("choose")
def choose(
    scores: Annotated[Path, typer.Argument(help="Folder of the scores that `spu bench run --scores` stored.")],
    origin: OriginName = None,
    record: Annotated[Path | None, typer.Option(help="A file for the record that recommendations start from.")] = None,
    as_json: AsJson = False,
) -> None:
    """Study recommendations without truth: each table is judged with a record of the other tables."""
    cells = [read_cell(path) for path in sorted(scores.glob("*.npz"))]
    if not cells:
        raise SpuError(f"There are no scores (.npz) in {scores}; `spu bench run --scores` stores them.")
    if record is not None:
        record.write_text(json.dumps(make_record(cells), indent=1) + "\n", encoding="utf-8")
    found = summary(study(cells, origin or "unknown"))
    print_result(found, "\n".join(f"{name}: {value}" for name, value in found.items()), as_json)


def _sorted(found: pd.DataFrame) -> pd.DataFrame:
    return found.sort_values(["table", "labelling", "rules", "seed", "method"]).reset_index(drop=True)
