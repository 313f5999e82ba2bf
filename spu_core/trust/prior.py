"""The share of positives from every source at once: do scores of labelled rows, the rules and an audit agree?"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from spu_core.theory import PriorEstimate
from spu_core.trust.audit.estimate import AuditFigure

# E[S] above the upper estimate by less than this factor is not worth an alarm.
NEAR = 1.25


@dataclass(frozen=True, slots=True)
class Source:
    """One source of π. `prior` is None where only a range is known; `low` and `high` are None where there is none."""

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
    """All sources of π beside each other, and whether they agree."""

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
    """The ranges up to BBE and Elkan–Noto, E[S], and an audit or the truth where there is one.

    Both methods give upper estimates, so a mean soft label below them is no sign that beliefs are too weak.

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
    rules, is_inside = _rules_words(estimate, mean_soft_label)
    checked, is_borne_out = _checked(sources)
    warning = (estimate.warning,) if estimate.warning else ()
    return PriorReport(tuple(sources), is_inside and is_borne_out, (estimate.sentence, rules, *checked, *warning))


def _rules_words(estimate: PriorEstimate, mean: float) -> tuple[str, bool]:
    high = estimate.range[1]
    if mean > NEAR * high:
        return (
            f"Your rules expect {mean:.1%} positives, more than the upper estimate. Either the beliefs are too strong, "
            "or the confirmed cases are the easy ones and the estimate is too low. An audit can tell."
        ), False
    return f"Your rules expect {mean:.1%} positives, which does not clearly contradict this range.", True


def _checked(sources: list[Source]) -> tuple[tuple[str, ...], bool]:
    """What was checked by hand, or is the truth, stands above what was concluded from scores; whether it agrees."""
    known = {source.name: source for source in sources}
    audit = known.get("Audit")
    if audit is None or audit.low is None or audit.high is None:
        return _against_truth(known)
    outside = [
        f"{name} ({known[name].text})"
        for name in ("BBE", "Elkan–Noto", "E[S]")
        if name in known and not _overlap(known[name], audit)
    ]
    bounds = f"The audit says {audit.prior:.1%} ({audit.low:.1%} to {audit.high:.1%})"
    if outside:
        return (f"{bounds}; outside of that: {', '.join(outside)}. Believe the audit.",), False
    return (f"{bounds}, which contradicts none of them.",), True


def _overlap(source: Source, audit: Source) -> bool:
    low, high = (source.low, source.high) if source.prior is None else (source.prior, source.prior)
    return low <= audit.high and audit.low <= high  # type: ignore[operator]


def _against_truth(known: dict[str, Source]) -> tuple[tuple[str, ...], bool]:
    truth, high = known.get("Truth"), known["BBE"].high
    if truth is None or truth.prior is None or high is None or truth.prior <= high:
        return (), True
    cause = "Likely cause: the confirmed cases are not a random sample of all positives."
    return (f"The truth column says {truth.prior:.1%}, more than the upper estimate of {high:.1%}. {cause}",), False
