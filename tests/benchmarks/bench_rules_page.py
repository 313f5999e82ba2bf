"""The rules page on 1e6 rows beside 1e4: the same interactions, the server's whole answer included."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from streamlit.testing.v1 import AppTest

from spu_core.rules import Compare, Ramp, Rule, RuleSet
from spu_core.tables import Role, Table
from spu_core.workspace import Workspace
from tests.benchmarks.harness import BenchRow, alternate

ROOT = Path(__file__).resolve().parents[2]
RULES = RuleSet(
    (
        Rule("a", 0.5, Compare("x1", ">", 1)),
        Rule("b", 0.3, Compare("x2", "<", 0) & Compare("c", "in", ["a", "b"])),
        Rule("r", Ramp(column="x3", start=0, end=2), Compare("x3", ">", 0)),
        Rule("d", 0.2, Compare("x4", ">", 0.5)),
    )
)


def some_table(rows: int) -> Table:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"x{i}": rng.normal(size=rows).round(4) for i in range(28)})
    frame["c"] = pd.Categorical(rng.choice(list("abcdef"), rows))
    frame["label"] = ((frame["x1"] > 1) & (rng.random(rows) < 0.05)).astype(int)
    return Table.from_frame(frame, roles={"label": Role.LABEL})


def open_page(rows: int) -> AppTest:
    with Workspace.open() as workspace:
        dataset = workspace.datasets.save(some_table(rows), f"{rows} rows")
        rules = workspace.rule_sets.create(f"{rows} rows", RULES.to_json())
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=300)
    app.query_params["dataset"], app.query_params["rules"] = dataset.id, rules.id
    return app.switch_page("pages/2_soft_labels.py").run()


def widget(app: AppTest, kind: str, end: str) -> Any:
    return next(each for each in getattr(app, kind) if (each.key or "").endswith(end))


def interactions(app: AppTest) -> dict[str, Callable[[], Any]]:
    """Each call does something new, so that no answer comes from a cache."""
    step = itertools.count(1)

    def brush() -> None:
        widget(app, "number_input", "_low").set_value(-1 + next(step) / 1000).run()

    def believe() -> None:
        widget(app, "slider", "_belief").set_value(0.01 + next(step) % 90 / 100).run()

    def shape() -> None:
        widget(app, "button_group", "_shape").set_value(["Ramp up", "Ramp down"][next(step) % 2]).run()
        widget(app, "number_input", "_low").set_value(-1 + next(step) / 1000).run()

    def save() -> None:
        widget(app, "number_input", "_floor").set_value(next(step) / 1000).run()

    return {"a range": brush, "a belief": believe, "a ramp": shape, "a saved change": save}


def rows() -> list[BenchRow]:
    with tempfile.TemporaryDirectory() as home:
        os.environ["SPU_HOME"] = home
        small, large = interactions(open_page(10_000)), interactions(open_page(1_000_000))
        found = []
        for name in small:
            seconds = alternate({"small": small[name], "large": large[name]}, repeats=3)
            ratio = seconds["large"] / seconds["small"]
            found.append(BenchRow(f"rules page, {name}: 1e6 rows against 1e4", ratio, 3.0, "at most"))
    return found
