"""Drift over time: one line per scored file, a level, an exit code, and a profile for other tools."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import numpy as np
import pytest
from typer.testing import CliRunner

from spu_core import cli
from spu_core.engines.jobs.score import remember_scoring, scoring_history
from spu_core.export import ScoreReport
from spu_core.export.monitoring import ScoringEvent, history_table, monitoring_verdict, reference_profile
from spu_core.export.score_report import DriftLevel
from spu_core.training import Candidate
from spu_core.workspace import Workspace
from tests.dashboard.trained import bring_sample, train_quickly
from tests.export.examples import example, make_frame


@pytest.fixture(scope="module")
def reports() -> tuple[ScoreReport, ScoreReport]:
    """A file like the training rows, and one in which age has moved and job is missing."""
    bundle = example("fused").bundle
    strange = make_frame(400, seed=1).assign(age=lambda frame: frame["age"] + 25, job=None)
    return bundle.score(make_frame(400, seed=1)).report, bundle.score(strange).report


def test_the_table_names_flags_scores_moved_columns_and_missing_values(reports):
    events = [
        ScoringEvent(datetime(2026, 5, day, tzinfo=UTC), f"{day}.csv", each) for day, each in enumerate(reports, 1)
    ]

    table = history_table(events)

    assert table["file"].tolist() == ["1.csv", "2.csv"]
    assert table["flagged_share"].tolist() == [each.flag_rate for each in reports]
    assert table["level"].tolist()[1] == "warning"
    assert table["moved_most"][1].count(",") == 4
    assert table["moved_most"][1].startswith("age ")
    assert table["missing"][1] == "job 100.0%"
    assert (table["score_low"] <= table["score_median"]).all()
    assert (table["score_median"] <= table["score_high"]).all()
    level, sentence = monitoring_verdict(events)
    assert level is DriftLevel.WARNING
    assert sentence.startswith("2.csv (2026-05-02): These rows differ from the training rows")
    assert monitoring_verdict([]) == (DriftLevel.UNKNOWN, "Nothing was scored with this model yet.")


def test_a_report_comes_back_from_json(reports):
    for report in reports:
        again = ScoreReport.from_dict(json.loads(json.dumps(report.to_dict())))
        assert again.notes == report.notes
        assert again.level == report.level


def test_the_reference_profile_has_quantiles_categories_and_scores_in_terms_of_the_table():
    bundle, frame = example("fused").bundle, make_frame()
    found = json.loads(json.dumps(reference_profile(bundle), allow_nan=False))

    columns = {column["name"]: column for column in found["columns"]}
    assert set(columns) == set(bundle.columns)
    middle = found["quantile_levels"].index(0.5)
    assert columns["amount"]["quantiles"][middle] == pytest.approx(frame["amount"].median(), rel=0.02)
    assert columns["age"]["missing_share"] == pytest.approx(frame["age"].isna().mean())
    shares = frame["job"].value_counts(normalize=True)
    assert columns["job"]["categories"] == pytest.approx(shares.to_dict())
    assert found["score"]["quantiles"] == list(bundle.profile.score.quantiles)
    assert found["flagged_share"] == bundle.point.share


def test_scored_files_are_remembered_shown_and_turned_into_an_exit_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPU_HOME", str(tmp_path / "home"))
    with Workspace.open() as workspace:
        dataset = bring_sample(workspace)
        [run] = train_quickly(workspace, dataset, (Candidate("logistic", name="linear"),))
        frame = workspace.datasets.load(dataset["dataset"]).frame
    frame.to_csv("usual.csv", index=False)
    numbers = frame.select_dtypes("number").columns
    frame.assign(**{name: frame[name] * 3 + 5 for name in numbers}).to_csv("strange.csv", index=False)

    def spu(*words):
        return CliRunner().invoke(cli.app, list(words))

    assert spu("monitor", run).stdout == "Nothing was scored with this model yet.\n"
    for _ in range(2):
        assert spu("score", run, "usual.csv", "-o", "scored.csv").exit_code == 0
    assert spu("score", run, "strange.csv", "-o", "scored.csv").exit_code == 0
    with Workspace.open() as workspace:
        events = scoring_history(workspace, run)
        remember_scoring(workspace, run, "strange.csv", events[-1].report)
        assert [event.name for event in scoring_history(workspace, run)] == ["usual.csv", "strange.csv"]

    found = spu("monitor", run, "--json")
    assert found.exit_code == 1
    value = json.loads(found.stdout)
    assert value["level"] == "warning"
    assert [line["file"] for line in value["files"]] == ["usual.csv", "strange.csv"]
    assert np.isfinite(value["files"][0]["score_median"])
    assert "differ from the training rows" in spu("monitor", run).stdout
