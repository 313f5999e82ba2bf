"""Each theorem against its plain definition on populations small enough to count."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spu_core.errors import SpuError
from spu_core.experiments import EXPERIMENTS, ExperimentResult, ExperimentSettings
from spu_core.experiments.runners import theorems, theorems_exact
from spu_core.experiments.runners.theorems import PARTS, TITLES, run
from spu_core.theory import ScarLink

SMOKE = ExperimentSettings(scale="smoke", seeds=1)


def auc_by_counting_pairs(positive, score):
    """Probability that a positive outranks a negative when row i is positive with probability positive[i]."""
    positive, score = np.asarray(positive), np.asarray(score)
    wins = (score[:, None] > score) + 0.5 * (score[:, None] == score)
    pairs = np.outer(positive, 1 - positive)
    return (wins * pairs).sum() / pairs.sum()


@pytest.mark.parametrize("soft_label", [[0.0, 0.2, 0.5, 1.0], [0.3, 0.3, 0.9, 0.6], [0.0, 0.0, 1.0, 1.0]])
def test_theorem_1_no_order_of_the_rows_whatever_beats_the_printed_integral(soft_label):
    every_score = product(range(4), repeat=4)
    best = max(auc_by_counting_pairs(soft_label, score) for score in every_score)

    assert theorems.printed_ceiling(np.array(soft_label)) == pytest.approx(best)


def test_theorem_1_holds_in_its_table():
    part = theorems.check_theorem1(400, 5)
    (table,) = part.tables

    assert max(table.column("difference")) < 1e-12
    assert max(table.column("above the ceiling")) < 1e-12
    assert theorems.claim_theorem1({"theorem1": table}).verdict == "holds"
    assert set(part.series["curves"]) == set(theorems.DISTRIBUTIONS)


@given(st.lists(st.floats(0.01, 0.99), min_size=3, max_size=8, unique=True), st.floats(0.3, 0.9), st.floats(0.0, 0.25))
def test_theorem_2_is_exact_where_s_depends_on_the_class_only(eta, positive_mean, negative_mean):
    """A finite population: E[S|X] = S_P η + S_N (1−η), and any score of X."""
    eta = np.array(eta)
    score = np.random.default_rng(len(eta)).random(eta.size)
    soft_mean = positive_mean * eta + negative_mean * (1 - eta)
    link = ScarLink(float(eta.mean()), positive_mean, negative_mean)

    implied = link.auc_spu(auc_by_counting_pairs(eta, score))

    assert auc_by_counting_pairs(soft_mean, score) == pytest.approx(implied)


def test_theorem_2_meets_its_line_and_a_rule_that_reads_x_leaves_it():
    part = theorems.check_theorem2(4_000, 6)
    tables = {table.name: table for table in part.tables}

    for row in tables["theorem2"].records():
        assert row["measured slope"] == pytest.approx(row["slope ad − bc"], abs=5 * row["slope SE"] + 0.01)
    errors = tables["theorem2_broken"].column("error")
    assert abs(errors[0]) < 0.05
    assert errors[-1] > 0.5
    assert theorems.claim_theorem2(tables).verdict == "holds"


@pytest.mark.parametrize(
    "link", [name for name, (_, rises) in theorems_exact.LINKS.items() if rises == theorems_exact.STRICT]
)
def test_theorem_3_of_all_orders_the_best_by_auc_spu_has_the_best_auc(link):
    eta = np.array([0.05, 0.3, 0.5, 0.8, 0.95])
    soft_mean = theorems_exact.LINKS[link][0](eta)
    scored = [(auc_by_counting_pairs(soft_mean, p), auc_by_counting_pairs(eta, p)) for p in permutations(range(5))]

    assert max(scored)[1] == pytest.approx(max(auc for _, auc in scored))


def test_theorem_3_a_higher_auc_spu_may_come_with_a_lower_auc_unless_the_link_is_linear():
    (table,) = theorems_exact.check_theorem3(101, 120).tables
    rows = {row["link h"]: row for row in table.records()}
    cubic = rows["convex: η³"]

    assert rows["linear: .1 + .6 η"]["pairs that disagree"] == 0.0
    assert rows["linear: .1 + .6 η"]["AUC after"] is None
    assert cubic["AUC_SPU after"] > cubic["AUC_SPU before"]
    assert cubic["AUC after"] < cubic["AUC before"]
    assert rows["not monotone: 1 − 4 (η − ½)²"]["lost"] > 0.1
    claim = theorems_exact.claim_theorem3({"theorem3": table})
    assert claim.verdict == "holds"
    assert "caveat" in claim.words


@pytest.mark.parametrize(("fires_above", "lowest"), [(0.7, 0.587), (0.9, 0.347)])
def test_theorem_3_a_rule_that_fires_or_not_says_nothing_about_the_best_order(fires_above, lowest):
    """η spread evenly over [0, 1]: the best AUC is 5/6, and a score with the best ROC_SPU can be below a coin."""
    eta = (np.arange(1_000) + 0.5) / 1_000
    soft_mean = 0.6 * (eta > fires_above)
    score = theorems_exact.best_by_spu(soft_mean, -eta)

    assert auc_by_counting_pairs(soft_mean, score) == pytest.approx(auc_by_counting_pairs(soft_mean, soft_mean))
    assert auc_by_counting_pairs(eta, eta) == pytest.approx(5 / 6, abs=1e-3)
    assert auc_by_counting_pairs(eta, score) == pytest.approx(lowest, abs=1e-3)


def test_theorem_3_the_claim_names_the_condition_and_what_happens_without_it():
    part = theorems_exact.check_theorem3(101, 20)
    rows = {row["link h"]: row for row in part.tables[0].records()}
    claim = theorems_exact.claim_theorem3({"theorem3": part.tables[0]})
    flat = rows["one rule: .6 where η > .9"]

    assert "rises strictly" in claim.text
    assert f"can have a true AUC of {flat['AUC of the best by AUC_SPU']:.3f}" in claim.words
    assert flat["AUC of the best by AUC_SPU"] < 0.5 < flat["best AUC"]
    assert part.series["links"]["one rule: .6 where η > .9"]["best"][1] == pytest.approx(
        flat["AUC of the best by AUC_SPU"], abs=1e-4
    )


def test_theorem_4_counts_what_the_definition_counts():
    link = theorems_exact.ReversedBlocks(0.3, 5, 40)
    lost = auc_by_counting_pairs(link.eta, link.eta) - auc_by_counting_pairs(link.eta, link.score)

    assert link.loss == pytest.approx(lost)


def test_theorem_4_reversing_a_block_costs_nothing_in_roc_spu():
    """E[S|X] is the middle of the block: rows of one block are tied, and every other order keeps its place."""
    link = theorems_exact.ReversedBlocks(0.3, 5, 40)
    middle = link.eta.reshape(5, -1).mean(axis=1).repeat(40)

    assert np.abs(link.eta - middle).max() <= link.noise
    assert auc_by_counting_pairs(middle, link.score) == pytest.approx(auc_by_counting_pairs(middle, middle))


@pytest.mark.parametrize("prior", [0.02, 0.1, 0.3, 0.5, 0.8, 0.95, 0.98])
def test_theorem_4_reversed_blocks_attain_both_halves_and_two_thirds_of_the_sharp_auc_bound(prior):
    link = theorems_exact.ReversedBlocks(prior, 7, 100)
    bound, (tpr_loss, fpr_excess) = link.bound(), link.rate_losses()

    assert tpr_loss == pytest.approx(bound.tpr_loss, rel=1e-9)
    assert fpr_excess == pytest.approx(bound.fpr_loss, rel=1e-9)
    assert link.loss == pytest.approx(2 / 3 * bound.auc_loss, rel=1e-3)


@pytest.mark.parametrize(("prior", "is_broken"), [(0.91, False), (0.923, True)])
def test_theorem_4_the_printed_auc_bound_breaks_between_eleven_twelfths_and_a_little_more(prior, is_broken):
    link = theorems_exact.ReversedBlocks(prior, 4, 100)

    assert (link.loss > link.bound("printed").auc_loss) == is_broken


@pytest.mark.parametrize(("prior", "is_broken"), [(0.799, False), (0.801, True)])
def test_theorem_4_the_printed_fpr_half_breaks_above_four_fifths(prior, is_broken):
    link = theorems_exact.ReversedBlocks(prior, 4, 100)

    assert (link.rate_losses()[1] > link.bound("printed").fpr_loss) == is_broken


def test_theorem_4_the_printed_bound_fails_for_large_priors_only():
    part = theorems_exact.check_theorem4(40)
    (table,) = part.tables
    violated = [row["π"] for row in table.records() if row["lost / printed"] > 1]
    claim = theorems_exact.claim_theorem4({"theorem4": table})

    assert violated == [0.93, 0.95, 0.98]
    assert claim.verdict == "holds partly"
    assert "violated at π = 0.93, 0.95, 0.98" in claim.words
    assert "Its FPR half already fails at π = 0.85." in claim.words
    assert "The sharp bound holds at every prior: the TPR and FPR halves are attained (ratio 1.000)" in claim.words
    assert table.column("exponent of ε") == pytest.approx([2.0] * len(table.rows), abs=0.01)
    assert part.series["figure1"]["optimal_auc"] > part.series["figure1"]["by_spu_auc"]


def test_theorem_5_the_gap_closes_and_nobody_passes_the_optimum():
    (table,) = theorems.check_theorem5((200, 3_200), 1, 3_000).tables
    gaps = {(row["learner"], row["rows"]): row["gap"] for row in table.records()}

    assert min(gaps.values()) > 0
    for learner in theorems.CONVERGENCE_LEARNERS:
        if learner != theorems.TOO_POOR:
            assert gaps[learner, 3_200] < 0.6 * gaps[learner, 200]
    assert gaps[theorems.TOO_POOR, 3_200] > 0.1


def test_figure_2_counts_every_player_once_at_each_stage():
    checks = pd.DataFrame(
        [(0, "random", "pass"), (1, "win_streak", "fail"), (1, "random", "pass"), (2, "win_streak", "admit")],
        columns=["user", "rule", "outcome"],
    )
    flows = theorems.count_flows(checks, np.array([False, False, True, True]))
    ends = {flow["to"]: (flow["players"], flow["cheaters"]) for flow in flows}

    assert ends["Permanent restriction: label 1"] == (1, 1)
    assert ends["Temporary restriction: soft label"] == (1, 0)
    assert ends["Plays on: unlabelled"] == (1, 0)
    assert ends["Plays on, unchecked: unlabelled"] == (1, 1)
    for stage in ([theorems.ALL_PLAYERS], theorems.PICKED, theorems.ENDED):
        assert sum(flow["players"] for flow in flows if flow["from"] in stage) == 4


def test_a_part_runs_alone_and_its_result_survives_json():
    said = []
    result = run(SMOKE, lambda share, words: said.append((share, words)), parts=["theorem3"])

    assert [claim.text.split(":")[0] for claim in result.claims] == ["Theorem 3"]
    assert said == [(0.0, TITLES["theorem3"])]
    assert ExperimentResult.from_json(result.to_json()) == result
    assert set(TITLES) == set(PARTS)
    with pytest.raises(SpuError, match=r"part must be one of 'theorem1', .*, got 'theorem6'"):
        run(SMOKE, parts=["theorem6"])


def test_all_theorems_run_at_the_smallest_size():
    result = EXPERIMENTS["theorems"].run(SMOKE)

    assert [claim.text[:9] for claim in result.claims] == [f"Theorem {number}" for number in range(1, 6)]
    assert EXPERIMENTS["theorems"].claims({table.name: table for table in result.tables}) == result.claims
    assert ExperimentResult.from_json(result.to_json()) == result
