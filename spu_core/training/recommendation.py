"""Which model to use, how sure that is, and what to do next.

The yardstick is the most valid figure that exists: true AUC, then AUC from an audit (rows checked by hand with known
probabilities), then AUC on randomly checked rows, then AUC on outcomes of random checks, then known-positive AUC where
nothing speaks against it. Its differences are shrunk towards the record of the methods in the benchmark (`record.py`).
The default method is left only where another model is better with high probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from spu_core.checks import check_choice, check_kind
from spu_core.errors import TrainingError
from spu_core.html_table import html_table, markdown_table, markdown_text, short_repr
from spu_core.metrics.intervals import t_quantile, z_quantile
from spu_core.training.comparison import NOT_MODELS, Comparison, Figure, figure_of, is_twin, uses_rules
from spu_core.training.evaluation import joint_covariance, shared_factor
from spu_core.training.record import BenchmarkRecord, Posterior, method_key, rank_distance, stored_record
from spu_core.training.run import Run

Origin = Literal["chance", "rules", "other", "unknown"]
# How the confirmed cases were found, in the words of the Data page.
ORIGINS: dict[str, str] = {
    "chance": "By chance, for example in random checks",
    "rules": "Because of these rules or a score",
    "other": "Some other way",
    "unknown": "I don't know",
}
YARDSTICKS = {
    "true_auc": "the true classes",
    "audit": "rows checked by hand",
    "random_checks": "rows that were checked at random",
    "random_outcomes": "outcomes of random checks",
    "known_positive_auc": "confirmed cases",
    "provisional": "the record of the methods",
}
# Another model replaces the default only with at least this probability of being better, in every scenario.
LEAVE = 0.95
# A model is clearly the best, and rules clearly help, with at least this probability. Both thresholds were set by a
# study that left out one table at a time (docs/measurements.md).
CLEAR = 0.85
# Rules help or hurt if the difference is larger than this.
MATTERS = 0.005
LARGEST_CHECK = 2_000
# Standard errors that a difference must have to be seen at 5 % in 80 % of the cases: 1.96 + 0.84.
POWER = 2.8
RULES = "rule_score"
BACKWARDS = "Your rules rank cases below other rows, so do not go by AUC_SPU and the ceiling here."
# Intervals of the recommendation.
SHOWN = 0.95


@dataclass(frozen=True)
class NextStep:
    """What to do after a recommendation.

    Parameters
    ----------
    action : str
        "export", "check rows", "get more confirmed cases" or "revise rules".
    rows : int or None
        How many rows to check, where the action is "check rows".
    sentence : str
        The same in a sentence.
    """

    action: str
    rows: int | None
    sentence: str


@dataclass(frozen=True)
class Recommendation:
    """Which model to use. Made by `recommend`.

    Attributes
    ----------
    model : str or None
        Name of the recommended run; None where no model can be used.
    yardstick : str
        What decided: "true_auc", "audit", "random_checks", "random_outcomes", "known_positive_auc", or "provisional"
        (no valid figure exists).
    confidence : str
        "clear", "tie", "provisional" or "cannot tell".
    among_best : tuple of str
        Models that may be the best; the recommended one first.
    order : tuple of str
        All runs in the order of the recommendation; then the references (rules alone, oracle), then failed runs.
    sentence : str
        The recommendation in one or two sentences.
    reasons, warnings : tuple of str
        Why this model, and what to be careful about.
    next_step : NextStep
        What to do now.
    help_of_rules : str
        Whether the rules help: "yes", "no", "no clear difference" or "cannot tell".
    help_sentence : str
        The same as a sentence.
    """

    model: str | None
    yardstick: str
    confidence: str
    among_best: tuple[str, ...]
    order: tuple[str, ...]
    sentence: str
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    next_step: NextStep
    help_of_rules: str
    help_sentence: str

    def __repr__(self) -> str:
        return short_repr("Recommendation", self.model, self.confidence, f"by {YARDSTICKS[self.yardstick]}")

    def to_frame(self) -> pd.DataFrame:
        """The answers as rows."""
        lines = {
            "model": self.model or "none",
            "confidence": self.confidence,
            "decided by": YARDSTICKS[self.yardstick],
            "among the best": ", ".join(self.among_best),
            "rules help": self.help_of_rules,
            "next step": self.next_step.sentence,
        }
        return pd.DataFrame(list(lines.items()), columns=["", "answer"])

    def to_markdown(self) -> str:
        """The recommendation in a sentence, and the answers as a Markdown table."""
        return f"{markdown_text(self.sentence)}\n\n{markdown_table(self.to_frame())}"

    def _repr_html_(self) -> str:
        return html_table(self.sentence, self.to_frame())

    def __str__(self) -> str:
        return self.sentence

    def ranked(self, leaderboard: pd.DataFrame) -> pd.DataFrame:
        """A leaderboard (`Comparison.leaderboard`) in the order of the recommendation."""
        return leaderboard.set_index("name").loc[list(self.order)].reset_index()

    @property
    def sentences(self) -> tuple[str, ...]:
        """All of it in words, for reports: the recommendation, reasons, help of the rules, warnings, next step."""
        reasons = [reason for reason in self.reasons if reason not in self.sentence]
        return (self.sentence, *reasons, self.help_sentence, *self.warnings, self.next_step.sentence)


def recommend(
    comparison: Comparison, *, origin: str = "unknown", record: BenchmarkRecord | None = None
) -> Recommendation:
    """Recommend one of the compared models, with the confidence and the next step.

    Parameters
    ----------
    comparison : Comparison
        The result of `compare_runs`.
    origin : {"chance", "rules", "other", "unknown"}, default "unknown"
        How the confirmed cases were found: by chance, because of the rules or a score, some other way, or unknown.
    record : BenchmarkRecord, optional
        How the methods compared in a benchmark; by default the record that comes with the package.

    Returns
    -------
    Recommendation

    Raises
    ------
    TrainingError
        If the origin is not one of those above.

    Examples
    --------
    >>> from spu_core.training import Candidate, EvaluationData, TrainConfig, compare_runs
    >>> rng = np.random.default_rng(0)
    >>> score, belief = rng.random(400), rng.random(400)
    >>> data = EvaluationData(belief, belief > 0.9, belief, np.arange(400) % 3, np.ones(400, dtype=bool))
    >>> runs = [
    ...     Run(key, Candidate(key), TrainConfig(), data, score=value).judged_by(data)
    ...     for key, value in (("fused", score + belief), ("labeled_vs_rest", score))
    ... ]
    >>> found = recommend(compare_runs(runs), origin="chance")
    >>> found.model, found.yardstick, found.confidence, found.next_step.action
    ('fused', 'known_positive_auc', 'clear', 'export')
    """
    check_kind(comparison, Comparison, "recommend takes a Comparison", "use compare_runs(runs)", TrainingError)
    check_choice(origin, tuple(ORIGINS), "origin", TrainingError)
    finished = [run for run in comparison.runs if run.metrics is not None]
    models = [run for run in finished if run.candidate.method not in NOT_MODELS]
    fit = [run for run in models if run.name not in comparison.below_chance]
    if not fit:
        return _without_model(comparison, models)
    evidence = _weigh(comparison, fit, origin, record or stored_record())
    return _Answer(comparison, evidence, models).recommendation()


@dataclass(frozen=True, eq=False)
class _Evidence:
    """The models that may be used (the default first), the yardstick, and what is believed about them.

    `doubt` says why no figure is valid; `figure` is the one that decides, or that would decide without the doubt.
    """

    models: tuple[Run, ...]
    yardstick: str
    figure: Figure | None
    belief: Posterior
    doubt: str | None

    @property
    def default(self) -> str:
        return self.models[0].name

    @property
    def is_valid(self) -> bool:
        return self.doubt is None

    @property
    def is_audit(self) -> bool:
        """Whether the figure comes from rows checked by hand, also where it is in doubt."""
        return self.figure is not None and not self.figure.aucs


def _weigh(comparison: Comparison, fit: Sequence[Run], origin: str, record: BenchmarkRecord) -> _Evidence:
    models = sorted(fit, key=lambda run: _preference(run, record))
    # The rules alone are no model to choose, but how well they rank says how good they are.
    seen = [*models, *(run for run in comparison.runs if run.score is not None and method_key(run) == RULES)]
    belief = Posterior.from_record(seen, record)
    yardstick, figure, doubt = _yardstick(comparison, origin)
    if doubt is None and figure is not None and max(figure.value[run.name] for run in models) <= 0.5:
        yardstick, doubt = "provisional", f"No model ranks {YARDSTICKS[yardstick]} better than chance."
    if figure is not None and doubt is None and len(models) > 1:
        value, covariance, degrees = _measured_aucs(comparison, figure, yardstick, [run.name for run in seen])
        wider = t_quantile(SHOWN, degrees) / z_quantile(SHOWN)
        biases = _biases(record, seen, origin if yardstick == "known_positive_auc" else None)
        belief = belief.after(value, covariance * wider**2, biases)
    return _Evidence(tuple(models), yardstick, figure, belief, doubt)


def _measured_aucs(
    comparison: Comparison, figure: Figure, yardstick: str, names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray, float]:
    """The deciding figure of some runs, the covariance of its errors and their degrees of freedom."""
    if yardstick == "audit":
        assert comparison.audit is not None
        return *comparison.audit.of(names), comparison.audit.degrees
    aucs = [figure.aucs[name] for name in names]
    return np.array([auc.value for auc in aucs]), *joint_covariance(aucs)


def _preference(run: Run, record: BenchmarkRecord) -> tuple[bool, float, bool, str]:
    """Without evidence: the default method first, then the methods with the best record, untuned ones first.

    The name comes last, so that the order of the runs never decides.
    """
    return method_key(run) != record.default, -record.usual(run), run.candidate.tuning is not None, run.name


def _biases(
    record: BenchmarkRecord, runs: Sequence[Run], origin: str | None
) -> list[tuple[float, np.ndarray, np.ndarray]]:
    """How far the yardstick may be off; without an origin it is right on average."""
    size = len(runs) - 1
    if origin is None:
        return [(1.0, np.zeros(size), np.zeros((size, size)))]
    distance = rank_distance(runs)
    scale = np.outer(distance, distance)
    found = [(each.share, *record.error(runs, each)) for each in record.scenarios_of(origin)]
    return [(share, mean * distance, covariance * scale) for share, mean, covariance in found]


def _yardstick(comparison: Comparison, origin: str) -> tuple[str, Figure | None, str | None]:
    """The most valid figure, and why it may not decide, where it may not."""
    evaluation = comparison.runs[0].evaluation
    truth, known = comparison.figures["true_auc"], comparison.figures["known_positive_auc"]
    if truth.value and truth.too_few is None:
        return "true_auc", truth, None
    scored = [run.name for run in comparison.runs if run.score is not None]
    if comparison.audit is not None and comparison.audit.covers(scored):
        return "audit", comparison.audit.figure(), None
    if evaluation.randomly_checked is not None and known.value and known.too_few is None:
        return "random_checks", known, None
    outcomes = figure_of("random_outcomes", [run for run in comparison.runs if run.score is not None], evaluation)
    if outcomes.value and outcomes.too_few is None:
        return "random_outcomes", outcomes, None
    doubt = _doubt(known, origin, evaluation.labels_note)
    return "known_positive_auc" if doubt is None else "provisional", known if known.value else None, doubt


def _doubt(known: Figure, origin: str, note: str | None) -> str | None:
    """Why known-positive AUC must not decide; None where nothing speaks against it."""
    if not known.value:
        return "No judged row is a confirmed case."
    if known.too_few is not None:
        return known.too_few
    if origin == "rules":
        return "The confirmed cases were found because of these rules or a score, so they favour models that follow it."
    return note


@dataclass(frozen=True, eq=False)
class _Answer:
    """From evidence to a recommendation."""

    comparison: Comparison
    evidence: _Evidence
    all_models: Sequence[Run]

    def recommendation(self) -> Recommendation:
        model = self.model
        among = self.among_best(model)
        help_of_rules, help_sentence = self.help()
        confidence = self.confidence(among)
        return Recommendation(
            model=model,
            yardstick=self.evidence.yardstick,
            confidence=confidence,
            among_best=among,
            order=self.order(model),
            sentence=self.sentence(model, among, confidence),
            reasons=self.reasons(model, among),
            warnings=self.warnings(model),
            next_step=self.next_step(model, among, confidence, help_of_rules),
            help_of_rules=help_of_rules,
            help_sentence=help_sentence,
        )

    @property
    def model(self) -> str:
        """The default, unless another model is better with high probability; then the best of those."""
        evidence, belief = self.evidence, self.evidence.belief
        others = [run.name for run in evidence.models[1:]]
        better = [name for name in others if belief.least_chance(name, evidence.default) >= LEAVE]
        return max(better, key=belief.value, default=evidence.default) if evidence.is_valid else evidence.default

    def among_best(self, model: str) -> tuple[str, ...]:
        """The recommended model and those that cannot be excluded, the most probable first.

        Together they hold the best model with the probability `CLEAR`. The model that ranks best by an unbiased
        yardstick is always among them: the record alone never makes an answer clear against it.
        """
        names = [run.name for run in self.evidence.models]
        chance = {name: self.evidence.belief.chance_of_best(name, names) for name in names}
        kept, total = [model], chance[model]
        for name in sorted(names, key=lambda name: -chance[name]):
            if name != model and total < CLEAR:
                kept.append(name)
                total += chance[name]
        leader = self.measured_leader
        if leader is not None and leader not in kept and self.is_unbiased:
            kept.insert(1, leader)
        return tuple(kept)

    @property
    def is_unbiased(self) -> bool:
        """Whether the yardstick is right on average for every method; confirmed cases favour some of them."""
        return self.evidence.is_valid and self.evidence.yardstick != "known_positive_auc"

    @property
    def measured_leader(self) -> str | None:
        """The model that ranks best by the valid yardstick alone, where it is not the recommended one."""
        if not self.evidence.is_valid or self.evidence.figure is None:
            return None
        values = {run.name: self.evidence.figure.value[run.name] for run in self.evidence.models}
        leader = max(values, key=values.__getitem__)
        return leader if values[leader] > values[self.model] else None

    def confidence(self, among: tuple[str, ...]) -> str:
        if not self.evidence.is_valid or len(self.evidence.models) == 1:
            return "provisional"
        return "clear" if len(among) == 1 else "tie"

    def order(self, model: str) -> tuple[str, ...]:
        return _order(self.comparison, self.all_models, [model, *self._by_belief(model)])

    def _by_belief(self, model: str) -> list[str]:
        others = [run.name for run in self.evidence.models if run.name != model]
        return sorted(others, key=lambda name: -self.evidence.belief.value(name))

    def sentence(self, model: str, among: tuple[str, ...], confidence: str) -> str:
        evidence, record = self.evidence, f"{model!r} has the best record in our benchmark"
        if len(evidence.models) == 1:
            doubt = "" if evidence.doubt is None else f" {evidence.doubt}"
            return f"{model!r} is the only model that can be used; train others to compare it with.{doubt}"
        if confidence == "provisional":
            return f"Use {model!r} for now: {record}. {evidence.doubt}"
        figure = YARDSTICKS[evidence.yardstick]
        if confidence == "clear" and self.measured_leader is not None:
            return (
                f"Use {model!r}: with the records of the methods considered it is clearly the best, although "
                f"{self.measured_leader!r} ranks {figure} better."
            )
        if confidence == "clear":
            return f"Use {model!r}: it ranks {figure} clearly better than the other models, with its record considered."
        if model == evidence.default:
            return f"Use {model!r}: no other model ranks {figure} clearly better, and {record}."
        return (
            f"Use {model!r}: it ranks {figure} clearly better than {evidence.default!r}, the default. "
            f"No clear difference from {_listed(among[1:])}."
        )

    def reasons(self, model: str, among: tuple[str, ...]) -> tuple[str, ...]:
        evidence = self.evidence
        if len(evidence.models) == 1:
            return ()
        if not evidence.is_valid:
            return (str(evidence.doubt), "Without a valid yardstick, the record of the methods decides.")
        rival = among[1] if len(among) > 1 else self._by_belief(model)[0]
        mean, sd = evidence.belief.difference(model, rival)
        measured = self._measured(model, rival)
        names = [run.name for run in evidence.models]
        best = [f"{name!r} {evidence.belief.chance_of_best(name, names):.0%}" for name in among]
        return (
            f"{model!r} against {rival!r}, the nearest rival: {measured:+.3f} in AUC on "
            f"{YARDSTICKS[evidence.yardstick]}; together with the record of both methods, {mean:+.3f} "
            f"({mean - 2 * sd:+.3f} to {mean + 2 * sd:+.3f}) in true AUC.",
            f"Probability of being the best of these models: {', '.join(best)}.",
        )

    def _measured(self, a: str, b: str) -> float:
        assert self.evidence.figure is not None
        return self.evidence.figure.value[a] - self.evidence.figure.value[b]

    def warnings(self, model: str) -> tuple[str, ...]:
        found = [] if self.comparison.headline is None else [self.comparison.headline]
        if self.rules_rank_backwards:
            found.insert(0, BACKWARDS)
        if self.contender(model) is not None:
            found.append(self.disagreement(model))
        return tuple(found)

    @property
    def rules_rank_backwards(self) -> bool:
        """Whether the rules alone rank cases below other rows, by a valid yardstick."""
        below = [run for run in self.comparison.runs if run.name in self.comparison.below_chance]
        return self.evidence.is_valid and RULES in map(method_key, below)

    def contender(self, model: str) -> str | None:
        """The model that AUC_SPU on the analyst's S puts clearly above the recommended one.

        None where the rules rank backwards: AUC_SPU then says nothing for a model.
        """
        if self.rules_rank_backwards:
            return None
        figure = self.comparison.figures["auc_spu"]
        names = {run.name for run in self.evidence.models}
        first = next(name for name in figure.value if name in names)
        pair = None if first == model else figure.pair(first, model)
        return first if pair is not None and pair.is_clear else None

    def disagreement(self, model: str) -> str:
        other = self.contender(model)
        assert other is not None
        runs = {run.name: run for run in self.evidence.models}
        follows = uses_rules(runs[other]) and not uses_rules(runs[model])
        why = "it uses your rules, which made these soft labels" if follows else "AUC_SPU follows your rules"
        valid = self.evidence.is_valid and self._measured(model, other) > 0.0
        what = YARDSTICKS[self.evidence.yardstick if valid else "provisional"]
        rows = self.checks(model, other)
        if_so = "" if self.evidence.is_audit else ", if at least half as many of them are cases as the soft labels say"
        settle = f" Checking about {rows:,} random rows would settle it{if_so}." if rows is not None else ""
        return f"The yardsticks disagree: your soft labels favour {other!r} ({why}), {what} {model!r}.{settle}"

    def checks(self, a: str, b: str) -> int | None:
        """How many rows, checked at random, show a difference of the likely size between two models with 80 % power.

        After an audit: how many more. None where more rows would be needed than can be checked.
        """
        figure = self.evidence.figure or self.comparison.figures["auc_spu"]
        pair = figure.pair(a, b)
        if pair is None or not pair.difference.standard_error > 0.0:
            return None
        expected = max(float(np.hypot(*self.evidence.belief.difference(a, b))), 2 * MATTERS)
        if self.evidence.is_audit:
            assert self.comparison.audit is not None
            done = self.comparison.audit.checks
            more = done * ((POWER * pair.difference.standard_error / expected) ** 2 - 1.0)
            return int(np.ceil(max(more, 10.0) / 10.0) * 10) if more <= LARGEST_CHECK else None
        positives = figure.aucs[a].effective_numbers[0]
        # Checked rows are not trained on, so the factor for shared training rows does not apply.
        error = pair.difference.standard_error / shared_factor(figure.aucs[a])
        needed = (POWER * error / expected) ** 2 * positives
        evaluation = self.comparison.runs[0].evaluation
        # Rules may promise more cases than there are, so the number of checks is for half of what they promise.
        drawn_from = evaluation.judged_soft_label[~evaluation.judged_is_labeled]
        share = min(max(0.5 * float(drawn_from.mean()), 0.01), 0.5) if drawn_from.size else 0.5
        rows = int(np.ceil(max(needed, 10.0) / share / 10.0) * 10)
        unlabeled = int((~evaluation.judged_is_labeled).sum())
        return rows if rows <= min(LARGEST_CHECK, unlabeled) else None

    def next_step(self, model: str, among: tuple[str, ...], confidence: str, help_of_rules: str) -> NextStep:
        evidence = self.evidence
        known = self.comparison.figures["known_positive_auc"]
        if confidence == "provisional" and (not known.value or known.too_few):
            return NextStep(
                "get more confirmed cases", None, "Confirm at least 10 cases, better 40, then train and compare again."
            )
        run = next(run for run in evidence.models if run.name == model)
        if help_of_rules == "no" and uses_rules(run):
            return NextStep("revise rules", None, "Revise your rules: the same model is better without them.")
        if self.rules_rank_backwards:
            return NextStep("revise rules", None, "Revise your rules: they rank cases below other rows.")
        if evidence.is_audit and not evidence.is_valid:
            assert self.comparison.audit is not None
            again = self.comparison.audit.checks
            sentence = f"Check {again:,} more rows by hand. In those checked so far no model ranks better than chance."
            return NextStep("check rows", again, sentence)
        rivals = dict.fromkeys(name for name in (self.contender(model), *among[1:]) if name is not None)
        for rival in rivals:
            loses = evidence.belief.chance(rival, model, MATTERS) > 1.0 - CLEAR
            leads = rival in among and self.is_unbiased and rival == self.measured_leader
            is_open = loses or leads or confidence == "provisional"
            rows = self.checks(model, rival) if is_open else None
            if rows is not None:
                what = "more rows" if evidence.is_audit else "random rows"
                both = _listed((model, rival))
                return NextStep("check rows", rows, f"Check {rows:,} {what} by hand to decide between {both}.")
        return NextStep("export", None, f"Export {model!r}.")

    def help(self) -> tuple[str, str]:
        """Whether the rules help: the same method with and without them."""
        evidence = self.evidence
        twins = [(run, twin) for run in evidence.models for twin in evidence.models if is_twin(run, twin)]
        twins.sort(key=lambda pair: method_key(pair[0]) != "fused")
        if not twins:
            return "cannot tell", "Cannot tell whether the rules help: train one method with and without them."
        run, twin = (each.name for each in twins[0])
        if not evidence.is_valid:
            return "cannot tell", f"Cannot tell whether the rules help. {evidence.doubt}"
        mean, sd = evidence.belief.difference(run, twin)
        # Adding 0.0 turns -0.0 into 0.0.
        middle, low, high = (f"{round(mean + side * 2 * sd, 3) + 0.0:+.3f}" for side in (0, -1, 1))
        figures = f"{run!r} against {twin!r}: {middle}, {low} to {high} in estimated true AUC"
        if evidence.belief.chance(run, twin, MATTERS) >= CLEAR:
            return "yes", f"Yes, the rules help ({figures})."
        if evidence.belief.least_chance(twin, run, MATTERS) >= LEAVE:
            return "no", f"No, the rules make the model worse ({figures})."
        return "no clear difference", f"The rules make no clear difference ({figures})."


def _without_model(comparison: Comparison, models: Sequence[Run]) -> Recommendation:
    reason = comparison.headline or "Only the rules alone or an oracle were trained, and neither is a model to use."
    action = NextStep(
        "revise rules", None, "Check whether rules and label point the right way, and whether rows changed."
    )
    return Recommendation(
        model=None,
        yardstick="provisional",
        confidence="cannot tell",
        among_best=(),
        order=_order(comparison, models, []),
        sentence=f"No model can be recommended. {reason}",
        reasons=(reason,),
        warnings=(),
        next_step=action if models else replace(action, sentence="Train a model, such as 'fused'."),
        help_of_rules="cannot tell",
        help_sentence=f"Cannot tell whether the rules help. {reason}",
    )


def _order(comparison: Comparison, models: Sequence[Run], ranked: Sequence[str]) -> tuple[str, ...]:
    """The ranked models, then models below chance, references, and failed runs."""
    others = [run.name for run in models if run.name not in ranked]
    first = [*ranked, *others]
    return (*first, *(run.name for run in comparison.runs if run.name not in first))


def _listed(names: Sequence[str]) -> str:
    *first, last = map(repr, names)
    return f"{', '.join(first)} and {last}" if first else last
