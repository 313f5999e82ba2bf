"""Audit plans: known chances, a fifth by size, the same rows for the same seed, and refusals in words."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spu_core.errors import AssumptionError
from spu_core.tables import Table, read_table
from spu_core.trust import TARGETS, AuditPlan, Population, outlook, outlook_table, plan_audit, review_list
from spu_core.trust.audit.plan import PROPORTIONAL_SHARE, Strata, allocate, make_strata


def rows(size=2000, seed=0, known=0.02):
    rng = np.random.default_rng(seed)
    score = rng.normal(size=size)
    soft_label = (1 / (1 + np.exp(-score + 1))).round(2)
    is_known = rng.random(size) < known * soft_label
    return Population.of(score, np.where(is_known, 1.0, soft_label), threshold=1.5, is_known=is_known)


def auc_by_counting_pairs(score, truth):
    """The chance that a positive is scored above a negative, straight from the definition."""
    wins = (score[:, None] > score) + 0.5 * (score[:, None] == score)
    pairs = np.outer(truth, 1 - truth)
    return (wins * pairs).sum() / pairs.sum()


@pytest.mark.parametrize("decimals", [8, 1], ids=["no ties", "many ties"])
def test_targets_of_known_truth_are_their_definitions(decimals):
    rng = np.random.default_rng(1)
    score, soft_label = rng.random(300).round(decimals), rng.random(300)
    truth = (rng.random(300) < score).astype(float)
    population = Population.of(score, soft_label, threshold=0.7)
    flagged = score > 0.7

    expected = {
        "true_auc": auc_by_counting_pairs(score, truth),
        "precision": truth[flagged].mean(),
        "recall": truth[flagged].sum() / truth.sum(),
        "prior": truth.mean(),
        "positive_mean": soft_label[truth == 1].mean(),
        "negative_mean": soft_label[truth == 0].mean(),
    }
    assert {key: TARGETS[key].of_truth(population, truth) for key in TARGETS} == pytest.approx(expected)


@pytest.mark.parametrize("key", list(TARGETS))
def test_the_influence_of_a_row_is_what_the_figure_changes_when_the_row_turns_positive(key):
    population = rows(400)
    truth = np.random.default_rng(2).random(400) < population.belief
    target = TARGETS[key]
    total, positives = float((target.column(population) * truth).sum()), float(truth.sum())
    influence = target.influence(population, total, positives)
    step = 1e-4
    for row in (0, 7, 100):
        moved = truth.astype(float)
        moved[row] += step
        change = (target.of_truth(population, moved) - target.of_truth(population, truth)) / step
        assert influence[row] == pytest.approx(change, rel=1e-3, abs=1e-9)


def test_every_open_row_has_a_chance_and_known_rows_are_never_drawn():
    population = rows()
    plan = plan_audit(population, 150)

    assert plan.checks == 150
    assert all(drawn >= 1 for drawn in plan.drawn)
    assert not set(plan.rows) & set(np.flatnonzero(population.is_known).tolist())
    assert sum(plan.sizes) == population.is_open.sum()
    assert (plan.inclusion > 0).all()


def test_each_row_of_a_stratum_is_drawn_as_often_as_its_chance_says():
    population = rows(300)
    drawn = np.zeros(300)
    for seed in range(400):
        plan = plan_audit(population, 40, seed=seed)
        drawn[list(plan.rows)] += 1
    stratum = plan.strata.assign(population)
    for h, (size, count) in enumerate(zip(plan.sizes, plan.drawn, strict=True)):
        chance = count / size
        error = np.sqrt(chance * (1 - chance) / 400)
        assert np.abs(drawn[stratum == h] / 400 - chance).max() <= 5 * error + 1e-9


@settings(max_examples=60)
@given(
    sizes=st.lists(st.integers(2, 500), min_size=1, max_size=12),
    spread=st.lists(st.floats(0, 10), min_size=12, max_size=12),
    share=st.floats(0.1, 1.0),
)
def test_allocation_spends_every_check_keeps_two_per_stratum_and_a_fifth_by_size(sizes, spread, share):
    sizes = np.array(sizes)
    checks = max(2 * sizes.size, int(share * sizes.sum()))
    found = allocate(checks, sizes, np.array(spread[: sizes.size]))

    assert found.sum() == min(checks, sizes.sum())
    assert (found >= np.minimum(2, sizes)).all()
    assert (found <= sizes).all()
    assert (found >= np.minimum(np.floor(PROPORTIONAL_SHARE * checks * sizes / sizes.sum() + 1e-9), sizes)).all()


def test_a_fifth_of_the_checks_follows_the_size_even_where_nothing_is_in_doubt():
    found = allocate(1000, np.array([9000, 1000]), np.array([0.0, 1.0]))
    assert found[0] >= PROPORTIONAL_SHARE * 900


def test_flagged_rows_are_a_union_of_strata():
    population = rows()
    stratum = make_strata(population, 9).assign(population)
    for h in np.unique(stratum[stratum >= 0]):
        assert population.is_flagged[stratum == h].mean() in (0.0, 1.0)


def test_a_plan_survives_json_and_a_changed_one_is_refused():
    plan = plan_audit(rows(), 60, "recall", seed=3)
    assert AuditPlan.from_json(plan.to_json()) == plan

    data = json.loads(plan.to_json())
    data["drawn"][0] += 1
    with pytest.raises(AssumptionError, match="is damaged"):
        AuditPlan.from_json(json.dumps(data))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "The audit plan must be an object, got a list of 0"),
        ('{"schema": 1}', "lacks the field 'target'"),
        ('{"schema": 1, "schema": 1}', "twice|duplicate"),
        ("{", "The audit plan"),
    ],
)
def test_what_is_no_plan_is_refused_in_words(text, words):
    with pytest.raises(AssumptionError, match=words):
        AuditPlan.from_json(text)


@pytest.mark.parametrize(
    ("checks", "words"), [(5, "at least 10 checks, got 5"), (10**6, "but there are only 1,990"), (2.5, "got 2.5")]
)
def test_impossible_numbers_of_checks_are_refused(checks, words):
    with pytest.raises(AssumptionError, match=words):
        plan_audit(rows(), checks)


def test_other_targets_are_refused_with_the_list():
    with pytest.raises(AssumptionError, match=r"target must be one of 'true_auc'.*got 'accuracy'"):
        plan_audit(rows(), 50, "accuracy")


def test_a_population_of_known_rows_only_is_refused():
    with pytest.raises(AssumptionError, match="an audit is not needed"):
        Population.of([1, 2], [1, 1], threshold=0, is_known=[True, True])


def test_a_prior_below_what_is_known_is_refused_and_another_becomes_the_mean_of_beliefs():
    score, soft_label = np.linspace(0, 1, 200), np.linspace(0, 0.9, 200)
    known = np.arange(200) % 4 == 0
    with pytest.raises(AssumptionError, match="50 of 200 rows are known positives"):
        Population.of(score, soft_label, threshold=0.5, is_known=known, prior=0.1)
    assert Population.of(score, soft_label, threshold=0.5, is_known=known, prior=0.4).belief.mean() == pytest.approx(
        0.4
    )


def test_scores_that_changed_are_told_from_those_of_the_plan():
    population = rows()
    plan = plan_audit(population, 50)
    other = Population.of(population.score + 1, population.soft_label, threshold=1.5, is_known=population.is_known)
    with pytest.raises(AssumptionError, match="drawn with other scores"):
        plan.strata_of(other)


def test_more_checks_promise_more_and_the_table_says_so():
    table = outlook_table(rows(), "prior", (50, 200, 800), draws=3)
    assert table["half_width"].is_monotonic_decreasing
    assert (table["gain"] > 1).all()
    assert outlook(rows(), 100, "precision").gain > 2


def test_the_expected_errors_are_those_of_a_stratified_and_of_a_plain_draw():
    population = rows(known=0)
    plan = plan_audit(population, 100, "prior")
    stratum, doubt = plan.strata.assign(population), population.belief * (1 - population.belief)
    parts = zip(plan.sizes, plan.drawn, (doubt[stratum == h].mean() for h in range(len(plan.sizes))), strict=True)
    planned = np.sqrt(sum(size**2 * (1 - drawn / size) * spread / drawn for size, drawn, spread in parts)) / 2000
    mean = population.belief.mean()
    plain = np.sqrt((1 - 100 / 2000) * mean * (1 - mean) / 100)

    found = outlook(population, 100, "prior")

    assert (found.standard_error, found.simple_error) == pytest.approx((planned, plain))
    assert found.gain == pytest.approx((plain / planned) ** 2)
    flagged = population.belief[population.is_flagged]
    met = 100 * population.is_flagged.mean()
    expected = np.sqrt(flagged.mean() * (1 - flagged.mean()) / met)
    assert outlook(population, 100, "precision").simple_error == pytest.approx(expected)


def test_strata_are_named_by_their_limits():
    strata = Strata((0.2, 0.5), ((), (0.3,), ()))

    assert strata.count == len(strata.names) == 4
    assert strata.names == ("score ≤ 0.2", "0.2 < score ≤ 0.5, S ≤ 0.3", "0.2 < score ≤ 0.5, S > 0.3", "score > 0.5")


def test_precision_needs_a_flagged_row_and_a_list_needs_the_rows_that_were_drawn():
    with pytest.raises(AssumptionError, match="No row has a score above 1, so precision is undefined"):
        plan_audit(Population.of(np.linspace(0, 1, 200), np.full(200, 0.5), threshold=1.0), 50, "precision")
    short = Table.from_frame(pd.DataFrame({"age": range(10)}))
    with pytest.raises(AssumptionError, match=r"but .* has only 10 rows"):
        review_list(short, plan_audit(rows(50, known=0), 20))


def test_the_list_hides_what_would_sway_and_keeps_what_is_needed():
    population = rows(50, known=0)
    frame = pd.DataFrame({"id": [f"u{i}" for i in range(50)], "age": range(50), "row": 7, "label": 0, "truth": 1})
    roles = {"id": "id", "label": "label", "truth": "truth", "age": "feature", "row": "feature"}
    table = Table.from_frame(frame, roles=roles)
    plan = plan_audit(population, 20)
    listed = review_list(table, plan)

    assert list(listed["row"]) == list(plan.rows)
    assert list(listed["row (data)"]) == [7] * 20
    assert not {"label", "truth", "score", "soft_label"} & set(listed.columns)
    assert listed["id"].tolist() == [f"u{row}" for row in plan.rows]
    assert (listed["verdict"] == "").all()
    assert list(review_list(table, plan, ["age"]).columns)[4:6] == ["id", "age"]
    with pytest.raises(AssumptionError, match=r"no column 'agee'. Did you mean 'age'"):
        review_list(table, plan, ["agee"])


def test_the_list_shows_cells_as_they_stood_in_the_file():
    content = "id,price,label\n" + "".join(f"u{n},${n}.50,{n % 2}\n" for n in range(50))
    plan = plan_audit(rows(50, known=0), 20)
    listed = review_list(read_table(content.encode()), plan)

    assert listed["price"].tolist() == [f"${row}.50" for row in plan.rows]


def test_a_plan_has_the_usual_level_and_a_code_of_its_own():
    plan, other = plan_audit(rows(), 100), plan_audit(rows(), 100, seed=1)

    assert plan.level == 0.95
    assert len(plan.code) == 8
    assert plan.code == plan_audit(rows(), 100).code != other.code
