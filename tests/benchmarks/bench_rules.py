"""Rules against the same comparisons written by hand in NumPy: 50 rules on 1e6 rows × 30 columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from spu_core.labels import assign_soft_labels
from spu_core.rules import AllOf, AnyOf, Compare, Rule, RuleSet
from spu_core.tables import Table
from tests.benchmarks.harness import BenchRow, alternate

ROWS, NUMBERS, TEXTS, RULES = 1_000_000, 25, 5, 50
LEVELS = ["red", "green", "blue", "black", "white"]


def frame_of(rows: int = ROWS, seed: int = 0) -> pd.DataFrame:
    """Numbers (some with gaps, some whole) and categories, as a read table has them."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"x{i}": rng.normal(size=rows) for i in range(NUMBERS)})
    for i in range(0, NUMBERS, 5):
        frame.loc[rng.random(rows) < 0.1, f"x{i}"] = np.nan
    frame["x1"] = rng.integers(0, 100, rows)
    for i in range(TEXTS):
        frame[f"c{i}"] = pd.Categorical.from_codes(rng.integers(0, len(LEVELS), rows), LEVELS)
    return frame


def rule_set() -> RuleSet:
    """Three kinds in turn: two numbers joined by and, a number or a category, one number in a range."""
    rules = []
    for i in range(RULES):
        first, second, third = f"x{i % NUMBERS}", f"x{(i + 7) % NUMBERS}", f"c{i % TEXTS}"
        conditions = (
            AllOf((Compare(first, ">", 0.1 * (i % 7)), Compare(second, "<=", 1.0))),
            AnyOf((Compare(first, ">", 2.0), Compare(third, "=", LEVELS[i % 5]))),
            Compare(first, "between", [0.5, 1.5]),
        )
        rules.append(Rule(f"rule {i}", 0.5, conditions[i % 3]))
    return RuleSet(tuple(rules))


def by_hand(columns: dict[str, np.ndarray], levels: list[Any]) -> np.ndarray:
    """What an analyst would write in NumPy, on arrays that are already there; `levels` as the columns hold them."""
    fired = np.empty((len(columns["x0"]), RULES), dtype=bool, order="F")
    for i in range(RULES):
        first, second = columns[f"x{i % NUMBERS}"], columns[f"x{(i + 7) % NUMBERS}"]
        if i % 3 == 0:
            fired[:, i] = (first > 0.1 * (i % 7)) & (second <= 1.0)
        elif i % 3 == 1:
            fired[:, i] = (first > 2.0) | (columns[f"c{i % TEXTS}"] == levels[i % 5])
        else:
            fired[:, i] = (first >= 0.5) & (first <= 1.5)
    return fired


def rows() -> list[BenchRow]:
    frame = frame_of()
    texts = frame.astype({f"c{i}": "str" for i in range(TEXTS)})
    coded = {name: _array(values) for name, values in frame.items()}
    plain = {name: _array(values) for name, values in texts.items()}
    codes = list(range(len(LEVELS)))
    fitted = rule_set().fit(Table.from_frame(frame))
    matrix = fitted.apply(frame)
    assert (matrix.fired == by_hand(coded, codes)).all()
    assert (fitted.apply(texts).fired == by_hand(plain, LEVELS)).all()
    nobody = np.zeros(len(frame), dtype=bool)
    seconds = alternate(
        {
            "by hand, categories as codes": lambda: by_hand(coded, codes),
            "by hand, texts": lambda: by_hand(plain, LEVELS),
            "categories": lambda: fitted.apply(frame),
            "texts": lambda: fitted.apply(texts),
            "noisy-or": lambda: assign_soft_labels(matrix, nobody),
        }
    )
    base = seconds["by hand, categories as codes"]
    return [
        BenchRow(
            "50 rules on 1e6 × 30, categories, against codes by hand",
            seconds["categories"] / base,
            3.0,
            "at most",
        ),
        BenchRow(
            "50 rules on 1e6 × 30, texts, against texts by hand",
            seconds["texts"] / seconds["by hand, texts"],
            3.0,
            "at most",
        ),
        BenchRow(
            "combining them by noisy-or, against comparing by hand",
            seconds["noisy-or"] / base,
            10.0,
            "at most",
        ),
    ]


def _array(values: pd.Series) -> np.ndarray:
    if isinstance(values.dtype, pd.CategoricalDtype):
        return values.cat.codes.to_numpy()
    return values.to_numpy(dtype=object) if values.dtype == "str" else values.to_numpy()
