"""Commands on models: `spu advise`, `plan`, `train`, `features`, `compare`, `segments`, `score` and `monitor`."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from spu_core.bench.advice import advise_method
from spu_core.commands.command_io import (
    STANDARD,
    AsJson,
    Folder,
    Force,
    OriginName,
    Query,
    RunName,
    RunNames,
    StoredRunName,
    audited,
    bundles_of,
    check_table_name,
    is_file,
    open_input,
    opened_model,
    origin_of,
    plain,
    print_result,
    progress_bar,
    read_rules,
    read_study,
    refuse_overwriting,
    rows_input,
    table_text,
    write_output,
)
from spu_core.engines.executors import ENGINES, SCHEDULER_VARIABLE, Engine, open_cluster, open_executor, score_folder_on
from spu_core.engines.jobs.score import remember_scoring, scoring_history
from spu_core.engines.study import Study, soft_labels_of
from spu_core.engines.training_cost import plan_memory_on, refused_on
from spu_core.errors import SpuError, nearest_hint
from spu_core.export import Bundle, ScoreReport, Scoring, save_bundle
from spu_core.export.bundle_parts import FLAG_BY
from spu_core.export.monitoring import history_table, monitoring_verdict
from spu_core.export.score_report import DriftLevel
from spu_core.models import METHODS
from spu_core.tables import Table
from spu_core.training import (
    SHORTLIST,
    Candidate,
    Comparison,
    FeatureSelection,
    Recommendation,
    Run,
    TrainConfig,
    TrainPlan,
    TrainProgress,
    compare_runs,
    recommend,
    select_features,
    with_twins,
)
from spu_core.training.data_advice import advise
from spu_core.training.feature_selection import CAVEAT, DIRECTIONS, METRICS
from spu_core.training.views import segment_table, segment_values

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
    app.command("advise")(advise_on)
    app.command("plan")(plan)
    app.command("train")(train)
    app.command("features")(features)
    app.command("compare")(compare)
    app.command("segments")(segments)
    app.command("score")(score)
    app.command("monitor")(monitor)


def _methods(start: str) -> list[tuple[str, str]]:
    return [(key, entry.title) for key, entry in METHODS.items() if key.startswith(start)]


def _flag_rules(start: str) -> list[str]:
    return [name for name in FLAG_BY if name.startswith(start)]


def advise_on(
    file: Annotated[str, typer.Argument(help="The table, a file or a folder of Parquet files; - for standard input.")],
    rules: Annotated[str | None, typer.Option(help="A rule set as JSON.")] = None,
    query: Query = None,
    role: Annotated[list[str] | None, typer.Option(help="column=role; may be given several times.")] = None,
    origin: OriginName = None,
    as_json: AsJson = False,
) -> None:
    """Say what a table holds, which method and yardstick fit it, and what it cannot tell; nothing is trained."""
    table = open_input(file, query)
    if role:
        table = table.with_roles(dict(_pair(entry) for entry in role))
    soft_labels = None if rules is None else soft_labels_of(table, read_rules(rules))
    found = advise(table, soft_labels, origin=origin or "unknown")
    confirmed = int(table.is_labeled.sum())
    rules_known = "none" if soft_labels is None else "unknown"
    alike = advise_method(confirmed, origin=origin or "unknown", rules=rules_known).sentence if confirmed else None
    words = str(found) if alike is None else f"{found}\nBenchmark:\n  - {alike}"
    print_result({**plain(found), "benchmark": alike}, words, as_json)


def plan(
    file: Annotated[
        str, typer.Argument(help="The table to train on, a file or a folder of Parquet files; - for standard input.")
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", help="Where to put the study (JSON); - for standard output.")
    ],
    rules: Annotated[str | None, typer.Option(help="A rule set as JSON.")] = None,
    query: Query = None,
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
    """Write a study for `spu train`: roles, rules, candidates and settings."""
    table = open_input(file, query)
    if role:
        table = table.with_roles(dict(_pair(entry) for entry in role))
    chosen = None if rules is None else read_rules(rules)
    candidates = tuple(Candidate(key) for key in method or SHORTLIST)
    candidates = candidates if chosen is None else with_twins(candidates)
    config = TrainConfig(folds=folds, seed=seed, out_of_time=out_of_time)
    study = Study.of(table, chosen, TrainPlan(config, candidates))
    write_output(study.to_json().encode(), output)
    value = {"study": output, "candidates": [candidate.name for candidate in candidates], "rows": len(table)}
    print_result(value, f"{output}: {len(candidates)} candidates on {len(table):,} rows", as_json, beside=output)


def train(
    config: Annotated[
        str, typer.Argument(help="A study as JSON, from `spu plan` or the dashboard; - for standard input.")
    ],
    data: Annotated[
        str, typer.Option(help="The table to train on, a file or a folder of Parquet files; - for standard input.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the bundles, one per candidate.")],
    query: Query = None,
    force: Force = False,
    engine: EngineName = None,
    scheduler: Scheduler = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Processes that do the fits; by default as many as processors and memory allow."),
    ] = None,
    origin: OriginName = None,
    as_json: AsJson = False,
) -> None:
    """Train all candidates of a study; the same study on the same rows gives the same scores as the dashboard."""
    if config == data == STANDARD:
        raise SpuError("Study and rows cannot both come from standard input; give one of them as a file.")
    study = read_study(config)
    if output.is_dir():
        for known in sorted(output.glob("[0-9][0-9]-*.spu")):
            refuse_overwriting(known, force)
    table = study.prepare(open_input(data, query))
    where = Engine.chosen(engine, scheduler)
    _show_memory_plan(where, table, study)
    output.mkdir(parents=True, exist_ok=True)
    bundles: list[Path] = []
    runs: list[Run] = []
    errors: dict[str, str | None] = {}
    processes = study.processes(table, jobs)
    with progress_bar(as_json, "training") as show, open_executor(where, table, processes) as executor:

        def report(progress: TrainProgress) -> None:
            show(progress.share, f"{progress.candidate}, {progress.step}")

        for run, bundle in study.run(table, report, executor=executor):
            if bundle is None:
                errors[run.name] = run.error
            else:
                runs.append(run)
                target = output / f"{len(runs):02d}-{run.candidate.method}.spu"
                bundles.append(save_bundle(_with_fingerprint(bundle, table.fingerprint), target))
    comparison = compare_runs(runs) if runs else None
    found = None if comparison is None else recommend(comparison, origin=origin or "unknown")
    changed = bool(study.fingerprint) and study.fingerprint != table.fingerprint
    value = {
        "bundles": [str(path) for path in bundles],
        "errors": errors,
        "rows_differ": changed,
        "comparison": None if comparison is None or found is None else _summary(comparison, found),
    }
    words = [] if comparison is None or found is None else ["", *_comparison_text(comparison, found)]
    print_result(value, "\n".join([*_train_text(bundles, errors, changed), *words]), as_json)


def features(
    file: Annotated[str, typer.Argument(help="The table, a file or a folder of Parquet files; - for standard input.")],
    rules: Annotated[str | None, typer.Option(help="A rule set as JSON.")] = None,
    query: Query = None,
    method: Annotated[str, typer.Option(help="The method whose columns are selected.", autocompletion=_methods)] = (
        "lightgbm"
    ),
    role: Annotated[list[str] | None, typer.Option(help="column=role; may be given several times.")] = None,
    metric: Annotated[
        str, typer.Option(help=f"The figure that decides: {', '.join(METRICS)}.", autocompletion=lambda: list(METRICS))
    ] = "auc_spu",
    add: Annotated[
        bool, typer.Option("--add", help="Add columns to none, in place of dropping them from all.")
    ] = False,
    margin: Annotated[float, typer.Option(help="The loss of the figure that is accepted.")] = 0.005,
    folds: Annotated[int, typer.Option(help="Number of folds.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of folds and models.")] = 0,
    jobs: Annotated[
        int, typer.Option(min=-1, help="Processes that do the fits; -1 for as many as there are processors.")
    ] = -1,
    as_json: AsJson = False,
) -> None:
    """Find the columns that a model needs, by figures that need no truth."""
    table = open_input(file, query)
    if role:
        table = table.with_roles(dict(_pair(entry) for entry in role))
    soft_labels = soft_labels_of(table, None if rules is None else read_rules(rules))
    with progress_bar(as_json, "fitting") as show:
        found = select_features(
            table,
            soft_labels,
            method,
            TrainConfig(folds=folds, seed=seed),
            metric=metric,
            direction="add" if add else "drop",
            margin=margin,
            n_jobs=jobs,
            on_progress=show,
        )
    value = {"sentence": found.sentence, "columns": list(found.chosen.columns), "dropped": list(found.dropped)}
    value |= {part: plain(found.table(part)) for part in ("single", "path")}
    print_result({**value, "caveat": CAVEAT}, "\n".join(_feature_text(found)), as_json)


def _feature_text(found: FeatureSelection) -> list[str]:
    lines = [found.sentence, f"Columns: {', '.join(found.chosen.columns)}"]
    if found.dropped:
        lines.append(f"Not needed: {', '.join(found.dropped)}")
    change, heading = f"{found.metric}_change", METRICS[found.metric]
    for part, words in (("single", DIRECTIONS[found.direction]), ("path", "Sets of columns")):
        shown = found.table(part)[
            [
                "column" if part == "single" else "columns",
                found.metric,
                change,
                f"{found.metric}_low",
                f"{found.metric}_high",
            ]
        ]
        shown = shown.set_axis(["column" if part == "single" else "columns", heading, "change", "from", "to"], axis=1)
        lines += ["", words, table_text(shown)]
    return [*lines, "", CAVEAT]


def compare(runs: RunNames, origin: OriginName = None, workspace: Folder = None, as_json: AsJson = False) -> None:
    """Compare trained runs on the soft labels that they share: recommendation, leaderboard, differences."""
    comparison = audited(compare_runs([bundle.run for bundle in bundles_of(runs, workspace)]), runs, workspace)
    found = recommend(comparison, origin=origin_of(runs, workspace, origin))
    print_result(_summary(comparison, found), "\n".join(_comparison_text(comparison, found)), as_json)


def segments(
    run: RunName,
    file: Annotated[str, typer.Argument(help="The table that the run was trained on.")],
    by: Annotated[list[str], typer.Option(help="A column; may be given several times.")],
    query: Query = None,
    workspace: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Compare the parts of a table: AUC_SPU and the share of flagged rows, for each value or quarter of a column."""
    [bundle] = bundles_of([run], workspace)
    table = open_input(file, query)
    if len(table) != bundle.run.need_score().size:
        raise SpuError(
            f"{file!r} has {len(table):,} rows, but {bundle.name!r} was trained on {bundle.run.need_score().size:,}; "
            "give the table that it was trained on."
        )
    for column in by:
        if column not in table.roles:
            raise SpuError(f"There is no column {column!r} in {file!r}. {nearest_hint(column, table.roles)}")
    found = {
        column: segment_table(bundle.run, segment_values(table.values(column)), bundle.point.threshold) for column in by
    }
    print_result(found, "\n\n".join(segments_text(column, frame) for column, frame in found.items()), as_json)


def segments_text(column: str, frame: pd.DataFrame) -> str:
    """The table, with its warnings below it: beside the figures they are too wide for a terminal."""
    warnings = zip(frame["segment"], frame["warning"], strict=True)
    notes = [f"{segment}: {warning}" for segment, warning in warnings if isinstance(warning, str)]
    return "\n".join([f"By {column}:", table_text(frame.drop(columns="warning")), *notes])


def score(
    run: RunName,
    file: Annotated[
        str,
        typer.Argument(help="New rows, as `spu profile` reads them; - for standard input; a folder of Parquet files."),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="Where to: .csv, .parquet, - for standard output; with dask, a new folder."
        ),
    ],
    flag_by: Annotated[
        str,
        typer.Option(help="Flag by the stored 'threshold' or the stored 'share'.", autocompletion=_flag_rules),
    ] = "threshold",
    raw: Annotated[bool, typer.Option("--raw", help="Do not neutralise formulas in text cells.")] = False,
    workspace: Folder = None,
    engine: EngineName = None,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> None:
    """Score new rows: score, flag, rank and reasons; notes say where the rows differ from the training rows."""
    scoring = Scoring(flag_by=flag_by)
    if not Path(file).is_dir():
        check_table_name(output)
    [bundle] = bundles_of([run], workspace)
    if Path(file).is_dir() and (where := Engine.chosen(engine, scheduler)).name == "dask":
        found = _score_on_cluster(where, bundle, file, output, scoring)
        print_result(_score_value(found), "\n".join(found.notes), as_json)
        return
    check_table_name(output)
    source = rows_input(file)
    if output == STANDARD:
        found = bundle.score_file(source, sys.stdout, scoring, raw=raw)
    else:
        with progress_bar(as_json, "reading") as show:
            found = bundle.score_file(
                source, output, scoring, raw=raw, on_progress=lambda at: show(at.share, f"{at.step}, {at.rows:,} rows")
            )
    if not is_file(run):
        with opened_model(run, workspace) as stored:
            remember_scoring(stored.workspace, stored.record.id, Path(file).name, found)
    print_result(_score_value(found), "\n".join(found.notes), as_json, beside=output)


def monitor(
    run: StoredRunName,
    last: Annotated[int, typer.Option(min=1, help="Files to show, the newest ones.")] = 20,
    workspace: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show how the scored files of a run differ from its training rows; exit code 1 if the newest is a warning."""
    with opened_model(run, workspace) as stored:
        events = scoring_history(stored.workspace, stored.record.id)[-last:]
    level, sentence = monitoring_verdict(events)
    table = history_table(events)
    words = [table_text(table), ""] if events else []
    print_result({"level": level, "conclusion": sentence, "files": table}, "\n".join([*words, sentence]), as_json)
    if level is DriftLevel.WARNING:
        sys.exit(1)


def _score_on_cluster(engine: Engine, bundle: Bundle, source: str, target: str, scoring: Scoring) -> ScoreReport:
    """Score a folder of parquet files into another folder, file by file on the workers of a cluster."""
    with tempfile.TemporaryDirectory() as folder:
        data = save_bundle(bundle, Path(folder) / "model.spu").read_bytes()
    with open_cluster(engine.scheduler) as cluster:
        return score_folder_on(cluster, data, source, target, scoring)


def _show_memory_plan(engine: Engine, table: Table, study: Study) -> None:
    """Print the memory plan to standard error before the training, unless a table trains in memory and fits."""
    here = study.memory_plan(table)
    plan = plan_memory_on(engine, here)
    is_plain = engine.name == "here" and table.in_memory
    if not is_plain or not plan.fits:
        typer.echo(plan.text, file=sys.stderr)
    if refused := refused_on(engine, here, study.plan.candidates, study.plan.config):
        typer.echo(refused, file=sys.stderr)


def _score_value(report: ScoreReport) -> dict[str, object]:
    facts = {"flag_rate": report.flag_rate, "level": report.level, "conclusion": report.conclusion}
    return {**plain(report), **plain(facts), "notes": list(report.notes)}


def _with_fingerprint(bundle: Bundle, fingerprint: str) -> Bundle:
    """The bundle with the fingerprint of its table, so that a workspace with this table can import it as a run."""
    return bundle.with_details(replace(bundle.details, fingerprint=fingerprint))


def _pair(entry: str) -> tuple[str, str]:
    column, equals, role = entry.rpartition("=")
    if not equals:
        raise SpuError(f"--role wants column=role, got {entry!r}.")
    return column, role


def _summary(comparison: Comparison, found: Recommendation) -> dict[str, object]:
    return {
        "recommendation": plain(found),
        "headline": comparison.headline,
        "leaderboard": plain(found.ranked(comparison.leaderboard)),
        "pairs": plain(comparison.pairs_table),
        "disagreements": list(comparison.disagreements),
        "notes": list(comparison.notes),
    }


def _comparison_text(comparison: Comparison, found: Recommendation) -> list[str]:
    shown = ["name", "auc_spu", "auc_spu_low", "auc_spu_high", "share_of_ceiling", "known_positive_auc", "true_auc"]
    table = found.ranked(comparison.leaderboard)
    columns = [name for name in shown if table[name].notna().any()]
    lines = [f"Recommended: {found.model or 'no model'} ({found.confidence})", *found.sentences, ""]
    lines += [table_text(table[columns]), ""]
    notes = [note for note in comparison.notes if note not in found.sentences]
    return [*lines, *comparison.disagreements, *notes]


def _train_text(bundles: list[Path], errors: dict[str, str | None], changed: bool) -> list[str]:
    lines = [f"{path}" for path in bundles]
    lines += [f"{name} failed: {error}" for name, error in errors.items()]
    if changed:
        lines.append("These are not the rows that the study was made for: their fingerprints differ.")
    return lines
