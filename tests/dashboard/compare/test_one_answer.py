"""Compare page, Export page and report give one answer: which model to use."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import partial
from html import unescape

import numpy as np
import pandas as pd
import pytest

from spu_core.engines.export_files import ExportTexts, StoredModel
from spu_core.export import report_html
from spu_core.rules import Compare, Rule, RuleSet
from spu_core.tables import Table
from spu_core.tables.samples import load_sample, load_sample_rules, sample_names
from spu_core.training import Candidate, Recommendation, recommend
from spu_core.workspace import Workspace
from tests.dashboard.trained import train_quickly

LINEAR = {"learner": "logistic"}
CANDIDATES = (
    Candidate("logistic", name="Soft labels"),
    Candidate("labeled_vs_rest", LINEAR, name="Labels only"),
    Candidate("rule_score", name="The rules alone"),
)
SAME = tuple(Candidate("labeled_vs_rest", LINEAR, name=name) for name in ("One", "Other"))
SAMPLE_RULES = load_sample_rules("breast_cancer")
WRONG_RULES = RuleSet((Rule("Small", 0.8, Compare("worst_radius", "<", 14)),)).to_json()


def labelled(keep) -> Table:
    """The sample with the labels of some rows only."""
    table = load_sample("breast_cancer")
    frame = table.frame.copy()
    frame["labeled"] = np.where(keep(frame), frame["labeled"], 0)
    return Table.from_frame(frame, roles=table.roles)


def first_seven(frame: pd.DataFrame) -> pd.Series:
    return frame["labeled"].cumsum() <= 7


def of_the_rule(frame: pd.DataFrame) -> pd.Series:
    return frame["worst_radius"] > frame["worst_radius"].quantile(0.7)


def first_rows(sample: str, truth: bool) -> Table:
    table = load_sample(sample, truth=truth)
    return Table.from_frame(table.frame.head(1_000), roles=table.roles)


CASES = {
    **{
        f"{sample}{' with its truth' if truth else ''}": (
            partial(first_rows, sample, truth),
            load_sample_rules(sample),
            CANDIDATES,
        )
        for sample in sample_names()
        for truth in (False, True)
    },
    "a tie": (lambda: load_sample("breast_cancer"), SAMPLE_RULES, SAME),
    "wrong rules": (lambda: load_sample("breast_cancer"), WRONG_RULES, CANDIDATES),
    "labels selected by the rules": (lambda: labelled(of_the_rule), SAMPLE_RULES, CANDIDATES),
    "seven labels": (lambda: labelled(first_seven), SAMPLE_RULES, CANDIDATES),
}


@dataclass(frozen=True)
class Answers:
    """What the engine and the report say of the runs of one dataset."""

    address: dict[str, str]
    recommended: Recommendation
    report: str


def answers_for(case: str) -> Answers:
    make, rules, candidates = CASES[case]
    with Workspace.open() as workspace:
        dataset = workspace.datasets.save(make(), case)
        address = {"dataset": dataset.id, "rules": workspace.rule_sets.create(case, rules).id}
        train_quickly(workspace, address, candidates)
        record = workspace.runs.list(dataset.id)[0]
        stored = StoredModel(workspace, record, workspace.datasets.load(dataset.id), ExportTexts())
        found = recommend(stored.comparison, origin=dataset.origin)
        return Answers(address, found, report_html(stored.comparison, origin=dataset.origin))


def thick_line(page) -> str:
    """The name of the thickest curve of the ROC chart."""
    spec = json.loads(page.get("plotly_chart")[0].proto.spec)
    curves = [trace for trace in spec["data"] if "customdata" in trace]
    return max(curves, key=lambda trace: trace["line"]["width"])["name"]


@pytest.mark.parametrize("case", CASES)
def test_card_order_curve_selection_button_export_and_report_name_one_model(open_app, case):
    answers = answers_for(case)
    model = answers.recommended.model
    page = open_app("pages/4_compare.py", **answers.address)

    assert not page.exception
    assert model is not None
    assert page.header[0].value == model
    assert not any(metric.value.startswith(("-", "−")) for metric in page.metric)
    assert page.dataframe[0].value["name"].str.removesuffix(" (reference)").tolist() == list(answers.recommended.order)
    assert page.selectbox(key="compare_run").value == model
    assert thick_line(page) == model
    section = re.search("<h2[^>]*>Recommended model</h2>(.*?)<h2", answers.report, re.DOTALL)
    assert f"'{model}'" in unescape(section[1])
    export = open_app("pages/6_export.py", **answers.address)
    with Workspace.open() as workspace:
        exported = export.selectbox(key=f"export_run_{answers.address['dataset']}").value
        assert workspace.runs.get(exported).name == model

    assert [button.label for button in page.button if button.proto.type == "primary"] == ["Use this model"]
    page.button(key="compare_use").click().run()
    with Workspace.open() as workspace:
        champion = workspace.thresholds.champion(answers.address["dataset"])
        assert workspace.runs.get(champion.run).name == model


def test_the_truth_of_a_sample_is_revealed_only_on_request_and_changes_no_answer(open_app):
    page = open_app("pages/4_compare.py", **answers_for("breast_cancer").address)
    before = page.header[0].value
    assert "true_auc" not in page.dataframe[0].value.columns

    page.toggle(key="compare_reveal").set_value(True).run()
    assert not page.exception
    assert page.header[0].value == before
    assert page.dataframe[0].value["true_auc"].between(0.5, 1).all()
    assert "has the highest true AUC" in page.info[-1].value


def test_seven_labels_are_no_clear_answer(open_app):
    answers = answers_for("seven labels")
    assert answers.recommended.confidence in ("provisional", "cannot tell")
    assert answers.recommended.help_of_rules == "cannot tell"
