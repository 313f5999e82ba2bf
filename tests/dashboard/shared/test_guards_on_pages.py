"""Guards where people see them: findings on Data, the latest rows on Train, models worse than chance on Compare."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pages.ui.shared.text import plain
from spu_core.engines import Job, run_in_process
from spu_core.tables import Table, read_table
from spu_core.training import Candidate, TrainConfig, TrainPlan
from spu_core.workspace import Workspace


def suspicious_file() -> bytes:
    """Each row four times, a counter, a group without a role, and a value that every labelled row has."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(100, 4)).round(6)).add_prefix("x")
    frame = frame.assign(device=rng.integers(0, 40, 100), label=(rng.random(100) < 0.2).astype(int))
    frame["closed"] = np.where(frame["label"] == 1, 1, rng.random(100) < 0.2).astype(int)
    return pd.concat([frame] * 4, ignore_index=True).assign(counter=range(1, 401)).to_csv(index=False).encode()


def dated_table() -> Table:
    """The column that points to positives at first points away from them in the last third."""
    rng = np.random.default_rng(0)
    x, late = rng.normal(size=900), np.arange(900) >= 600
    label = rng.random(900) < 1 / (1 + np.exp(2 - np.where(late, -2.0, 2.0) * x))
    day = pd.date_range("2024-01-01", periods=900, freq="h").astype(str)
    return Table.from_frame(
        pd.DataFrame({"x": x, "z": rng.normal(size=900), "day": pd.to_datetime(day), "label": label.astype(int)})
    )


def test_what_is_suspicious_about_a_file_is_said_on_the_data_page(open_app):
    with Workspace.open() as workspace:
        dataset = workspace.datasets.save(read_table(suspicious_file(), name="odd.csv"))
    page = open_app("pages/1_data.py", dataset=dataset.id)

    assert not page.exception
    # Proposed roles have a button instead of a box.
    warned = " ".join(each.value for each in (*page.warning, *page.markdown))
    for sentence in (
        "300 of 400 rows repeat an earlier row in all features but 'counter'",
        "Column 'counter' looks like an identifier",
        "Give 'device' the role 'group'",
        "Column 'closed' is '1' for 100% of the positives of 'label'",
    ):
        assert plain(sentence) in warned


def test_one_click_judges_rows_with_a_time_on_the_latest_of_them(open_app):
    with Workspace.open() as workspace:
        dataset = workspace.datasets.save(dated_table())
    page = open_app("pages/3_train.py", dataset=dataset.id)

    assert any("folds are random" in text.value for text in page.markdown)
    page.button(key="train_latest").click().run()

    assert not page.exception
    assert page.slider(key="train_out_of_time").value == 20
    assert not any("folds are random" in text.value for text in page.markdown)


def test_models_that_are_worse_than_chance_are_the_first_thing_said(open_app):
    with Workspace.open() as workspace:
        dataset = workspace.datasets.save(dated_table())
        config = TrainConfig(folds=2, threads=1, out_of_time=0.3)
        plan = TrainPlan(config, (Candidate("labeled_vs_rest", {"learner": "logistic"}),))
        parameters = {"dataset": dataset.id, "rule_set": None, "plan": plan.to_json(), "refine": False}
        assert run_in_process(workspace, Job(kind="train", parameters=parameters, title="one")).status == "finished"
    page = open_app("pages/4_compare.py", dataset=dataset.id)

    assert not page.exception
    assert page.header[0].value == "None of these"
    assert any("No model is better than chance" in text.value for text in page.markdown)
    assert "compare_use" not in [button.key for button in page.button]
    assert page.button(key="compare_choose").proto.type == "secondary"
    assert any("This model is worse than chance" in caption.value for caption in page.caption)
