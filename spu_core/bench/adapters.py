"""What the benchmark runs: all methods of the registry, and methods of other libraries through an adapter.

An adapter takes a `Cell` and returns one score per test row; ten lines are enough for a method of your own:

    def forest(cell: Cell) -> np.ndarray:
        train, test = numbers(cell)
        return RandomForestClassifier(500).fit(train, cell.is_labeled).predict_proba(test)[:, 1]

    run_bench(plan, [*bench_adapters(), Adapter("forest", forest)])

The data are one sample: labels are drawn from the positives of the same rows. `assumes` says what a method takes for
granted about them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

from spu_core.bench.cells import Cell
from spu_core.models import METHODS, Features, Model, Need, SoftLightGBM, TrainingRows
from spu_core.training import Candidate

ONE_SAMPLE = "one sample, labels drawn at random"
TWO_SAMPLES = "two samples (labelled rows drawn apart)"
SELECTED = "one sample, labels depend on columns"
NOTHING = "nothing about labelling"
ASSUMES = {
    "elkan_noto": ONE_SAMPLE,
    "weighted_elkan_noto": ONE_SAMPLE,
    "fused": ONE_SAMPLE,
    "nnpu": TWO_SAMPLES,
    "bagging_pu": TWO_SAMPLES,
    "soft_bagging": TWO_SAMPLES,
    "sar_em": SELECTED,
}


@dataclass(frozen=True)
class Adapter:
    """A method of the benchmark: its name, and a function from a cell to the scores of its test rows.

    `reads_rules` is False for methods that learn from labels alone; they are fitted once for all rule sets. `needs`
    names a library; without it the method is skipped. `candidate` is set for methods of the registry.
    """

    name: str
    score: Callable[[Cell], np.ndarray]
    reads_rules: bool = False
    assumes: str = NOTHING
    needs: str | None = None
    candidate: Candidate | None = None

    @property
    def is_installed(self) -> bool:
        return self.needs is None or find_spec(self.needs) is not None


def fit_candidate(candidate: Candidate, rows: TrainingRows, seed: int) -> Model:
    """Fit a method of the registry on these rows with one thread."""
    if candidate.without_rules:
        labels = rows.is_labeled
        rows = replace(rows, soft_label=labels.astype(np.float64), rule_score=np.zeros(labels.size))
    rows.features.store.fits.known.clear()  # every method pays for its own fits
    names = {setting.name for setting in candidate.entry.settings(candidate.settings.get("learner"))}
    common: Mapping[str, Any] = {"seed": seed, "threads": 1}
    return candidate.entry.fit(rows, {**{k: v for k, v in common.items() if k in names}, **candidate.settings})


def of_registry(candidate: Candidate) -> Adapter:
    """The adapter of a method of the registry."""

    def score(cell: Cell) -> np.ndarray:
        return fit_candidate(candidate, cell.rows, cell.seed).score_rows(cell.test, cell.rule_score_test)

    entry = candidate.entry
    reads = candidate.method == "fused" or Need.RULE_SCORE in entry.needs or Need.SOFT_LABELS in entry.needs
    return Adapter(
        name=candidate.name,
        score=score,
        reads_rules=reads and not candidate.without_rules,
        assumes=ASSUMES.get(candidate.method, NOTHING),
        candidate=candidate,
    )


def numbers(cell: Cell) -> tuple[np.ndarray, np.ndarray]:
    """Training and test rows without missing values: numbers by their ranks, categories as one column per level."""
    view = cell.rows.features.linear_view()
    return view.transform_rows(cell.rows.features), view.transform_rows(cell.test)


def pulearn_bagging(cell: Cell) -> np.ndarray:
    from pulearn import BaggingPuClassifier
    from sklearn.tree import DecisionTreeClassifier

    bag = int(min(max(cell.is_labeled.sum(), 10), (~cell.is_labeled).sum()))
    tree = DecisionTreeClassifier(random_state=cell.seed)
    model = BaggingPuClassifier(tree, n_estimators=100, max_samples=bag, random_state=cell.seed, oob_score=False)
    train, test = numbers(cell)
    return model.fit(train, cell.is_labeled.astype(int)).predict_proba(test)[:, 1]


def catboost(cell: Cell) -> np.ndarray:
    from catboost import CatBoostClassifier

    places = np.flatnonzero(cell.rows.features.is_category).tolist()
    settings: dict[str, Any] = {"iterations": 300, "thread_count": 1, "random_seed": cell.seed, "verbose": False}
    model = CatBoostClassifier(cat_features=places, allow_writing_files=False, **settings)
    model.fit(_for_catboost(cell.rows.features), cell.is_labeled.astype(int))
    return model.predict_proba(_for_catboost(cell.test))[:, 1]


def _for_catboost(features: Features) -> pd.DataFrame:
    """CatBoost wants categories as text."""
    return pd.DataFrame(features.matrix).astype(dict.fromkeys(np.flatnonzero(features.is_category), "str"))


def snorkel_label_model(cell: Cell) -> np.ndarray:
    """Rules and labels vote (1 where they fire, no vote elsewhere); trees learn the label model's probabilities."""
    from snorkel.labeling.model import LabelModel

    votes = np.where(np.column_stack([cell.fired, cell.is_labeled]), 1, -1)
    model = LabelModel(cardinality=2, verbose=False)
    model.fit(votes, class_balance=[0.8, 0.2], seed=cell.seed, progress_bar=False)
    target = np.where(cell.is_labeled, 1.0, model.predict_proba(votes)[:, 1])
    return SoftLightGBM(seed=cell.seed, threads=1).fit_rows(cell.rows.features, target).score_rows(cell.test)


OUTSIDE = (
    Adapter("pulearn bagging", pulearn_bagging, assumes=TWO_SAMPLES, needs="pulearn"),
    Adapter("catboost", catboost, needs="catboost"),
    Adapter("snorkel label model", snorkel_label_model, reads_rules=True, needs="snorkel"),
)


def bench_adapters() -> list[Adapter]:
    """The registry without the method for images, fused without rules, a linear baseline, and the outside methods."""
    registry = [Candidate(key) for key in METHODS if key != "cnn"]
    more = [
        Candidate("fused", without_rules=True),
        Candidate("labeled_vs_rest", {"learner": "logistic"}, name="labeled_vs_rest (logistic)"),
    ]
    return [*map(of_registry, [*registry, *more]), *OUTSIDE]
