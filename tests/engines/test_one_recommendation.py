"""One recommendation: commands, report, model card and the default of an export name the same model."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from spu_core import cli
from spu_core.engines.export_files import EXPORT_FORMS, StoredModel
from spu_core.engines.stored_runs import recommended_run
from spu_core.rules import Compare, Rule, RuleSet
from spu_core.tables import Table
from spu_core.training import Candidate, recommend
from spu_core.workspace import CheckOutcome, QueueEntry, Workspace
from tests.dashboard.trained import train_quickly

FEW = {"rounds": 10}
CANDIDATES = (
    Candidate("fused", FEW),
    Candidate("fused", FEW, without_rules=True),
    Candidate("labeled_vs_rest", {"learner": "logistic"}),
    Candidate("rule_score"),
)


def world(*, labels=60, good_rules=True, selected=False, leak=False):
    """Two columns that tell positives apart, a column that selects the confirmed ones, and a rule on the first.

    With `leak`, a column is filled for confirmed rows only.
    """
    rng = np.random.default_rng(0)
    truth = rng.random(500) < 0.3
    frame = pd.DataFrame(rng.normal(size=(500, 3)) + np.outer(truth, [1.2, 0.6, 0.0]), columns=["x", "y", "u"])
    chance = np.where(frame["u"] > 0, 1.0, 0.02) if selected else np.ones(500)
    positives = np.flatnonzero(truth)
    chosen = rng.choice(positives, labels, replace=False, p=chance[positives] / chance[positives].sum())
    frame["label"] = np.isin(np.arange(500), chosen).astype(int)
    if leak:
        frame["case_number"] = np.where(frame["label"] == 1, rng.random(500), np.nan)
    rule = Rule("rule", 0.6, Compare("x", ">", 0.8) if good_rules else Compare("x", "<", 0.0))
    return Table.from_frame(frame, roles={"label": "label"}), RuleSet((rule,)).to_json()


CASES = {
    "wrong rules": (lambda: world(good_rules=False), "chance"),
    "selected labels": (lambda: world(selected=True), "other"),
    "labels found by the rules": (world, "rules"),
    "seven labels": (lambda: world(labels=7), "chance"),
    "a column that leaks": (lambda: world(leak=True), "chance"),
    "random checks in use": (world, "rules"),
}
EXPECTED = {
    "a column that leaks": ("fused", "provisional", "provisional"),
    "labels found by the rules": ("fused", "provisional", "provisional"),
    "seven labels": ("fused", "provisional", "provisional"),
}


def record_random_checks(workspace, dataset, truth):
    """Outcomes of 300 random checks: cases admit, others pass. Checks that were not random say the opposite."""
    rows = np.random.default_rng(1).permutation(truth.size)
    entries = [
        QueueEntry(int(row), str(row), "random" if place < 300 else "fused", 0.5, None, "")
        for place, row in enumerate(rows)
    ]
    queue = workspace.queues.save(dataset, "checks", {"runs": {}}, entries)
    found = truth ^ np.isin(np.arange(truth.size), rows[300:])
    workspace.queues.record(
        queue.id, [CheckOutcome(row, "admitted" if found[row] else "passed") for row in rows.tolist()]
    )


@pytest.mark.parametrize("case", CASES)
def test_every_place_names_the_same_model(case, tmp_path, monkeypatch):
    make, origin = CASES[case]
    monkeypatch.chdir(tmp_path)
    with Workspace.open(tmp_path / "home") as workspace:
        table, text = make()
        dataset = workspace.datasets.save_origin(workspace.datasets.save(table, "rows").id, origin)
        rules = workspace.rule_sets.create("rules", text)
        if case == "random checks in use":
            record_random_checks(workspace, dataset.id, np.random.default_rng(0).random(500) < 0.3)
        ids = train_quickly(workspace, {"dataset": dataset.id, "rules": rules.id}, CANDIDATES)
        shown = recommended_run(workspace, workspace.runs.list(dataset.id), dataset.origin)
        model = StoredModel(workspace, shown, table)
        found = recommend(model.comparison, origin=dataset.origin)
        card, report = (EXPORT_FORMS[form].make(model).data.decode() for form in ("card_md", "report"))
    printed = CliRunner().invoke(cli.app, ["compare", *ids, "--workspace", "home", "--json"], catch_exceptions=False)
    told = json.loads(printed.stdout)

    assert shown.name == found.model == found.order[0] == found.among_best[0]
    assert told["recommendation"]["model"] == found.model
    assert told["recommendation"]["order"] == [line["name"] for line in told["leaderboard"]] == list(found.order)
    assert found.order[-1] == "rule_score"
    assert found.sentence.replace("'", "&#x27;") in report
    assert "Another model was recommended" not in card
    assert found.sentence.split(":")[0].replace("'", "") in card.replace("'", "").replace("\\", "")
    if case in EXPECTED:
        assert (found.model, found.yardstick, found.confidence) == EXPECTED[case]
        assert found.help_of_rules == "cannot tell"
    if case == "a column that leaks":
        assert "'case_number' is filled for positives of 'label' only" in found.sentence
    if case == "random checks in use":
        assert found.yardstick == told["recommendation"]["yardstick"] == "random_outcomes"
        assert found.confidence in ("clear", "tie")
