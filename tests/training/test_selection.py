"""A warning where the labels look selected, by simulation; silence where they are a random share of the positives."""

from __future__ import annotations

import numpy as np
import pandas as pd

from spu_core.labels import SoftLabels
from spu_core.tables import Table
from spu_core.training import Candidate, TrainConfig, compare_runs, cross_fit

# About 70 labels in each training part. It takes labels to see this: with 25 of them 2 of 6 worlds were warned of.
ROWS = 4000


def warned(seed, *, by_age, rule=1):
    """Columns a…d know the class, `age` does not; labels are 15 % of the positives, or the old ones among them."""
    rng = np.random.default_rng(seed)
    truth = rng.random(ROWS) < 0.3
    frame = pd.DataFrame(rng.normal(size=(ROWS, 4)) + 0.6 * truth[:, None], columns=list("abcd"))
    frame["age"] = rng.random(ROWS)
    labels = truth & (rng.random(ROWS) < (0.8 * frame["age"] ** 6 if by_age else 0.15))
    belief = np.where(rule * frame["a"] > 0.8, 0.6, 0.0)
    table = Table.from_frame(frame.assign(label=labels.astype(int)), roles={"label": "label"})
    soft_labels = SoftLabels.from_values(belief, labels, rule_columns=["a"])
    runs = cross_fit(table, soft_labels, [Candidate("fused", {"rounds": 20})], TrainConfig(folds=2, threads=1))
    warning = "'fused': Confirmed cases may not be typical: they differ"
    return any(note.startswith(warning) for note in compare_runs(runs).notes)


def test_selected_labels_are_warned_of_and_random_ones_are_not():
    # The warning is a hint, no proof: of six worlds each, one miss and one false alarm are allowed.
    assert sum(warned(seed, by_age=True) for seed in range(6)) >= 5
    assert sum(warned(seed, by_age=False) for seed in range(6)) <= 1


def test_wrong_rules_are_no_reason_to_doubt_the_labels():
    assert not any(warned(seed, by_age=True, rule=-1) for seed in range(3))
