"""Expected confidence interval of an audit for each number of checks, before any row is checked.

The figures are correct if the beliefs of the plan are right. Otherwise the estimate of the audit is still valid (the
sampling probabilities are known), but its interval can be wider or narrower than predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from spu_core.metrics.intervals import z_quantile
from spu_core.trust.audit.estimate import AuditFigure, figure_of
from spu_core.trust.audit.plan import (
    FEWEST_CHECKS,
    AuditPlan,
    allocate,
    choose_strata,
    plan_audit,
    planned_influence,
    spread_of,
)
from spu_core.trust.audit.population import Population, target_named
from spu_core.trust.audit.totals import Audited

MOST_ROWS = 20_000
SIZES = (25, 50, 100, 200, 300, 500, 1000, 2000, 5000)


@dataclass(frozen=True, slots=True)
class Outlook:
    """Expected standard errors with `checks` checks: of the plan, and of simple random sampling."""

    checks: int
    standard_error: float
    simple_error: float

    @property
    def gain(self) -> float:
        """How many times more checks simple random sampling needs for the same standard error."""
        return (self.simple_error / self.standard_error) ** 2 if self.standard_error > 0 else float("inf")


def outlook(population: Population, checks: int, target: str = "true_auc") -> Outlook:
    """Expected standard errors of a target under the beliefs of the plan.

    >>> rng = np.random.default_rng(0)
    >>> rows = Population.of(rng.random(2000), rng.random(2000).round(1) * 0.2, threshold=0.9)
    >>> outlook(rows, 100, "precision").gain > 1.0
    True
    """
    strata = choose_strata(population, checks, target)
    stratum = strata.assign(population)
    sizes = np.bincount(stratum[population.is_open], minlength=strata.count)
    spread = spread_of(population, stratum, target)
    drawn = allocate(checks, sizes, spread)
    variance = (sizes**2 * (1.0 - drawn / np.maximum(sizes, 1)) * spread**2 / np.maximum(drawn, 1)).sum()
    return Outlook(checks, float(np.sqrt(variance)), _simple_error(population, checks, target))


def outlook_table(
    population: Population,
    target: str = "true_auc",
    sizes: Sequence[int] = SIZES,
    *,
    draws: int = 9,
) -> pd.DataFrame:
    """A line for each number of checks: the expected bounds (median of `draws` simulated audits), the half-width by
    normal theory, that of simple random sampling, and the gain."""
    planned = population.sample(MOST_ROWS, 0)
    room = int(planned.is_open.sum())
    reach = z_quantile(0.95)
    lines = []
    for checks in sizes:
        if not FEWEST_CHECKS <= checks <= room:
            continue
        expected = outlook(planned, checks, target)
        simulated = [simulate_audit(planned, plan_audit(planned, checks, target, seed=at), at) for at in range(draws)]
        lines.append(
            {
                "checks": checks,
                "estimate": float(np.median([figure.estimate for figure in simulated])),
                "low": float(np.median([figure.low for figure in simulated])),
                "high": float(np.median([figure.high for figure in simulated])),
                "width": float(np.median([figure.high - figure.low for figure in simulated])),
                "half_width": reach * expected.standard_error,
                "simple_half_width": reach * expected.simple_error,
                "gain": expected.gain,
                "is_exact": sum(figure.is_exact for figure in simulated) > draws / 2,
            }
        )
    return pd.DataFrame(lines)


def simulate_audit(population: Population, plan: AuditPlan, seed: int = 0) -> AuditFigure:
    """The target as an audit would estimate it, with random verdicts that follow the beliefs."""
    assert plan.strata is not None
    stratum = plan.strata.assign(population)
    place = np.searchsorted(population.row, np.sort(plan.rows))
    verdict = np.random.default_rng([seed, 7]).random(place.size) < population.belief[place]
    audited = Audited(population, stratum, place, verdict.astype(np.float64))
    return figure_of(audited, plan.target, level=plan.level)


def _simple_error(population: Population, checks: int, target: str) -> float:
    """The standard error of simple random sampling, without strata and beliefs."""
    rows = population.is_open
    influence, belief = planned_influence(population, target)[rows], population.belief[rows]
    if target_named(target).flagged_only:
        # Simple random sampling estimates a share among flagged rows only from the flagged rows in the sample.
        flagged = population.is_flagged[rows]
        belief, met = belief[flagged], checks * flagged.mean()
        known = population.is_flagged.sum() - belief.size
        share = belief.size / (belief.size + known)
        return float(share * np.sqrt(belief.mean() * (1.0 - belief.mean()) / max(met, 1.0)))
    size = belief.size
    variance = (influence**2 * belief).mean() - (influence * belief).mean() ** 2
    return float(size * np.sqrt((1.0 - checks / size) * variance / checks))
