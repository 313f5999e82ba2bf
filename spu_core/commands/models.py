"""Commands on models: train a study, compare its runs, export one, score new rows, write a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spu_core.commands.output import AsJson, plain, read_input, read_text, say, training_bar
from spu_core.engines.study import Study
from spu_core.errors import BundleError, SpuError
from spu_core.export import Bundle, Scoring, export_onnx, load_bundle, model_card, save_bundle, write_folder
from spu_core.rules import RuleSet
from spu_core.training import Candidate, Comparison, Run, TrainConfig, TrainPlan, compare_runs

DEFAULT_METHODS = ("fused", "lightgbm", "labeled_vs_rest", "weighted_elkan_noto", "rule_score")
BundlePaths = Annotated[list[Path], typer.Argument(help="Bundles (.spu) of one table.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands of this file."""
    app.command("plan")(plan)
    app.command("train")(train)
    app.command("compare")(compare)
    app.command("export")(export)
    app.command("score")(score)
    app.command("report")(report)


def plan(
    file: Annotated[str, typer.Argument(help="The table to train on.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to put the study (JSON).")],
    rules: Annotated[Path | None, typer.Option(help="A rule set as JSON.")] = None,
    method: Annotated[list[str] | None, typer.Option(help="A method; may be given several times.")] = None,
    role: Annotated[list[str] | None, typer.Option(help="column=role; may be given several times.")] = None,
    folds: Annotated[int, typer.Option(help="Number of folds.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of folds and models.")] = 0,
) -> None:
    """Write a study: roles, rules, candidates and settings, ready for `spu train`."""
    table = read_input(file)
    if role:
        table = table.with_roles(dict(_pair(entry) for entry in role))
    candidates = tuple(Candidate(key) for key in method or DEFAULT_METHODS)
    chosen = None if rules is None else RuleSet.from_json(read_text(rules))
    study = Study.of(table, chosen, TrainPlan(TrainConfig(folds=folds, seed=seed), candidates))
    output.write_text(study.to_json(), encoding="utf-8")
    typer.echo(f"{output}: {len(candidates)} candidates on {len(table):,} rows")


def train(
    config: Annotated[Path, typer.Argument(help="A study as JSON, from `spu plan` or the dashboard.")],
    data: Annotated[str, typer.Option(help="The table to train on; - for standard input.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the bundles, one per candidate.")],
    as_json: AsJson = False,
) -> None:
    """Train all candidates of a study; the same study on the same rows gives the same scores as the dashboard."""
    study = Study.from_json(read_text(config))
    table = study.prepare(read_input(data))
    output.mkdir(parents=True, exist_ok=True)
    bundles: list[Path] = []
    runs: list[Run] = []
    errors: dict[str, str | None] = {}
    with training_bar(as_json) as show:
        for run, bundle in study.run(table, show):
            if bundle is None:
                errors[run.name] = run.error
            else:
                runs.append(run)
                bundles.append(save_bundle(bundle, output / f"{len(runs):02d}-{run.candidate.method}.spu"))
    comparison = compare_runs(runs) if runs else None
    changed = bool(study.fingerprint) and study.fingerprint != table.fingerprint
    value = {
        "bundles": [str(path) for path in bundles],
        "errors": errors,
        "rows_differ": changed,
        "comparison": None if comparison is None else _summary(comparison),
    }
    say(value, "\n".join(_train_words(bundles, errors, changed, comparison)), as_json)


def compare(bundles: BundlePaths, as_json: AsJson = False) -> None:
    """Compare trained runs on the soft labels they share: leaderboard, what can be told apart, the verdict."""
    comparison = compare_runs([load_bundle(path).run for path in bundles])
    say(_summary(comparison), "\n".join(_comparison_words(comparison)), as_json)


def export(
    bundle: Annotated[Path, typer.Argument(help="A bundle (.spu).")],
    output: Annotated[Path, typer.Option("--output", "-o", help="A folder; or a .md card, or an .onnx model.")],
    rows: Annotated[str | None, typer.Option(help="Rows to prove an ONNX model on.")] = None,
) -> None:
    """Write a bundle as a folder with a stand-alone scoring script, as a model card, or as ONNX."""
    loaded = load_bundle(bundle)
    frame = None if rows is None else read_input(rows).frame
    if output.suffix == ".onnx":
        if frame is None:
            raise BundleError("An ONNX model is proven on real rows before it is written; name them with --rows FILE.")
        output.write_bytes(export_onnx(loaded, frame).data)
    elif output.suffix == ".md":
        output.write_text(model_card(loaded), encoding="utf-8")
    else:
        write_folder(loaded, output, frame)
    typer.echo(str(output))


def score(
    bundle: Annotated[Path, typer.Argument(help="A bundle (.spu).")],
    file: Annotated[str, typer.Argument(help="New rows: CSV, Parquet or Excel.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to: .csv or .parquet.")],
    flag_by: Annotated[str, typer.Option(help="Flag by the stored 'threshold' or the stored 'share'.")] = "threshold",
    raw: Annotated[bool, typer.Option("--raw", help="Do not neutralise formulas in text cells.")] = False,
    as_json: AsJson = False,
) -> None:
    """Score new rows: score, flag, rank, reasons; with hints where they differ from the training rows."""
    found = load_bundle(bundle).score_file(Path(file), output, Scoring(flag_by=flag_by), raw=raw)
    say(found, str(found), as_json)


def report(
    bundles: BundlePaths,
    output: Annotated[Path, typer.Option("--output", "-o", help="An .html file.")] = Path("report.html"),
    title: Annotated[str, typer.Option(help="Title of the report.")] = "Comparison report",
) -> None:
    """Write one self-contained HTML file with the charts of a comparison, to be mailed and opened offline."""
    from spu_core.export.report import report_html

    loaded: list[Bundle] = [load_bundle(path) for path in bundles]
    comparison = compare_runs([bundle.run for bundle in loaded])
    best = next(bundle for bundle in loaded if bundle.name == comparison.best.name)
    output.write_text(report_html(comparison, best, title=title), encoding="utf-8")
    typer.echo(str(output))


def _pair(entry: str) -> tuple[str, str]:
    column, equals, role = entry.rpartition("=")
    if not equals:
        raise SpuError(f"--role wants column=role, got {entry!r}.")
    return column, role


def _summary(comparison: Comparison) -> dict[str, object]:
    return {
        "leaderboard": plain(comparison.leaderboard),
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
    return [*lines, comparison.verdict.sentence, *comparison.disagreements, *comparison.notes]


def _train_words(
    bundles: list[Path], errors: dict[str, str | None], changed: bool, comparison: Comparison | None
) -> list[str]:
    lines = [f"{path}" for path in bundles]
    lines += [f"{name} failed: {error}" for name, error in errors.items()]
    if changed:
        lines.append("These are not the rows that the study was made for: their fingerprints differ.")
    return lines if comparison is None else [*lines, "", *_comparison_words(comparison)]
