"""Commands on models: plan and train a study, compare its runs, score new rows."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from spu_core.commands.choice import Folder, RunName, RunNames, bundles_of
from spu_core.commands.output import (
    STANDARD,
    AsJson,
    check_table_name,
    plain,
    progress_bar,
    read_text,
    rows_input,
    say,
    write_output,
)
from spu_core.commands.scale import EngineName, Scheduler, open_input, score_on_cluster, tell_way
from spu_core.engines.places import Engine, open_place
from spu_core.engines.study import Study
from spu_core.errors import SpuError
from spu_core.export import Bundle, ScoreReport, Scoring, save_bundle
from spu_core.export.flagging import FLAG_BY
from spu_core.export.scoring import score_stream
from spu_core.models import METHODS
from spu_core.rules import RuleSet
from spu_core.training import Candidate, Comparison, Run, TrainConfig, TrainPlan, TrainProgress, compare_runs

DEFAULT_METHODS = ("fused", "lightgbm", "labeled_vs_rest", "weighted_elkan_noto", "rule_score")


def add_to(app: typer.Typer) -> None:
    """Register the commands of this file."""
    app.command("plan")(plan)
    app.command("train")(train)
    app.command("compare")(compare)
    app.command("score")(score)


def _methods(start: str) -> list[tuple[str, str]]:
    return [(key, entry.title) for key, entry in METHODS.items() if key.startswith(start)]


def _flag_ways(start: str) -> list[str]:
    return [way for way in FLAG_BY if way.startswith(start)]


def plan(
    file: Annotated[
        str, typer.Argument(help="The table to train on, a file or a folder of Parquet files; - for standard input.")
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", help="Where to put the study (JSON); - for standard output.")
    ],
    rules: Annotated[str | None, typer.Option(help="A rule set as JSON.")] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="A method; may be given several times.", autocompletion=_methods)
    ] = None,
    role: Annotated[list[str] | None, typer.Option(help="column=role; may be given several times.")] = None,
    folds: Annotated[int, typer.Option(help="Number of folds.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of folds and models.")] = 0,
    out_of_time: Annotated[
        float, typer.Option(help="Share of the latest rows to judge models on, such as 0.2; needs a time column.")
    ] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Write a study: roles, rules, candidates and settings, ready for `spu train`."""
    table = open_input(file)
    if role:
        table = table.with_roles(dict(_pair(entry) for entry in role))
    candidates = tuple(Candidate(key) for key in method or DEFAULT_METHODS)
    chosen = None if rules is None else RuleSet.from_json(read_text(rules))
    config = TrainConfig(folds=folds, seed=seed, out_of_time=out_of_time)
    study = Study.of(table, chosen, TrainPlan(config, candidates))
    write_output(study.to_json().encode(), output)
    value = {"study": output, "candidates": [candidate.name for candidate in candidates], "rows": len(table)}
    say(value, f"{output}: {len(candidates)} candidates on {len(table):,} rows", as_json, beside=output)


def train(
    config: Annotated[
        str, typer.Argument(help="A study as JSON, from `spu plan` or the dashboard; - for standard input.")
    ],
    data: Annotated[
        str, typer.Option(help="The table to train on, a file or a folder of Parquet files; - for standard input.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the bundles, one per candidate.")],
    engine: EngineName = None,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> None:
    """Train all candidates of a study; the same study on the same rows gives the same scores as the dashboard."""
    if config == data == STANDARD:
        raise SpuError("Study and rows cannot both come from standard input; give one of them as a file.")
    study = Study.from_json(read_text(config))
    table = study.prepare(open_input(data))
    where = Engine.chosen(engine, scheduler)
    tell_way(where, table, study)
    output.mkdir(parents=True, exist_ok=True)
    bundles: list[Path] = []
    runs: list[Run] = []
    errors: dict[str, str | None] = {}
    with progress_bar(as_json, "training") as show, open_place(where, table) as place:

        def tell(progress: TrainProgress) -> None:
            show(progress.share, f"{progress.candidate}, {progress.step}")

        for run, bundle in study.run(table, tell, place=place):
            if bundle is None:
                errors[run.name] = run.error
            else:
                runs.append(run)
                target = output / f"{len(runs):02d}-{run.candidate.method}.spu"
                bundles.append(save_bundle(_with_fingerprint(bundle, table.fingerprint), target))
    comparison = compare_runs(runs) if runs else None
    changed = bool(study.fingerprint) and study.fingerprint != table.fingerprint
    value = {
        "bundles": [str(path) for path in bundles],
        "errors": errors,
        "rows_differ": changed,
        "comparison": None if comparison is None else _summary(comparison),
    }
    say(value, "\n".join(_train_words(bundles, errors, changed, comparison)), as_json)


def compare(runs: RunNames, workspace: Folder = None, as_json: AsJson = False) -> None:
    """Compare trained runs on the soft labels they share: leaderboard, what can be told apart, the verdict."""
    comparison = compare_runs([bundle.run for bundle in bundles_of(runs, workspace)])
    say(_summary(comparison), "\n".join(_comparison_words(comparison)), as_json)


def score(
    run: RunName,
    file: Annotated[
        str,
        typer.Argument(help="New rows: CSV, Parquet or Excel; - for standard input; a folder with --engine dask."),
    ],
    output: Annotated[
        str,
        typer.Option("--output", "-o", help="Where to: .csv, .parquet, - for standard output, or a new folder."),
    ],
    flag_by: Annotated[
        str,
        typer.Option(help="Flag by the stored 'threshold' or the stored 'share'.", autocompletion=_flag_ways),
    ] = "threshold",
    raw: Annotated[bool, typer.Option("--raw", help="Do not neutralise formulas in text cells.")] = False,
    workspace: Folder = None,
    engine: EngineName = None,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> None:
    """Score new rows: score, flag, rank, reasons; with hints where they differ from the training rows."""
    scoring = Scoring(flag_by=flag_by)
    if not Path(file).is_dir():
        check_table_name(output)
    [bundle] = bundles_of([run], workspace)
    if Path(file).is_dir() and (where := Engine.chosen(engine, scheduler)).name == "dask":
        found = score_on_cluster(where, bundle, file, output, scoring)
        say(_score_value(found), "\n".join(found.notes), as_json)
        return
    check_table_name(output)
    source = rows_input(file)
    if output == STANDARD:
        found = score_stream(bundle, source, sys.stdout, scoring, raw=raw)
    else:
        with progress_bar(as_json, "reading") as show:
            found = bundle.score_file(
                source, output, scoring, raw=raw, on_progress=lambda at: show(at.share, f"{at.step}, {at.rows:,} rows")
            )
    say(_score_value(found), "\n".join(found.notes), as_json, beside=output)


def _score_value(report: ScoreReport) -> dict[str, object]:
    return {**plain(report), "flag_rate": report.flag_rate, "notes": list(report.notes)}


def _with_fingerprint(bundle: Bundle, fingerprint: str) -> Bundle:
    """A workspace that has the same table then knows the bundle as one of its own."""
    return bundle.with_passport(replace(bundle.passport, fingerprint=fingerprint))


def _pair(entry: str) -> tuple[str, str]:
    column, equals, role = entry.rpartition("=")
    if not equals:
        raise SpuError(f"--role wants column=role, got {entry!r}.")
    return column, role


def _summary(comparison: Comparison) -> dict[str, object]:
    return {
        "headline": comparison.headline,
        "leaderboard": plain(comparison.leaderboard),
        "among_best": list(comparison.among_best),
        "pairs": plain(comparison.pairs_table),
        "verdict": comparison.verdict.sentence,
        "disagreements": list(comparison.disagreements),
        "notes": list(comparison.notes),
    }


def _comparison_words(comparison: Comparison) -> list[str]:
    shown = ["name", "auc_spu", "auc_spu_low", "auc_spu_high", "share_of_ceiling", "known_positive_auc", "true_auc"]
    table = comparison.leaderboard
    columns = [name for name in shown if name in table.columns]
    lines = [table[columns].to_string(index=False, float_format=lambda value: f"{value:.3f}"), ""]
    if comparison.headline is not None:
        lines = [comparison.headline, "", *lines]
    if len(comparison.among_best) > 1:
        lines.append(f"May be the best by AUC_SPU (95 %): {', '.join(comparison.among_best)}")
    notes = [note for note in comparison.notes if note != comparison.headline]
    return [*lines, comparison.verdict.sentence, *comparison.disagreements, *notes]


def _train_words(
    bundles: list[Path], errors: dict[str, str | None], changed: bool, comparison: Comparison | None
) -> list[str]:
    lines = [f"{path}" for path in bundles]
    lines += [f"{name} failed: {error}" for name, error in errors.items()]
    if changed:
        lines.append("These are not the rows that the study was made for: their fingerprints differ.")
    return lines if comparison is None else [*lines, "", *_comparison_words(comparison)]
