"""A small table with every kind of column, its rules, and one run per method, trained once for all tests."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from spu_core.export import Bundle, LabelRules, ModelDetails, label_rules_of, load_bundle
from spu_core.export.archive import digest
from spu_core.labels import SoftLabels, assign_soft_labels
from spu_core.models import METHODS
from spu_core.rules import Compare, FittedRules, Rule, RuleSet
from spu_core.tables import Role, Table
from spu_core.training import Candidate, FittedCandidate, Run, TrainConfig, cross_fit

FAST = {"rounds": 8, "bags": 3, "em_steps": 2, "folds": 2}
ROLES = {"id": Role.ID, "when": Role.FEATURE, "label": Role.LABEL, "truth": Role.TRUTH}


def make_frame(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    """Numbers with gaps, levels with gaps, dates, flags and codes; the label follows amount and age."""
    rng = np.random.default_rng(seed)
    amount, age = rng.lognormal(size=rows), rng.normal(40, 10, rows)
    truth = rng.random(rows) < 1 / (1 + np.exp(-(np.log(amount) + 0.05 * (age - 40))))
    days = pd.to_timedelta(rng.integers(0, 300, rows), "D")
    return pd.DataFrame(
        {
            "id": [f"r{row}" for row in range(rows)],
            "amount": amount,
            "age": np.where(rng.random(rows) < 0.1, np.nan, age),
            "job": rng.choice(np.array(["clerk", "pilot", "cook", None], dtype=object), rows),
            "code": rng.choice(np.array(["007", "12", "300"]), rows),
            "when": pd.Timestamp("2024-01-01") + days,
            "vip": rng.random(rows) < 0.3,
            "label": (truth & (rng.random(rows) < 0.3)).astype(int),
            "truth": truth.astype(int),
        }
    )


@dataclass(frozen=True)
class Example:
    """A trained run with everything around it."""

    table: Table
    rules: FittedRules
    soft_labels: SoftLabels
    run: Run
    fitted: FittedCandidate

    @property
    def label_rules(self) -> LabelRules | None:
        return label_rules_of(self.soft_labels, self.rules)

    @property
    def bundle(self) -> Bundle:
        return _bundle(self.run.candidate.method)

    def expected(self, frame: pd.DataFrame) -> np.ndarray:
        """The scores of the refit, with the rule score made by hand."""
        nobody = np.zeros(len(frame), dtype=bool)
        matrix = self.rules.apply(frame)
        return self.fitted.score(frame, assign_soft_labels(matrix, nobody, "noisy_or").rule_score)


@cache
def example(method: str = "lightgbm") -> Example:
    table = Table.from_frame(make_frame(), name="examples", roles=ROLES, positive_values=(1,))
    rules = RuleSet(
        (Rule("big amount", 0.6, Compare("amount", ">", 1.5)), Rule("cook", 0.3, Compare("job", "=", "cook")))
    ).fit(table)
    soft_labels = assign_soft_labels(rules.apply(table.frame), table.is_labeled)
    known = {setting.name for setting in METHODS[method].settings()}
    settings = {name: value for name, value in FAST.items() if name in known}
    [run] = cross_fit(table, soft_labels, [Candidate(method, settings)], TrainConfig(folds=2, threads=1))
    assert run.error is None, run.error
    return Example(table, rules, soft_labels, run, run.fit_all())


@cache
def _bundle(method: str) -> Bundle:
    found = example(method)
    return Bundle.of(
        found.run, fitted=found.fitted, label_rules=found.label_rules, details=ModelDetails.of(found.table)
    )


def known(source: bytes | str | os.PathLike[str]) -> Bundle:
    """A bundle that the test has made itself: read without the trial in a child, which takes two seconds."""
    data = source if isinstance(source, bytes) else Path(source).read_bytes()
    return load_bundle(data, known_hash=digest(data))
