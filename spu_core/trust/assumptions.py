"""Tests of the paper's assumptions on audited rows, and a comparison of all estimates of the share of positives.

The tests weight rows by the probabilities with which they were drawn. An unweighted test would be wrong, because rows
were drawn by score and S, which the assumptions are about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr

from spu_core.metrics.intervals import z_quantile
from spu_core.theory import MonotoneBound, MonotoneLink, PriorEstimate, estimate_monotone_link
from spu_core.training.evaluation import holm
from spu_core.trust.audit.estimate import AuditEstimate, AuditFigure, figure_of
from spu_core.trust.audit.population import TARGETS
from spu_core.trust.audit.totals import Audited, expectation, stratum_totals

FEWEST_OF_A_CLASS = 5
LINK_BANDS = 10
LINK_POINTS = 1000
SCORE = "the score"
# Audits of this size cannot detect a smaller deviation ε from a monotone link.
ALMOST_MONOTONE = 0.005
ILLUSTRATION = "This is an illustration only: both sides were estimated from the score."


@dataclass(frozen=True, slots=True)
class MeanGap:
    """S_P − S_N with its confidence interval, and the one-sided p-value against S_P ≤ S_N."""

    positive_mean: float
    negative_mean: float
    low: float
    high: float
    standard_error: float
    p_value: float
    level: float

    @property
    def estimate(self) -> float:
        return self.positive_mean - self.negative_mean

    @property
    def is_shown(self) -> bool:
        """Whether the rows confirm Assumption 1. If not, there may be too few rows."""
        return self.p_value < 1.0 - self.level


@dataclass(frozen=True, eq=False)
class AssumptionReport:
    """Test results for each assumption; None if there are too few verdicts of a class.

    `dependence` has a line for each class and for the score and each column: the rank correlation with S within the
    class, with its p-value (Holm's correction, over all lines). `link` and `bound` are an illustration: both sides are
    estimated from the score.
    """

    separation: MeanGap | None
    dependence: pd.DataFrame
    link: MonotoneLink | None
    bound: MonotoneBound | None
    level: float

    @property
    def is_independence_refuted(self) -> bool:
        """Whether S depends on the score (or a column) within a class, so that Theorem 2 does not hold."""
        return bool((self.dependence["holm"] < 1.0 - self.level).any())

    @property
    def is_score_refuted(self) -> bool:
        """Whether S depends on the score within a class; the implied true AUC assumes that it does not."""
        lines = self.dependence[self.dependence["with"] == SCORE]
        return bool((lines["holm"] < 1.0 - self.level).any())

    @property
    def sentences(self) -> tuple[str, ...]:
        """One sentence per assumption."""
        return (self._separation_sentence(), self._dependence_sentence(), self._link_sentence())

    def _separation_sentence(self) -> str:
        if self.separation is None:
            return f"Assumption 1: not tested, because a class has fewer than {FEWEST_OF_A_CLASS} verdicts."
        bounds = f"{self.separation.level:.0%} bounds {self.separation.low:.3f} to {self.separation.high:.3f}"
        gap = f"S_P − S_N = {self.separation.estimate:.3f} ({bounds})"
        if self.separation.is_shown:
            return f"Assumption 1 holds on these rows: {gap}. Positives have higher soft labels on average."
        return (
            f"Assumption 1 is not confirmed: {gap}. Either positives do not have higher soft labels, or there are too "
            "few rows."
        )

    def _dependence_sentence(self) -> str:
        if self.dependence.empty:
            return f"Assumption 2: not tested, because a class has fewer than {FEWEST_OF_A_CLASS} verdicts."
        worst = self.dependence.sort_values("holm", kind="stable").iloc[0]
        found = f"among true {worst['class']}s S depends on {worst['with']} (correlation {worst['correlation']:.2f})"
        if self.is_score_refuted:
            return f"Assumption 2 is refuted for this score: {found}. Do not use the implied true AUC."
        if self.is_independence_refuted:
            return f"Assumption 2 is refuted: {found}. It is not refuted for the score; use implied figures with care."
        return (
            "Assumption 2 is not refuted: within each class there is no clear dependence of S on the score or a "
            "column. This is not a proof, because few rows show only a strong dependence."
        )

    def _link_sentence(self) -> str:
        if self.link is None or self.bound is None:
            return "Assumptions 3 and 4: too few verdicts to compare E[S|X] with P(Y=1|X)."
        rough = f"ε = {self.link.noise:.3f}, C_h = {self.link.slope:.3f}, M = {self.link.density:.1f}"
        lost = self.bound.auc_loss
        loss = f"loses at most {lost:.3f} AUC" if lost < 0.5 else "may lose any amount of AUC (the bound is too wide)"
        if self.link.noise < ALMOST_MONOTONE:
            return (
                f"Assumption 3 agrees with these rows: E[S|score] increases with P(Y=1|score) ({rough}). By Theorem 4 "
                f"the best score by S {loss}. {ILLUSTRATION}"
            )
        return f"Assumption 4 with {rough}: by Theorem 4 the best score by S {loss}. {ILLUSTRATION}"


def check_assumptions(estimate: AuditEstimate, columns: Mapping[str, Any] | None = None) -> AssumptionReport:
    """Test the assumptions on the audited rows; `columns` maps names to values of all rows of the population."""
    audited, level = estimate.audited, estimate.plan.level
    positives = float(audited.verdict.sum()) + float(audited.population.is_known.sum())
    negatives = float((1.0 - audited.verdict).sum())
    if min(positives, negatives) < FEWEST_OF_A_CLASS:
        return AssumptionReport(None, _empty(), None, None, level)
    link = _link(audited)
    return AssumptionReport(
        _separation(audited, level),
        _dependence(audited, columns or {}),
        link,
        None if link is None else link.bound(),
        level,
    )


def _separation(audited: Audited, level: float) -> MeanGap:
    """S_P − S_N with its sampling error; exact limits if few positives or negatives are expected in a stratum."""
    positive, negative = TARGETS["positive_mean"], TARGETS["negative_mean"]
    population = audited.population
    totals = stratum_totals(audited, population.soft_label, expectation(audited))
    sums = totals.whole
    means = [float(target.value(*sums, population)) for target in (positive, negative)]
    slopes = np.subtract(positive.slopes(*sums, population), negative.slopes(*sums, population))
    error = float(np.sqrt(max(0.0, slopes @ totals.covariance.sum(axis=0) @ slopes)))
    gap, reach = means[0] - means[1], z_quantile(level) * error
    p_value = float(ndtr(-gap / error)) if error > 0.0 else float(gap <= 0.0)
    low, high = gap - reach, gap + reach
    # Each mean gets half of the error probability. With few positives, exact limits are wider than normal limits.
    one, two = (figure_of(audited, key, level=0.5 + 0.5 * level) for key in ("positive_mean", "negative_mean"))
    if one.is_exact or two.is_exact:
        low, high = min(low, one.low - two.high), max(high, one.high - two.low)
        p_value = p_value if low > 0.0 else max(p_value, 1.0 - level)
    return MeanGap(means[0], means[1], low, high, error, p_value, level)


def _dependence(audited: Audited, columns: Mapping[str, Any]) -> pd.DataFrame:
    population = audited.population
    tested: dict[str, Any] = {SCORE: population.score, **columns}
    # Only audited and known rows are ranked; sorting all rows would be slow.
    used = np.union1d(audited.place, np.flatnonzero(population.is_known))
    lines = []
    for name, column in tested.items():
        ranks = _ranks(pd.Series(column).iloc[used])
        if ranks is None or np.ptp(ranks) == 0.0:
            continue
        values = np.zeros(population.size)
        values[used] = ranks
        for class_name, share in (("positive", audited.verdict), ("negative", 1.0 - audited.verdict)):
            found = _correlation(audited, values, share, class_name == "positive")
            if found is not None:
                lines.append({"class": class_name, "with": name, "correlation": found[0], "p_value": found[1]})
    if not lines:
        return _empty()
    table = pd.DataFrame(lines)
    table["holm"] = holm(table["p_value"].tolist())
    return table


def _correlation(
    audited: Audited, values: np.ndarray, share: np.ndarray, with_known: bool
) -> tuple[float, float] | None:
    """Correlation of S with ranked values within a class, and the p-value of its covariance being zero.

    Estimated means change the covariance only to second order, so its error is that of a total. The assumption is about
    the process that generates S, not about these rows: even if all rows were checked, their covariance would not be
    exactly zero. So the variance over possible sets of rows is added to that of the sampling.
    """
    population = audited.population
    known = population.is_known if with_known else np.zeros(population.size, dtype=bool)
    if float(share.sum()) + known.sum() < FEWEST_OF_A_CLASS:
        return None
    # Labelled rows are included with S = 1, as S is used.
    place = np.concatenate([audited.place, np.flatnonzero(known)])
    mass = np.concatenate([audited.weight * share, np.ones(int(known.sum()))])
    soft = population.soft_label[place] - np.average(population.soft_label[place], weights=mass)
    other = values[place] - np.average(values[place], weights=mass)
    scale = np.sqrt((mass * soft**2).sum() * (mass * other**2).sum())
    if scale <= 0.0:
        return None
    drawn = (soft * other)[: audited.place.size] * share
    of_rows = float((mass * (soft * other) ** 2).sum())
    error = float(np.sqrt(_error_of_total(audited, drawn) ** 2 + of_rows))
    covariance = float((mass * soft * other).sum())
    p_value = 2.0 * float(ndtr(-abs(covariance) / error)) if error > 0.0 else 1.0
    return covariance / scale, p_value


def _error_of_total(audited: Audited, values: np.ndarray) -> float:
    strata, checked, sizes = audited.row_stratum, audited.checked, audited.sizes
    mean = np.bincount(strata, weights=values, minlength=audited.strata) / np.maximum(checked, 1)
    squares = np.bincount(strata, weights=(values - mean[strata]) ** 2, minlength=audited.strata)
    factor = sizes**2 * (1.0 - checked / np.maximum(sizes, 1)) / np.maximum(checked * (checked - 1), 1)
    return float(np.sqrt((factor * squares).sum()))


def _link(audited: Audited) -> MonotoneLink | None:
    """Fit h to E[S|score] of all rows and P(Y=1|score) of the audited rows, made monotone."""
    from sklearn.isotonic import isotonic_regression

    population = audited.population
    edges = np.unique(np.quantile(population.score[audited.place], np.linspace(0.0, 1.0, LINK_BANDS + 1)[1:-1]))
    band = np.searchsorted(edges, population.score, side="left")
    at, weight = band[audited.place], audited.weight
    known = np.bincount(band[population.is_known], minlength=edges.size + 1)
    mass = np.bincount(at, weights=weight, minlength=edges.size + 1) + known
    positive = np.bincount(at, weights=weight * audited.verdict, minlength=edges.size + 1) + known
    if edges.size < 3 or (mass == 0).any():
        return None
    truth = isotonic_regression(positive / mass, sample_weight=mass, y_min=0.0, y_max=1.0)
    size = np.bincount(band, minlength=edges.size + 1)
    soft = np.bincount(band, weights=population.soft_label, minlength=edges.size + 1) / np.maximum(size, 1)
    if np.ptp(truth) == 0.0:
        return None
    # Both sides are interpolated between the middles of the bands; steps would put all rows on a few values.
    middle = (np.cumsum(size) - 0.5 * size) / population.size
    points = np.linspace(0.0, 1.0, LINK_POINTS)
    return estimate_monotone_link(np.interp(points, middle, soft), np.interp(points, middle, truth))


def _ranks(values: Any) -> np.ndarray | None:
    """Ranks of numbers; texts and categories are ranked by their frequency. None if all values are missing."""
    column = pd.Series(values).reset_index(drop=True)
    if column.isna().all():
        return None
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        column = column.astype(str).map(column.astype(str).value_counts()).astype(np.float64)
    return column.fillna(column.median()).rank().to_numpy(dtype=np.float64)


def _empty() -> pd.DataFrame:
    return pd.DataFrame({"class": [], "with": [], "correlation": [], "p_value": [], "holm": []})


# E[S] may exceed the upper estimate by up to this factor without a warning.
NEAR = 1.25


@dataclass(frozen=True, slots=True)
class Source:
    """One estimate of π. `prior` is None if only a range is known; `low` and `high` are None if there is no range."""

    name: str
    prior: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""

    @property
    def text(self) -> str:
        """The share in per cent, or the range of it."""
        return f"{self.low:.1%} to {self.high:.1%}" if self.prior is None else f"{self.prior:.1%}"


@dataclass(frozen=True)
class PriorReport:
    """All estimates of π, and whether they agree."""

    sources: tuple[Source, ...]
    agrees: bool
    sentences: tuple[str, ...]

    @property
    def table(self) -> pd.DataFrame:
        return pd.DataFrame([{n: getattr(each, n) for n in ("name", "prior", "low", "high")} for each in self.sources])

    def of(self, name: str) -> Source | None:
        return next((source for source in self.sources if source.name == name), None)


def compare_priors(
    estimate: PriorEstimate, mean_soft_label: float, *, audit: AuditFigure | None = None, truth: float | None = None
) -> PriorReport:
    """Compare the ranges of BBE and Elkan–Noto, E[S], and an audit or the truth if there is one.

    Both methods give upper estimates, so a mean soft label below them does not mean that beliefs are too low.

    >>> estimate = PriorEstimate(0.2, 0.18, 0.22, 0.15, 0.06, elkan_noto=0.19)
    >>> compare_priors(estimate, 0.1).agrees, compare_priors(estimate, 0.5).agrees
    (True, False)
    """
    low, high = estimate.range
    sources = [Source("BBE", None, low, high, "from the confirmed cases to the upper estimate")]
    if estimate.elkan_noto is not None:
        note = "from the confirmed cases to the estimate, which needs calibrated scores"
        sources.append(Source("Elkan–Noto", None, low, max(low, estimate.elkan_noto), note))
    sources.append(Source("E[S]", mean_soft_label, note="what your rules expect on average"))
    if audit is not None:
        sources.append(Source("Audit", audit.estimate, audit.low, audit.high, "checked by hand"))
    if truth is not None:
        sources.append(Source("Truth", truth, note="from the truth column"))
    rules, is_inside = _compare_with_rules(estimate, mean_soft_label)
    checked, is_confirmed = _compare_with_audit(sources)
    warning = (estimate.warning,) if estimate.warning else ()
    return PriorReport(tuple(sources), is_inside and is_confirmed, (estimate.sentence, rules, *checked, *warning))


def _compare_with_rules(estimate: PriorEstimate, mean: float) -> tuple[str, bool]:
    high = estimate.range[1]
    if mean > NEAR * high:
        return (
            f"Your rules expect {mean:.1%} positives, more than the upper estimate. Either the beliefs are too high, "
            "or the confirmed cases are the easy ones and the estimate is too low. An audit can show which."
        ), False
    return f"Your rules expect {mean:.1%} positives, which does not clearly contradict this range.", True


def _compare_with_audit(sources: list[Source]) -> tuple[tuple[str, ...], bool]:
    """Compare the other estimates with the audit, or with the truth if there is no audit; whether they agree."""
    known = {source.name: source for source in sources}
    audit = known.get("Audit")
    if audit is None or audit.low is None or audit.high is None:
        return _against_truth(known)
    outside = [
        f"{name} ({known[name].text})"
        for name in ("BBE", "Elkan–Noto", "E[S]")
        if name in known and not _overlap(known[name], audit)
    ]
    bounds = f"The audit estimates {audit.prior:.1%} ({audit.low:.1%} to {audit.high:.1%})"
    if outside:
        return (f"{bounds}. Outside this interval: {', '.join(outside)}. Use the result of the audit.",), False
    return (f"{bounds}, which agrees with the other estimates.",), True


def _overlap(source: Source, audit: Source) -> bool:
    low, high = (source.low, source.high) if source.prior is None else (source.prior, source.prior)
    return low <= audit.high and audit.low <= high  # type: ignore[operator]


def _against_truth(known: dict[str, Source]) -> tuple[tuple[str, ...], bool]:
    truth, high = known.get("Truth"), known["BBE"].high
    if truth is None or truth.prior is None or high is None or truth.prior <= high:
        return (), True
    cause = "Likely cause: the confirmed cases are not a random sample of all positives."
    return (f"The true share is {truth.prior:.1%}, more than the upper estimate of {high:.1%}. {cause}",), False
