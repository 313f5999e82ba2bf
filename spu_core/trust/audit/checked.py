"""Checked rows with known probabilities, from one or several audits of the same table, and what they say of any score.

A row is used if any audit drew it and somebody checked it, for whatever audit. Audits draw independently, so the
probability that at least one of them checks row i is 1 − Π(1 − p_i) over the audits, and one over it is the weight of
the row. This needs nothing but the plans, and it stays valid if an audit is extended by another batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import AssumptionError
from spu_core.html_table import Tabular, count, short_repr
from spu_core.metrics import Difference
from spu_core.training import Run
from spu_core.training.comparison import NOT_MODELS, AuditEvidence
from spu_core.training.evaluation import PairedDifference, holm
from spu_core.trust.audit.estimate import AuditFigure
from spu_core.trust.audit.inference import (
    Corrected,
    Sampled,
    auc_interval,
    corrected,
    difference_interval,
    share_interval,
)
from spu_core.trust.audit.plan import AuditPlan
from spu_core.trust.audit.population import TARGETS, Population
from spu_core.trust.audit.verdicts import Agreement, Treatment, agree

# From this number of checked positives (and negatives) on, an interval is narrow enough to be of use.
ENOUGH_OF_A_CLASS = 5.0
MEANS = ("positive_mean", "negative_mean")


@dataclass(frozen=True, eq=False)
class CheckedRows:
    """Rows of a table that were checked by hand, each with the probability that an audit would check it.

    `low` and `high` are the verdicts in [0, 1]; they differ only where reviewers disagree and the worst case is asked
    for. `chance` has that probability for every row of the table, 0 for rows that could not have been drawn; None
    where the plan does not say.
    """

    row: np.ndarray
    probability: np.ndarray
    low: np.ndarray
    high: np.ndarray
    chance: np.ndarray | None
    agreement: Agreement
    level: float
    waiting: int
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return short_repr("CheckedRows", None, count(self.row.size, "checked row"), f"{self.found:g} positive")

    @property
    def found(self) -> float:
        """Positives among the checked rows; a split verdict counts in part."""
        return float(0.5 * (self.low + self.high).sum())

    def sampled(self, population: Population, verdict: np.ndarray) -> Sampled:
        """The checked rows of a population; rows that were confirmed since then count as known."""
        order = np.argsort(population.row, kind="stable")
        at = np.searchsorted(population.row[order], self.row).clip(max=population.size - 1)
        place = order[at]
        kept = (population.row[place] == self.row) & ~population.is_known[place]
        return Sampled.of(population, place[kept], self.probability[kept], verdict[kept])

    def chance_of(self, population: Population) -> np.ndarray:
        """The probability that a row was checked, for each row; all alike where the plan does not say."""
        if self.chance is None:
            return np.full(population.size, min(self.row.size / population.size, 1.0))
        inside = population.row < self.chance.size
        found = np.zeros(population.size)
        found[inside] = self.chance[population.row[inside]]
        return found

    def frame_of(self, population: Population) -> Population:
        """The part of a population that the audits speak of: rows that could be drawn, and known positives."""
        inside = (self.chance_of(population) > 0.0) | population.is_known
        return population if inside.all() else population.only(inside)


def combine_audits(audits: Sequence[tuple[AuditPlan, Iterable[Any]]], *, treatment: Treatment = "mean") -> CheckedRows:
    """The checked rows of several audits of one table.

    Parameters
    ----------
    audits : sequence of (AuditPlan, verdicts)
        Verdicts are objects with `row`, `verdict` and `reviewer`.
    treatment : str, default "mean"
        How verdicts on one row are combined: a key of `spu_core.trust.TREATMENTS`.

    Returns
    -------
    CheckedRows
        Each checked row with its verdict and the probability that one of the audits would check it.

    Raises
    ------
    AssumptionError
        If there is no verdict yet, or a stratum of an audit has none.

    Examples
    --------
    >>> from spu_core.trust.audit.questions import draw_audit
    >>> from spu_core.trust.audit.verdicts import Verdict
    >>> rows = Population.of(np.linspace(0, 1, 1000), np.full(1000, 0.2), threshold=0.9)
    >>> plan = draw_audit(rows, 50)
    >>> combine_audits([(plan, [Verdict(row, "positive" if row > 700 else "negative") for row in plan.rows])])
    <CheckedRows: 50 checked rows, 13 positive>
    """
    if not audits:
        raise AssumptionError("There is no audit of this table yet; draw rows to check first.")
    drawn = {row for plan, _ in audits for row in plan.rows}
    given = [item for _, verdicts in audits for item in verdicts if int(item.row) in drawn]
    agreement = agree(given, treatment)
    used, notes = _usable([plan for plan, _ in audits], agreement.row)
    notes += _warn_of_skipped(used, {int(item.row) for item in given}, len({item.reviewer for item in given}))
    kept = np.isin(agreement.row, np.concatenate([np.array(plan.rows) for plan in used]))
    missed = np.ones(agreement.row.size)
    for plan in used:
        missed *= 1.0 - plan.chance_of(agreement.row, agreement.row)
    # A verdict on a row that an earlier batch checked is not asked for again.
    waiting = len({row for plan in used for row in plan.rows} - set(agreement.row.tolist()))
    return CheckedRows(
        row=agreement.row[kept],
        probability=(1.0 - missed)[kept],
        low=agreement.low[kept],
        high=agreement.high[kept],
        chance=_chance_of_all(used, agreement.row),
        agreement=agreement,
        level=max(plan.level_of_a_look for plan in used),
        waiting=waiting,
        notes=notes,
    )


def _chance_of_all(plans: Sequence[AuditPlan], checked: np.ndarray) -> np.ndarray | None:
    """By row of the table, the probability that one of the audits checks it; 0 where one of them could not draw it."""
    frames = [plan.frame for plan in plans if plan.frame is not None]
    if len(frames) < len(plans):
        return None
    rows = np.arange(frames[0].size)
    missed = np.prod([1.0 - plan.chance_of(rows, checked) for plan in plans], axis=0)
    return np.where(np.logical_and.reduce(frames), 1.0 - missed, 0.0)


def _usable(plans: Sequence[AuditPlan], checked: np.ndarray) -> tuple[list[AuditPlan], tuple[str, ...]]:
    """Plans that can be combined: started ones, and either a single one or those that know the stratum of every row."""
    started = [plan for plan in plans if np.isin(plan.rows, checked).any()]
    whole = [plan for plan in started if plan.frame is not None]
    if len(started) == 1 or len(whole) == len(started):
        return started, ()
    used = whole or started[:1]
    left = len(started) - len(used)
    return used, (f"{count(left, 'older audit')} cannot be combined with the others and {'is' if left == 1 else 'are'} "
                  "not used: the run that the rows were drawn by is gone.",)  # fmt: skip


def _warn_of_skipped(plans: Sequence[AuditPlan], checked: set[int], reviewers: int) -> tuple[str, ...]:
    """A warning if rows were skipped: checked rows are a random part of a list only in the order of the list."""
    skipped: set[int] = set()
    for plan in plans:
        last = max((at for at, row in enumerate(plan.rows) if row in checked), default=-1)
        skipped |= set(plan.rows[:last]) - checked
    # Each reviewer may have one row open.
    if len(skipped) <= reviewers:
        return ()
    return (f"{count(len(skipped), 'row')} of the list were skipped, although later rows were checked. If they are the "
            "difficult ones, the result is biased. Check them or answer 'unsure' before you use it.",)  # fmt: skip


@dataclass(frozen=True, eq=False)
class AuditReport(Tabular):
    """What the checked rows say: figures of every score, and paired differences of true AUC.

    Attributes
    ----------
    figures : dict of str to dict of str to AuditFigure
        For each score, a figure for each key of `TARGETS`.
    pairs : tuple of PairedDifference
        Difference of true AUC of each two scores, the better one first, with p-values after Holm's correction.
    checked : CheckedRows
    missing : int
        How many more checks are needed, roughly, for an interval of the true AUC that is of use; 0 if there are enough.
    rows : int
        Number of rows that the figures are about.
    degrees : float
        Degrees of freedom of the standard errors: the effective number of checked positives or negatives, minus one.
    references : frozenset of str
        Scores that are no models to choose, such as the rules alone.
    """

    figures: dict[str, dict[str, AuditFigure]]
    pairs: tuple[PairedDifference, ...]
    checked: CheckedRows
    missing: int
    rows: int
    degrees: float
    references: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return short_repr("AuditReport", None, count(len(self.figures), "score"), repr(self.checked))

    def to_frame(self) -> pd.DataFrame:
        """A line for each score and figure, with its bounds."""
        return self.table[["name", "title", "estimate", "low", "high"]]

    @property
    def table(self) -> pd.DataFrame:
        """A line for each score and figure."""
        names = ("key", "title", "estimate", "low", "high", "standard_error", "missing")
        return pd.DataFrame(
            [
                {"name": name, **{each: getattr(figure, each) for each in names}}
                for name, figures in self.figures.items()
                for figure in figures.values()
            ]
        )

    @property
    def pair_table(self) -> pd.DataFrame:
        """A line for each pair: the difference of true AUC with its interval and p-values."""
        lines = [
            (pair.first, pair.second, each.estimate, each.low, each.high, each.p_value, pair.p_holm)
            for pair in self.pairs
            for each in (pair.difference,)
        ]
        return pd.DataFrame(lines, columns=["first", "second", "difference", "low", "high", "p_value", "p_holm"])

    def pair(self, a: str, b: str) -> PairedDifference | None:
        return next((pair for pair in self.pairs if {pair.first, pair.second} == {a, b}), None)

    @property
    def is_enough(self) -> bool:
        return self.missing == 0

    @property
    def evidence(self) -> AuditEvidence | None:
        """For `Comparison.with_audit`: true AUCs with the covariance of their errors.

        None if too few rows were checked, or the scores are of different rows.
        """
        names = list(self.figures)
        aucs = [self.figures[name]["true_auc"] for name in names]
        if self.missing or len(self.pairs) < len(names) * (len(names) - 1) // 2:
            return None
        variance = np.array([auc.standard_error**2 for auc in aucs])
        covariance = np.diag(variance)
        for one, two in combinations(range(len(names)), 2):
            pair = self.pair(names[one], names[two])
            assert pair is not None
            # Var(a − b) = Var a + Var b − 2 Cov(a, b)
            shared = 0.5 * (variance[one] + variance[two] - pair.difference.standard_error**2)
            covariance[one, two] = covariance[two, one] = shared
        values, vectors = np.linalg.eigh(covariance)
        covariance = (vectors * values.clip(0.0)) @ vectors.T
        value = {name: auc.estimate for name, auc in zip(names, aucs, strict=True)}
        return AuditEvidence(value, covariance, self.degrees, int(self.checked.row.size), self.pairs)

    @property
    def sentence(self) -> str:
        """The result in one or two sentences."""
        seen = f"{self.checked.row.size:,} checked rows, {self.checked.found:g} of them positive"
        if self.missing:
            return (
                f"Too few cases to judge the models: {seen}. Check about {self.missing:,} more rows; at least "
                f"{ENOUGH_OF_A_CLASS:g} positives and {ENOUGH_OF_A_CLASS:g} negatives are needed."
            )
        models = [name for name in self.figures if name not in self.references] or list(self.figures)
        best = max(models, key=lambda name: self.figures[name]["true_auc"].estimate)
        auc = self.figures[best]["true_auc"]
        first = f"{best!r}: true AUC {auc.estimate:.3f} ({auc.low:.3f} to {auc.high:.3f}), from {seen}."
        behind = [pair.second for pair in self.pairs if pair.first == best and pair.is_clear]
        behind = [name for name in behind if name in models]
        others = len(models) - 1
        if not others:
            return first
        if len(behind) == others:
            return f"{first} It is clearly better than {'the other' if others == 1 else f'all {others} others'}."
        apart = f"clearly better than {len(behind)} of {others} others" if behind else "no clear difference from others"
        return f"{first} {apart[:1].upper()}{apart[1:]}."


def judge_scores(
    populations: Mapping[str, Population], checked: CheckedRows, *, method: str = "assisted"
) -> AuditReport:
    """Estimate the true figures of every score from the same checked rows.

    Parameters
    ----------
    populations : mapping of str to Population
        Scores by name, all for rows of the table that was audited. Scores may be newer than the audit.
    checked : CheckedRows
        The result of `combine_audits`.
    method : {"assisted", "horvitz_thompson"}, default "assisted"
        "assisted" uses scores and soft labels of all rows as far as they agree with the verdicts.

    Returns
    -------
    AuditReport

    Examples
    --------
    >>> from spu_core.trust.audit.questions import draw_audit
    >>> from spu_core.trust.audit.verdicts import Verdict
    >>> rng = np.random.default_rng(0)
    >>> signal = rng.normal(size=2000)
    >>> truth = rng.random(2000) < 1 / (1 + np.exp(1 - 2 * signal))
    >>> soft_label = np.full(2000, 0.3)
    >>> rows = {name: Population.of(signal + noise * rng.normal(size=2000), soft_label, threshold=1.0)
    ...         for name, noise in (("good", 0.3), ("poor", 3.0))}
    >>> plan = draw_audit(rows["good"], 150)
    >>> verdicts = [Verdict(row, "positive" if truth[row] else "negative") for row in plan.rows]
    >>> report = judge_scores(rows, combine_audits([(plan, verdicts)]))
    >>> report.pairs[0].first, report.pairs[0].is_clear
    ('good', True)
    """
    inside = {name: checked.frame_of(population) for name, population in populations.items()}
    judged = {name: _Judged.of(population, checked, method) for name, population in inside.items()}
    figures = {name: each.figures(checked.level) for name, each in judged.items()}
    missing = max((figure["true_auc"].missing for figure in figures.values()), default=0)
    pairs = _pairs(judged, checked.level) if missing == 0 else ()
    degrees = min(min(each.samples[0].numbers) for each in judged.values()) - 1.0
    return AuditReport(figures, pairs, checked, missing, max(each.size for each in inside.values()), degrees)


def judge_runs(
    runs: Sequence[Run],
    checked: CheckedRows,
    *,
    thresholds: Mapping[str, float] | None = None,
    method: str = "assisted",
) -> AuditReport:
    """Estimate the true figures of every run from the same checked rows.

    Parameters
    ----------
    runs : sequence of Run
        Runs of the table that was audited. Failed ones are left out.
    checked : CheckedRows
        The result of `combine_audits`.
    thresholds : mapping of str to float, optional
        Thresholds of runs, by name. Default: the one that uses the review budget.
    method : {"assisted", "horvitz_thompson"}, default "assisted"
        As for `judge_scores`.

    Returns
    -------
    AuditReport
        Give its `evidence` to `Comparison.with_audit`, so that `recommend` decides by the checked rows.

    Examples
    --------
    >>> from spu_core.training import Candidate, EvaluationData, TrainConfig, compare_runs, recommend
    >>> from spu_core.trust.audit.questions import draw_audit
    >>> from spu_core.trust.audit.verdicts import Verdict
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.random(2000) < 0.3
    >>> rules = 0.5 * (rng.random(2000) < 0.3)
    >>> data = EvaluationData(rules, np.zeros(2000, bool), rules, np.arange(2000) % 3, np.ones(2000, bool))
    >>> scores = {"fused": rng.normal(size=2000), "logistic": rng.normal(size=2000) + 2 * truth}
    >>> comparison = compare_runs([Run(key, Candidate(key), TrainConfig(), data, score=score).judged_by(data)
    ...                            for key, score in scores.items()])
    >>> plan = draw_audit(Population.of_run(comparison.runs[0]), 150)
    >>> verdicts = [Verdict(row, "positive" if truth[row] else "negative") for row in plan.rows]
    >>> report = judge_runs(comparison.runs, combine_audits([(plan, verdicts)]))
    >>> found = recommend(comparison.with_audit(report.evidence))
    >>> found.model, found.yardstick, found.confidence
    ('logistic', 'audit', 'clear')
    """
    chosen = thresholds or {}
    finished = [run for run in runs if run.score is not None]
    populations = {run.name: Population.of_run(run, chosen.get(run.name)) for run in finished}
    references = frozenset(run.name for run in finished if run.candidate.method in NOT_MODELS)
    return replace(judge_scores(populations, checked, method=method), references=references)


@dataclass(frozen=True, eq=False)
class _Judged:
    """One score with its checked rows; two samples where split verdicts count once as negative, once as positive."""

    samples: tuple[Sampled, ...]
    beliefs: tuple[np.ndarray | None, ...]

    @classmethod
    def of(cls, population: Population, checked: CheckedRows, method: str) -> _Judged:
        verdicts = [checked.low] if np.array_equal(checked.low, checked.high) else [checked.low, checked.high]
        samples = tuple(checked.sampled(population, verdict) for verdict in verdicts)
        if any(sample.place.size == 0 for sample in samples):
            raise AssumptionError("No checked row is among the rows that these scores are about.")
        assisted = method == "assisted"
        beliefs = tuple(sample.fitted_belief() if assisted and _has_both(sample) else None for sample in samples)
        return cls(samples, beliefs)

    def figures(self, level: float) -> dict[str, AuditFigure]:
        keys = [key for key in TARGETS if key != "precision" or self.samples[0].population.is_flagged.any()]
        return {key: self._figure(key, level) for key in keys}

    def _figure(self, key: str, level: float) -> AuditFigure:
        both = [_one_figure(key, *each, level) for each in zip(self.samples, self.beliefs, strict=True)]
        low, high = min(each.low for each in both), max(each.high for each in both)
        middle = float(np.mean([each.estimate for each in both]))
        return replace(both[0], estimate=middle, low=low, high=high, missing=max(each.missing for each in both))

    def difference(self, other: _Judged, level: float) -> Difference:
        """The widest of the differences over the treatments of split verdicts."""
        found = []
        for mine, theirs, one, two in zip(self.samples, other.samples, self.beliefs, other.beliefs, strict=True):
            belief = None if one is None or two is None else 0.5 * (one + two)
            gap = corrected(mine, mine.sums("true_auc") - theirs.sums("true_auc"), belief)
            found.append(difference_interval(gap, level))
        worst = max(found, key=lambda each: each.p_value)
        return replace(worst, low=min(each.low for each in found), high=max(each.high for each in found))


def _one_figure(key: str, sample: Sampled, belief: np.ndarray | None, level: float) -> AuditFigure:
    title = TARGETS[key].title
    missing = 0 if key == "prior" else _missing(sample)
    flagged = key != "precision" or bool(sample.population.is_flagged[sample.place].any())
    if not flagged or (not _has_both(sample) and key != "prior"):
        return AuditFigure(key, title, float("nan"), 0.0, 1.0, float("nan"), level, False, missing)
    found = corrected(sample, sample.sums(key), belief)
    if key == "true_auc":
        bounds = auc_interval(found, level)
    else:
        bounds = share_interval(found, level, _rows_behind(key, sample, found))
    return AuditFigure(
        key, title, bounds.estimate, bounds.low, bounds.high, bounds.standard_error, level, False, missing
    )


def _rows_behind(key: str, sample: Sampled, found: Corrected) -> float:
    """How many checked rows a share or mean is taken over."""
    if key in ("recall", "positive_mean"):
        return max(found.numbers[0], 1.0)
    if key == "negative_mean":
        return max(found.numbers[1], 1.0)
    rows = np.ones(sample.place.size, bool) if key == "prior" else sample.population.is_flagged[sample.place]
    return float(max(1, (rows & (sample.probability < 1.0)).sum()))


def _has_both(sample: Sampled) -> bool:
    positive, negative = sample.masses
    return bool(positive.sum() > 0.0 and negative.sum() > 0.0)


def _missing(sample: Sampled) -> int:
    """About how many more checks find enough positives and negatives, at the rate so far."""
    chosen = sample.probability < 1.0
    checks = int(chosen.sum())
    if not checks:
        return 0
    found = float(sample.verdict[chosen].sum())
    needed = 0.0
    for seen in (found, checks - found):
        rate = (seen + 0.5) / (checks + 1.0)
        needed = max(needed, (ENOUGH_OF_A_CLASS - seen) / rate)
    room = sample.population.size - sample.place.size
    return int(min(np.ceil(needed / 10.0) * 10, room)) if needed > 0.0 else 0


def _pairs(judged: Mapping[str, _Judged], level: float) -> tuple[PairedDifference, ...]:
    """All pairs of scores of the same rows."""
    order = sorted(judged, key=lambda name: -judged[name].samples[0].sums("true_auc").value)
    found = []
    for a, b in combinations(order, 2):
        if np.array_equal(judged[a].samples[0].population.row, judged[b].samples[0].population.row):
            difference = judged[a].difference(judged[b], level)
            first, second = (a, b) if difference.estimate >= 0.0 else (b, a)
            if first != a:
                difference = replace(
                    difference, estimate=-difference.estimate, low=-difference.high, high=-difference.low
                )
            found.append(PairedDifference(first, second, difference))
    corrected_p = holm([pair.difference.p_value for pair in found]) if found else []
    return tuple(replace(pair, p_holm=p) for pair, p in zip(found, corrected_p, strict=True))
