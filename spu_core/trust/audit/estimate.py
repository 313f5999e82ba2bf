"""Estimates from the verdicts of an audit: π, S_P, S_N, precision, recall and true AUC, with bounds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import AssumptionError
from spu_core.html_table import Tabular, count, short_repr
from spu_core.trust.audit.plan import ENOUGH_POSITIVES, AuditPlan
from spu_core.trust.audit.population import TARGETS, Population, Target, target_named
from spu_core.trust.audit.totals import Audited, Bounds, Method, audit_bounds, expectation, stratum_totals
from spu_core.trust.audit.verdicts import Agreement, Treatment, agree


@dataclass(frozen=True, slots=True)
class AuditFigure:
    """One estimated figure with its bounds.

    If `is_exact`, fewer than five positives or negatives are expected in some strata, and the bounds there are exact
    and conservative. `standard_error` is that of normal theory; if `is_exact`, it is only for comparison. `missing` is
    about how many more checks are needed before the bounds are of use; 0 if there are enough.
    """

    key: str
    title: str
    estimate: float
    low: float
    high: float
    standard_error: float
    level: float
    is_exact: bool
    missing: int = 0

    def __repr__(self) -> str:
        return short_repr("AuditFigure", self.key, f"{self.estimate:.3f} ({self.low:.3f} to {self.high:.3f})")

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, eq=False)
class AuditEstimate(Tabular):
    """All figures of an audit, with the plan, the verdicts and the method."""

    plan: AuditPlan
    agreement: Agreement
    audited: Audited
    figures: dict[str, AuditFigure]
    method: str
    is_thin: np.ndarray

    def __repr__(self) -> str:
        return short_repr(
            "AuditEstimate", None, count(self.agreement.row.size, "verdict"), repr(self.figures.get(self.plan.target))
        )

    def to_frame(self) -> pd.DataFrame:
        """A line for each figure, with its bounds."""
        return self.table[["title", "estimate", "low", "high"]]

    @property
    def missing(self) -> int:
        """Drawn rows without a usable verdict."""
        return self.plan.checks - int(self.agreement.row.size)

    @property
    def table(self) -> pd.DataFrame:
        """A line for each figure."""
        names = ("key", "title", "estimate", "low", "high", "standard_error", "is_exact")
        return pd.DataFrame([{name: getattr(each, name) for name in names} for each in self.figures.values()])

    @property
    def strata(self) -> pd.DataFrame:
        """A line for each stratum: its rows, checks, positives found, and whether its limits are exact."""
        audited = self.audited
        return pd.DataFrame(
            {
                "stratum": list(self.plan.stratum_names),
                "rows": audited.sizes,
                "checked": audited.checked,
                "found": audited.found,
                "is_exact": self.is_thin,
            }
        )

    @property
    def sentence(self) -> str:
        """The estimate of the plan's target in a sentence."""
        lead = self.figures[self.plan.target]
        exact = " (exact limits where few positives were expected)" if lead.is_exact else ""
        return (
            f"{lead.title} {lead.estimate:.3f}, {self.plan.level:.0%} bounds {lead.low:.3f} to {lead.high:.3f}{exact}, "
            f"from {self.agreement.row.size:,} checked rows of {self.audited.population.size:,}."
        )


def estimate_audit(
    population: Population,
    plan: AuditPlan,
    verdicts: Iterable[Any],
    *,
    treatment: Treatment = "mean",
    method: Method = "assisted",
) -> AuditEstimate:
    """Estimate the true figures from the verdicts of an audit.

    Parameters
    ----------
    population : Population
        The rows that the audit is about.
    plan : AuditPlan
        The plan by which the rows were drawn.
    verdicts : iterable of Verdict
        What reviewers found. Several verdicts on one row are combined by `treatment`.
    treatment : str, default "mean"
        How verdicts on one row are combined: a key of `spu_core.trust.TREATMENTS`.
    method : {"assisted", "horvitz_thompson"}, default "assisted"
        `"assisted"` uses the soft labels to make the estimate more precise. Both are unbiased.

    Returns
    -------
    AuditEstimate
        `.figures` maps each target (prior, S_P, S_N, precision, recall, true AUC) to its estimate with bounds.

    Raises
    ------
    AssumptionError
        If verdicts do not belong to the plan, or are missing.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> from spu_core.trust.audit.plan import plan_audit
    >>> from spu_core.trust.audit.verdicts import Verdict
    >>> score = rng.random(1000)
    >>> truth = rng.random(1000) < score
    >>> rows = Population.of(score, score.round(1), threshold=0.8)
    >>> plan = plan_audit(rows, 150, "prior")
    >>> found = estimate_audit(rows, plan, [Verdict(r, "positive" if truth[r] else "negative") for r in plan.rows])
    >>> bool(truth.mean() in found.figures["prior"])
    True
    """
    agreement = agree(verdicts, treatment)
    stratum = plan.strata_of(population)
    place = _places(population, plan, agreement)
    lower, upper = (Audited(population, stratum, place, verdict) for verdict in (agreement.low, agreement.high))
    thin = _thin(lower, upper, method)
    keys = [key for key in TARGETS if key != "precision" or population.is_flagged.any()]
    figures = {
        key: _widest(_figure(lower, key, plan.level, method, thin), _figure(upper, key, plan.level, method, thin))
        for key in keys
    }
    return AuditEstimate(plan, agreement, lower, figures, method, thin)


def figure_of(audited: Audited, key: str, *, level: float = 0.95, method: Method = "assisted") -> AuditFigure:
    """One figure of audited rows."""
    return _figure(audited, key, level, method, _thin(audited, audited, method))


def relevant_strata(audited: Audited, target: Target) -> np.ndarray:
    """Strata that a figure depends on; precision depends only on strata with flagged rows."""
    if not target.flagged_only:
        return audited.sizes > 0
    flagged = audited.population.is_flagged & (audited.stratum >= 0)
    return np.bincount(audited.stratum[flagged], minlength=audited.strata) > 0


def _figure(audited: Audited, key: str, level: float, method: Method, thin: np.ndarray) -> AuditFigure:
    target = target_named(key)
    totals = stratum_totals(audited, target.column(audited.population), expectation(audited, method))
    total, positives = totals.whole
    if not 0.0 < positives < audited.population.size:
        positives = float(np.clip(positives, 0.5, audited.population.size - 0.5))
    estimate = float(np.clip(target.value(total, positives, audited.population), 0.0, 1.0))
    slopes = np.array(target.slopes(total, positives, audited.population), dtype=np.float64)
    error = float(np.sqrt(max(0.0, slopes @ totals.covariance.sum(axis=0) @ slopes)))
    is_thin = thin & relevant_strata(audited, target)
    bounds = audit_bounds(audited, totals, target, is_thin, level)
    return AuditFigure(
        key,
        target.title,
        estimate,
        min(bounds.low, estimate),
        max(bounds.high, estimate),
        error,
        level,
        bool(is_thin.any()),
    )


def _widest(one: AuditFigure, other: AuditFigure) -> AuditFigure:
    """One figure from two treatments of split verdicts: bounds that cover both, and the mean of the estimates."""
    if one == other:
        return one
    bounds = Bounds(min(one.low, other.low), max(one.high, other.high))
    middle = 0.5 * (one.estimate + other.estimate)
    error = max(one.standard_error, other.standard_error)
    return AuditFigure(one.key, one.title, middle, bounds.low, bounds.high, error, one.level, one.is_exact)


def _thin(lower: Audited, upper: Audited, method: Method) -> np.ndarray:
    """Strata with fewer than five expected positives or negatives among the checks, unless all rows were checked.

    The expected number comes from the beliefs, fitted to the verdicts, and is at most twice the number found.
    """
    thin = np.zeros(lower.strata, dtype=bool)
    for audited in (lower, upper):
        expected = expectation(audited, "assisted")
        rows = audited.stratum >= 0
        total = np.bincount(audited.stratum[rows], weights=expected[rows], minlength=audited.strata)
        positives = audited.checked * total / np.maximum(audited.sizes, 1)
        for few, found in ((positives, audited.found), (audited.checked - positives, audited.checked - audited.found)):
            thin |= np.minimum(few, 2.0 * found) < ENOUGH_POSITIVES
    return thin & (lower.checked < lower.sizes)


def _places(population: Population, plan: AuditPlan, agreement: Agreement) -> np.ndarray:
    foreign = np.setdiff1d(agreement.row, np.array(plan.rows))
    if foreign.size:
        raise AssumptionError(f"Row {int(foreign[0])} has a verdict, but this audit did not draw it.")
    order = np.argsort(population.row, kind="stable")
    return order[np.searchsorted(population.row[order], agreement.row)]
