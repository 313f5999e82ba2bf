"""The benchmark, end to end on a small table: run, resume, report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

from spu_core.bench.adapters import Adapter, bench_adapters, numbers
from spu_core.bench.cells import LABELLINGS, RULE_SETS, draw_labels, load_specs, look_rows, make_cell, split_rows
from spu_core.bench.page import critical_difference_svg, results_markdown
from spu_core.bench.report import cell_means, clear_losses, mean_ranks, yardstick_table
from spu_core.bench.runner import FOLDS, STORED, BenchPlan, precision_at, read_results, run_bench
from spu_core.cli import app
from spu_core.errors import SpuError, TableError
from spu_core.models import METHODS

RULES = {
    "strong": [["a", ">", 1.0, 0.6], ["job", "=", "pilot", 0.3]],
    "weak": [["b", ">", 1.0, 0.3]],
    "wrong": [["a", "<", -0.5, 0.5]],
}
SPEC = {"title": "Small", "file": "small.csv", "target": "y", "positive": ["yes"], "labelled_by": "b", "rules": RULES}
QUICK = ("fused", "fused without rules", "labeled_vs_rest", "lightgbm", "rule_score", "oracle")


def small_frame(rows=400):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(rows, 3)), columns=list("abc"))
    frame["job"] = rng.choice(["clerk", "pilot"], rows)
    frame["y"] = np.where(frame["a"] + (frame["job"] == "pilot") + rng.normal(size=rows) > 1, "yes", "no")
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("bench")
    small_frame().to_csv(place / "small.csv", index=False)
    (place / "small.json").write_text(json.dumps(SPEC))
    return place


@pytest.fixture(scope="module")
def results(folder):
    """Two seeds, one way of labelling, two rule sets and six methods, run in the command."""
    output = folder / "out"
    options = [part for name in QUICK for part in ("--method", name)]
    options += ["--labelling", "even", "--rules", "strong", "--rules", "wrong", "--seeds", "2"]
    place = ["--data", str(folder), "--specs", str(folder), "--scores", str(output / "scores")]
    done = CliRunner().invoke(app, ["bench", "run", str(output), *place, *options], catch_exceptions=False)
    assert "24 results" in done.output
    return output


def spec_of(folder):
    return load_specs(folder)[0]


def test_look_rows_are_never_trained_or_tested_on_and_the_other_parts_are_disjoint():
    train, test = split_rows(1000, seed=4)

    parts = [set(look_rows(1000).tolist()), set(train.tolist()), set(test.tolist())]
    assert [len(part) for part in parts] == [150, 550, 300]
    assert len(set.union(*parts)) == 1000
    assert [len(part) for part in split_rows(100_000, seed=0)] == [5000, 5000]


@pytest.mark.parametrize("labelling", LABELLINGS)
def test_only_positives_are_labelled_and_at_least_three_of_them(labelling):
    truth = np.zeros(500, dtype=bool)
    truth[:8] = True

    is_labeled = draw_labels(truth, np.arange(500.0), labelling, np.random.default_rng(0))

    assert is_labeled.sum() >= 3
    assert not (is_labeled & ~truth).any()


def test_labels_follow_their_law():
    truth, column = np.ones(40_000, dtype=bool), np.arange(40_000.0)
    drawn = {name: draw_labels(truth, column, name, np.random.default_rng(1)) for name in LABELLINGS}

    assert drawn["even"].mean() == pytest.approx(0.25, abs=0.01)
    assert drawn["scarce"].mean() == pytest.approx(0.05, abs=0.005)
    assert drawn["biased"][:4000].mean() == pytest.approx(0.0215, abs=0.01)
    assert drawn["biased"][-4000:].mean() == pytest.approx(0.427, abs=0.03)


def test_labels_and_rows_do_not_depend_on_the_rule_set(folder):
    spec = spec_of(folder)
    strong, wrong = (make_cell(spec, spec.load(folder), "even", name, 0) for name in ("strong", "wrong"))

    assert np.array_equal(strong.is_labeled, wrong.is_labeled)
    assert strong.X.equals(wrong.X)
    assert strong.rows.rule_columns == ("a", "job")
    by_hand = 1 - (1 - 0.6 * (strong.X_test["a"] > 1)) * (1 - 0.3 * (strong.X_test["job"] == "pilot"))
    assert strong.rule_score_test == pytest.approx(by_hand)


def test_precision_counts_ties_by_their_expected_share():
    truth = np.array([1, 0, 1, 0, 0, 0, 0, 0, 0, 0])

    assert precision_at(truth, np.array([9, 8, 7, 6, 5, 4, 3, 2, 1, 0]), 0.2) == 0.5
    assert precision_at(truth, np.zeros(10), 0.3) == pytest.approx(0.2)


def test_figures_are_those_of_the_stored_scores(results):
    found = read_results(results).set_index(["rules", "seed", "method"])
    stored = np.load(results / "scores" / "small.even.strong.1.npz")

    assert found.loc[("strong", 1, "fused"), "auc"] == pytest.approx(
        roc_auc_score(stored["truth_test"], stored["test/fused"])
    )
    out, fold = stored["oof/labeled_vs_rest"], stored["fold"]
    by_fold = [roc_auc_score(stored["truth"][fold == k], out[fold == k]) for k in range(FOLDS)]
    weight = [(fold == k).sum() for k in range(FOLDS)]
    assert found.loc[("strong", 1, "labeled_vs_rest"), "cv_true_auc"] == pytest.approx(
        np.average(by_fold, weights=weight)
    )
    assert found.loc[("strong", 0, "oracle"), "auc"] > 0.7


def test_a_run_goes_on_where_it_was_stopped_and_only_new_methods_are_run(results, folder):
    calls = []

    def constant(cell):
        calls.append(cell.rule_set)
        return np.zeros(len(cell.test))

    plan = BenchPlan(results, folder, folder, labellings=("even",), rule_sets=("strong", "wrong"), seeds=(0,))
    before = read_results(results)
    known = [each for each in bench_adapters() if each.name == "lightgbm"]
    run_bench(plan, [*known, Adapter("constant", constant)])
    run_bench(plan, [*known, Adapter("constant", constant)])

    added = read_results(results).query("method == 'constant'")
    assert calls == ["strong"]  # it reads no rules: one fit for both rule sets, and none in the second run
    assert (added["auc"] == 0.5).all()
    assert len(read_results(results)) == len(before) + 2
    for path in (results / "cells").glob("*.parquet"):  # the other tests count the methods
        kept = pd.read_parquet(path).query("method != 'constant'")
        kept.to_parquet(path, index=False)


def test_a_method_that_fails_is_told_and_does_not_end_the_run(folder, tmp_path):
    def broken(cell):
        raise ValueError("no such thing")

    plan = BenchPlan(tmp_path, folder, folder, labellings=("even",), rule_sets=("strong",))
    skipped = run_bench(plan, [Adapter("broken", broken), Adapter("absent", broken, needs="no_such_library")])

    assert read_results(tmp_path)["error"].tolist() == ["ValueError: no such thing"]
    assert skipped == ["absent was skipped: install no_such_library to run it."]


def test_two_processes_give_the_same_figures(folder, tmp_path):
    plans = [BenchPlan(tmp_path / name, folder, folder, rule_sets=("strong",)) for name in ("one", "two")]
    adapters = [each for each in bench_adapters() if each.name in ("labeled_vs_rest (logistic)", "rule_score")]

    for plan, workers in zip(plans, (1, 2), strict=True):
        run_bench(plan, adapters, workers=workers)

    one, two = (cell_means(read_results(plan.output)) for plan in plans)
    assert len(one) == len(LABELLINGS)
    pd.testing.assert_frame_equal(one, two)


def test_every_adapter_of_an_installed_library_scores_the_test_rows(folder):
    spec = spec_of(folder)
    cell = make_cell(spec, spec.load(folder), "even", "strong", 0)
    outside = [each for each in bench_adapters() if each.candidate is None and each.is_installed]

    for each in outside:
        assert roc_auc_score(cell.truth_test, each.score(cell)) > 0.6, each.name
    train, test = numbers(cell)
    assert train.shape[1] == test.shape[1]
    assert not np.isnan(test).any()


def test_the_report_the_page_and_the_stored_file_come_from_the_same_results(results, tmp_path):
    page, stored = tmp_path / "page.md", tmp_path / "all.parquet"
    page.write_text("# Head\n\n<!-- results: made by spu bench report -->\nold\n<!-- end of results -->\n\nTail\n")
    options = ["--page", str(page), "--store", str(stored)]

    done = CliRunner().invoke(app, ["bench", "report", str(results), *options], catch_exceptions=False)

    text = page.read_text()
    assert text.startswith("# Head")
    assert text.endswith("Tail\n")
    assert "old" not in text
    assert done.output in text
    assert "| fused without rules |" in text
    assert (tmp_path / "pictures" / "critical-difference.svg").read_text().startswith("<svg")
    pd.testing.assert_frame_equal(cell_means(pd.read_parquet(stored)), cell_means(read_results(results)))


def made_up(values):
    """Results with these AUCs: {method: [one per table]}."""
    return pd.DataFrame(
        [
            {"table": f"t{place}", "labelling": "even", "rules": "strong", "seed": 0, "method": name, "auc": value}
            for name, listed in values.items()
            for place, value in enumerate(listed)
        ]
    )


def test_ranks_and_clear_losses_are_counted_by_hand():
    results = made_up({"fused": [0.8, 0.7, 0.9], "one": [0.7, 0.8, 0.895], "two": [0.6, 0.6, 0.5], "oracle": [1, 1, 1]})

    ranks, critical = mean_ranks(results)

    assert ranks.to_dict() == pytest.approx({"fused": 4 / 3, "one": 5 / 3, "two": 3.0})
    assert critical == pytest.approx(2.343 * np.sqrt(3 * 4 / (6 * 3)), abs=1e-3)
    assert clear_losses(results, "fused").tolist() == [False, True, False]
    assert "two  3.0" in critical_difference_svg(ranks, critical)


def test_a_yardstick_that_is_the_truth_has_no_regret_and_one_turned_around_has_the_largest():
    results = made_up({"fused": [0.8], "one": [0.7], "two": [0.6]})
    results = results.assign(
        cv_true_auc=results["auc"], cv_auc_spu=results["auc"], cv_known_positive_auc=-results["auc"]
    )
    results["cv_refined_auc_spu"] = results["auc"]

    found = yardstick_table(results).set_index("chosen_by")

    assert found["regret"].to_dict() == pytest.approx(
        {"AUC_SPU": 0.0, "known-positive AUC": 0.2, "AUC_SPU on refined S": 0.1, "always fused": 0.0}, nan_ok=True
    )
    assert found.loc["AUC_SPU", "spearman"] == 1.0
    assert found.loc["known-positive AUC", "spearman"] == -1.0


def test_rows_can_come_from_openml(folder, tmp_path):
    (tmp_path / "web.json").write_text(json.dumps({**{k: v for k, v in SPEC.items() if k != "file"}, "openml": 61}))
    asked = []

    def fetch(number):
        asked.append(number)
        return small_frame()

    plan = BenchPlan(tmp_path / "out", None, tmp_path, labellings=("even",), rule_sets=("strong",))
    run_bench(plan, [each for each in bench_adapters() if each.name == "rule_score"], fetch=fetch)

    assert asked == [61]
    assert read_results(tmp_path / "out")["table"].tolist() == ["web"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"target": None}, "must be an object with"),
        ({"openml": 3}, "either a file or a number of OpenML"),
        ({"rules": {"strong": [["a", ">", 1]]}}, "the rule set 'strong' must list rules as"),
        ({"colour": "red"}, "must be an object with"),
    ],
)
def test_a_spec_that_is_wrong_is_refused_in_a_sentence(tmp_path, change, words):
    wrong = {name: value for name, value in {**SPEC, **change}.items() if value is not None}
    (tmp_path / "small.json").write_text(json.dumps(wrong))

    with pytest.raises(TableError, match=words):
        load_specs(tmp_path)


def test_a_missing_file_column_or_result_is_named(folder, tmp_path):
    spec = spec_of(folder)

    with pytest.raises(TableError, match=r"put small\.csv into the folder of --data"):
        spec.load(tmp_path)
    elsewhere = replace(spec, file=None, openml=1)
    with pytest.raises(TableError, match="no column 'b', which its spec names"):
        elsewhere.load(None, fetch=lambda _: small_frame().drop(columns="b"))
    with pytest.raises(SpuError, match="run `spu bench run` first"):
        read_results(tmp_path)


def test_the_development_tables_have_three_rule_sets_of_two_or_three_conditions():
    listed = load_specs()

    assert len(listed) == 11
    for spec in listed:
        assert set(spec.rules) == set(RULE_SETS)
        assert all(2 <= len(rules) <= 3 for rules in spec.rules.values())
        assert Path(spec.file).suffix == ".parquet"


def test_the_page_and_its_picture_show_the_stored_results():
    results, docs = read_results(STORED), Path(__file__).parents[2] / "docs"

    assert results_markdown(results) in (docs / "benchmark.md").read_text(encoding="utf-8")
    picture = (docs / "pictures" / "critical-difference.svg").read_text(encoding="utf-8")
    assert picture == critical_difference_svg(*mean_ranks(results))
    assert set(results["table"]) == {spec.name for spec in load_specs()}
    assert not (set(METHODS) - {"cnn"}) - set(results["method"])
