"""Which method for my data: the advice follows the cells of the benchmark that are like the data."""

import pandas as pd
import pytest

from spu_core.bench import advise_method
from spu_core.errors import SpuError

TABLES = "abcd"


def results(**auc: float) -> pd.DataFrame:
    """Four tables with 50 labels, all ways of labelling and rule sets; `auc` by method, a little apart by table."""
    return pd.DataFrame(
        {
            "table": table,
            "labelling": labelling,
            "rules": rules,
            "seed": 0,
            "labels": 50,
            "method": method.replace("twin", "fused without rules"),
            "auc": value + 0.001 * (number + (method == "fused") * number % 2),
        }
        for number, table in enumerate(TABLES)
        for labelling in ("even", "scarce", "biased")
        for rules in ("strong", "weak", "wrong")
        for method, value in auc.items()
    )


def test_the_default_is_advised_where_no_method_is_clearly_better():
    advice = advise_method(50, results=results(fused=0.8, twin=0.79, lightgbm=0.8005))

    assert advice.method == "fused"
    assert advice.rival == "lightgbm"


def test_a_method_that_is_clearly_better_in_cells_like_the_data_replaces_the_default():
    biased = results(fused=0.8, twin=0.79, lightgbm=0.85, nnpu=0.7)
    elsewhere = results(fused=0.8, twin=0.79, lightgbm=0.7, nnpu=0.7)
    both = pd.concat([biased[biased["labelling"] == "biased"], elsewhere[elsewhere["labelling"] != "biased"]])

    assert advise_method(50, origin="other", results=both).method == "lightgbm"
    assert advise_method(50, origin="chance", results=both).method == "fused"


def test_methods_that_read_rules_are_not_compared_where_there_are_none():
    advice = advise_method(50, rules="none", results=results(fused=0.8, twin=0.7, lightgbm=0.9, labeled_vs_rest=0.6))

    assert advice.advised == "fused without rules"
    assert advice.sentence.startswith("Begin with Fused."), "without rules there is only one fused model"
    assert set(advice.ranking["method"]) == {"fused without rules", "labeled_vs_rest"}


def test_regret_is_counted_against_the_best_method_of_each_cell():
    advice = advise_method(50, rules="strong", results=results(fused=0.8, twin=0.79, lightgbm=0.7))

    assert advice.ranking.set_index("method")["regret"]["lightgbm"] == pytest.approx(0.1, abs=0.002)
    assert advice.cells == 12


@pytest.mark.parametrize(("rival", "words"), [(0.7002, "0.100 lower"), (0.8005, "the same"), (0.80105, "0.001 higher")])
def test_the_figure_of_the_next_best_method_says_what_it_is(rival, words):
    advice = advise_method(50, rules="strong", results=results(fused=0.8, twin=0.6, lightgbm=rival))

    assert f"LightGBM: its true AUC was on average {words} (± 0.000, standard error)." in advice.sentence


def test_the_number_of_labels_gives_way_where_too_few_tables_are_alike():
    assert advise_method(5_000, results=results(fused=0.8, twin=0.79, lightgbm=0.7)).tables == len(TABLES)


@pytest.mark.parametrize(
    "words", [{"confirmed": 0}, {"confirmed": 5, "origin": "luck"}, {"confirmed": 5, "rules": "good"}]
)
def test_what_cannot_be_advised_on_is_refused_with_a_sentence(words):
    with pytest.raises(SpuError):
        advise_method(words.pop("confirmed"), **words)


@pytest.mark.parametrize("confirmed", [3, 30, 300])
def test_the_stored_benchmark_gives_advice_for_every_situation(confirmed):
    for origin in ("chance", "rules", "other", "unknown"):
        for rules in ("strong", "weak", "unknown", "none"):
            advice = advise_method(confirmed, origin=origin, rules=rules)
            assert advice.tables >= 4
            assert advice.sentence.startswith("Begin with Fused. In the")
