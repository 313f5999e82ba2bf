"""An audit without a workspace: train, draw rows, read the completed list, and let the checked rows decide."""

from __future__ import annotations

import numpy as np
import pandas as pd

import spu_core as spu


def auc(score, truth):
    return (score[truth][:, None] > score[~truth]).mean()


def test_a_notebook_draws_rows_reads_the_list_and_the_recommendation_follows_the_verdicts():
    rng = np.random.default_rng(0)
    truth = rng.random(900) < 0.3
    frame = pd.DataFrame({"good": rng.normal(size=900) + 2 * truth, "noise": rng.normal(size=900)})
    frame["label"] = (truth & (rng.random(900) < 0.15)).astype(int)
    table = spu.Table.from_frame(frame, roles={"label": "label"})
    wrong = spu.RuleSet((spu.Rule("Noise", spu.column("noise") > 0.5, belief=0.9),))
    candidates = [spu.Candidate("rule_score"), spu.Candidate("logistic"), spu.Candidate("labeled_vs_rest")]
    runs = spu.cross_fit(table, wrong, candidates, spu.TrainConfig(folds=3, threads=1))
    comparison = spu.compare_runs(runs)
    rows = {run.name: spu.Population.of_run(run) for run in comparison.runs}

    said = spu.forecast(rows["logistic"], "which_better", rival=rows["labeled_vs_rest"]).sentence(100)
    plan = spu.draw_audit(rows["logistic"], 100)
    listed = spu.review_list(table, plan)
    listed["verdict"] = np.where(truth[listed["row"]], "yes", "no")
    checked = spu.combine_audits([(plan, spu.read_verdicts(listed, plan).verdicts)])
    report = spu.judge_runs(comparison.runs, checked)
    found = spu.recommend(comparison.with_audit(report.evidence))

    assert "label" not in listed.columns
    assert "100 checks" in said
    assert report.references == {"rule_score"}
    assert spu.recommend(comparison).yardstick != "audit"
    assert found.yardstick == "audit"
    assert found.confidence == "clear"
    assert found.model == report.pairs[0].first == max(rows, key=lambda name: auc(rows[name].score, truth))


def test_too_few_verdicts_are_no_evidence():
    rng = np.random.default_rng(1)
    rows = {name: spu.Population.of(rng.random(300), rng.random(300), threshold=0.5) for name in ("a", "b")}
    plan = spu.draw_audit(rows["a"], 20)
    verdicts = [spu.Verdict(row, "positive" if at < 3 else "negative") for at, row in enumerate(plan.rows)]

    assert spu.judge_scores(rows, spu.combine_audits([(plan, verdicts)])).evidence is None
