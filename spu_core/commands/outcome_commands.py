"""Commands for the outcomes of checks: `spu queue`, `outcomes` and `feedback`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from spu_core.checks import check_choice
from spu_core.commands.command_io import (
    FEWEST_LETTERS,
    STANDARD,
    AsJson,
    Folder,
    find_run,
    plain,
    print_result,
    table_text,
    write_output,
)
from spu_core.engines import run_in_process
from spu_core.engines.outcome_learning import learn_from_outcomes, propose_feedback, retraining_job, what_changed
from spu_core.engines.outcome_loop import (
    QueueRequest,
    checks_in_loop,
    loop_queues,
    make_disagreement_queue,
    make_queue,
    old_enough,
    queue_csv,
    read_outcome_file,
    record_outcomes,
)
from spu_core.errors import SpuError, WorkspaceError
from spu_core.trust.outcomes.arms import compare_arms
from spu_core.trust.outcomes.feedback import FeedbackPlan
from spu_core.trust.outcomes.ratios import PERIODS, outcome_ratios, ratio_table, ratios_over_time
from spu_core.trust.outcomes.review_queue import SIDES, QueuePlan
from spu_core.workspace import DatasetRecord, QueueRecord, RuleSetVersion, Workspace

queues = typer.Typer(help="Review queues: make, list and export them.", no_args_is_help=True)
commands = typer.Typer(help="Outcomes of checks: record them, and compare models by them.", no_args_is_help=True)

DatasetName = Annotated[str, typer.Argument(metavar="DATASET", help="Id of a dataset, its start, or its name.")]
QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="Id of a queue, or its start.")]
Output = Annotated[str | None, typer.Option("--output", "-o", help="Where to put the CSV; - for standard output.")]
Blind = Annotated[
    bool, typer.Option("--blind", help="Users only, shuffled, so that reviewers do not know why a user was chosen.")
]


def add_to(app: typer.Typer) -> None:
    """Register the commands of this file."""
    app.add_typer(queues, name="queue")
    app.add_typer(commands, name="outcomes")
    app.command("feedback")(feedback)


@queues.command("make")
def make(
    dataset: DatasetName,
    run: Annotated[list[str], typer.Option(help="A run; give two to split the users between them.")],
    budget: Annotated[int, typer.Option(min=1, help="How many users to check.")],
    output: Output = None,
    random_share: Annotated[
        float, typer.Option(help="Share of users and checks that are chosen at random (R0).")
    ] = 0.1,
    seed: Annotated[int, typer.Option(help="Seed of the split; keep it from one queue to the next.")] = 0,
    again: Annotated[bool, typer.Option("--again", help="Users of earlier queues may be chosen again.")] = False,
    blind: Blind = False,
    workspace: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Make a queue of the users with the highest scores of one or two models, and of random users."""
    with Workspace.open(workspace) as opened:
        found = find_dataset(opened, dataset)
        runs = tuple(find_run(opened, name).id for name in run)
        turn = len(loop_queues(opened, found.id, runs)) + 1
        plan = QueuePlan(budget=budget, random_share=random_share, seed=seed, turn=turn)
        queue = make_queue(opened, QueueRequest(dataset=found.id, runs=runs, plan=plan, again=again))
        _write_queue(opened, queue, output, (blind, as_json))


@queues.command("disagreement")
def disagree(
    dataset: DatasetName,
    run: Annotated[str, typer.Option(help="The run whose scores are compared with the rules.")],
    budget: Annotated[int, typer.Option(min=1, help="How many rows.")] = 50,
    side: Annotated[str, typer.Option(help="both, model (suspects more) or rules (suspect more).")] = "both",
    output: Output = None,
    workspace: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Make a queue of the rows where a model and the rules disagree most."""
    check_choice(side, SIDES, "side", SpuError)
    with Workspace.open(workspace) as opened:
        found = find_dataset(opened, dataset)
        token = find_run(opened, run).id
        queue = make_disagreement_queue(opened, found.id, token, budget=budget, side=side)
        _write_queue(opened, queue, output, (False, as_json))


@queues.command("list")
def list_queues(dataset: DatasetName, workspace: Folder = None, as_json: AsJson = False) -> None:
    """List the queues of a dataset and its ancestors, and those that their models filled from other datasets."""
    with Workspace.open(workspace) as opened:
        found = find_dataset(opened, dataset)
        listed = [_summary(opened, queue) for queue in loop_queues(opened, found.id)]
    words = [f"{each['id']}  {each['name']}: {each['checks']} users, {each['outcomes']} outcomes" for each in listed]
    print_result(listed, "\n".join(words) or "No queue was made yet.", as_json)


@queues.command("export")
def export_queue(
    queue: QueueName,
    output: Annotated[str, typer.Option("--output", "-o", help="A .csv file; - for standard output.")],
    blind: Blind = False,
    workspace: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Write a queue as CSV that is safe in a spreadsheet."""
    with Workspace.open(workspace) as opened:
        data = queue_csv(opened, find_queue(opened, queue).id, blind=blind).encode()
    write_output(data, output)
    print_result({"output": output, "bytes": len(data)}, output, as_json, beside=output)


@commands.command("record")
def record(
    queue: QueueName,
    file: Annotated[Path, typer.Argument(help="Outcomes: columns user and outcome, and day if known.")],
    ignore_unknown: Annotated[
        bool, typer.Option("--ignore-unknown", help="Record the rest where users are not in the queue.")
    ] = False,
    workspace: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Record the outcomes of a queue; earlier outcomes are kept."""
    with Workspace.open(workspace) as opened:
        found = read_outcome_file(opened, find_queue(opened, queue).id, file)
        if found.unknown and not ignore_unknown:
            raise WorkspaceError(f"{found.sentence} Nothing was recorded; correct them, or give --ignore-unknown.")
        many = record_outcomes(opened, find_queue(opened, queue).id, found.lines, source=file.name)
    value = {"recorded": many, "read": len(found.lines), "open": found.open, "unknown": list(found.unknown)}
    print_result(value, f"{found.sentence} {many:,} of them are new.", as_json)


@commands.command("ratios")
def ratios(
    dataset: DatasetName,
    over_time: Annotated[str | None, typer.Option(help="By day, week or month.")] = None,
    min_age: Annotated[
        int, typer.Option(min=0, help="Only checks that were requested at least so many days ago (label delay).")
    ] = 0,
    workspace: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Show surrender, pass and failure ratios of each arm, with confidence intervals clustered by user."""
    if over_time is not None:
        check_choice(over_time, PERIODS, "over_time", SpuError)
    with Workspace.open(workspace) as opened:
        found = checks_in_loop(opened, find_dataset(opened, dataset).id)
    if min_age:
        found = old_enough(found, datetime.now(UTC).date().isoformat(), min_age)
    arms = outcome_ratios(found.checks)
    table = ratio_table(arms) if over_time is None else ratios_over_time(found.checks, every=over_time)
    notes = [f"{each.arm}: from {each.comes_from}." for each in arms]
    value = {"ratios": plain(table), "comes_from": {each.arm: each.comes_from for each in arms}, "open": found.open}
    words = table_text(table, 4)
    print_result(value, "\n".join([words, "", *notes]), as_json)


@commands.command("compare")
def compare(
    dataset: DatasetName,
    first: Annotated[str, typer.Argument(help="An arm: the name of a model.")],
    second: Annotated[str, typer.Argument(help="Another arm, or random.")],
    workspace: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Compare two arms by a two-sample test clustered by user."""
    with Workspace.open(workspace) as opened:
        found = compare_arms(checks_in_loop(opened, find_dataset(opened, dataset).id).checks, first, second)
    value = {**plain(found), "sentence": found.sentence, "notes": list(found.notes)}
    print_result(value, "\n".join([found.sentence, *found.notes]), as_json)


def feedback(
    dataset: DatasetName,
    rules: Annotated[str | None, typer.Option(help="Id of the rule set, or its name.")] = None,
    until: Annotated[str, typer.Option(help="Only outcomes up to this day, e.g. 2026-03-31.")] = "",
    use_holdout: Annotated[bool, typer.Option("--use-holdout", help="Label positives of the random holdout.")] = False,
    raise_beliefs: Annotated[
        bool, typer.Option("--raise-beliefs", help="Raise beliefs that the outcomes show to be too low.")
    ] = False,
    preview: Annotated[bool, typer.Option("--preview", help="Show what would change, and store nothing.")] = False,
    retrain: Annotated[str | None, typer.Option(metavar="RUN", help="Train this run again, and compare.")] = None,
    workspace: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Learn from outcomes: store a new dataset, and new rules if they change. Optionally train a run again."""
    plan = FeedbackPlan(until=until, use_holdout=use_holdout, raise_beliefs=raise_beliefs)
    with Workspace.open(workspace) as opened:
        found = find_dataset(opened, dataset)
        version = None if rules is None else find_rules(opened, rules)
        if preview:
            proposed = propose_feedback(opened, found.id, version, plan)
            print_result(
                {"summary": proposed.summary, "ratios": plain(proposed.ratios)}, _words(proposed.summary), as_json
            )
            return
        learnt = learn_from_outcomes(opened, found.id, version, plan)
        value: dict[str, Any] = {"dataset": learnt.dataset.id, "rules": None, "summary": learnt.feedback.summary}
        if learnt.rules is not None:
            value["rules"] = {"id": learnt.rules.id, "version": learnt.rules.number}
        words = [f"{learnt.dataset.id}  {learnt.dataset.name}", _words(learnt.feedback.summary)]
        if retrain is not None:
            value["retrained"], sentence = _retrain(opened, find_run(opened, retrain).id, learnt.record)
            words.append(sentence)
    print_result(value, "\n".join(words), as_json)


def find_dataset(workspace: Workspace, name: str) -> DatasetRecord:
    """The dataset of an id, of the start of one, or the newest with this name."""
    known = workspace.datasets.list()
    by_id = [each for each in known if each.id.startswith(name)] if len(name) >= FEWEST_LETTERS else []
    by_name = [each for each in known if each.name == name]
    if len(by_id) == 1 or by_name:
        return by_id[0] if len(by_id) == 1 else by_name[0]
    raise WorkspaceError(f"No dataset is called {name[:80]!r} or has such an id; `spu workspace list` shows them.")


def find_rules(workspace: Workspace, name: str) -> RuleSetVersion:
    """The current version of the rule set of an id, of the start of one, or the newest with this name."""
    known = workspace.rule_sets.list()
    by_id = [each for each in known if each.id.startswith(name)] if len(name) >= FEWEST_LETTERS else []
    by_name = [each for each in known if each.name == name]
    if len(by_id) == 1 or by_name:
        return by_id[0] if len(by_id) == 1 else by_name[0]
    raise WorkspaceError(f"No rule set is called {name[:80]!r} or has such an id; `spu workspace list` shows them.")


def find_queue(workspace: Workspace, name: str) -> QueueRecord:
    """The queue of an id, or of the start of one."""
    datasets = [each.id for each in workspace.datasets.list()]
    found = [each for each in workspace.queues.list(*datasets) if each.id.startswith(name)]
    if len(found) != 1 or len(name) < FEWEST_LETTERS:
        raise WorkspaceError(f"{name[:80]!r} is the id of no queue, or of several; `spu queue list` shows them.")
    return found[0]


def _write_queue(workspace: Workspace, queue: QueueRecord, output: str | None, how: tuple[bool, bool]) -> None:
    blind, as_json = how
    if output is not None:
        write_output(queue_csv(workspace, queue.id, blind=blind).encode(), output)
    if output != STANDARD:
        summary = _summary(workspace, queue)
        arms = ", ".join(f"{each['arm']} {each['checks']} of {each['users']}" for each in queue.plan.get("arms", ()))
        print_result(
            {**summary, "plan": queue.plan}, f"{queue.id}  {queue.name}: {summary['checks']} users ({arms})", as_json
        )


def _summary(workspace: Workspace, queue: QueueRecord) -> dict[str, Any]:
    checks, done = len(workspace.queues.entries(queue.id)), len(workspace.queues.outcomes(queue.id))
    return {"id": queue.id, "name": queue.name, "made": queue.made.isoformat(), "checks": checks, "outcomes": done}


def _retrain(workspace: Workspace, run: str, record: Any) -> tuple[dict[str, Any], str]:
    done = run_in_process(workspace, retraining_job(workspace, run, record))
    if not done.result.get("runs"):
        raise WorkspaceError(f"The training failed: {done.error or done.result.get('errors')}")
    new = str(done.result["runs"][0])
    found = what_changed(workspace, run, new)
    return {"run": new, "figures": plain(found.figures), "by_old": plain(found.by_old)}, f"{new}  {found.sentence}"


def _words(summary: dict[str, float]) -> str:
    return (
        f"{summary['checks']:,} checks: {summary['confirmed']:,} new positives ({summary['withheld']:,} kept for "
        f"measuring), mean soft label {summary['mean_before']:.4f} → {summary['mean_after']:.4f}, "
        f"{summary['changed_rows']:,} rows change."
    )
