"""The cache of the dashboard: what a key must tell apart, that nothing is unbounded, and what a rerun costs."""

from __future__ import annotations

import ast
from pathlib import Path
from shutil import copytree

import numpy as np
import plotly.graph_objects as go
import pytest
from streamlit.testing.v1 import AppTest

from pages.ui.shared.cached import KEYS, draw_once, load_table, parse_rules
from pages.ui.shared.shell import DONE, STALE, marks_of
from pages.ui.soft_labels.editor_state import rule_preview
from spu_core.charts import LIGHT, missing_chart
from spu_core.rules import AllOf, AnyOf, Compare, Rule, RuleSet
from spu_core.workspace import Outcome, RunDraft, Threshold, Workspace
from tests.dashboard.rule_drafts import SAVED, some_table

SHARED = missing_chart(some_table(50).profile(), theme=LIGHT)
ROOT = Path(__file__).resolve().parents[3]
# What names the owner of cached data. Rule sets are parsed by their text; stored results come with the program.
OWNERS = ("Workspace", "EvaluatedModel", "UploadedFile")
WITHOUT_OWNER = {"_advice_of_benchmark", "_theorem_pictures", "parse_rules", "stored_results", "_offers", "_workspace"}


@pytest.fixture
def workspace(tmp_path):
    with Workspace.open(tmp_path / "home") as opened:
        yield opened


def cached_functions() -> list[tuple[str, ast.FunctionDef, ast.Call]]:
    found = []
    for path in sorted((ROOT / "pages").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                calls = [each for each in node.decorator_list if isinstance(each, ast.Call)]
                found += [(str(path), node, call) for call in calls if "cache_" in ast.unparse(call.func)]
    return found


def test_everything_that_is_cached_is_bounded_and_names_its_owner():
    functions = cached_functions()
    assert len(functions) > 40

    for path, function, call in functions:
        arguments = {keyword.arg for keyword in call.keywords}
        assert call.args or "max_entries" in arguments, (path, function.name)
        kinds = {ast.unparse(each.annotation) for each in function.args.args if each.annotation is not None}
        assert kinds & set(OWNERS) or function.name in WITHOUT_OWNER, (path, function.name)


def test_conditions_with_equal_parts_have_different_keys():
    parts = (Compare("age", ">", 60), Compare("gain", ">", 200))
    both, either = (Rule("rule", 0.9, joined(parts), id="same") for joined in (AllOf, AnyOf))

    assert KEYS[Rule](both) != KEYS[Rule](either)


def test_a_preview_follows_the_draft_and_the_prior(workspace):
    dataset = workspace.datasets.save(some_table(), "people")
    parts = (Compare("age", ">", 40), Compare("gain", ">", 50))
    drafts = [None, *(Rule("rule", 0.9, joined(parts), id="same") for joined in (AllOf, AnyOf))]

    none, both, either = (rule_preview(workspace, dataset, SAVED.to_json(), draft, None).mean for draft in drafts)

    assert none < both < either
    edited = Rule("Older", 0.9, Compare("age", ">=", 60), id=SAVED["older"].id)
    assert rule_preview(workspace, dataset, SAVED.to_json(), edited, None).mean > none


def test_two_workspaces_share_no_table_and_a_new_version_is_loaded_anew(workspace, tmp_path):
    dataset = workspace.datasets.save(some_table(), "people")
    copytree(workspace.folder, tmp_path / "copy")
    with Workspace.open(tmp_path / "copy") as copy:
        assert load_table(workspace, dataset) is load_table(workspace, dataset)
        assert load_table(workspace, dataset) is not load_table(copy, copy.datasets.get(dataset.id))

    changed = load_table(workspace, dataset).with_roles({"gain": "ignore"})
    newer = workspace.datasets.save_roles(changed, dataset)
    assert load_table(workspace, newer).roles["gain"] == "ignore"
    assert load_table(workspace, dataset).roles["gain"] != "ignore"


def test_the_marks_of_all_steps_need_one_query(workspace):
    dataset = workspace.datasets.save(some_table(), "people")
    rules = workspace.rule_sets.create("rules", SAVED.to_json())
    assert marks_of(workspace, dataset, None) == {"Data": DONE}
    unlabeled = workspace.datasets.save(some_table().with_roles({"label": "ignore"}), "no label")
    assert marks_of(workspace, unlabeled, None) == {}

    def run(name: str) -> str:
        version = {"rule_set": rules.id, "rule_set_version": rules.number}
        draft = RunDraft(name=name, dataset=dataset.id, candidate={"method": "logistic"}, **version)
        return workspace.runs.save(draft, lambda path: path.write_bytes(name.encode())).id

    runs = [run(name) for name in ("a", "b", "c")]
    done = {"Data": DONE, "Soft labels": DONE, "Train": DONE, "Compare": DONE}
    assert marks_of(workspace, dataset, rules) == done

    workspace.exports.save(runs[0], "a.spu", "bundle", lambda path: path.write_bytes(b"bundle"))
    workspace.outcomes.add(dataset.id, [Outcome(0, True)])
    assert marks_of(workspace, dataset, rules) == {**done, "Trust": DONE, "Export": DONE}

    workspace.thresholds.save_champion(runs[1], Threshold("point", 0.5, 0.1))
    newer = workspace.rule_sets.save(rules, RuleSet().to_json())
    stale = {"Train": STALE, "Compare": STALE, "Export": STALE}
    queries: list[str] = []
    workspace.catalogue._connected().set_trace_callback(queries.append)
    assert marks_of(workspace, dataset, newer) == {**done, "Trust": DONE, **stale}
    assert len(queries) == 1


def test_the_rules_of_a_dataset_are_found_without_parsing_any(open_app, monkeypatch):
    with Workspace.open() as workspace:
        dataset = workspace.datasets.save(some_table(), "people")
        fits = workspace.rule_sets.create(
            "fits", RuleSet((Rule("parsed once", 0.31, Compare("age", ">", 61)),)).to_json(), dataset=dataset.id
        )
        for number in range(3):
            other = RuleSet((Rule("elsewhere", 0.2, Compare(f"column {number}", ">", 1)),))
            workspace.rule_sets.create(f"other {number}", other.to_json())
    parsed: list[str] = []
    original = RuleSet.from_json
    monkeypatch.setattr(RuleSet, "from_json", lambda text: parsed.append(text) or original(text))

    for _ in range(3):
        page = open_app("pages/1_data.py", dataset=dataset.id)
        assert page.query_params["rules"] == fits.id

    assert parsed == []
    assert parse_rules(fits.text).names == ("parsed once",)


def test_an_error_while_a_key_is_made_is_shown_as_it_is():
    def page():
        from pages.ui.shared.cached import cache_result
        from pages.ui.shared.shell import show_errors
        from spu_core.errors import WorkspaceError

        def refuse(value):
            raise WorkspaceError(f"The catalogue cannot be read: {value}.")

        @cache_result(1, keys={complex: refuse})
        def size(value: complex) -> float:
            return abs(value)

        with show_errors("Data"):
            size(1j)

    app = AppTest.from_function(page).run(timeout=600)

    assert [box.value for box in app.error] == ["The catalogue cannot be read\\: 1j\\."]


def test_a_chart_is_drawn_once_for_the_same_results_and_again_for_others():
    drawn = []

    def draw(curve, names, *, theme):
        drawn.append((curve.tolist(), dict(names), theme))
        return go.Figure()

    curve = np.array([1.0, 2.0])
    first = draw_once(draw, curve, {"a": 1.0}, theme="dark")

    assert draw_once(draw, curve, {"a": 1.0}, theme="dark") is first
    assert len(drawn) == 1
    draw_once(draw, curve, {"a": 1.0}, theme="light")
    draw_once(draw, curve, {"a": 2.0}, theme="dark")
    draw_once(draw, np.array([1.0, 3.0]), {"a": 1.0}, theme="dark")
    assert drawn[1:] == [
        ([1.0, 2.0], {"a": 1.0}, "light"),
        ([1.0, 2.0], {"a": 2.0}, "dark"),
        ([1.0, 3.0], {"a": 1.0}, "dark"),
    ]


def test_a_shared_chart_is_not_changed_by_a_page_that_shows_it():
    def page():
        from pages.ui.shared.show import show_chart
        from tests.dashboard.shared.test_cached import SHARED

        show_chart(SHARED, "chart", with_texts=True, on_select=lambda: None, selection_mode="points")

    before = SHARED.to_json()
    app = AppTest.from_function(page).run(timeout=600)

    assert len(app.get("plotly_chart")) == 1
    assert SHARED.to_json() == before
