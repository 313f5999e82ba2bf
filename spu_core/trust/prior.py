"""The share of positives from every source at once: do scores of labelled rows, the rules and an audit agree?"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from spu_core.theory import PriorEstimate
from spu_core.trust.audit_estimate import AuditFigure

# Two sources nearer than this (as a ratio) are not worth an alarm.
NEAR = 1.25


@dataclass(frozen=True, slots=True)
class Source:
    """One source of π; `low` and `high` are a sampling band for BBE, bounds for an audit, None where there are none."""

    name: str
    prior: float
    low: float | None = None
    high: float | None = None
    words: str = ""


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
    """BBE with its sampling band, Elkan–Noto, E[S], and an audit or the truth where there is one.

    >>> estimate = PriorEstimate(0.2, 0.18, 0.22, 0.15, 0.06, elkan_noto=0.19)
    >>> compare_priors(estimate, 0.2).agrees, compare_priors(estimate, 0.5).agrees
    (True, False)
    """
    sources = [Source("BBE", estimate.prior, estimate.low, estimate.high, "upper estimate with a sampling band")]
    if estimate.elkan_noto is not None:
        sources.append(Source("Elkan–Noto", estimate.elkan_noto, words="needs calibrated scores and classes apart"))
    sources.append(Source("E[S]", mean_soft_label, words="what your rules believe on average"))
    if audit is not None:
        sources.append(Source("Audit", audit.estimate, audit.low, audit.high, "checked by hand"))
    if truth is not None:
        sources.append(Source("Truth", truth, words="from the truth column"))
    alarms = tuple(filter(None, (_rules_words(estimate, mean_soft_label), _score_words(estimate))))
    checked, is_borne_out = _checked(sources)
    warning = (estimate.warning,) if estimate.warning else ()
    calm = () if alarms else ("BBE, Elkan–Noto and the rules agree as far as they can be told apart.",)
    return PriorReport(tuple(sources), not alarms and is_borne_out, (*alarms, *calm, *checked, *warning))


def _rules_words(estimate: PriorEstimate, mean: float) -> str:
    if mean > NEAR * estimate.high:
        return (
            f"Your rules believe in {mean:.1%} positives, well above the BBE band ({estimate.low:.1%} to "
            f"{estimate.high:.1%}), which itself errs high. Likely cause: beliefs that are too strong. Or the "
            "confirmed positives are the easy ones, not a random part of all, and BBE cannot see the others."
        )
    if mean * NEAR < estimate.low:
        return (
            f"Your rules believe in {mean:.1%} positives, well below the BBE band ({estimate.low:.1%} to "
            f"{estimate.high:.1%}). Likely cause: positives that no rule covers, or beliefs that are too weak. Or "
            "the classes overlap, where BBE errs high."
        )
    return ""


def _score_words(estimate: PriorEstimate) -> str:
    other = estimate.elkan_noto
    if other is None or estimate.low / NEAR <= other <= estimate.high * NEAR:
        return ""
    if other > estimate.high:
        return (
            f"Elkan–Noto ({other:.1%}) lies above BBE ({estimate.prior:.1%}). Likely cause: classes that overlap, for "
            "which Elkan–Noto errs high even more than BBE does."
        )
    return (
        f"Elkan–Noto ({other:.1%}) lies below BBE ({estimate.prior:.1%}). Likely cause: scores that are too sure of "
        "labelled rows (overfitted), or confirmed positives that are not a random part of all positives."
    )


def _checked(sources: list[Source]) -> tuple[tuple[str, ...], bool]:
    """What was checked by hand, or is the truth, stands above what was concluded from scores; whether it agrees."""
    known = {source.name: source for source in sources}
    audit = known.get("Audit")
    if audit is None or audit.low is None or audit.high is None:
        return _against_truth(known)
    outside = [
        f"{name} ({known[name].prior:.1%})"
        for name in ("BBE", "Elkan–Noto", "E[S]")
        if name in known and not audit.low <= known[name].prior <= audit.high
    ]
    bounds = f"The audit says {audit.prior:.1%} ({audit.low:.1%} to {audit.high:.1%})"
    if outside:
        return (f"{bounds}; outside of that: {', '.join(outside)}. Believe the audit.",), False
    return (f"{bounds}, which agrees with all of them.",), True


def _against_truth(known: dict[str, Source]) -> tuple[tuple[str, ...], bool]:
    truth, bbe = known.get("Truth"), known["BBE"]
    if truth is None or bbe.low is None or bbe.high is None or bbe.low <= truth.prior <= bbe.high:
        return (), True
    side = "above" if truth.prior > bbe.high else "below"
    band = f"the BBE band ({bbe.low:.1%} to {bbe.high:.1%})"
    cause = "confirmed positives that are not a random part of all" if side == "above" else "classes that overlap"
    return (f"The truth column says {truth.prior:.1%}, {side} {band}. Likely cause: {cause}.",), False
