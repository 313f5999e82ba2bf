"""Candidates side by side: leaderboard, paired differences, and figures that disagree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from spu_core.checks import check_countable, check_kind
from spu_core.errors import TrainingError
from spu_core.html_table import Plotted, count, html_table, markdown_table, short_repr
from spu_core.labels import SoftLabels
from spu_core.metrics import Interval
from spu_core.models import Need
from spu_core.training.cross_fitting import with_refined
from spu_core.training.evaluation import (
    BUILT_FROM_IT,
    ENOUGH_TO_COMPARE,
    EvaluationData,
    FoldedAuc,
    PairedDifference,
    compare_pairs,
    folded_auc,
    simultaneous_intervals,
    without_tests,
)
from spu_core.training.run import Run

WORDS = {
    "auc_spu": "AUC_SPU on your soft labels",
    "refined_auc_spu": "AUC_SPU on refined soft labels",
    "known_positive_auc": "AUC on confirmed cases",
    "true_auc": "true AUC",
    "random_outcomes": "AUC on outcomes of random checks",
}
WITHOUT_TRUTH = ("auc_spu", "refined_auc_spu", "known_positive_auc")
FOLLOWS = {
    "auc_spu": "AUC_SPU on your soft labels follows the rules, right or wrong",
    "refined_auc_spu": "refined soft labels use the rules only as far as the labels confirm them",
    "known_positive_auc": "AUC on confirmed cases uses confirmed cases alone",
    "true_auc": "true AUC uses the real classes of these rows",
}


_POSITIVES = {
    "known_positive_auc": "confirmed cases",
    "true_auc": "true positives",
    "random_outcomes": "cases found by random checks",
}


@dataclass(frozen=True, eq=False)
class Figure:
    """A figure to rank candidates by: `value` by name, best first, with paired differences.

    `too_few` is the sentence that replaces every comparison where too few positives are known; the differences then
    have intervals but no p-values.
    """

    key: str
    value: dict[str, float]
    pairs: tuple[PairedDifference, ...]
    aucs: dict[str, FoldedAuc] = field(default_factory=dict, repr=False)
    too_few: str | None = None

    def pair(self, a: str, b: str) -> PairedDifference | None:
        return next((pair for pair in self.pairs if {pair.first, pair.second} == {a, b}), None)


@dataclass(frozen=True, eq=False)
class AuditEvidence:
    """True AUCs of runs from rows that were checked by hand with known probabilities.

    `covariance` is that of their errors, in the order of `value`; `checks` is the number of checked rows.
    """

    value: dict[str, float]
    covariance: np.ndarray
    degrees: float
    checks: int
    pairs: tuple[PairedDifference, ...] = ()

    def covers(self, names: Sequence[str]) -> bool:
        """Whether all of these runs were judged."""
        return set(names) <= set(self.value)

    def of(self, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Values and covariance of some runs."""
        places = [list(self.value).index(name) for name in names]
        return np.array([self.value[name] for name in names]), self.covariance[np.ix_(places, places)]

    def figure(self) -> Figure:
        order = sorted(self.value, key=lambda name: -self.value[name])
        return Figure("true_auc", {name: self.value[name] for name in order}, self.pairs)


def figure_of(key: str, runs: Sequence[Run], evaluation: EvaluationData) -> Figure:
    """The figure over all runs it may judge."""
    target, rows = _target(key, evaluation)
    if target is None:
        return Figure(key, {}, ())
    fair = [run for run in runs if not (key == "refined_auc_spu" and run.is_built_from_refined)]
    found = {run.name: folded_auc(target, run.need_score(), evaluation.only(rows)) for run in fair}
    aucs: dict[str, FoldedAuc] = {name: auc for name, auc in found.items() if auc is not None}
    value = {name: aucs[name].value for name in sorted(aucs, key=lambda name: -aucs[name].value)}
    pairs, too_few = compare_pairs(aucs, evaluation.level), _too_few(key, aucs)
    return Figure(key, value, pairs if too_few is None else without_tests(pairs, too_few), aucs, too_few)


def _too_few(key: str, aucs: Mapping[str, FoldedAuc]) -> str | None:
    """A sentence where there are too few confirmed cases, or true ones, to compare candidates by them."""
    words = _POSITIVES.get(key)
    if words is None or not aucs:
        return None
    fewest = min(folded.effective_numbers[0] for folded in aucs.values())
    if fewest >= ENOUGH_TO_COMPARE:
        return None
    return (
        f"Too few {words} to compare: they count as {fewest:.3g} independent ones, and at least "
        f"{ENOUGH_TO_COMPARE:g} are needed."
    )


def disagreements(figures: Sequence[Figure]) -> tuple[str, ...]:
    """A sentence for each two figures that favour different candidates."""
    sentences = []
    for place, one in enumerate(figures):
        for other in figures[place + 1 :]:
            sentence = _disagreement(one, other)
            if sentence:
                sentences.append(sentence)
    return tuple(sentences)


def _disagreement(one: Figure, other: Figure) -> str | None:
    both = [name for name in one.value if name in other.value]
    if len(both) < 2:
        return None
    first, second = both[0], max(both, key=lambda name: other.value[name])
    if first == second:
        return None
    words = f"{WORDS[one.key]} favours {first!r}, {WORDS[other.key]} {second!r}"
    if one.too_few or other.too_few:
        return f"{words}. {one.too_few or other.too_few}"
    sure = [figure for figure in (one, other) if _is_clear(figure, first, second)]
    if not sure:
        return f"{words}; neither shows a clear difference between the two."
    if len(sure) == 1:
        return f"{words}; only {WORDS[sure[0].key]} shows a clear difference between the two."
    return f"{words}, both with a clear difference: {FOLLOWS[one.key]}, while {FOLLOWS[other.key]}."


def _is_clear(figure: Figure, a: str, b: str) -> bool:
    pair = figure.pair(a, b)
    return pair is not None and pair.is_clear


def _target(key: str, evaluation: EvaluationData) -> tuple[np.ndarray | None, np.ndarray]:
    if key == "auc_spu":
        return evaluation.soft_label, evaluation.judged
    if key == "refined_auc_spu":
        return evaluation.refined, evaluation.judged
    if key == "known_positive_auc":
        return evaluation.is_labeled.astype(np.float64), evaluation.positives_rows
    if key == "random_outcomes":
        found = evaluation.random_outcomes
        return found, evaluation.judged if found is None else evaluation.judged & np.isfinite(found)
    return None if evaluation.truth is None else evaluation.truth.astype(np.float64), evaluation.judged


def uses_rules(run: Run) -> bool:
    """Whether the scores depend on soft labels or rules."""
    entry = run.candidate.entry
    soft = {Need.SOFT_LABELS, Need.RULE_SCORE} & set(entry.needs) or entry.group == "ours"
    return bool(soft) and not run.candidate.without_rules


def is_twin(run: Run, twin: Run) -> bool:
    """Whether both are the same candidate, the first with and the second without rules."""
    one, other = run.candidate, twin.candidate
    same = one.method == other.method and dict(one.settings) == dict(other.settings)
    return same and not one.without_rules and other.without_rules


# The rules alone are best on the S that they made, and an oracle has seen the truth: neither is a model to choose.
NOT_MODELS = ("rule_score", "oracle")
PAIRS_NOTE = (
    "p-values concern these fitted models, take the soft labels as given, allow for training rows that folds share, "
    "and are corrected by Holm's method."
)
FOLD_MODELS_NOTE = (
    "Figures and intervals are about the models of the folds. The exported model is trained on all rows, and its own "
    "AUC_SPU on new rows can lie outside the interval more often than the level says."
)


@dataclass(frozen=True, eq=False)
class Comparison(Plotted):
    """Several runs that are judged by the same soft labels on the same rows. Made by `compare_runs`.

    Attributes
    ----------
    runs : tuple of Run
        Highest AUC_SPU first, failed candidates last.
    figures : dict of str to Figure
        Each figure of merit ("auc_spu", "known_positive_auc", …) with its values and paired differences.
    auc_spu : dict of str to Interval
        AUC_SPU of each run with intervals that hold for all models at once, so also for the one that is chosen.
    disagreements : tuple of str
        Where the figures put different candidates first.
    notes : tuple of str
        Sentences that belong under the table.
    audit : AuditEvidence or None
        True AUCs from rows that were checked by hand, where there are enough.
    """

    runs: tuple[Run, ...]
    figures: dict[str, Figure]
    auc_spu: dict[str, Interval]
    disagreements: tuple[str, ...]
    notes: tuple[str, ...]
    audit: AuditEvidence | None = None

    def __repr__(self) -> str:
        finished = sum(run.metrics is not None for run in self.runs)
        return short_repr("Comparison", None, count(len(self.runs), "run"), f"{finished} finished")

    def to_frame(self) -> pd.DataFrame:
        """The leaderboard: one row per run, highest AUC_SPU first."""
        return self.leaderboard

    def to_markdown(self) -> str:
        """The main figures of the leaderboard as a Markdown table."""
        return markdown_table(self._shown)

    def _repr_html_(self) -> str:
        return html_table(repr(self), self._shown)

    @property
    def _shown(self) -> pd.DataFrame:
        names = ["name", "method", "auc_spu", "auc_spu_low", "auc_spu_high", "known_positive_auc", "true_auc"]
        return self.leaderboard.reindex(columns=names).dropna(axis="columns", how="all")

    def with_audit(self, evidence: AuditEvidence | None) -> Comparison:
        """The comparison with what rows checked by hand say of its runs: the `evidence` of `judge_runs(runs, …)`."""
        return replace(self, audit=evidence)

    @property
    def pairs(self) -> tuple[PairedDifference, ...]:
        """Paired differences in AUC_SPU, all pairs."""
        return self.figures["auc_spu"].pairs

    @property
    def below_chance(self) -> tuple[str, ...]:
        """The runs that rank positives below other rows on the judged rows; none of them is a model to choose."""
        return _below_chance(self.runs)

    @property
    def headline(self) -> str | None:
        """The most important message: which models are worse than chance; None where none is."""
        return _headline(self.runs)

    @property
    def leaderboard(self) -> pd.DataFrame:
        """One row per run, highest AUC_SPU first, failed candidates last; AUC_SPU has the intervals of `auc_spu`.

        `Recommendation.order` has the order in which models should be considered.
        """
        return pd.DataFrame([_row(run, self) for run in self.runs])

    @property
    def three_figures(self) -> pd.DataFrame:
        """AUC_SPU on the analyst's S, on refined S and known-positive AUC side by side, with the rank by each."""
        finished = [run for run in self.runs if run.score is not None]
        return pd.DataFrame([_figures_row(run, self.figures) for run in finished])

    @property
    def pairs_table(self) -> pd.DataFrame:
        """Every pair as a row: difference, bounds, p-value plain and corrected."""
        return pd.DataFrame([_pair_row(pair) for pair in self.pairs], columns=_PAIR_COLUMNS)


def compare_runs(runs: Sequence[Run], *, refined: SoftLabels | None = None) -> Comparison:
    """Compare runs of one table that are judged by the same soft labels.

    Parameters
    ----------
    runs : sequence of Run
        Runs with different names; those that failed come last in the leaderboard.
    refined : SoftLabels, optional
        The result of `refine_soft_labels`, to add AUC_SPU on refined soft labels.

    Returns
    -------
    Comparison
        Leaderboard and paired differences; `recommend` says which model to use.

    Raises
    ------
    TrainingError
        If there is no finished run, two runs have the same name, or runs have different rows, folds or soft labels;
        `runs_on` judges such runs by one S.

    Examples
    --------
    >>> from spu_core.training import Candidate, EvaluationData, TrainConfig
    >>> rng = np.random.default_rng(0)
    >>> score, belief = rng.random(300), rng.random(300)
    >>> data = EvaluationData(belief, belief > 0.9, belief, np.arange(300) % 3, np.ones(300, dtype=bool))
    >>> runs = [
    ...     Run(key, Candidate(key), TrainConfig(), data, score=value).judged_by(data)
    ...     for key, value in (("lightgbm", score + belief), ("logistic", score))
    ... ]
    >>> comparison = compare_runs(runs)
    >>> comparison.leaderboard[["name", "auc_spu"]].round(2).to_dict("list")
    {'name': ['lightgbm', 'logistic'], 'auc_spu': [0.71, 0.51]}
    """
    _check_comparable(runs)
    if refined is not None:
        runs = with_refined(runs, refined)
    finished = sorted((run for run in runs if run.metrics is not None), key=_minus_auc)
    failed = [run for run in runs if run.metrics is None]
    if not finished:
        raise TrainingError(f"No candidate was trained, so there is nothing to compare: {failed[0].error}")
    evaluation = finished[0].evaluation
    figures = {key: figure_of(key, finished, evaluation) for key in (*WITHOUT_TRUTH, "true_auc")}
    aucs = figures["auc_spu"].aucs
    models = {run.name: aucs[run.name] for run in finished if run.candidate.method not in NOT_MODELS}
    return Comparison(
        runs=(*finished, *failed),
        figures=figures,
        auc_spu=simultaneous_intervals(models, evaluation.level),
        disagreements=disagreements([figures[key] for key in WITHOUT_TRUTH]),
        notes=_notes(finished, figures, len(models)),
    )


def runs_on(runs: Sequence[Run], soft_labels: SoftLabels) -> list[Run]:
    """The same scores judged by one S that the analyst chooses, whatever S each run was trained on."""
    if soft_labels.is_refined:
        raise TrainingError(
            "Refined soft labels are no S to rank by, since fused was built from them; "
            "use compare_runs(runs, refined=…)."
        )
    value = np.asarray(soft_labels.value, dtype=np.float64)
    for run in runs:
        if run.fold.size != value.size:
            raise TrainingError(
                f"{run.name!r} has scores of {run.fold.size:,} rows, but there are {value.size:,} soft labels; "
                "only runs of the same table can be judged together."
            )
        check_countable(value[run.evaluation.judged])
    rule_score = np.asarray(soft_labels.rule_score, dtype=np.float64)
    labels = np.asarray(soft_labels.is_labeled, dtype=bool)
    changes: dict[str, Any] = {"soft_label": value, "rule_score": rule_score, "is_labeled": labels}
    return [run.judged_by(replace(run.evaluation, **changes)) for run in runs]


def _check_comparable(runs: Sequence[Run]) -> None:
    check_kind(runs, Sequence, "compare_runs takes a list of runs", "use [run]", TrainingError)
    for run in runs:
        check_kind(run, Run, "compare_runs takes runs", "use cross_fit(...)", TrainingError)
    if not runs:
        raise TrainingError("There is no run to compare.")
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TrainingError(f"Two runs are called {twice!r}; rename one.")
    first = runs[0]
    for run in runs[1:]:
        if run.fold.size != first.fold.size:
            raise TrainingError(
                f"{run.name!r} scores {run.fold.size:,} rows and {first.name!r} {first.fold.size:,}; "
                "only runs of the same table can be compared."
            )
        if not run.evaluation.same_as(first.evaluation):
            raise TrainingError(
                f"{run.name!r} and {first.name!r} are judged by different soft labels or rows, and AUC_SPU on "
                "different soft labels must not be ranked: choose one S and use runs_on(runs, soft_labels)."
            )
        if not np.array_equal(run.fold, first.fold):
            raise TrainingError(f"{run.name!r} and {first.name!r} have different folds; train them on the same ones.")


def _minus_auc(run: Run) -> float:
    assert run.metrics is not None
    return -run.metrics.auc_spu.estimate


def _notes(finished: Sequence[Run], figures: dict[str, Figure], models: int) -> tuple[str, ...]:
    headline = _headline(finished)
    notes = [*([headline] if headline else []), *finished[0].evaluation.data_notes, FOLD_MODELS_NOTE]
    if len(finished) > 1:
        notes.append(PAIRS_NOTE)
    if models > 1:
        notes.append(f"The intervals of AUC_SPU hold for all {models} models at once, so also for the chosen one.")
    cut = [repr(run.name) for run in finished if run.is_cut]
    if cut:
        notes.append(f"The tuning of {', '.join(cut)} was cut by its time budget and cannot be repeated to the bit.")
    notes += [f"{run.name!r}: {run.stopping_note}" for run in finished if run.stopping_note]
    return (*notes, *_level_notes(finished), *_warnings(figures))


def _below_chance(runs: Sequence[Run]) -> tuple[str, ...]:
    return tuple(run.name for run in runs if run.metrics is not None and run.metrics.is_below_chance)


def _headline(runs: Sequence[Run]) -> str | None:
    """Which models are worse than chance, and what that usually means."""
    models = {run.name: run.metrics for run in runs if run.metrics and run.candidate.method not in NOT_MODELS}
    worse = {name: metrics.deciding for name, metrics in models.items() if metrics.is_below_chance}
    if not worse:
        return None
    figure = WORDS[next(iter(worse.values()))[0]]
    low, high = (pick(interval.estimate for _, interval in worse.values()) for pick in (min, max))
    shown = f"{figure} {low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{figure} {low:.2f} to {high:.2f}"
    names, verb = ", ".join(map(repr, worse)), "is" if len(worse) == 1 else "are"
    who = "No model is better" if len(worse) == len(models) else f"{names} {verb} worse"
    others = [metrics.deciding[1] for name, metrics in models.items() if name not in worse]
    is_open = bool(others) and not any(found.low > 0.5 for found in others)
    rest = " No other model is clearly better than chance." if is_open else ""
    return (
        f"{who} than chance: positives are ranked below other rows on the judged rows ({shown}).{rest} The rows may "
        "have changed over time, or a rule or the label points the wrong way. Such a model is never recommended."
    )


def _warnings(figures: dict[str, Figure]) -> list[str]:
    """What few positives or negatives mean for each figure."""
    found = {WORDS[key]: next(iter(figure.aucs.values())).warning for key, figure in figures.items() if figure.aucs}
    return [f"{name[:1].upper()}{name[1:]}: {warning}" for name, warning in found.items() if warning]


def _level_notes(finished: Sequence[Run]) -> list[str]:
    """Candidates whose folds score at different levels: their drawn curve lies below their AUC_SPU."""
    apart = [
        run.name for run in finished if run.metrics and run.metrics.auc_spu.estimate - run.metrics.pooled_auc_spu > 0.01
    ]
    return [
        f"The folds of {name!r} score at different levels, so its drawn curve has a smaller area than its AUC_SPU, "
        "which is a mean over folds; the model refitted on all rows has one level."
        for name in apart
    ]


def _row(run: Run, comparison: Comparison) -> dict[str, Any]:
    row: dict[str, Any] = {"name": run.name, "method": run.candidate.method}
    metrics = run.metrics
    for name in ("auc_spu", "share_of_ceiling", "known_positive_auc", "refined_auc_spu", "true_auc"):
        interval = None if metrics is None else getattr(metrics, name)
        row |= _bounds(name, comparison.auc_spu.get(run.name, interval) if name == "auc_spu" else interval)
    for name in _PLAIN:
        value = None if metrics is None else getattr(metrics, name)
        row[name] = np.nan if value is None else value
    row["refined_note"] = None if metrics is None else metrics.refined_note
    row["known_positive_note"] = None if metrics is None else metrics.known_positive_note
    return {**row, "seconds": run.seconds, "error": run.error}


def _bounds(name: str, interval: Interval | None) -> dict[str, Any]:
    ends = ("", "_low", "_high")
    if interval is None:
        return {**dict.fromkeys((name + end for end in ends), np.nan), f"{name}_warning": None}
    values = zip(ends, (interval.estimate, interval.low, interval.high), strict=True)
    return {**{name + end: value for end, value in values}, f"{name}_warning": interval.warning}


def _figures_row(run: Run, figures: dict[str, Figure]) -> dict[str, Any]:
    row: dict[str, Any] = {"name": run.name}
    for key in WITHOUT_TRUTH:
        interval = getattr(run.metrics, key)
        ranked = list(figures[key].value)
        row[key] = np.nan if interval is None else interval.estimate
        row[f"{key}_rank"] = ranked.index(run.name) + 1 if run.name in ranked else None
    row["note"] = BUILT_FROM_IT if run.is_built_from_refined and figures["refined_auc_spu"].value else None
    return row


def _pair_row(pair: PairedDifference) -> tuple[Any, ...]:
    found = pair.difference
    bounds = (found.estimate, found.low, found.high, found.standard_error)
    return (pair.first, pair.second, *bounds, found.p_value, pair.p_holm, pair.is_clear, found.warning)


_PAIR_COLUMNS = [
    *("first", "second", "difference", "low", "high", "standard_error"),
    *("p_value", "p_holm", "told_apart", "warning"),
]
_PLAIN = (
    "rows",
    "pooled_auc_spu",
    "ceiling",
    "tpr_spu_at_1",
    "tpr_spu_at_5",
    "tpr_spu_at_budget",
    "soft_log_loss",
    "calibration_gap",
    "self_claimed",
)
