"""A small table, rules that suit it, and ways to look at the Soft labels page."""

from __future__ import annotations

import numpy as np
import pandas as pd

from spu_core.rules import Compare, Rule, RuleSet
from spu_core.tables import Role, Table
from spu_core.workspace import Workspace

PAGE = "pages/2_soft_labels.py"
HOSTILE = "<script>alert(1)</script>"
ODD = "$\\frac{1}{2}$ :red[x] **b**"


def some_table(rows: int = 600, extra: str = "city") -> Table:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, rows)
    frame = pd.DataFrame(
        {
            "age": age,
            "gain": rng.exponential(100, rows).round(2),
            extra: pd.Categorical(rng.choice(["Bern", HOSTILE, ODD], rows)),
            "joined": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 365, rows), "D"),
            "label": ((age > 60) & (rng.random(rows) < 0.3)).astype(int),
        }
    )
    return Table.from_frame(frame, roles={"label": Role.LABEL})


SAVED = RuleSet((Rule("Older", 0.4, Compare("age", ">=", 60)), Rule("Rich", 0.3, Compare("gain", ">", 200))))


def keep(rules: RuleSet | None = SAVED, table: Table | None = None, folder=None) -> dict[str, str]:
    """A dataset and a rule set in the workspace, as an address names them."""
    with Workspace.open(folder) as workspace:
        dataset = workspace.datasets.save(some_table() if table is None else table, "people")
        query = {"dataset": dataset.id}
        if rules is not None:
            query["rules"] = workspace.rule_sets.create("my rules", rules.to_json(), dataset=dataset.id).id
    return query


def saved_rules(query: dict[str, str], folder=None) -> RuleSet:
    with Workspace.open(folder) as workspace:
        return RuleSet.from_json(workspace.rule_sets.get(query["rules"]).text)


def figures(page) -> dict[str, str]:
    return {metric.label: metric.value for metric in page.metric}


def widget(page, kind: str, end: str):
    """The widget whose key ends so: keys of the draft begin with its generation."""
    return next(each for each in getattr(page, kind) if (each.key or "").endswith(end))
