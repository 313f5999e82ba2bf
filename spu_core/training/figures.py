"""The figures that candidates are ranked by: where they disagree, and whether they show that soft labels help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from spu_core.metrics.intervals import p_value_text
from spu_core.models import Need
from spu_core.training.evaluation import EvaluationData, FoldedAuc, folded_auc
from spu_core.training.pairs import ENOUGH_TO_COMPARE, PairedDifference, compare_pairs, holm, without_tests
from spu_core.training.run import Run

WORDS = {
    "auc_spu": "AUC_SPU on your soft labels",
    "refined_auc_spu": "AUC_SPU on refined soft labels",
    "known_positive_auc": "known-positive AUC",
    "true_auc": "true AUC",
}
WITHOUT_TRUTH = ("auc_spu", "refined_auc_spu", "known_positive_auc")
FOLLOWS = {
    "auc_spu": "AUC_SPU on your soft labels follows the rules, right or wrong",
    "refined_auc_spu": "refined soft labels use the rules only as far as the labels confirm them",
    "known_positive_auc": "known-positive AUC uses confirmed positives alone",
    "true_auc": "true AUC uses the real classes of these rows",
}
QUESTION = "Do my soft labels help?"


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

    @property
    def best(self) -> str | None:
        return next(iter(self.value), None)

    def pair(self, a: str, b: str) -> PairedDifference | None:
        return next((pair for pair in self.pairs if {pair.first, pair.second} == {a, b}), None)


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
    words = {"known_positive_auc": "confirmed cases", "true_auc": "true positives"}.get(key)
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
    """A sentence for each two figures that put another candidate first."""
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
    words = f"{WORDS[one.key]} puts {first!r} first, {WORDS[other.key]} {second!r}"
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
    return None if evaluation.truth is None else evaluation.truth.astype(np.float64), evaluation.judged


@dataclass(frozen=True)
class SoftLabelBenefit:
    """Whether the soft labels help.

    `answer` is "yes", "no", "no difference seen" or "unknown". `pair` compares the best candidate with soft labels and
    the best one without, on `figure`. `evidence` and `caveats` are sentences.
    """

    answer: str
    sentence: str
    figure: str | None = None
    pair: PairedDifference | None = None
    evidence: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{QUESTION} {self.sentence}"


def soft_label_benefit(runs: Sequence[Run], figures: Mapping[str, Figure]) -> SoftLabelBenefit:
    """Judge by the truth where it is known, else by confirmed positives, which the rules cannot flatter."""
    with_rules = [run for run in runs if uses_rules(run)]
    without = [run for run in runs if uses_labels_only(run)]
    if not with_rules or not without:
        lacking = "with soft labels" if not with_rules else "without soft labels, such as 'labeled_vs_rest'"
        return SoftLabelBenefit("unknown", f"There is no answer yet: train a candidate {lacking}.")
    key = "true_auc" if figures["true_auc"].value else "known_positive_auc"
    if not figures[key].value:
        return SoftLabelBenefit(
            "unknown", "There is no answer: no judged row is a confirmed positive, and no truth is known."
        )
    pair = _best_against_best(figures[key], [r.name for r in with_rules], [r.name for r in without])
    caveats = _caveats(key, runs, pair)
    evidence = (*_twins(figures[key], runs), *_own_figure(figures, pair))
    answer, sentence = _answer(key, pair, [run.name for run in with_rules])
    too_few = figures[key].too_few
    if too_few:
        return SoftLabelBenefit("unknown", too_few, key, pair, evidence, caveats)
    if figures[key].value[pair.first] <= 0.5:
        unfit = "There is no answer, since even the better candidate is not better than chance on the judged rows."
        return SoftLabelBenefit(
            "unknown", unfit, key, pair, (sentence.removeprefix("Yes: ").removeprefix("No: "), *evidence), caveats
        )
    note = runs[0].evaluation.labels_note
    if key == "known_positive_auc" and note and runs[0].evaluation.randomly_checked is None:
        unsure = "There is no answer, since confirmed positives are not independent of the rules."
        return SoftLabelBenefit("unknown", unsure, key, pair, (sentence, *evidence), (note, *caveats))
    return SoftLabelBenefit(answer, sentence, key, pair, evidence, caveats)


def uses_rules(run: Run) -> bool:
    """Whether the scores depend on soft labels or rules."""
    entry = run.candidate.entry
    soft = {Need.SOFT_LABELS, Need.RULE_SCORE} & set(entry.needs) or entry.group == "ours"
    return bool(soft) and not run.candidate.without_rules


def uses_labels_only(run: Run) -> bool:
    return not uses_rules(run) and Need.TRUTH not in run.candidate.entry.needs


def _best_against_best(figure: Figure, with_rules: Sequence[str], without: Sequence[str]) -> PairedDifference:
    """The pair of the two best; its p-value is corrected for every pair of a candidate with and one without rules."""
    one = next(name for name in figure.value if name in with_rules)
    other = next(name for name in figure.value if name in without)
    between = [p for p in figure.pairs if (p.first in with_rules) != (p.second in with_rules)]
    between = [p for p in between if p.first in {*with_rules, *without} and p.second in {*with_rules, *without}]
    corrected = holm([pair.difference.p_value for pair in between])
    for pair, p in zip(between, corrected, strict=True):
        if {pair.first, pair.second} == {one, other}:
            return replace(pair, p_holm=p)
    raise AssertionError("the two best are one of the compared pairs")


def _answer(key: str, pair: PairedDifference, with_rules: Sequence[str]) -> tuple[str, str]:
    helps = pair.first in with_rules
    gap = f"{pair.difference.estimate:+.3f} in {WORDS[key]}, {p_value_text(pair.p_holm)} after Holm's correction"
    users = "the best candidate that uses them", "the best that does not"
    first, second = users if helps else (users[1], users[0])
    both = f"{pair.first!r}, {first}, and {pair.second!r}, {second}"
    if not pair.can_be_told_apart:
        return "no difference seen", f"No clear difference between {both} ({gap})."
    better = f"{pair.first!r}, {first}, beats {pair.second!r}, {second} ({gap})."
    return ("yes", f"Yes: {better}") if helps else ("no", f"No: {better}")


def _twins(figure: Figure, runs: Sequence[Run]) -> tuple[str, ...]:
    """The same method with and without rules shows best what the rules add."""
    sentences = []
    for run in runs:
        for twin in runs:
            if is_twin(run, twin) and (pair := figure.pair(run.name, twin.name)) is not None:
                sign = 1.0 if pair.first == run.name else -1.0
                clear = "clear" if pair.can_be_told_apart else "no clear difference"
                change = sign * pair.difference.estimate
                sentences.append(
                    f"{run.name!r} with the rules against the same without: "
                    f"{change:+.3f} in {WORDS[figure.key]} ({clear})."
                )
    return tuple(sentences)


def is_twin(run: Run, twin: Run) -> bool:
    one, other = run.candidate, twin.candidate
    same = one.method == other.method and dict(one.settings) == dict(other.settings)
    return same and not one.without_rules and other.without_rules


def _own_figure(figures: Mapping[str, Figure], pair: PairedDifference) -> tuple[str, ...]:
    """The difference of the same two in AUC_SPU, which the analyst knows from the leaderboard."""
    own = figures["auc_spu"].pair(pair.first, pair.second)
    if own is None:
        return ()
    clear = "clear" if own.can_be_told_apart else "no clear difference"
    return (
        f"On your soft labels {own.first!r} leads {own.second!r} by {own.difference.estimate:.3f} AUC_SPU ({clear}).",
    )


def _caveats(key: str, runs: Sequence[Run], pair: PairedDifference) -> tuple[str, ...]:
    caveats = [pair.difference.warning] if pair.difference.warning else []
    if key == "known_positive_auc":
        caveats.append(
            "Known-positive AUC assumes that confirmed positives look like the hidden ones; "
            "biased checking favours models that find what was checked."
        )
    methods = {run.name: run.candidate for run in runs}
    winner = methods[pair.first]
    has_twin = any(is_twin(run, twin) for run in runs for twin in runs if run.name == pair.first)
    if winner.method == "fused" and not winner.without_rules and not has_twin:
        caveats.append("'fused' learns from labels too; train it once more without rules to see what the rules add.")
    return tuple(caveats)
