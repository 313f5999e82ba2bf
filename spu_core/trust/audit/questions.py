"""Draw rows to check for one of three questions, in batches, and forecast what a number of checks will tell.

The first batch is a simple random sample: nothing is known yet about how far scores and soft labels can be trusted, and
a design that trusts wrong ones is worse than random checking. Once verdicts exist, further batches are directed: rows
whose verdict tells most are drawn more often. How much it tells is the root mean square over the beliefs that the
verdicts leave open, so few verdicts direct little. Where that gains nothing, the next batch is random too.
Probabilities are always known, so every batch stays valid for every score and every figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from spu_core.checks import check_choice, check_share
from spu_core.errors import AssumptionError
from spu_core.metrics.intervals import t_quantile
from spu_core.trust.audit.checked import CheckedRows
from spu_core.trust.audit.inference import ENOUGH_TO_FIT, LINEARISED
from spu_core.trust.audit.plan import AuditPlan, check_count, pack_strata
from spu_core.trust.audit.population import Population

# This share of all checks together is drawn as by chance, and of each directed batch at least the second one. So no row
# has more than twice the weight that it would have in random checks, however wrong the verdicts so far are.
RANDOM_SHARE = 0.5
LEAST_RANDOM = 0.1
GROUPS = 10
# A directed batch must promise a variance below this share of that of random checks.
WORTH_IT = 0.96
# The share of checks of a new audit that are drawn at random, before the others are directed.
FIRST_SHARE = 0.5
FEWEST_FIRST = 30
SIZES = (30, 60, 100, 150, 200, 300, 400, 600, 1000)
LEVEL_OF_POWER = 0.8


@dataclass(frozen=True, slots=True)
class Question:
    """A question that checks can answer, and the figure that answers it."""

    key: str
    title: str
    target: str
    needs_rival: bool = False


QUESTIONS = {
    "how_good": Question("how_good", "How good is this model?", "true_auc"),
    "which_better": Question("which_better", "Which of these two is better?", "true_auc", needs_rival=True),
    "how_many": Question("how_many", "How many cases are there?", "prior"),
}


def draw_audit(
    population: Population,
    checks: int,
    question: str = "how_good",
    *,
    rival: Population | None = None,
    checked: CheckedRows | None = None,
    table_rows: int | None = None,
    level: float = 0.95,
    looks: int = 1,
    seed: int = 0,
) -> AuditPlan:
    """Draw a batch of rows to check by hand.

    Parameters
    ----------
    population : Population
        The rows, with the scores of the model in question: `Population.of_run(run)`.
    checks : int
        Number of rows to check. Rows that were checked before may be drawn again and need no second check, so a later
        batch draws a few more than this.
    question : {"how_good", "which_better", "how_many"}
        A key of `QUESTIONS`.
    rival : Population, optional
        The same rows with the scores of the other model, for "which_better".
    checked : CheckedRows, optional
        Verdicts so far. With enough of them the batch is directed; without, it is a simple random sample.
    table_rows : int, optional
        Number of rows of the table. Default: up to the last row of the population.
    level : float, default 0.95
        Confidence level of the results.
    looks : int, default 1
        How many times the result will be looked at before the audit ends. Intervals are widened so that all looks
        together hold the level, and stopping at any of them is valid.
    seed : int, default 0
        Equal seeds draw equal rows.

    Returns
    -------
    AuditPlan
        `.rows` to check, in random order, with the probability with which each row of the table was drawn. Show them
        to reviewers with `review_list`.

    Raises
    ------
    AssumptionError
        If there are fewer rows than checks, or an argument is not valid.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = Population.of(rng.random(2000), rng.random(2000).round(1), threshold=0.9)
    >>> plan = draw_audit(rows, 100, "how_many")
    >>> plan.checks, plan.is_random, plan == AuditPlan.from_json(plan.to_json())
    (100, True, True)
    """
    asked = _question(question, rival)
    checks = check_count(checks, int(population.is_open.sum()))
    if isinstance(looks, bool) or looks < 1:
        raise AssumptionError(f"looks must be 1 or more, got {looks!r}.")
    stratum, drawn = _design(population, checks, asked, rival, checked)
    rng = np.random.default_rng(seed)
    places = np.concatenate([rng.choice(np.flatnonzero(stratum == h), n, replace=False) for h, n in enumerate(drawn)])
    places = rng.permutation(places)
    size = int(population.row.max()) + 1 if table_rows is None else table_rows
    return AuditPlan(
        target=asked.target,
        level=check_share(level, "level"),
        seed=seed,
        threshold=population.threshold,
        strata=None,
        sizes=tuple(np.bincount(stratum[stratum >= 0], minlength=drawn.size).tolist()),
        drawn=tuple(drawn.tolist()),
        rows=tuple(population.row[places].tolist()),
        row_stratum=tuple(stratum[places].tolist()),
        population="",
        question=asked.key,
        looks=int(looks),
        membership=pack_strata(stratum, population.row, size),
    )


def first_batch(checks: int) -> int:
    """How many of the checks to draw at random first: half, but at least 30; all of a small audit.

    >>> first_batch(200), first_batch(50), first_batch(40)
    (100, 30, 40)
    """
    first = max(FEWEST_FIRST, round(FIRST_SHARE * checks))
    return first if checks - first >= 20 else checks


def _question(key: str, rival: Population | None) -> Question:
    asked = QUESTIONS[check_choice(key, QUESTIONS, "question", AssumptionError)]
    if asked.needs_rival and rival is None:
        raise AssumptionError("To find the better of two models, give the scores of both (rival).")
    return asked


def _design(
    population: Population, checks: int, asked: Question, rival: Population | None, checked: CheckedRows | None
) -> tuple[np.ndarray, np.ndarray]:
    """The stratum of every row (−1: never drawn) and the number to draw from each; one stratum: random checks."""
    if checked is None:
        return np.where(population.is_open, 0, -1), np.array([checks])
    sample = checked.sampled(population, 0.5 * (checked.low + checked.high))
    rows = population.is_open
    seen = np.zeros(population.size)
    seen[sample.place] = 1.0
    seen = seen[rows]
    random = np.where(rows, 0, -1), np.array([_with_repeats(checks, seen, np.ones(seen.size))])
    if min(sample.numbers) < 1.0:
        return random
    doubts = [_doubt(population, belief, asked, rival)[rows] for belief in sample.plausible_beliefs()]
    doubt = np.sqrt(np.mean(np.square(doubts), axis=0))
    pull = _pull(doubt, checks, checked.chance_of(population)[rows])
    if not _is_worth_it(doubt, pull):
        return random
    order = np.argsort(pull, kind="stable")
    reached = np.cumsum(pull[order])
    group = np.empty(pull.size, dtype=int)
    group[order] = np.searchsorted(reached[-1] * np.arange(1, GROUPS) / GROUPS, reached, side="left")
    group = np.unique(group, return_inverse=True)[1]
    sizes = np.bincount(group)
    stratum = np.full(population.size, -1)
    stratum[population.is_open] = group
    return stratum, _shared(_with_repeats(checks, seen, pull), np.bincount(group, weights=pull), sizes)


def _with_repeats(checks: int, seen: np.ndarray, pull: np.ndarray) -> int:
    """How many rows to draw so that about `checks` of them are new."""
    again = float((seen * pull).sum() / pull.sum())
    return min(round(checks / (1.0 - again)), seen.size) if again < 1.0 else seen.size


def _pull(doubt: np.ndarray, checks: int, chance: np.ndarray) -> np.ndarray:
    """How often the next batch draws each row, relative to random checks.

    All checks together, also those that were made with the probabilities `chance`, shall be a random share and the
    doubt, so a batch makes up for what earlier ones left out.
    """
    mean = float(doubt.mean())
    wanted = RANDOM_SHARE + (1.0 - RANDOM_SHARE) * doubt / mean if mean > 0.0 else np.ones(doubt.size)
    done = -np.log1p(-chance.clip(max=0.999))
    more = wanted * (done.mean() + checks / doubt.size) - done
    pull = np.maximum(more, LEAST_RANDOM * checks / doubt.size)
    return pull / pull.mean()


def _is_worth_it(doubt: np.ndarray, pull: np.ndarray) -> bool:
    return bool((doubt**2 / pull).mean() <= WORTH_IT * (doubt**2).mean())


def _shared(checks: int, wanted: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Whole numbers proportional to `wanted` with the sum `checks`, from 1 to the size of each group."""
    drawn = np.ones(sizes.size, dtype=int)
    for _ in range(checks - drawn.size):
        room = drawn < sizes
        drawn[np.argmax(np.where(room, wanted / (drawn + 0.5), -1.0))] += 1
    return drawn


def _doubt(population: Population, belief: np.ndarray, asked: Question, rival: Population | None) -> np.ndarray:
    """How much the verdict on each row would tell about the answer."""
    everywhere = np.arange(population.size)
    sums = LINEARISED[asked.target](population, everywhere, belief, 1.0 - belief)
    if asked.needs_rival:
        assert rival is not None
        if not np.array_equal(rival.row, population.row):
            raise AssumptionError("Both models must have scores of the same rows.")
        sums = sums - LINEARISED[asked.target](rival, everywhere, belief, 1.0 - belief)
    return np.where(population.is_open, sums.doubt(belief), 0.0)


@dataclass(frozen=True, eq=False)
class Forecast:
    """What a number of checks will tell, if the beliefs at hand are right; otherwise intervals are wider or narrower.

    `table` has a line for each number of checks: `half_width` of the interval (random first, then directed),
    `random_half_width` of simple random checks alone, `detectable`: the difference of true AUC that is seen with 80 %
    power, and `positives` to be found.
    """

    question: Question
    table: pd.DataFrame
    estimate: float
    level: float

    def sentence(self, checks: int) -> str:
        """What this number of checks will tell, and whether directed checks help."""
        line = self.table.iloc[(self.table["checks"] - checks).abs().argmin()]
        if self.question.needs_rival:
            told = (
                f"{checks:,} checks tell the two models apart with {LEVEL_OF_POWER:.0%} power if their true AUC "
                f"differs by {line['detectable']:.2g}."
            )
        else:
            share = self.question.target == "prior"
            reach = f"{line['half_width']:.1%}" if share else f"{line['half_width']:.2g}"
            told = f"{checks:,} checks tell {'the share of cases' if share else 'the true AUC'} within ±{reach}."
        if line["half_width"] > 0.98 * line["random_half_width"]:
            return f"{told} Simple random checking is as good as any other choice of rows here."
        return told


def forecast(
    population: Population,
    question: str = "how_good",
    *,
    rival: Population | None = None,
    checked: CheckedRows | None = None,
    sizes: Sequence[int] = SIZES,
    level: float = 0.95,
) -> Forecast:
    """Forecast the interval for each number of checks from the beliefs at hand: soft labels, or verdicts so far.

    Parameters
    ----------
    population : Population
        The rows, with the scores of the model in question.
    question : {"how_good", "which_better", "how_many"}
        A key of `QUESTIONS`.
    rival : Population, optional
        The same rows with the scores of the other model, for "which_better".
    checked : CheckedRows, optional
        Verdicts so far; with ten cases and ten non-cases they take the place of the soft labels.
    sizes : sequence of int
        The numbers of checks to look at.
    level : float, default 0.95
        Confidence level of the results.

    Returns
    -------
    Forecast
        `.table` has a line for each number of checks, `.sentence(checks)` puts one of them into words.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = Population.of(rng.random(2000), rng.random(2000).round(1), threshold=0.9)
    >>> forecast(rows, "how_many").table["half_width"].is_monotonic_decreasing
    True
    """
    asked = _question(question, rival)
    belief = population.belief
    if checked is not None:
        sample = checked.sampled(population, 0.5 * (checked.low + checked.high))
        belief = sample.fitted_belief() if min(sample.numbers) >= ENOUGH_TO_FIT else belief
    is_open = population.is_open
    doubt = _doubt(population, belief, asked, rival)[is_open]
    chance = belief[is_open]
    value = LINEARISED[asked.target](population, np.arange(population.size), belief, 1.0 - belief).value
    lines = []
    for checks in sizes:
        if checks > int(is_open.sum()):
            continue
        first = first_batch(checks)
        mixed = np.ones(doubt.size)
        if first < checks:
            pull = _pull(doubt, checks - first, np.full(doubt.size, first / doubt.size))
            if _is_worth_it(doubt, pull):
                mixed = (first + (checks - first) * pull) / checks
        found = float(checks * (mixed * chance).mean()), float(checks * chance.mean())
        errors = [_error(doubt, weight, checks, population.size) for weight in (mixed, np.ones(doubt.size))]
        reach, plain = (
            _reach(value, error, min(number, checks - number), level, asked)
            for error, number in zip(errors, found, strict=True)
        )
        power = t_quantile(level, max(found[0] - 1.0, 1.0)) + 0.8416
        lines.append((checks, reach, plain, power * errors[0], found[0]))
    names = ["checks", "half_width", "random_half_width", "detectable", "positives"]
    table = pd.DataFrame(lines, columns=names)
    table["low"] = (value - table["half_width"]).clip(0.0)
    table["high"] = (value + table["half_width"]).clip(upper=1.0)
    return Forecast(asked, table, float(value), level)


def _error(doubt: np.ndarray, pull: np.ndarray, checks: int, size: int) -> float:
    """The standard error with `checks` rows drawn with these relative frequencies."""
    chance = np.minimum(checks * pull / doubt.size, 1.0)
    return float(np.sqrt(((1.0 / chance - 1.0) * doubt**2).sum())) / size


def _reach(value: float, error: float, number: float, level: float, asked: Question) -> float:
    """Half of the width of the interval; with too few positives the interval says nothing."""
    if number <= 2.0:
        return 0.5 if not asked.needs_rival else 1.0
    reach = t_quantile(level, number - 1.0) * error
    if asked.needs_rival or not 0.0 < value < 1.0:
        return min(reach, 1.0)
    slope = value * (1.0 - value)
    odds, spread = value / (1.0 - value), np.exp(min(reach / slope, 50.0))
    return float(0.5 * (odds * spread / (1.0 + odds * spread) - odds / (spread + odds)))
