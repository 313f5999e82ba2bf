"""Commands on the reliability of a run: `spu trust`, `echo` and `audit`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer

from spu_core.commands.command_io import (
    AsJson,
    Folder,
    RunName,
    RunNames,
    StoredRunName,
    StoredRunNames,
    audited,
    bundles_of,
    check_table_name,
    find_run,
    is_file,
    origin_of,
    plain,
    print_result,
    read_input,
    read_text,
    write_frame,
    write_output,
)
from spu_core.engines import run_in_process
from spu_core.engines.audit_results import (
    AuditResult,
    audit_result,
    checked_rows,
    keep_verdicts,
    population_of,
    save_audit,
)
from spu_core.engines.jobs.retraining_checks import echo_job, echo_result
from spu_core.engines.stored_runs import stored_bundle, stored_runs
from spu_core.errors import AssumptionError, SpuError, nearest_hint
from spu_core.labels import SoftLabels
from spu_core.tables import Table
from spu_core.training import Run, compare_runs, recommend
from spu_core.trust import (
    QUESTIONS,
    TARGETS,
    TREATMENTS,
    AuditPlan,
    CheckedRows,
    Population,
    WhatIf,
    check_assumptions,
    draw_audit,
    estimate_audit,
    forecast,
    gamma_bounds,
    judge_runs,
    outlook_table,
    plan_audit,
    read_verdicts,
    review_list,
)
from spu_core.trust.audit.totals import METHODS
from spu_core.trust.audit.verdicts import CONFIG, HIDDEN_ROLES, VerdictFile, label_studio_tasks, read_label_studio
from spu_core.workspace import DatasetRecord, RuleSetVersion, RunRecord, Workspace

audit_commands = typer.Typer(
    help="Audits: choose rows to check by hand, and estimate figures from the verdicts.", no_args_is_help=True
)
PlanFile = Annotated[str, typer.Option("--plan", help="The plan (JSON): written by `plan`, read by `estimate`.")]
TargetName = Annotated[str, typer.Option(help=f"The figure to estimate best: {', '.join(TARGETS)}.")]
Expected = Annotated[float | None, typer.Option("--prior", help="The share of positives to expect, where known.")]


QuestionName = Annotated[str, typer.Option(help=f"What to find out: {', '.join(QUESTIONS)}.")]
RivalName = Annotated[str | None, typer.Option(help="The other run, for which_better.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands of this file."""
    app.command("trust")(trust)
    app.command("echo")(echo)
    app.add_typer(audit_commands, name="audit")


def trust(
    run: RunName,
    prior: Annotated[float | None, typer.Option(help="π: the share of true positives to suppose.")] = None,
    positive_mean: Annotated[float | None, typer.Option(help="S_P: the mean soft label of true positives.")] = None,
    workspace: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show what AUC_SPU implies about the true AUC under Theorem 2: a what-if, not an estimate."""
    bundle = bundles_of([run], workspace)[0]
    what_if = WhatIf.of_run(bundle.run, bundle.point.threshold)
    start = what_if.default()
    supposed = start[0] if prior is None else prior
    low, high = what_if.region.positive_means(supposed)
    implied = what_if.at(supposed, 0.5 * (low + high) if positive_mean is None else positive_mean)
    value = {
        "auc_spu": what_if.auc_spu,
        "mean_soft_label": what_if.mean,
        "prior": implied.link.prior,
        "positive_mean": implied.link.positive_mean,
        "negative_mean": implied.link.negative_mean,
        "positive_mean_allowed": [low, high],
        "implied": {"true_auc": implied.true_auc, "tpr": implied.tpr, "fpr": implied.fpr},
        "is_refuted": implied.is_refuted,
        "sentence": implied.sentence,
    }
    spu = what_if.auc_spu
    words = [
        f"AUC_SPU {spu.estimate:.3f} ({spu.low:.3f} to {spu.high:.3f}), E[S] {what_if.mean:.3f}",
        f"With π = {supposed:.3f}, S_P may lie above {low:.3f} and up to {high:.3f}.",
        implied.sentence,
        "A what-if: rules usually break its assumption; `spu audit` tests it.",
    ]
    print_result(value, "\n".join(words), as_json)


def echo(
    run: StoredRunName,
    workspace: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Check whether a stored run only repeats the rules: train it with and without the columns that they read."""
    with Workspace.open(workspace) as opened:
        record = find_run(opened, run)
        done = run_in_process(opened, echo_job(record, opened.datasets.get(record.dataset), _rules_of(opened, record)))
    report = echo_result(done)
    print_result({**report.to_dict(), "is_echo": report.is_echo, "sentence": report.sentence}, report.sentence, as_json)


@audit_commands.command("outlook")
def outlook(
    run: RunName,
    target: TargetName = "true_auc",
    prior: Expected = None,
    workspace: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show the expected interval for each number of checks, before any row is checked."""
    bundle = bundles_of([run], workspace)[0]
    table = outlook_table(Population.of_run(bundle.run, bundle.point.threshold, prior=prior), target)
    print_result(table, table.to_string(index=False, float_format=lambda value: f"{value:.3f}"), as_json)


@audit_commands.command("plan")
def plan(
    run: RunName,
    data: Annotated[str, typer.Option(help="The table that the run was trained on.")],
    output: Annotated[str, typer.Option("--output", "-o", help="The review list: .csv, .parquet or -.")],
    plan_file: PlanFile,
    checks: Annotated[int, typer.Option(help="How many rows can be checked by hand.")] = 200,
    target: TargetName = "true_auc",
    prior: Expected = None,
    seed: Annotated[int, typer.Option(help="The same seed draws the same rows.")] = 0,
    hide: Annotated[
        list[str] | None, typer.Option(help="A column that reviewers must not see, such as a label.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the audit in the workspace, too.")] = False,
    workspace: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Choose rows to check: write a review list with strata and probabilities, and the plan for `estimate`."""
    check_table_name(output)
    bundle = bundles_of([run], workspace)[0]
    population = Population.of_run(bundle.run, bundle.point.threshold, prior=prior)
    drawn = plan_audit(population, checks, target, seed=seed, prior=prior)
    table = _rows_of(data, bundle.run)
    write_frame(review_list(table, drawn).drop(columns=_hidden(table, hide or [])), output)
    write_output(drawn.to_json().encode(), plan_file)
    kept = _keep_plan(run, drawn, workspace) if keep else None
    value = {"audit": drawn.code, "checks": drawn.checks, "list": output, "plan": plan_file, "kept_as": kept}
    words = f"{output}: {drawn.checks:,} rows of audit {drawn.code}; {plan_file} holds the plan"
    print_result(value, words if kept is None else f"{words}; kept as {kept}", as_json, beside=output)


@audit_commands.command("forecast")
def forecast_checks(
    run: RunName,
    question: QuestionName = "how_good",
    rival: RivalName = None,
    workspace: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show how many checks give which precision, for one of three questions."""
    names = [name for name in (run, rival) if name is not None]
    if any(map(is_file, names)):
        # A bundle has no dataset, so no rows of it were checked before.
        rows = [Population.of_run(bundle.run, bundle.point.threshold) for bundle in bundles_of(names, workspace)]
        found = forecast(rows[0], question, rival=rows[1] if rival is not None else None)
    else:
        with Workspace.open(workspace) as opened:
            asked = _Asked.of(opened, run, rival)
            found = forecast(asked.population, question, rival=asked.rival, checked=asked.checked)
    numbers = found.table.to_string(index=False, float_format=lambda value: f"{value:.3f}")
    middle = int(found.table["checks"].iloc[len(found.table) // 2]) if len(found.table) else 0
    said = found.sentence(middle) if middle else "There are too few rows to check."
    print_result({"sentence": said, "table": plain(found.table)}, f"{numbers}\n\n{said}", as_json)


@audit_commands.command("draw")
def draw(
    run: StoredRunName,
    output: Annotated[str, typer.Option("--output", "-o", help="The review list: .csv, .parquet or -.")],
    checks: Annotated[int, typer.Option(help="How many rows to draw in this batch.")] = 100,
    question: QuestionName = "how_good",
    rival: RivalName = None,
    looks: Annotated[int, typer.Option(help="How often you will look at the result before the audit ends.")] = 1,
    seed: Annotated[int, typer.Option(help="The same seed draws the same rows.")] = 0,
    label_studio: Annotated[
        str | None, typer.Option(help="Also write Label Studio tasks to this .json file, and the interface as .xml.")
    ] = None,
    workspace: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Draw a batch of rows to check and keep it with the dataset. Verdicts so far direct the next batch."""
    check_table_name(output)
    with Workspace.open(workspace) as opened:
        asked = _Asked.of(opened, run, rival)
        drawn = draw_audit(
            asked.population, checks, question, rival=asked.rival, checked=asked.checked,
            table_rows=asked.dataset.n_rows, looks=looks, seed=seed,
        )  # fmt: skip
        kept = save_audit(opened, asked.record, drawn, _rules_of(opened, asked.record))
        table = opened.datasets.load(asked.dataset.id)
        listed = review_list(table, drawn)
        if asked.checked is not None:
            # A row that was checked for an earlier batch needs no second check.
            listed = listed[~listed["row"].isin(asked.checked.row)]
        write_frame(listed, output)
        if label_studio is not None:
            write_output(label_studio_tasks(table, drawn, rows=listed["row"]).encode(), label_studio)
            write_output(CONFIG.encode(), str(Path(label_studio).with_suffix(".xml")))
    how = "simple random checks" if drawn.is_random else "rows that tell most are drawn more often"
    value = {"audit": kept.id, "code": drawn.code, "checks": len(listed), "list": output, "random": drawn.is_random}
    words = f"{output}: {len(listed):,} rows ({how}); kept as {kept.id}"
    print_result(value, words, as_json, beside=output)


@audit_commands.command("verdicts")
def verdicts_of(
    audit: Annotated[str, typer.Argument(help="Id of the audit, as `draw` printed it.")],
    lists: Annotated[list[str], typer.Argument(help="Filled review lists, or Label Studio exports (.json).")],
    workspace: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Store the verdicts of filled review lists or of Label Studio exports with the dataset."""
    with Workspace.open(workspace) as opened:
        record = opened.audits.get(audit)
        drawn = AuditPlan.from_json(record.plan)
        readings = [_read_list(name, drawn) for name in lists]
        kept = sum(keep_verdicts(opened, record, reading) for reading in readings)
        done = len({item.row for item in opened.audits.verdicts(audit)})
    words = f"{kept:,} verdicts stored; {done:,} of {drawn.checks:,} rows of this audit are checked"
    print_result({"stored": kept, "checked": done, "checks": drawn.checks}, words, as_json)


@audit_commands.command("result")
def audit_report(
    runs: StoredRunNames,
    treatment: Annotated[str, typer.Option(help=f"Split verdicts: {', '.join(TREATMENTS)}.")] = "mean",
    method: Annotated[str, typer.Option(help=f"{' or '.join(METHODS)}.")] = "assisted",
    workspace: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show what all checked rows of the dataset say of these runs: true figures and paired differences."""
    with Workspace.open(workspace) as opened:
        records = [find_run(opened, name) for name in runs]
        dataset = opened.datasets.get(records[0].dataset)
        checked = checked_rows(opened, dataset, treatment=treatment)  # type: ignore[arg-type]
        report = judge_runs(stored_runs(opened, [each.id for each in records]), checked, method=method)
    value = {
        "sentence": report.sentence,
        "figures": plain(report.table),
        "pairs": plain(report.pair_table),
        "missing": report.missing,
        "disagreement": checked.agreement.sentence,
        "notes": list(checked.notes),
    }
    shown = report.table[["name", "title", "estimate", "low", "high"]]
    tables = [shown, *([report.pair_table] if report.pairs else [])]
    lines = [table.to_string(index=False, float_format=lambda number: f"{number:.3f}") for table in tables]
    words = [*("\n\n".join(lines), "", report.sentence, checked.agreement.sentence), *checked.notes]
    print_result(value, "\n".join(words), as_json)


@audit_commands.command("wrong-rules")
def wrong_rules(runs: RunNames, workspace: Folder = None, as_json: AsJson = False) -> None:
    """Show how wrong the soft labels may be before another of these runs can be better than the recommended one."""
    trained = [bundle.run for bundle in bundles_of(runs, workspace)]
    comparison = audited(compare_runs(trained), runs, workspace)
    recommended = recommend(comparison, origin=origin_of(runs, workspace, None)).model
    rows = trained[0].evaluation
    found = gamma_bounds(trained, SoftLabels.from_values(rows.soft_label, rows.is_labeled), leader=recommended)
    pairs = [{"first": each.first, "second": each.second, "tipping": each.tipping} for each in found.pairs]
    value = {"sentence": found.sentence, "leader": found.leader, "pairs": pairs, "bounds": plain(found.table)}
    lines = [found.table.to_string(index=False, float_format=lambda number: f"{number:.3f}"), ""]
    others = [each.sentence for each in found.pairs if each.sentence not in found.sentence]
    print_result(value, "\n".join([*lines, found.sentence, *others]), as_json)


def _read_list(name: str, plan: AuditPlan) -> VerdictFile:
    if name.lower().endswith(".json"):
        return read_label_studio(read_text(name), plan)
    return read_verdicts(read_input(name).frame, plan)


@dataclass(frozen=True, eq=False)
class _Asked:
    """The rows of a question: a stored run, its rival, and the rows of its dataset that were checked so far."""

    record: RunRecord
    dataset: DatasetRecord
    population: Population
    rival: Population | None
    checked: CheckedRows | None

    @classmethod
    def of(cls, workspace: Workspace, run: str, rival: str | None) -> _Asked:
        records = [find_run(workspace, name) for name in (run, rival) if name is not None]
        bundles = [stored_bundle(workspace, record.id) for record in records]
        rows = [Population.of_run(bundle.run, bundle.point.threshold) for bundle in bundles]
        dataset = workspace.datasets.get(records[0].dataset)
        try:
            checked = checked_rows(workspace, dataset)
        except AssumptionError:
            checked = None
        return cls(records[0], dataset, rows[0], rows[1] if len(rows) > 1 else None, checked)


@audit_commands.command("estimate")
def estimate(
    run: RunName,
    verdicts: Annotated[list[str], typer.Argument(help="Filled review lists; each reviewer may have one.")],
    plan_file: PlanFile,
    data: Annotated[str | None, typer.Option(help="The table, to test its columns for Assumption 2.")] = None,
    treatment: Annotated[str, typer.Option(help=f"Split verdicts: {', '.join(TREATMENTS)}.")] = "mean",
    method: Annotated[str, typer.Option(help=f"{' or '.join(METHODS)}.")] = "assisted",
    audit: Annotated[str | None, typer.Option(help="Keep the verdicts in this audit of the workspace.")] = None,
    workspace: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Estimate π, S_P, S_N, precision, recall and true AUC from verdicts, and test the paper's assumptions."""
    bundle = bundles_of([run], workspace)[0]
    drawn = AuditPlan.from_json(read_text(plan_file))
    readings = [read_verdicts(read_input(name).frame, drawn) for name in verdicts]
    if audit is not None:
        with Workspace.open(workspace) as opened:
            for reading in readings:
                keep_verdicts(opened, opened.audits.get(audit), reading)
    verdicts_read = tuple(item for reading in readings for item in reading.verdicts)
    how = {"treatment": treatment, "method": method}
    if data is None:
        found = estimate_audit(population_of(bundle.run, drawn), drawn, verdicts_read, **how)  # type: ignore[arg-type]
        result = AuditResult(found, check_assumptions(found), {})
    else:
        result = audit_result(bundle.run, _rows_of(data, bundle.run), drawn, verdicts_read, **how)  # type: ignore[arg-type]
    print_result(_value(result), "\n".join(_words(result)), as_json)


def _rows_of(source: str, run: Run) -> Table:
    """The table of the run; another number of rows is refused."""
    table = read_input(source)
    if len(table) != run.fold.size:
        raise SpuError(
            f"{source!r} has {len(table):,} rows, but the run was trained on {run.fold.size:,}; give that table."
        )
    return table


def _hidden(table: Table, names: list[str]) -> list[str]:
    unknown = [name for name in names if name not in table.frame.columns]
    if unknown:
        raise SpuError(
            f"The table has no column {unknown[0]!r} to hide. {nearest_hint(unknown[0], table.frame.columns)}"
        )
    return [name for name in names if table.roles.get(name) not in HIDDEN_ROLES]


def _keep_plan(run: str, drawn: AuditPlan, folder: Path | None) -> str:
    if is_file(run):
        raise SpuError("--keep needs a run of the workspace by its id; a bundle file has no workspace.")
    with Workspace.open(folder) as opened:
        record = find_run(opened, run)
        return save_audit(opened, record, drawn, _rules_of(opened, record)).id


def _rules_of(workspace: Workspace, record: RunRecord) -> RuleSetVersion | None:
    return None if record.rule_set is None else workspace.rule_sets.get(record.rule_set, record.rule_set_version)


def _value(result: AuditResult) -> dict[str, object]:
    found = result.estimate
    return {
        "figures": plain(found.table),
        "strata": plain(found.strata),
        "disagreement": found.agreement.sentence,
        "missing": found.missing,
        "assumptions": list(result.assumptions.sentences),
        "dependence": plain(result.assumptions.dependence),
        "truth": result.truth,
    }


def _words(result: AuditResult) -> list[str]:
    found = result.estimate
    shown: pd.DataFrame = found.table[["title", "estimate", "low", "high", "is_exact"]]
    lines = [shown.to_string(index=False, float_format=lambda value: f"{value:.3f}"), "", found.sentence]
    return [*lines, found.agreement.sentence, *result.assumptions.sentences]
