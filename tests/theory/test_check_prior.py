"""Appendix A.2: the prior of the chance to pass, its certificate, and the posterior mean."""

from dataclasses import replace
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from spu_core.errors import AssumptionError
from spu_core.theory.check_prior import (
    SOLVERS,
    CheckCounts,
    PriorProblem,
    _folds_of_counts,
    _held_out,
    fit_check_prior,
    fit_check_prior_to_counts,
)

RECORDS = st.lists(
    st.integers(0, 400).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), min_size=1, max_size=40
)


def objective(density, checks, passes, penalty):
    """The paper's objective with the integrals written as sums over the midpoints; unchecked users say nothing."""
    cells = len(density)
    grid = (np.arange(cells) + 0.5) / cells
    loss = [
        -np.log(np.mean(comb(n, k) * grid**k * (1 - grid) ** (n - k) * density))
        for n, k in zip(checks, passes, strict=True)
        if n > 0
    ]
    return np.mean(loss) + penalty * np.mean(density**2)


def best_objective_by_scipy(checks, passes, penalty, cells):
    """A general constrained optimiser on the same grid."""
    answer = minimize(
        objective,
        np.ones(cells),
        args=(checks, passes, penalty),
        method="SLSQP",
        bounds=[(0.0, None)] * cells,
        constraints={"type": "eq", "fun": lambda density: density.mean() - 1},
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    return answer.fun, answer.x


def posterior_mean_by_integration(prior, n, k):
    weight = prior.density * prior.grid**k * (1 - prior.grid) ** (n - k)
    return (weight * prior.grid).sum() / weight.sum()


def mixed_users(size, seed=0):
    """A tenth of the users pass rarely, the rest nearly always."""
    rng = np.random.default_rng(seed)
    checks = rng.integers(0, 31, size)
    chance = np.where(rng.random(size) < 0.1, rng.beta(2, 6, size), rng.beta(20, 2, size))
    return checks, rng.binomial(checks, chance)


@pytest.mark.parametrize("method", ["newton", "exponentiated_gradient"])
@pytest.mark.parametrize("penalty", [0.01, 0.1, 1.0])
def test_the_prior_is_the_optimum_that_a_general_optimiser_finds(method, penalty):
    checks, passes = mixed_users(40)
    prior = fit_check_prior(checks, passes, penalty=penalty, method=method, grid_size=8)
    best, density = best_objective_by_scipy(checks, passes, penalty, cells=8)

    assert objective(prior.density, checks, passes, penalty) <= best + 1e-8
    assert prior.density == pytest.approx(density, abs=1e-3)


@pytest.mark.parametrize("penalty", [0.03, 0.1, 1.0])
def test_both_methods_reach_the_same_prior(penalty):
    checks, passes = mixed_users(3000)
    fast = fit_check_prior(checks, passes, penalty=penalty)
    paper = fit_check_prior(checks, passes, penalty=penalty, method="exponentiated_gradient")

    assert fast.certificate <= 1e-8
    assert paper.certificate <= 1e-8
    assert fast.iterations < 25
    assert fast.density == pytest.approx(paper.density, abs=2e-3)
    assert fast.posterior_mean(checks, passes) == pytest.approx(paper.posterior_mean(checks, passes), abs=1e-5)


@given(RECORDS, st.sampled_from([0.0, 1e-6, 1e-2, 1.0, 1e3]))
@settings(max_examples=60)
def test_newton_certifies_any_records_and_the_answer_is_a_density(records, penalty):
    checks, passes = zip(*[*records, (1, 1)], strict=True)
    prior = fit_check_prior(checks, passes, penalty=penalty, grid_size=50)

    assert prior.certificate <= 1e-8
    assert (prior.density >= 0).all()
    assert prior.mass.sum() == pytest.approx(1.0)


def test_the_certificate_is_at_least_the_distance_to_the_optimum():
    checks, passes = mixed_users(500)
    optimum = fit_check_prior(checks, passes, penalty=0.01, grid_size=40, tolerance=1e-12)
    rough = fit_check_prior(checks, passes, penalty=0.01, grid_size=40, tolerance=1e-2)
    distance = objective(rough.density, checks, passes, 0.01) - objective(optimum.density, checks, passes, 0.01)

    assert 0 < distance <= rough.certificate <= 1e-2


def test_the_posterior_mean_is_the_integral():
    checks, passes = mixed_users(200)
    prior = fit_check_prior(checks, passes, penalty=0.01)
    expected = [posterior_mean_by_integration(prior, n, k) for n, k in zip(checks, passes, strict=True)]

    assert prior.posterior_mean(checks, passes) == pytest.approx(np.array(expected))


def test_the_posterior_mean_of_a_user_is_bit_equal_alone_and_in_any_batch():
    checks, passes = mixed_users(300)
    prior = fit_check_prior(checks, passes, penalty=0.01)
    alone = [prior.posterior_mean([n], [k])[0] for n, k in zip(checks, passes, strict=True)]

    assert prior.posterior_mean(checks, passes).tolist() == alone


def test_a_user_who_was_never_checked_has_the_mean_of_the_prior():
    prior = fit_check_prior(*mixed_users(200), penalty=0.01)

    assert prior.posterior_mean([0], [0])[0] == pytest.approx(prior.mean)


def test_users_who_were_never_checked_do_not_change_the_prior():
    checks, passes = mixed_users(300)
    alone = fit_check_prior(checks[checks > 0], passes[checks > 0], penalty=0.01)
    diluted = fit_check_prior(np.append(checks, [0] * 10_000), np.append(passes, [0] * 10_000), penalty=0.01)

    assert diluted.density == pytest.approx(alone.density)


def test_hundreds_of_checks_neither_underflow_nor_leave_the_unit_interval():
    """0.5^900 is far below the smallest float; the logarithms are not."""
    checks, passes = np.array([900, 900, 900, 900]), np.array([0, 450, 899, 900])
    prior = fit_check_prior(checks, passes, penalty=0.01)
    chance = prior.posterior_mean(checks, passes)

    assert np.isfinite(chance).all()
    assert (np.diff(chance) > 0).all()
    assert chance[[0, -1]] == pytest.approx([0, 1], abs=0.01)


def test_more_passes_never_lower_the_chance():
    prior = fit_check_prior(*mixed_users(1000))
    chance = prior.posterior_mean(np.full(31, 30), np.arange(31))

    assert (np.diff(chance) >= 0).all()


def test_a_chosen_penalty_is_the_best_on_held_out_users_and_shrinks_with_more_users():
    few, many = fit_check_prior(*mixed_users(200)), fit_check_prior(*mixed_users(200_000))

    assert dict(many.trials)[many.penalty] == max(dict(many.trials).values())
    assert many.penalty < few.penalty


def test_penalties_from_a_millionth_to_one_are_tried_on_held_out_users():
    prior = fit_check_prior(*mixed_users(60), grid_size=10)
    penalties, likelihoods = zip(*prior.trials, strict=True)

    assert (penalties[0], penalties[-1]) == (1e-6, 1.0)
    assert (np.diff(penalties) > 0).all()
    assert max(likelihoods) < 0  # logarithms of chances


def test_the_held_out_likelihood_is_that_of_users_whom_the_prior_has_not_seen():
    """A hand-made split: half of the users always pass, the other half never does."""
    grid = np.array([0.25, 0.75])
    likelihood = np.array([grid**2, (1 - grid) ** 2])
    folds = np.array([[4, 0], [0, 4]])
    prior_of = [fit_check_prior([2] * 4, [k] * 4, penalty=0.1, grid_size=2) for k in (0, 2)]

    expected = np.mean(np.log([likelihood[0] @ prior_of[0].mass, likelihood[1] @ prior_of[1].mass]))

    assert _held_out(likelihood, folds, 0.1) == pytest.approx(expected, abs=1e-4)


def test_users_are_dealt_to_five_folds_of_nearly_equal_size():
    folds = _folds_of_counts(np.array([13, 40, 9, 1]))

    assert folds.sum(axis=0).tolist() == [13, 40, 9, 1]
    assert sorted(folds.sum(axis=1).tolist()) == [12, 12, 13, 13, 13]


@pytest.mark.parametrize("method", SOLVERS)
def test_a_method_that_runs_out_of_iterations_says_how_far_it_came(method):
    checks, passes = mixed_users(100)
    counts = CheckCounts.of(checks, passes).checked
    grid = (np.arange(8) + 0.5) / 8
    likelihood = grid ** counts.passes[:, None] * (1 - grid) ** (counts.checks - counts.passes)[:, None]
    problem = PriorProblem(likelihood, counts.users / counts.total_users, 0.1)

    stopped = SOLVERS[method](problem, -1.0, most_iterations=3)

    best = fit_check_prior(checks, passes, penalty=0.1, grid_size=8).density
    distance = objective(stopped.mass * 8, checks, passes, 0.1) - objective(best, checks, passes, 0.1)
    assert stopped.iterations == 3
    assert 0 < distance <= stopped.certificate < 1


def test_a_fitted_prior_comes_near_the_one_that_made_the_records():
    """50,000 users from Beta(4, 2): the cumulative distributions differ by at most 0.03."""
    rng = np.random.default_rng(0)
    checks = np.full(50_000, 30)
    prior = fit_check_prior(checks, rng.binomial(checks, rng.beta(4, 2, checks.size)))
    from scipy.stats import beta

    upper_edges = prior.grid + 0.5 / prior.grid.size
    assert np.abs(prior.mass.cumsum() - beta.cdf(upper_edges, 4, 2)).max() < 0.03


@given(RECORDS, RECORDS)
def test_counts_of_chunks_merge_to_the_counts_of_the_whole(first, second):
    left, right = CheckCounts.of(*zip(*first, strict=True)), CheckCounts.of(*zip(*second, strict=True))
    whole = CheckCounts.of(*zip(*first, *second, strict=True))

    for merged in (left.merge(right), right.merge(left), CheckCounts().merge(right).merge(left)):
        for name in ("checks", "passes", "users"):
            assert getattr(merged, name).tolist() == getattr(whole, name).tolist()


def test_records_beyond_the_counting_table_are_counted_all_the_same():
    counts = CheckCounts.of([1_000_000, 5, 1_000_000], [999_999, 2, 999_999])

    assert list(zip(counts.checks.tolist(), counts.passes.tolist(), counts.users.tolist(), strict=True)) == [
        (5, 2, 1),
        (1_000_000, 999_999, 2),
    ]


def test_whole_numbers_may_be_floats_and_as_large_as_31_bits():
    counts = CheckCounts.of([3.0, 2.0**31 - 1], [1.0, 0.0])

    assert (counts.checks.tolist(), counts.passes.tolist()) == ([3, 2**31 - 1], [1, 0])
    assert fit_check_prior([1, 3], [1, 0], grid_size=2).grid.tolist() == [0.25, 0.75]


def test_a_prior_from_counts_equals_the_prior_from_users():
    checks, passes = mixed_users(500)
    streamed = CheckCounts()
    for chunk in np.array_split(np.arange(500), 7):
        streamed = streamed.update(checks[chunk], passes[chunk])

    assert fit_check_prior_to_counts(streamed).density == pytest.approx(fit_check_prior(checks, passes).density)


@pytest.mark.parametrize(
    ("checks", "passes", "message"),
    [
        ([3, 2], [1, 4], "Row 1 passes 4 of 2 checks"),
        ([-1], [0], "checks must not be negative, but row 0 holds -1"),
        ([1], [-2], "passes must not be negative, but row 0 holds -2"),
        ([1.5], [1], "checks must hold whole numbers, but row 0 holds 1.5"),
        ([np.nan], [1], "checks must be finite, but row 0 holds nan"),
        ([1, 2], [1], "checks has 2 rows, but passes has 1"),
        ([2**40], [1], r"checks must stay below 2\*\*31"),
        (["a"], [1], "checks must hold numbers, but its first row is 'a'"),
        ([], [], "checks is empty"),
        ([0, 0], [0, 0], "No user was checked"),
    ],
)
def test_records_that_make_no_sense_get_a_clear_sentence(checks, passes, message):
    with pytest.raises(ValueError, match=message):
        fit_check_prior(checks, passes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"penalty": -1.0}, "penalty must not be negative, got -1"),
        ({"penalty": np.nan}, "penalty must be one finite number"),
        ({"method": "sgd"}, "method must be one of 'newton', 'exponentiated_gradient', got 'sgd'"),
        ({"grid_size": 1}, "grid_size must be a whole number from 2 to 2,000, got 1"),
        ({"grid_size": 2.5}, "grid_size must be a whole number from 2 to 2,000, got 2.5"),
        ({"grid_size": 200_000_000}, "grid_size must be a whole number from 2 to 2,000"),
        ({"penalty": 0.0, "tolerance": -1.0}, "did not converge"),
    ],
)
def test_options_that_make_no_sense_get_a_clear_sentence(options, message):
    with pytest.raises(AssumptionError, match=message):
        fit_check_prior([3, 2], [1, 2], **options)


def test_records_that_would_fill_the_memory_are_refused_before_they_do(monkeypatch):
    monkeypatch.setattr("spu_core.theory.check_prior.MOST_LIKELIHOOD_CELLS", 100)

    with pytest.raises(AssumptionError, match="2 distinct records on 200 grid points need too much memory"):
        fit_check_prior([3, 2], [1, 2])


@pytest.mark.parametrize(("users", "is_chosen"), [(49, False), (50, True)])
def test_a_penalty_is_chosen_from_fifty_users_on(users, is_chosen):
    prior = fit_check_prior(np.full(users, 4), np.arange(users) % 5, grid_size=10)

    assert bool(prior.trials) is is_chosen


def test_the_record_of_one_user_is_enough():
    assert 0 < fit_check_prior([4], [1], penalty=0.1).mean < 0.5


def test_every_one_of_many_different_records_gets_a_chance():
    prior = fit_check_prior([4, 4], [1, 3], penalty=0.1)
    checks, passes = np.array([(n, k) for n in range(200) for k in range(n + 1)]).T

    chance = prior.posterior_mean(checks, passes)

    for place in (0, 9_999, 10_000, 10_001, 20_000, chance.size - 1):
        assert chance[place] == prior.posterior_mean(checks[[place]], passes[[place]])[0]


@pytest.mark.filterwarnings("error")
def test_chances_that_the_prior_excludes_give_no_warning():
    prior = fit_check_prior([4, 4], [4, 0], penalty=0.1, grid_size=20)
    high = replace(prior, density=np.where(prior.grid > 0.5, 2.0, 0.0))

    assert 0.5 < high.posterior_mean([4], [0])[0] < 1
