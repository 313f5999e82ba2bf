"""The guide for contributors, followed to the letter: its code is put where it says, and the new thing works."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from streamlit.testing.v1 import AppTest

from pages.ui.soft_labels import editor
from pages.ui.train import training
from spu_core.engines import JOBS, Job, run_in_process
from spu_core.labels import audit_soft_labels, preview_base, soft_labels_for
from spu_core.models import METHODS
from spu_core.models.methods import baselines
from spu_core.rules import OPERATORS, Compare, Rule, RuleSet
from spu_core.rules import combine as combiners
from spu_core.rules import operators as operator_module
from spu_core.rules.columns import Columns
from spu_core.rules.combine import COMBINERS
from spu_core.rules.conditions import holds
from spu_core.rules.operators import SHAPES
from spu_core.training import Candidate, TrainConfig, TrainPlan, cross_fit
from spu_core.workspace import Workspace
from tests import doc_tables
from tests.dashboard.rule_drafts import PAGE, keep, saved_rules, some_table, widget
from tests.dashboard.trained import bring_sample
from tests.rules import strategies

ROOT = Path(__file__).resolve().parent.parent
GUIDE = (ROOT / "docs/contributing.md").read_text(encoding="utf-8")


def code_of(section: str) -> list[str]:
    """The Python blocks of a section of the guide."""
    text = re.search(rf"^## {section}\n(.*?)^## ", GUIDE, re.DOTALL | re.MULTILINE).group(1)
    return [
        textwrap.dedent(block) for block in re.findall(r"^ *```python\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    ]


def value_of(code: str, module=None, **more):
    """The value of an expression of the guide, in the names of the module where it says to put it."""
    return eval(code, {**(vars(module) if module else {}), **more})


def define(code: str, module, monkeypatch) -> None:
    """Functions of the guide, added to the module where it says to put them."""
    names: dict = {}
    exec(compile(code, "docs/contributing.md", "exec"), dict(vars(module)), names)
    for name, function in names.items():
        monkeypatch.setitem(function.__globals__, name, function)
        monkeypatch.setattr(module, name, function, raising=False)


def open_page(page: str, **query: str) -> AppTest:
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=600)
    for key, value in query.items():
        app.query_params[key] = value
    return app.switch_page(page).run()


@pytest.mark.parametrize(("page", "mark"), [(page, mark) for page, made in doc_tables.parts().items() for mark in made])
def test_the_tables_of_the_documentation_list_what_the_engine_holds(page, mark):
    """Write them with `python -m tests.doc_tables`."""
    assert doc_tables.part(page, mark).group(2) == doc_tables.parts()[page][mark]


def test_every_shape_of_values_has_its_widgets_and_its_random_values():
    names = {shape.name for shape in SHAPES}

    assert set(editor.VALUE_INPUTS) == set(strategies.SHAPED) == names


@pytest.fixture
def starts_with(monkeypatch):
    row, definition = code_of("Add a rule operator")
    operator = value_of(row, operator_module)
    monkeypatch.setitem(OPERATORS, operator.sign, operator)
    for sign, meaning in value_of(definition).items():
        monkeypatch.setitem(strategies.ROW_BY_ROW, sign, meaning)


def test_an_operator_works_in_the_engine_and_in_json(starts_with):
    table = some_table()
    is_bern = (table.frame["city"] == "Bern").to_numpy()
    rules = RuleSet((Rule("a", 0.5, Compare("city", "starts_with", "Be")),))

    assert str(rules) == "a: city starts with 'Be' → 0.50"
    assert rules.check(table) == ()
    assert np.array_equal(RuleSet.from_json(rules.to_json()).fit(table).apply(table.frame).fired[:, 0], is_bern)
    [finding] = RuleSet((Rule("a", 0.5, Compare("age", "starts_with", "4")),)).check(table)
    assert finding.message.endswith("column 'age' holds numbers: starts with is for texts only.")


def test_an_operator_is_compared_with_its_plain_definition(starts_with):
    seen = set()

    @given(strategies.COMPARISONS)
    @settings(max_examples=50, derandomize=True)
    def compare(drawn):
        seen.add(drawn.operator)
        columns = Columns(strategies.frame_of(strategies.EVERY_VALUE), strategies.KINDS)
        expected = [strategies.holds_for_row(drawn, row) is True for row in strategies.EVERY_VALUE]
        assert holds(drawn, columns).tolist() == expected

    compare()
    assert "starts_with" in seen


def test_an_operator_is_offered_by_the_rule_editor(starts_with):
    query = keep(rules=None)
    page = open_page(PAGE, **query)
    widget(page, "selectbox", "_0_column").select("city").run()
    asked = widget(page, "selectbox", "_operator")
    assert "starts with" in asked.options
    asked.select("starts_with").run()
    widget(page, "text_input", "_text").set_value("Be").run()
    page.button(key="soft_save").click().run()

    assert not page.exception
    assert saved_rules({"rules": page.query_params["rules"]}).rules[0].when == Compare("city", "starts_with", "Be")


def test_an_operator_is_in_the_documentation(starts_with):
    row = "| `starts_with` | starts with | texts | a text to look for | the value begins with the text; upper and lower"

    assert row in doc_tables.operators()


@pytest.fixture
def weakest(monkeypatch):
    functions, row, definition = code_of("Add a combiner")
    define(functions, combiners, monkeypatch)
    combiner = value_of(row, combiners)
    monkeypatch.setitem(COMBINERS, combiner.name, combiner)
    return value_of(definition)[combiner.name]


def test_a_combiner_works_in_the_engine_in_json_and_in_the_preview(weakest):
    table = some_table()
    rules = RuleSet(
        (Rule("old", 0.6, Compare("age", ">", 60)), Rule("rich", 0.2, Compare("gain", ">", 100))), "weakest"
    )
    draft = Rule("city", 0.4, Compare("city", "=", "Bern"))
    found = soft_labels_for(table, RuleSet.from_json(rules.add(draft).to_json()))

    belief, fired = found.matrix.belief, found.matrix.fired
    assert found.rule_score.tolist() == [weakest(row[flags].tolist()) for row, flags in zip(belief, fired, strict=True)]
    audit = audit_soft_labels(found)
    assert preview_base(table, rules).preview(draft).mean == pytest.approx(audit.mean)
    row = int(np.argmax(fired.sum(axis=1)))
    assert sum(part.amount for part in found.explain(row).contributions) == pytest.approx(found.rule_score[row])


def test_a_combiner_is_offered_by_the_page_and_is_in_the_documentation(weakest):
    query = keep()
    page = open_page(PAGE, **query)
    chosen = page.selectbox(key="soft_1_combine")
    assert "The weakest" in chosen.options
    chosen.select("weakest").run()

    assert not page.exception
    assert saved_rules(query).combine == "weakest"
    assert "| `weakest` | The weakest | The smallest belief among the fired rules. |" in doc_tables.combiners()


@pytest.fixture
def above_median(monkeypatch):
    function, entry = code_of("Add a method")
    define(function, baselines, monkeypatch)
    method = value_of(entry, baselines)
    monkeypatch.setitem(METHODS, method.key, method)


def test_a_method_works_in_the_engine_and_in_json(above_median):
    table = some_table()
    soft_labels = soft_labels_for(table, RuleSet((Rule("old", 0.6, Compare("age", ">", 50)),)))
    plan = TrainPlan(TrainConfig(folds=2, threads=1), (Candidate("above_median", {"learner": "logistic"}),))
    assert TrainPlan.from_json(plan.to_json()) == plan

    [run] = cross_fit(table, soft_labels, plan.candidates, plan.config)

    assert run.error is None
    assert run.metrics.auc_spu.estimate > 0.5


def test_a_method_is_offered_by_the_page_and_is_in_the_documentation(above_median, monkeypatch):
    started: list[Job] = []
    monkeypatch.setattr(training, "start_worker", lambda workspace, job: started.append(job))
    with Workspace.open() as workspace:
        query = bring_sample(workspace)
    page = open_page("pages/3_train.py", **query)
    page.checkbox(key="train_pick_above_median").check().run()
    page.button(key="train_start").click().run()

    assert not page.exception
    [job] = started
    assert "above_median" in [each.method for each in TrainPlan.from_json(job.parameters["plan"]).candidates]
    row = "| `above_median` | Takes rows whose soft label is above the median for positives. | soft labels | dropped |"
    assert row in doc_tables.methods()
    assert "### `above_median`: Above the median" in doc_tables.parts()["settings.md"]["settings"]


@pytest.fixture
def count_rows(monkeypatch, tmp_path):
    function, line, page = code_of("Add a kind of job")
    # The module lies beside the engine rather than in it.
    (tmp_path / "count_rows.py").write_text(
        f"from typing import Any\n\nfrom spu_core.engines.jobs import JobContext\n\n\n{function}", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for kind, home in value_of(line).items():
        monkeypatch.setitem(JOBS, kind, home.removeprefix("spu_core.engines.jobs."))
    yield page
    sys.modules.pop("count_rows", None)


def test_a_kind_of_job_works_in_the_engine_and_is_kept_as_json(count_rows):
    with Workspace.open() as workspace:
        dataset = workspace.datasets.save(some_table(), "people")
        done = run_in_process(workspace, Job(kind="count_rows", parameters={"dataset": dataset.id}))
    with Workspace.open() as workspace:
        stored = workspace.jobs.get(done.id)

    assert (stored.kind, dict(stored.parameters), dict(stored.result)) == (
        "count_rows",
        {"dataset": dataset.id},
        {"rows": 600},
    )


def test_a_kind_of_job_works_on_a_page_and_is_in_the_documentation(count_rows):
    with Workspace.open() as workspace:
        dataset = workspace.datasets.save(some_table(), "people").id
    # A worker is a process of its own, which does not know what this test has added; the job is done here instead.
    script = textwrap.dedent(
        """
        import streamlit as st
        from pages.ui.shared.text import plain
        from spu_core.engines import Job, jobs_now, run_in_process as start_worker
        from spu_core.workspace import JobStatus, Workspace
        dataset = {dataset!r}
        with Workspace.open() as workspace:
        {page}
        """
    ).format(dataset=dataset, page=textwrap.indent(count_rows, "    "))
    page = AppTest.from_string(script, default_timeout=600).run()
    page.button[0].click().run()

    assert not page.exception
    assert [each.value for each in page.markdown] == ["600 rows"]
    assert '| `count_rows` | `{"dataset": id}` → `{"rows": 569}`. |' in doc_tables.job_kinds()
