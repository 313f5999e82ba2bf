"""Checks of soft labels: the distribution of S, the ceiling of AUC_SPU, and possible problems."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import SoftLabelError
from spu_core.html_table import Tabular, count, short_repr
from spu_core.labels.belief_suggestions import CHOSEN_BY_RULES, Prior, prior_range
from spu_core.labels.soft_labels import SoftLabels, assign_soft_labels
from spu_core.metrics.auc import auc_spu_ceiling
from spu_core.rules import RuleMatrix
from spu_core.tables import Finding, Severity

BINS = 20
# Below this ceiling, models can differ by at most 0.05 in AUC_SPU from a random score.
LOW_CEILING = 0.55
# Manual beliefs are rarely more exact than this factor between E[S] and the prior.
PRIOR_FACTOR = 2.0
MANY_UNSUSPECTED = 0.5
ALMOST_ALL = 0.95
FEW_LEVELS = 3
FEW_LABELED = 20


@dataclass(frozen=True, slots=True, eq=False)
class SoftLabelAudit(Tabular):
    """Figures about S. Shares are of all rows unless noted otherwise; undefined figures are NaN.

    Each row is confirmed, suspected by a rule, or at the floor: `share_confirmed`, `share_suspected` and
    `share_at_floor` add up to 1. `levels` counts the different values of S among rows that are not confirmed.
    """

    n_rows: int
    n_labeled: int
    mean: float
    unlabeled_mean: float
    ceiling: float
    share_between: float
    share_confirmed: float
    share_suspected: float
    share_at_floor: float
    unsuspected_labeled: float
    labeled_rule_mean: float
    levels: int
    prior: Prior | None
    bin_edges: np.ndarray
    bin_rows: np.ndarray
    bin_labeled: np.ndarray
    findings: tuple[Finding, ...]

    def __repr__(self) -> str:
        figures = (f"mean {self.mean:.3f}", f"ceiling {self.ceiling:.3f}", count(len(self.findings), "finding"))
        return short_repr("SoftLabelAudit", None, count(self.n_rows, "row"), *figures)

    def to_frame(self) -> pd.DataFrame:
        """The figures and the findings, a line for each."""
        lines: dict[str, Any] = {
            "rows": f"{self.n_rows:,}",
            "confirmed": f"{self.n_labeled:,}",
            "mean S": self.mean,
            "mean S of rows that are not confirmed": self.unlabeled_mean,
            "ceiling of AUC_SPU": self.ceiling,
            "share suspected by a rule": self.share_suspected,
            "share at the floor": self.share_at_floor,
            "different values of S": f"{self.levels:,}",
        }
        found = [("finding", str(finding)) for finding in self.findings]
        return pd.DataFrame([*lines.items(), *found], columns=["figure", "value"])


def audit_soft_labels(soft_labels: SoftLabels, *, prior: Prior | None = None, bins: int = BINS) -> SoftLabelAudit:
    """Check soft labels, and compare them with the class prior, or a range of it, if it is given.

    >>> audit = audit_soft_labels(SoftLabels.from_values([0.0, 0.0, 0.0, 1.0], [False] * 4), prior=0.2)
    >>> audit.mean, audit.ceiling, [finding.code for finding in audit.findings]
    (0.25, 1.0, ['no_labels', 'never_between'])
    """
    limits = None if prior is None else prior_range(prior)
    figures = _figures(soft_labels) | _histogram(soft_labels, bins)
    findings = tuple(_findings(soft_labels, figures, limits))
    return SoftLabelAudit(prior=prior, findings=findings, **figures)


def _figures(soft_labels: SoftLabels) -> dict[str, Any]:
    value, score, is_labeled = soft_labels.value, soft_labels.rule_score, soft_labels.is_labeled
    at_floor = score <= soft_labels.floor
    return {
        "n_rows": value.size,
        "n_labeled": int(np.count_nonzero(is_labeled)),
        "mean": float(value.mean()),
        "unlabeled_mean": _mean(value[~is_labeled]),
        "ceiling": ceiling_or_nan(value),
        "share_between": _mean((value > 0.0) & (value < 1.0)),
        "share_confirmed": _mean(is_labeled),
        "share_suspected": _mean(~is_labeled & ~at_floor),
        "share_at_floor": _mean(~is_labeled & at_floor),
        "unsuspected_labeled": _mean(at_floor[is_labeled]),
        "labeled_rule_mean": _mean(score[is_labeled]),
        "levels": int(np.unique(value[~is_labeled]).size),
    }


def _histogram(soft_labels: SoftLabels, bins: int) -> dict[str, np.ndarray]:
    rows, edges = np.histogram(soft_labels.value, bins=bins, range=(0.0, 1.0))
    labeled, _ = np.histogram(soft_labels.value[soft_labels.is_labeled], bins=bins, range=(0.0, 1.0))
    return {"bin_edges": edges, "bin_rows": rows, "bin_labeled": labeled}


def _findings(soft_labels: SoftLabels, figures: dict[str, Any], prior: tuple[float, float] | None) -> Iterator[Finding]:
    yield from _about_labels(soft_labels, figures)
    yield from _about_values(figures)
    if prior is not None:
        yield from _about_prior(figures, prior)


def _about_labels(soft_labels: SoftLabels, figures: dict[str, Any]) -> Iterator[Finding]:
    n_labeled = figures["n_labeled"]
    if not n_labeled:
        yield _warning(
            "no_labels",
            "No row is a confirmed case, so the rules cannot be compared with labels.",
            "Choose the label column and its positive value, or continue with rules alone.",
        )
        return
    if n_labeled < FEW_LABELED:
        yield _warning(
            "few_labels",
            f"There are too few confirmed cases ({n_labeled}); figures that use them are very uncertain.",
            "Confirm more positives, or use the confidence intervals of these figures.",
        )
    if figures["unsuspected_labeled"] >= MANY_UNSUSPECTED:
        yield _warning(
            "unsuspected_labeled",
            f"For {_percent(figures['unsuspected_labeled'])} of the confirmed cases no rule raises the soft label "
            "above the floor.",
            "Look at these rows: a rule is missing, or the rules describe another kind of positive.",
        )
    if figures["labeled_rule_mean"] < figures["unlabeled_mean"]:
        yield _warning(
            "labels_against_rules",
            f"The mean rule score of confirmed cases ({figures['labeled_rule_mean']:.3f}) is lower than that of "
            f"the other rows ({figures['unlabeled_mean']:.3f}).",
            "Check the direction of the rules and which value of the label means confirmed.",
        )
    if soft_labels.labels_chosen_by_rules:
        yield Finding("labels_follow_rules", Severity.INFO, CHOSEN_BY_RULES, "Check some rows at random.")


def _about_values(figures: dict[str, Any]) -> Iterator[Finding]:
    ceiling = figures["ceiling"]
    if np.isnan(ceiling):
        yield Finding(
            "one_sided",
            Severity.ERROR,
            f"The soft label is {figures['mean']:g} in every row, so no rows can be compared.",
            "Add a rule that fires on some rows, or confirmed cases.",
        )
        return
    if ceiling < LOW_CEILING:
        yield _warning(
            "low_ceiling",
            f"The ceiling of AUC_SPU is {ceiling:.3f}: even the best model is hardly better than a random score.",
            "Make beliefs differ more between rows: sharper rules, or a lower floor.",
        )
    if figures["share_between"] == 0.0:
        yield Finding(
            "never_between",
            Severity.INFO,
            "The soft label is 0 or 1 in every row, as a hard label is.",
            "Add rules with beliefs between 0 and 1 where you are not sure.",
        )
    elif figures["levels"] <= FEW_LEVELS:
        values = "only one value" if figures["levels"] == 1 else f"only {figures['levels']} different values"
        yield _warning(
            "few_levels",
            f"The soft label has {values} among unconfirmed rows. AUC_SPU ignores the order of rows with equal soft "
            "labels, so a model with the best AUC_SPU can still rank them wrongly.",
            "Compare models by known-positive AUC as well. Add more rules, or beliefs that increase with a column.",
        )
    if figures["share_at_floor"] >= ALMOST_ALL:
        yield Finding(
            "mostly_floor",
            Severity.INFO,
            f"{_percent(figures['share_at_floor'])} of the rows are not confirmed, and no rule raises their soft "
            "label above the floor.",
            "This is usual for rare positives; otherwise add rules that fire on more rows.",
        )


def _about_prior(figures: dict[str, Any], prior: tuple[float, float]) -> Iterator[Finding]:
    """A warning if E[S] is far from the prior. It does not show whether the beliefs or the prior are wrong."""
    mean, (lowest, highest) = figures["mean"], prior
    if not lowest / PRIOR_FACTOR <= mean <= PRIOR_FACTOR * highest:
        given = f"{lowest:.1%}" if lowest == highest else f"{lowest:.1%} to {highest:.1%}"
        yield _warning(
            "mean_far_from_prior",
            f"The mean soft label is {mean:.1%}, far {'above' if mean > highest else 'below'} the given share of "
            f"positives ({given}).",
            "Check where that share comes from. Change beliefs only if you trust it more than your rules.",
        )


def _warning(code: str, message: str, advice: str) -> Finding:
    return Finding(code, Severity.WARNING, message, advice)


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if values.size else float("nan")


MANY_ROWS = 100_000
GRID = 2**16


def leave_one_rule_out(
    matrix: RuleMatrix, is_labeled: Any, combine: str = "noisy_or", floor: float = 0.0
) -> pd.DataFrame:
    """One line per rule: S without it, compared with S of all rules.

    mean_change and ceiling_change: E[S] and the ceiling without the rule, minus those with it (NaN if a ceiling is
    undefined). rows_changed: share of rows whose S differs. rank_correlation: Spearman's correlation of both S; 1 means
    that the rule does not change the order of the rows.

    >>> matrix = RuleMatrix.from_arrays(["a", "b"], [[0.5, 0.0], [0.0, 0.2], [0.0, 0.2], [0.0, 0.0]])
    >>> leave_one_rule_out(matrix, [False] * 4)[["mean_change", "rows_changed"]]
          mean_change  rows_changed
    rule
    a          -0.125          0.25
    b          -0.100          0.50
    """
    whole = _Ordered(assign_soft_labels(matrix, is_labeled, combine, floor).value)
    lines = []
    for name in matrix.names:
        rest = _Ordered(assign_soft_labels(matrix.without(name), is_labeled, combine, floor).value)
        lines.append(
            {
                "mean_change": rest.soft_label.mean() - whole.soft_label.mean(),
                "ceiling_change": rest.ceiling - whole.ceiling,
                "rows_changed": np.mean(rest.soft_label != whole.soft_label),
                "rank_correlation": _correlation(rest.rank, whole.rank),
            }
        )
    columns = ["mean_change", "ceiling_change", "rows_changed", "rank_correlation"]
    return pd.DataFrame(lines, columns=columns, index=pd.Index(matrix.names, name="rule"), dtype=float)


def ceiling_or_nan(soft_label: np.ndarray, rows: np.ndarray | None = None) -> float:
    """The ceiling, or NaN if all soft labels are 0 or all are 1. `rows` is the number of rows of each value."""
    try:
        return auc_spu_ceiling(soft_label, sample_weight=rows)
    except SoftLabelError:
        return float("nan")


class _Ordered:
    """Soft labels with their midranks and their ceiling, both from the counts of equal values."""

    def __init__(self, soft_label: np.ndarray) -> None:
        self.soft_label = soft_label
        if soft_label.size > MANY_ROWS:
            # Counts on a fine grid need no sort and change S by at most 1/131072.
            position = np.rint(soft_label * GRID).astype(np.int64)
            count, values = np.bincount(position, minlength=GRID + 1), np.arange(GRID + 1) / GRID
        else:
            values, position, count = np.unique(soft_label, return_inverse=True, return_counts=True)
        self.rank = (np.cumsum(count) - (count - 1) / 2)[position]
        present = count > 0
        self.ceiling = ceiling_or_nan(values[present], count[present].astype(np.float64))


def _correlation(left: np.ndarray, right: np.ndarray) -> float:
    left, right = left - left.mean(), right - right.mean()
    scale = np.sqrt((left * left).sum() * (right * right).sum())
    return float((left * right).sum() / scale) if scale > 0 else float("nan")
