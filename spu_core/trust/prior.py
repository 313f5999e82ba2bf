"""Comparison of all estimates of the share of positives: from scores, rules, an audit, and the truth."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from spu_core.theory import PriorEstimate
from spu_core.trust.audit.estimate import AuditFigure

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
