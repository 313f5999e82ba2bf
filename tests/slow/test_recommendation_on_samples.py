"""The recommendation on the samples without their truth, for several seeds; the truth judges it afterwards."""

from __future__ import annotations

import pytest
from sklearn.metrics import roc_auc_score

from spu_core import (
    Candidate,
    RuleSet,
    TrainConfig,
    compare_runs,
    cross_fit,
    load_sample,
    load_sample_rules,
    recommend,
    sample_names,
    sample_truth,
    soft_labels_for,
)
from spu_core.training.config import SHORTLIST

TWIN = "fused without rules"


@pytest.mark.slow
def test_the_answers_on_the_samples_are_never_wrong(replicates):
    samples, seeds = replicates(["breast_cancer"], sample_names()), range(replicates(1, 5))
    for name in samples:
        table, truth = load_sample(name), sample_truth(name)
        soft_labels = soft_labels_for(table, RuleSet.from_json(load_sample_rules(name)))
        candidates = [*SHORTLIST, Candidate("fused", name=TWIN, without_rules=True)]
        for seed in seeds:
            runs = cross_fit(table, soft_labels, candidates, TrainConfig(folds=replicates(3, 5), seed=seed))
            auc = {run.name: roc_auc_score(truth, run.score) for run in runs}
            help_of_rules = auc["fused"] - auc[TWIN]
            best = max(value for key, value in auc.items() if key != "rule_score")
            for origin in ("unknown", "chance"):
                found = recommend(compare_runs(runs), origin=origin)
                print(f"{name} {seed} {origin}: {found.model} {found.confidence}, rules {found.help_of_rules}", auc)
                assert auc[found.model] >= best - 0.05
                assert found.confidence != "clear" or auc[found.model] == best
                assert found.help_of_rules != "yes" or help_of_rules > 0.005
                assert found.help_of_rules != "no" or help_of_rules < -0.005
