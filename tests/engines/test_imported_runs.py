"""Runs from elsewhere: they flag like others, but their models see no row in the process of whoever looks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spu_core.engines import outcome_loop
from spu_core.engines.outcome_loop import QueueCandidates, QueueRequest, make_disagreement_queue, make_queue
from spu_core.engines.stored_runs import keep_as_run, stored_bundle, stored_runs
from spu_core.export import Bundle, bundle_bytes
from spu_core.tables import Table
from spu_core.trust import QueuePlan
from spu_core.workspace import Workspace
from tests.engines.loop import QUICK, small_world


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    with Workspace.open(tmp_path_factory.mktemp("foreign")) as opened:
        yield opened


@pytest.fixture(scope="module")
def game(workspace):
    return small_world(workspace, QUICK[:1])


@pytest.fixture(scope="module")
def brought(workspace, game):
    """The run of the game as somebody else would have exported it."""
    bundle = stored_bundle(workspace, game.runs[0])
    bundle = bundle.with_details(replace(bundle.details, fingerprint=game.dataset.fingerprint))
    return keep_as_run(workspace, game.dataset, bundle, bundle_bytes(bundle))


@pytest.fixture(scope="module")
def fresh(workspace, game):
    """Players of next week, of whom no rule and no label knows anything."""
    features = game.world.draw(300, seed=7).features
    frame = features.assign(player=[f"n{row}" for row in range(300)])
    return workspace.datasets.save(Table.from_frame(frame, roles={"player": "id"}), "Next week")


@pytest.fixture
def here_it_fails(monkeypatch):
    """Neither scores nor reasons of a model may be made in this process; a child has the true ones."""
    monkeypatch.setattr(Bundle, "score_features", lambda *_: pytest.fail("the model scored in this process"))
    monkeypatch.setattr(outcome_loop, "contributions", lambda *_: pytest.fail("the model explained in this process"))


def test_a_run_from_elsewhere_scores_other_tables_in_a_process_apart(workspace, game, brought, fresh, here_it_fails):
    request = QueueRequest(dataset=fresh.id, runs=(brought.id,), plan=QueuePlan(budget=20))
    entries = workspace.queues.entries(make_queue(workspace, request).id)
    [score] = QueueCandidates.of(workspace, fresh.id, (brought.id,)).scores.values()

    assert not brought.is_trained_here
    assert [entry.score for entry in entries] == [score[entry.row] for entry in entries]
    assert not any(entry.reasons for entry in entries)


def test_its_scores_are_those_of_its_model(workspace, game, brought, fresh):
    [score] = QueueCandidates.of(workspace, fresh.id, (brought.id,)).scores.values()
    [here] = QueueCandidates.of(workspace, fresh.id, game.runs).scores.values()

    assert np.array_equal(score, here)


def test_rows_of_its_training_keep_their_scores_and_the_reasons_of_the_rules(workspace, game, brought, here_it_fails):
    [run] = stored_runs(workspace, [brought.id])
    entries = workspace.queues.entries(make_disagreement_queue(workspace, game.dataset.id, brought.id, budget=10).id)

    assert [entry.score for entry in entries] == [run.score[entry.row] for entry in entries]
    assert all("rule" in entry.reasons and "(+" not in entry.reasons for entry in entries)
