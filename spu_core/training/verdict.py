"""Do my soft labels help? One sentence with its evidence, whichever way it falls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from spu_core.metrics.intervals import p_value_words
from spu_core.models import Need
from spu_core.training.figures import WORDS, Figure
from spu_core.training.pairs import Pair, holm
from spu_core.training.run import Run

QUESTION = "Do my soft labels help?"


@dataclass(frozen=True)
class Verdict:
    """`answer` is "yes", "no", "no difference seen" or "unknown"; `pair` compares the best candidate with soft labels
    and the best one without, on `figure`; `evidence` and `caveats` are sentences."""

    answer: str
    sentence: str
    figure: str | None = None
    pair: Pair | None = None
    evidence: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{QUESTION} {self.sentence}"


def verdict(runs: Sequence[Run], figures: Mapping[str, Figure]) -> Verdict:
    """Judge by the truth where it is known, else by confirmed positives, which the rules cannot flatter."""
    with_rules = [run for run in runs if uses_rules(run)]
    without = [run for run in runs if uses_labels_only(run)]
    if not with_rules or not without:
        lacking = "with soft labels" if not with_rules else "without soft labels, such as 'labeled_vs_rest'"
        return Verdict("unknown", f"It cannot be told: there is no finished candidate {lacking}.")
    key = "true_auc" if figures["true_auc"].value else "known_positive_auc"
    if not figures[key].value:
        return Verdict("unknown", "It cannot be told: no judged row is a confirmed positive, and no truth is known.")
    pair = _best_against_best(figures[key], [r.name for r in with_rules], [r.name for r in without])
    caveats = _caveats(key, runs, pair)
    evidence = (*_twins(figures[key], runs), *_own_figure(figures, pair))
    answer, sentence = _answer(key, pair, [run.name for run in with_rules])
    too_few = figures[key].too_few
    if too_few:
        return Verdict("unknown", too_few, key, pair, evidence, caveats)
    if figures[key].value[pair.first] <= 0.5:
        unfit = "It cannot be told, since even the better candidate is not better than chance on the judged rows."
        return Verdict(
            "unknown", unfit, key, pair, (sentence.removeprefix("Yes: ").removeprefix("No: "), *evidence), caveats
        )
    note = runs[0].basis.labels_note
    if key == "known_positive_auc" and note and runs[0].basis.randomly_checked is None:
        unsure = "It cannot be told, since confirmed positives are not independent of the rules."
        return Verdict("unknown", unsure, key, pair, (sentence, *evidence), (note, *caveats))
    return Verdict(answer, sentence, key, pair, evidence, caveats)


def uses_rules(run: Run) -> bool:
    """Whether soft labels or rules had a say in the scores."""
    entry = run.candidate.entry
    soft = {Need.SOFT_LABELS, Need.RULE_SCORE} & set(entry.needs) or entry.group == "ours"
    return bool(soft) and not run.candidate.without_rules


def uses_labels_only(run: Run) -> bool:
    return not uses_rules(run) and Need.TRUTH not in run.candidate.entry.needs


def _best_against_best(figure: Figure, with_rules: Sequence[str], without: Sequence[str]) -> Pair:
    """The pair of the two best; its p-value is corrected for every pair between the two camps."""
    one = next(name for name in figure.value if name in with_rules)
    other = next(name for name in figure.value if name in without)
    between = [p for p in figure.pairs if (p.first in with_rules) != (p.second in with_rules)]
    between = [p for p in between if p.first in {*with_rules, *without} and p.second in {*with_rules, *without}]
    corrected = holm([pair.difference.p_value for pair in between])
    for pair, p in zip(between, corrected, strict=True):
        if {pair.first, pair.second} == {one, other}:
            return replace(pair, p_holm=p)
    raise AssertionError("the two best are one of the pairs between the camps")


def _answer(key: str, pair: Pair, with_rules: Sequence[str]) -> tuple[str, str]:
    helps = pair.first in with_rules
    gap = f"{pair.difference.estimate:+.3f} in {WORDS[key]}, {p_value_words(pair.p_holm)} after Holm's correction"
    users = "the best candidate that uses them", "the best that does not"
    first, second = users if helps else (users[1], users[0])
    both = f"{pair.first!r}, {first}, and {pair.second!r}, {second}"
    if not pair.can_be_told_apart:
        return "no difference seen", f"No difference can be seen between {both} ({gap})."
    better = f"{pair.first!r}, {first}, beats {pair.second!r}, {second} ({gap})."
    return ("yes", f"Yes: {better}") if helps else ("no", f"No: {better}")


def _twins(figure: Figure, runs: Sequence[Run]) -> tuple[str, ...]:
    """The same method with and without rules: the plainest evidence of what the rules add."""
    sentences = []
    for run in runs:
        for twin in runs:
            if _is_twin(run, twin) and (pair := figure.pair(run.name, twin.name)) is not None:
                sign = 1.0 if pair.first == run.name else -1.0
                told = "told apart" if pair.can_be_told_apart else "cannot be told apart"
                change = sign * pair.difference.estimate
                sentences.append(
                    f"{run.name!r} with the rules against the same without: "
                    f"{change:+.3f} in {WORDS[figure.key]} ({told})."
                )
    return tuple(sentences)


def _is_twin(run: Run, twin: Run) -> bool:
    one, other = run.candidate, twin.candidate
    same = one.method == other.method and dict(one.settings) == dict(other.settings)
    return same and not one.without_rules and other.without_rules


def _own_figure(figures: Mapping[str, Figure], pair: Pair) -> tuple[str, ...]:
    """What AUC_SPU says about the same two, since it is the figure the analyst watches."""
    own = figures["auc_spu"].pair(pair.first, pair.second)
    if own is None:
        return ()
    told = "told apart" if own.can_be_told_apart else "cannot be told apart"
    return (
        f"On your soft labels {own.first!r} leads {own.second!r} by {own.difference.estimate:.3f} AUC_SPU ({told}).",
    )


def _caveats(key: str, runs: Sequence[Run], pair: Pair) -> tuple[str, ...]:
    caveats = [pair.difference.warning] if pair.difference.warning else []
    if key == "known_positive_auc":
        caveats.append(
            "Known-positive AUC assumes that confirmed positives look like the hidden ones; "
            "biased checking favours whatever was checked."
        )
    methods = {run.name: run.candidate for run in runs}
    winner = methods[pair.first]
    has_twin = any(_is_twin(run, twin) for run in runs for twin in runs if run.name == pair.first)
    if winner.method == "fused" and not winner.without_rules and not has_twin:
        caveats.append("'fused' learns from labels too; train it once more without rules to see what the rules add.")
    return tuple(caveats)
