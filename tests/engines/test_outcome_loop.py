"""The loop of checks in a workspace: flagged, recorded, fed back with lineage, trained again, compared."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from spu_core.engines import run_in_process
from spu_core.engines.outcome_learning import (
    confirmation_delay,
    learn_from_outcomes,
    leave_out_recent_rows,
    propose_feedback,
    retraining_job,
    sample_players,
    simulated_csv,
    simulated_outcomes,
    what_changed,
)
from spu_core.engines.outcome_loop import (
    DISAGREEMENT,
    QueueCandidates,
    QueueRequest,
    answer_delay,
    checks_in_loop,
    checks_of,
    loop_queues,
    make_disagreement_queue,
    make_queue,
    old_enough,
    populations,
    queue_csv,
    queue_table,
    read_outcome_file,
    record_outcomes,
    users_of,
)
from spu_core.engines.stored_runs import stored_bundle, stored_runs
from spu_core.errors import SpuError, WorkspaceError
from spu_core.tables import Table
from spu_core.tables.samples import load_sample, load_sample_rules
from spu_core.trust import FeedbackPlan, QueuePlan, compare_arms, outcome_ratios
from spu_core.workspace import Workspace
from tests.dashboard.trained import train_quickly
from tests.engines.loop import QUICK, chances_of_the_flagged, small_world


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    with Workspace.open(tmp_path_factory.mktemp("loop")) as opened:
        yield opened


@pytest.fixture(scope="module")
def game(workspace):
    return small_world(workspace)


@pytest.fixture(scope="module")
def queue(workspace, game):
    """Three hundred users, split between two models and chance, all checked."""
    plan = QueuePlan(budget=300, random_share=0.2)
    made = make_queue(workspace, QueueRequest(dataset=game.dataset.id, runs=game.runs, plan=plan, name="=Week 1"))
    table = queue_table(workspace, made.id)
    filled = table.assign(outcome=game.answers(table["user"]), day="2026-03-02")
    record_outcomes(workspace, made.id, read_outcome_file(workspace, made.id, filled).lines, source="test")
    return made


@pytest.fixture(scope="module")
def learnt(workspace, game, queue):
    return learn_from_outcomes(workspace, game.dataset.id, game.rules)


def test_a_queue_knows_its_runs_rules_rows_and_split(workspace, game, queue):
    assert queue.plan["runs"] == dict(zip(("soft", "plain"), game.runs, strict=True))
    assert queue.plan["fingerprint"] == game.dataset.fingerprint
    assert queue.plan["rules"] == {"rule_set": game.rules.id, "version": 1}
    assert {each["arm"]: each["checks"] for each in queue.plan["arms"]} == {"soft": 120, "plain": 120, "random": 60}


def test_training_rows_are_flagged_by_their_out_of_fold_scores(workspace, game, queue):
    [soft] = stored_runs(workspace, game.runs[:1])
    for entry in workspace.queues.entries(queue.id)[:5]:
        assert entry.score == soft.score[entry.row]


def test_confirmed_users_are_not_checked_and_nobody_twice(workspace, game, queue):
    table = workspace.datasets.load(game.dataset.id)
    again = make_queue(
        workspace, QueueRequest(dataset=game.dataset.id, runs=game.runs[:1], plan=QueuePlan(budget=100, turn=2))
    )
    first, second = ({entry.row for entry in workspace.queues.entries(each.id)} for each in (queue, again))

    assert not table.is_labeled[list(first | second)].any()
    assert not first & second


def test_the_csv_is_safe_and_a_blind_one_tells_nothing(workspace, queue):
    columns = queue_csv(workspace, queue.id).splitlines()[0]
    blind = queue_csv(workspace, queue.id, blind=True).splitlines()

    assert columns == "user,arm,score,soft_label,reasons,outcome,day"
    assert blind[0] == "user,outcome,day"
    assert [line.split(",")[0] for line in blind[1:]] != queue_table(workspace, queue.id)["user"].tolist()
    assert sorted(line.split(",")[0] for line in blind[1:]) == sorted(queue_table(workspace, queue.id)["user"])


def test_users_whose_names_are_formulas_come_back_as_themselves(workspace):
    frame = pd.DataFrame({"who": ["=1+1", "@x", "-5", "plain"], "x": [1.0, 2.0, 3.0, 4.0], "label": [0, 0, 1, 0]})
    table = Table.from_frame(frame, roles={"who": "id", "label": "label"})

    assert users_of(table).tolist() == ["=1+1", "@x", "-5", "plain"]


def test_flagged_rows_come_with_reasons_of_the_model_and_of_the_rules(workspace, queue):
    flagged = [entry for entry in workspace.queues.entries(queue.id) if entry.arm == "soft"]

    assert all("(+" in entry.reasons for entry in flagged)
    assert all("rule" in entry.reasons for entry in flagged)


def test_recording_the_same_file_again_adds_nothing_and_a_correction_stands(workspace, game, queue):
    user = queue_table(workspace, queue.id)["user"].iloc[0]
    before = len(workspace.queues.history(queue.id))
    old = queue_table(workspace, queue.id)["outcome"].iloc[0]

    same = read_outcome_file(
        workspace, queue.id, pd.DataFrame({"user": [user], "outcome": [old], "day": ["2026-03-02"]})
    )
    assert record_outcomes(workspace, queue.id, same.lines) == 0
    other = "failed" if old != "failed" else "passed"
    changed = read_outcome_file(workspace, queue.id, f"user,outcome,day\n{user},{other},2026-03-02\n".encode())
    back = read_outcome_file(workspace, queue.id, f"user,outcome,day\n{user},{old},2026-03-02\n".encode())
    assert record_outcomes(workspace, queue.id, changed.lines) == 1
    assert queue_table(workspace, queue.id)["outcome"].iloc[0] == other
    assert record_outcomes(workspace, queue.id, back.lines) == 1
    assert len(workspace.queues.history(queue.id)) == before + 2


def test_the_ratios_are_those_of_the_recorded_outcomes(workspace, game, queue):
    found = checks_of(workspace, game.dataset.id)
    table = queue_table(workspace, queue.id)
    for each in outcome_ratios(found.checks):
        part = table[table["arm"] == each.arm]
        assert each.surrender.estimate == pytest.approx((part["outcome"] == "admitted").mean())
        assert each.pass_.estimate == pytest.approx((part["outcome"] == "passed").mean())
    assert "soft" in compare_arms(found.checks, "soft", "plain").sentence


def test_only_checks_that_had_time_enough_are_counted(workspace, game, queue):
    found = checks_of(workspace, game.dataset.id)
    later = str(np.datetime64("2026-03-02") + 10)

    assert len(old_enough(found, later, 10)) == len(found)
    assert len(old_enough(found, later, 11)) == 0
    assert answer_delay(found, str(np.datetime64("today") + 1)).what == "outcomes"


def test_a_proposal_keeps_nothing(workspace, game, queue):
    before = (len(workspace.datasets.list()), workspace.rule_sets.get(game.rules.id).number, workspace.feedbacks.list())
    found = propose_feedback(workspace, game.dataset.id, game.rules)

    assert found.summary["checks"] == 300
    after = (len(workspace.datasets.list()), workspace.rule_sets.get(game.rules.id).number, workspace.feedbacks.list())
    assert before == after


def test_what_was_learnt_knows_what_it_came_from(workspace, game, queue, learnt):
    told = learnt.record.detail

    assert (learnt.record.source, learnt.record.target) == (game.dataset.id, learnt.dataset.id)
    assert queue.id in told["queues"]
    assert told["rules_before"] == [game.rules.id, 1]
    assert told["fingerprint_before"] == game.dataset.fingerprint
    assert told["labelled_after"] == told["labelled_before"] + told["confirmed"]
    assert workspace.feedbacks.family(learnt.dataset.id) == (learnt.dataset.id, game.dataset.id)
    assert workspace.datasets.load(game.dataset.id).is_labeled.sum() == told["labelled_before"]


def test_the_holdout_is_not_labelled(workspace, game, queue, learnt):
    table = workspace.datasets.load(learnt.dataset.id)
    random_rows = [entry.row for entry in workspace.queues.entries(queue.id) if entry.arm == "random"]

    assert not table.is_labeled[random_rows].any()


def test_random_failures_change_the_base_of_appendix_a1(learnt):
    table = learnt.feedback.ratios.set_index("rule")

    assert {"soft", "plain", "random"} <= set(table.index)
    assert table.loc["random", "soft_label"] == 0
    assert table.loc["soft", "soft_label"] == pytest.approx(
        max(0.0, 1 - table.loc["random", "failure_ratio"] / table.loc["soft", "failure_ratio"])
    )


def test_learning_twice_from_the_same_outcomes_is_refused(workspace, learnt):
    with pytest.raises(WorkspaceError, match="already contains all recorded outcomes"):
        learn_from_outcomes(workspace, learnt.dataset.id, learnt.rules)


def test_giving_the_holdout_up_labels_more(workspace, game, queue):
    kept = propose_feedback(workspace, game.dataset.id, game.rules)
    given_up = propose_feedback(workspace, game.dataset.id, game.rules, FeedbackPlan(use_holdout=True))

    assert given_up.confirmed == kept.confirmed + kept.withheld


def test_the_next_training_is_compared_on_one_s_and_on_the_holdout(workspace, game, learnt):
    done = run_in_process(workspace, retraining_job(workspace, game.runs[0], learnt.record))
    assert done.status == "finished", done.error
    new = done.result["runs"][0]
    found = what_changed(workspace, game.runs[0], new)

    assert (found.old, found.new) == ("soft", "soft 2")
    assert found.figures["judged by"].tolist() == ["old soft labels", "new soft labels"]
    assert found.by_new.estimate == pytest.approx(found.figures["soft 2"][1] - found.figures["soft"][1])
    assert found.holdout_old.checks == found.holdout_new.checks == 60
    assert "by the old soft labels" in found.sentence
    with pytest.raises(WorkspaceError, match="was not trained on what came from"):
        what_changed(workspace, new, game.runs[0])


def test_a_disagreement_queue_is_its_own_arm_with_reasons(workspace, game, queue):
    made = make_disagreement_queue(workspace, game.dataset.id, game.runs[0], budget=6)
    entries = workspace.queues.entries(made.id)

    assert {entry.arm for entry in entries} == {DISAGREEMENT}
    assert all("suspect" in entry.reasons for entry in entries)


@pytest.fixture(scope="module")
def fresh(workspace, game):
    """New players; one of them has the name of a player of the first season."""
    frame = game.world.draw(300, seed=9).features.assign(player=["p0003", *(f"f{row}" for row in range(1, 300))])
    return workspace.datasets.save(Table.from_frame(frame, roles={"player": "id"}), "Fresh")


@pytest.fixture(scope="module")
def fresh_queue(workspace, game, queue, fresh):
    request = QueueRequest(dataset=fresh.id, runs=game.runs[:1], plan=QueuePlan(budget=30, random_share=0.2, turn=9))
    return make_queue(workspace, request)


def test_a_fresh_population_is_scored_by_the_refit(workspace, game, fresh, fresh_queue):
    population = QueueCandidates.of(workspace, fresh.id, game.runs[:1])
    entries = workspace.queues.entries(fresh_queue.id)
    table = workspace.datasets.load(fresh.id)
    score = stored_bundle(workspace, game.runs[0]).predict(table.frame)

    assert [entry.score for entry in entries] == [score[entry.row] for entry in entries]
    assert {each["arm"]: each["checks"] for each in fresh_queue.plan["arms"]} == {"soft": 24, "random": 6}
    assert entries[0].soft_label is None
    assert not population.balance(QueuePlan(budget=30)).is_suspicious


def test_every_table_that_a_model_can_score_is_offered_and_its_own_rows_once(workspace, game, fresh, learnt):
    other = workspace.datasets.save(load_sample("breast_cancer"), "Other columns")
    offered = [each.id for each in populations(workspace, learnt.dataset.id, game.runs[0])]

    assert offered[0] == learnt.dataset.id
    assert fresh.id in offered
    assert not {game.dataset.id, other.id} & set(offered)


def test_rows_of_the_training_keep_their_out_of_fold_scores_under_another_name(workspace, game):
    same = workspace.datasets.save(workspace.datasets.load(game.dataset.id), "Brought twice")
    [soft] = stored_runs(workspace, game.runs[:1])

    assert np.array_equal(QueueCandidates.of(workspace, same.id, game.runs[:1]).scores["soft"], soft.score)


def test_checks_of_a_fresh_population_count_for_their_model_but_not_in_other_rows(workspace, game, queue, fresh_queue):
    before, alone = checks_in_loop(workspace, game.dataset.id), checks_of(workspace, game.dataset.id)
    table = queue_table(workspace, fresh_queue.id).assign(outcome="passed", day="2026-03-09")
    record_outcomes(workspace, fresh_queue.id, read_outcome_file(workspace, fresh_queue.id, table).lines)
    after = checks_in_loop(workspace, game.dataset.id)

    assert (len(after) - len(before), len(checks_of(workspace, game.dataset.id))) == (30, len(alone))
    passed = {arm: int((after.checks.of(arm).outcome == 0).sum()) for arm in ("soft", "random")}
    assert passed["soft"] == int((before.checks.of("soft").outcome == 0).sum()) + 24
    assert fresh_queue in loop_queues(workspace, game.dataset.id)


def test_a_fresh_population_learns_from_its_own_rows(workspace, game, fresh, fresh_queue):
    found = propose_feedback(workspace, fresh.id, None)

    assert found.summary["checks"] == 30
    assert len(found.table) == 300


def test_users_who_are_in_a_queue_elsewhere_are_not_asked_twice(workspace, game, queue, fresh):
    asked = {entry.user for entry in workspace.queues.entries(queue.id)}
    frame = workspace.datasets.load(fresh.id).frame.assign(player=[*sorted(asked)[:50], *map(str, range(250))])
    again = workspace.datasets.save(Table.from_frame(frame, roles={"player": "id"}), "Known players")
    population = QueueCandidates.of(workspace, again.id, game.runs[:1])

    assert not population.is_open(workspace)[:50].any()
    assert population.is_open(workspace)[50:].all()
    assert population.is_open(workspace, again=True).all()


def test_lines_of_different_tables_are_different_users(workspace, game):
    """Where no column names the users, line 1 of next week's table has nothing to do with line 1 of this week's."""
    names = ("This week", "Next week")
    weeks = [
        workspace.datasets.save(Table.from_frame(game.world.draw(40, seed=seed).features, name="week"), name)
        for seed, name in enumerate(names, start=31)
    ]
    again = workspace.datasets.save(workspace.datasets.load(weeks[0].id), "This week, brought twice")
    plan = QueuePlan(budget=40, random_share=0.0)
    first = make_queue(workspace, QueueRequest(dataset=weeks[0].id, runs=game.runs[:1], plan=plan))
    everybody = {str(line) for line in range(1, 41)}

    assert {entry.user for entry in workspace.queues.entries(first.id)} == everybody
    same, other = (
        QueueCandidates.of(workspace, each.id, game.runs[:1]).is_open(workspace) for each in (again, weeks[1])
    )
    assert not same.any()
    assert other.all()
    before = checks_in_loop(workspace, game.dataset.id).checks.users.size
    second = make_queue(workspace, QueueRequest(dataset=weeks[1].id, runs=game.runs[:1], plan=plan))
    for queue in (first, second):
        file = queue_table(workspace, queue.id).assign(outcome="passed", day="2026-03-09")
        record_outcomes(workspace, queue.id, read_outcome_file(workspace, queue.id, file).lines)
    assert checks_in_loop(workspace, game.dataset.id).checks.users.size == before + 80


def test_the_latest_check_of_a_row_is_the_one_that_happened_last(workspace, game):
    """Files come back in any order; what counts is the day of the check, not that of the recording."""
    made = [
        make_queue(
            workspace,
            QueueRequest(dataset=game.dataset.id, runs=game.runs[:1], plan=QueuePlan(budget=3, turn=20), again=True),
        )
        for _ in range(2)
    ]
    user = queue_table(workspace, made[0].id)["user"].iloc[0]
    for queue, day, outcome in ((made[0], "2026-05-02", "failed"), (made[1], "2026-05-01", "passed")):
        frame = pd.DataFrame({"user": [user], "outcome": [outcome], "day": [day]})
        record_outcomes(workspace, queue.id, read_outcome_file(workspace, queue.id, frame).lines)
    checks = checks_of(workspace, game.dataset.id)
    mine = checks.only(np.isin(checks.queue, [each.id for each in made]))

    assert mine.checks.outcome_names == ("passed", "failed")


def test_rows_that_had_too_little_time_can_be_left_out(workspace, game):
    rows, rng = 400, np.random.default_rng(1)
    start = np.datetime64("2026-05-31") - rng.integers(0, 60, rows)
    frame = game.world.draw(rows, seed=5).features.assign(
        player=[f"d{row}" for row in range(rows)], seen=start.astype("datetime64[s]"), admitted=[1] + [0] * (rows - 1)
    )
    table = Table.from_frame(frame, roles={"player": "id", "seen": "time", "admitted": "label"})
    dataset = workspace.datasets.save(table, "Dated")
    with pytest.raises(SpuError, match="No outcome was recorded yet"):
        confirmation_delay(workspace, dataset.id, "2026-06-01")
    made = make_queue(workspace, QueueRequest(dataset=dataset.id, runs=game.runs[:1], plan=QueuePlan(budget=200)))
    lines = [
        f"{entry.user},admitted,{start[entry.row] + int(rng.integers(1, 9))}"
        for entry in workspace.queues.entries(made.id)
        if start[entry.row] < np.datetime64("2026-05-22")
    ]
    file = ("user,outcome,day\n" + "\n".join(lines)).encode()
    record_outcomes(workspace, made.id, read_outcome_file(workspace, made.id, file).lines)
    delay = confirmation_delay(workspace, dataset.id, "2026-06-01")
    older = leave_out_recent_rows(workspace, dataset.id, delay)

    assert older.n_rows == int((~delay.is_recent).sum()) < rows
    assert workspace.feedbacks.made_of(older.id).detail["rows_left_out"] == rows - older.n_rows
    assert workspace.feedbacks.family(older.id) == (older.id,)


def test_the_sample_is_answered_by_its_own_game(workspace):
    table = load_sample("anti_cheat", truth=True)
    players = sample_players(table)

    assert np.array_equal(players.truth, table.truth)
    assert sample_players(load_sample("breast_cancer")) is None


def test_the_game_answers_a_queue_with_a_file_that_can_be_read(workspace, game, queue):
    lines = simulated_outcomes(workspace, queue.id, game.players)
    found = read_outcome_file(workspace, queue.id, simulated_csv(lines).encode())

    assert len(found.lines) == 300
    assert not found.unknown


def test_the_whole_loop_on_the_sample_gives_a_better_surrender_ratio(workspace):
    """Flag 400 players → the game answers → learn → train again; fresh players are flagged better than before."""
    table = load_sample("anti_cheat")
    dataset = workspace.datasets.save(table, "Sample")
    rules = workspace.rule_sets.create("Sample", load_sample_rules("anti_cheat"))
    [first] = train_quickly(workspace, {"dataset": dataset.id, "rules": rules.id}, QUICK[:1])
    made = make_queue(workspace, QueueRequest(dataset=dataset.id, runs=(first,), plan=QueuePlan(budget=400)))
    record_outcomes(workspace, made.id, simulated_outcomes(workspace, made.id, sample_players(table)))
    learnt = learn_from_outcomes(workspace, dataset.id, rules)
    [second] = run_in_process(workspace, retraining_job(workspace, first, learnt.record)).result["runs"]
    before, after = (chances_of_the_flagged(workspace, run) for run in (first, second))

    assert after.surrender > before.surrender
    assert after.passing < before.passing


def test_what_cannot_be_queued_is_said(workspace, game):
    with pytest.raises(WorkspaceError, match="one run, or two different ones"):
        QueueCandidates.of(workspace, game.dataset.id, (game.runs[0], game.runs[0]))


def test_rules_that_were_edited_meanwhile_keep_their_edits(workspace, game, queue):
    """What the outcomes add becomes a rule set of its own, beside the edited one."""
    from spu_core.rules import Compare, Rule, RuleSet

    plain = RuleSet((Rule("Headshots", 0.01, Compare("headshot_rate", ">", 0.3)),))
    first = workspace.rule_sets.create("Mine", plain.to_json())
    edited = workspace.rule_sets.save(first, plain.switch("headshots", on=False).to_json())
    learnt = learn_from_outcomes(workspace, game.dataset.id, first)

    assert learnt.rules.name == "Mine, after checks"
    assert [rule.name for rule in RuleSet.from_json(learnt.rules.text)] == ["Headshots", "Failed the latest check"]
    assert workspace.rule_sets.get(first.id).text == edited.text


def test_beliefs_that_random_checks_prove_too_low_become_a_new_version(workspace, game, queue):
    from spu_core.rules import Compare, Rule, RuleSet

    everybody = RuleSet((Rule("All", 0.0, Compare("headshot_rate", ">=", 0.0)),))
    rules = workspace.rule_sets.create("Everybody", everybody.to_json())
    proposed = propose_feedback(workspace, game.dataset.id, rules, FeedbackPlan(raise_beliefs=True))

    [bound] = proposed.bounds
    assert bound.checks == 60
    assert bound.bound == pytest.approx(
        sum(line.outcome == "admitted" for line in _random_lines(workspace, queue)) / 60, abs=1e-9
    )


def _random_lines(workspace, queue):
    arms = {entry.row: entry.arm for entry in workspace.queues.entries(queue.id)}
    found = read_outcome_file(workspace, queue.id, queue_table(workspace, queue.id))
    return [line for line in found.lines if arms[line.row] == "random"]
