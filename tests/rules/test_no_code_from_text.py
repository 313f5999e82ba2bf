"""Rules are typed data with a fixed operator table: nothing in the engine runs text as code."""

import ast
from pathlib import Path

import pandas as pd
import pytest

import spu_core
from spu_core.rules import Compare, Rule, RuleSet
from spu_core.tables import Table

SOURCES = sorted(Path(spu_core.__file__).parent.rglob("*.py"))
# Each of these runs its text: as Python, as a pandas expression, or as whatever a pickle asks for.
RUNS_TEXT = {"eval", "exec", "compile", "query", "__import__", "system", "popen"}
HARMLESS = {("re", "compile"), ("cKDTree", "query")}

INJECTIONS = [
    "__import__('os').system('touch owned')",
    "@pd.io.common.os.system('touch owned')",
    "`x` > 0; import os",
    "1) or (1 = 1",
    "{{7*7}}",
    "=cmd|' /C calc'!A0",
    "<script>alert(1)</script>",
    "x\n\r\t\x00y",
    "../../etc/passwd",
    "%s%n{0.__class__}",
]


def calls_that_run_text(tree):
    """Calls by a name that runs text, where that text is anything but a constant."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        owner, name = None, getattr(node.func, "id", None)
        if isinstance(node.func, ast.Attribute):
            made_by = getattr(node.func.value, "func", node.func.value)  # `cKDTree(points).query(…)` has an owner too
            name, owner = node.func.attr, getattr(made_by, "id", None)
        texts = [*node.args[:1], *(keyword.value for keyword in node.keywords)]
        # Without any argument there is no text to run: `network.eval()` switches a mode.
        if name in RUNS_TEXT and (owner, name) not in HARMLESS and not all(isinstance(t, ast.Constant) for t in texts):
            yield f"line {node.lineno}: {name}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_the_engine_runs_no_text_as_code(path):
    assert list(calls_that_run_text(ast.parse(path.read_text()))) == []


@pytest.mark.parametrize(
    "bad",
    [
        "eval(x)",
        "frame.query(text)",
        "frame.eval(f'{a}')",
        "frame.query(expr=text)",
        "os.system(command)",
        "exec(*a)",
    ],
)
def test_the_guard_sees_what_it_should(bad):
    assert list(calls_that_run_text(ast.parse(bad)))


@pytest.mark.parametrize("text", INJECTIONS)
def test_hostile_text_stays_text(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({text: [text, "innocent", None], "n": [1.0, 2.0, 3.0]})
    table = Table.from_frame(frame)
    conditions = (Compare(text, "=", text), Compare(text, "contains", text), Compare(text, "in", [text]))
    rules = RuleSet(tuple(Rule(f"{text} {i}", 0.5, when, note=text) for i, when in enumerate(conditions)))

    fitted = RuleSet.from_json(rules.to_json()).fit(table)

    assert fitted.apply(frame).fired.tolist() == [[True] * 3, [False] * 3, [False] * 3]
    assert all(len(rule.text.splitlines()) == 1 for rule in fitted.rules)
    assert list(tmp_path.iterdir()) == []
