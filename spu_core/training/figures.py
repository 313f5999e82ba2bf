"""The figures that candidates are ranked by, and where they disagree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from spu_core.models import Need
from spu_core.training.evaluation import EvaluationData, FoldedAuc, folded_auc
from spu_core.training.pairs import ENOUGH_TO_COMPARE, PairedDifference, compare_pairs, without_tests
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
    """A sentence where there are too few confirmed positives, or true ones, to compare candidates by them."""
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
    sure = [figure for figure in (one, other) if _tells_apart(figure, first, second)]
    if not sure:
        return f"{words}; neither shows a clear difference between the two."
    if len(sure) == 1:
        return f"{words}; only {WORDS[sure[0].key]} shows a clear difference between the two."
    return f"{words}, both with a clear difference: {FOLLOWS[one.key]}, while {FOLLOWS[other.key]}."


def _tells_apart(figure: Figure, a: str, b: str) -> bool:
    pair = figure.pair(a, b)
    return pair is not None and pair.can_be_told_apart


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
