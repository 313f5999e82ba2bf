"""A small table with mixed columns, a known truth, some labels and a rule, for all tests of models."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest


@dataclass(frozen=True)
class Case:
    X: pd.DataFrame
    soft_label: np.ndarray
    is_labeled: np.ndarray
    rule_score: np.ndarray
    truth: np.ndarray
    rule_columns: tuple

    @property
    def beliefs(self):
        """Everything that `SoftLabelClassifier.fit` takes beside X and the soft label."""
        return {
            "is_labeled": self.is_labeled,
            "rule_score": self.rule_score,
            "truth": self.truth,
            "rule_columns": self.rule_columns,
        }


def make_case(rows=600, seed=0):
    """Income and job decide the truth; the rule sees a noisy sign of it; a third of the positives is labelled."""
    rng = np.random.default_rng(seed)
    income, age = rng.normal(size=rows), rng.normal(size=rows)
    job = rng.choice(["clerk", "pilot", "cook"], rows)
    truth = rng.random(rows) < 1 / (1 + np.exp(1.0 - 2.0 * income - 1.5 * (job == "pilot")))
    sign = truth + rng.normal(size=rows)
    is_labeled = truth & (rng.random(rows) < 0.33)
    rule_score = np.where(sign > 1.0, 0.6, np.where(sign > 0.3, 0.3, 0.0))
    X = pd.DataFrame({"income": income, "age": age, "job": job, "sign": sign, "member": rng.random(rows) < 0.5})
    X.loc[::17, "age"] = np.nan
    return Case(X, np.where(is_labeled, 1.0, rule_score), is_labeled, rule_score, truth, ("sign",))


@pytest.fixture(scope="session")
def case():
    return make_case()


# Small and single-threaded, so that the whole list is fitted in seconds on a busy machine.
FAST = {
    "fused": {"rounds": 15},
    "xgboost": {"rounds": 15},
    "lightgbm": {"rounds": 15},
    "neural_net": {"rounds": 5},
    "extra_trees": {"rounds": 10},
    "nearest_neighbors": {"neighbors": 15},
    "logistic": {},
    "two_stage": {"rounds": 15},
    "soft_bagging": {"rounds": 15, "bags": 4},
    "labeled_vs_rest": {"rounds": 15},
    "soft_as_positive": {"rounds": 15},
    "soft_as_feature": {"rounds": 15},
    "soft_threshold": {"rounds": 15},
    "elkan_noto": {"rounds": 15},
    "weighted_elkan_noto": {"rounds": 15},
    "bagging_pu": {"rounds": 15, "bags": 4},
    "nnpu": {"rounds": 5, "prior": 0.4},
    "sar_em": {"em_steps": 3},
    "rule_score": {},
    "oracle": {"rounds": 15},
}
ONE_THREAD = {
    key: settings
    for key, settings in FAST.items()
    if key not in {"neural_net", "logistic", "nnpu", "sar_em", "rule_score"}
}
FAST |= {key: {**settings, "threads": 1} for key, settings in ONE_THREAD.items()}


@pytest.fixture(scope="session")
def fast_settings():
    return FAST


@pytest.fixture(params=sorted(FAST))
def any_method(request):
    """(key, fast settings) of every method but the convolutional network, which has tests of its own."""
    return request.param, FAST[request.param]
