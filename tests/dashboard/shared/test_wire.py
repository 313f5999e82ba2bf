"""What travels to the browser does not grow with the rows: charts of counts, and tables by their visible part."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from spu_core.rules import Compare, Ramp, Rule, RuleSet
from spu_core.tables import Role, Table
from spu_core.training import Candidate
from spu_core.workspace import Workspace
from tests.dashboard.trained import train_quickly

ROWS = 50_000  # a single column of them would be too large already
LARGEST = 150_000
RULES = RuleSet((Rule("High", 0.5, Compare("x1", ">", 1)), Rule("Ramp", Ramp(column="x2", start=0, end=2))))


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A home with a table of many distinct values, rules, and a run."""
    home, rng = tmp_path_factory.mktemp("large") / "home", np.random.default_rng(0)
    frame = pd.DataFrame({f"x{i}": rng.normal(size=ROWS) for i in range(6)})
    frame["id"] = np.arange(ROWS).astype(str)
    frame["group"] = pd.Categorical(rng.choice(list("abcdef"), ROWS))
    frame["label"] = ((frame["x1"] > 1) & (rng.random(ROWS) < 0.05)).astype(int)
    with Workspace.open(home) as workspace:
        dataset = workspace.datasets.save(Table.from_frame(frame, roles={"label": Role.LABEL}), "large")
        rules = workspace.rule_sets.create("rules", RULES.to_json())
        address = {"dataset": dataset.id, "rules": rules.id}
        train_quickly(workspace, address, [Candidate("rule_score"), Candidate("logistic")])
    return home, address


VIEWS = [
    ("1_data", {}),
    ("2_soft_labels", {}),
    *(("2_soft_labels", {"part": part}) for part in ("Analysis", "Explain a row", "Audit", "Versions and files")),
    ("3_train", {}),
    *(
        ("4_compare", {"compare_tabs": tab})
        for tab in ("All figures", "Differences", "Costs", "Calibration", "Gains and lift", "Scores", "Segments")
    ),
]


@pytest.mark.parametrize(("page", "view"), VIEWS, ids=lambda value: str(value))
def test_no_element_is_larger_than_a_chart_may_be(open_app, large, monkeypatch, page, view):
    home, address = large
    monkeypatch.setenv("SPU_HOME", str(home))
    shown = open_app(f"pages/{page}.py", **address, **view)

    assert not shown.exception
    assert not shown.error
    sizes = {f"{node.type} {getattr(node, 'key', '')}": node.proto.ByteSize() for node in shown.main if node.proto}
    assert len(sizes) > 3
    assert max(sizes.values()) <= LARGEST, max(sizes, key=sizes.get)


def test_texts_of_megabytes_in_a_small_file_are_cut_before_they_are_sent(open_app):
    with Workspace.open() as workspace:
        texts = pd.Categorical.from_codes([0] * 300, ["x" * 3_000_000])
        frame = pd.DataFrame({"text": texts, "note": "y" * 5_000, "label": [1, 0, 0] * 100})
        dataset = workspace.datasets.save(Table.from_frame(frame, roles={"label": Role.LABEL}), "long")

    shown = open_app("pages/1_data.py", dataset=dataset.id)

    assert not shown.exception
    assert not shown.error
    assert 100_000 < max(node.proto.ByteSize() for node in shown.main if node.proto) < 1_000_000
