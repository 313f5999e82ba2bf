"""Echo check: does a model find something of its own, or does it only repeat the rules?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from spu_core.errors import TrainingError
from spu_core.labels import SoftLabels
from spu_core.metrics import Interval
from spu_core.tables import Table
from spu_core.training import Candidate, Figure, Run, TrainConfig, TrainProgress, cross_fit
from spu_core.training.figures import figure_of
from spu_core.training.folded import folded_auc, share_of

# A model that reproduces nine tenths of the ranking of the rules has little room for anything else.
ECHO_SHARE = 0.9
RULE_LEVELS = 20


@dataclass(frozen=True, eq=False)
class EchoReport:
    """One candidate trained with and without the columns that rules read.

    `reproduced` is the share of the rule score's ranking that the scores repeat (1: all of it, 0: none), with the rule
    columns and without. `beyond` is the known-positive AUC among unlabelled and labelled rows on which the rules say
    the same: ½ means that the model adds nothing to the rules. `figures` compares both runs.
    """

    candidate: Candidate
    kept: Run
    dropped: Run
    reproduced: Interval
    reproduced_without: Interval
    beyond: Interval | None
    beyond_without: Interval | None
    figures: dict[str, Figure]

    @property
    def is_echo(self) -> bool:
        """Whether the scores repeat the rules and tell nothing where the rules are silent."""
        adds_nothing = self.beyond is None or self.beyond.low <= 0.5
        return self.reproduced.estimate >= ECHO_SHARE and adds_nothing

    @property
    def lost(self) -> float:
        """AUC_SPU that goes when the rule columns go."""
        value = self.figures["auc_spu"].value
        return value[self.kept.name] - value[self.dropped.name]

    @property
    def sentence(self) -> str:
        repeated = f"{self.reproduced.estimate:.0%} of the rules' ranking"
        share = f"{self.candidate.name!r} with the rule columns repeats {repeated}"
        without = f"{self.reproduced_without.estimate:.0%} without them; dropping them costs {self.lost:.3f} AUC_SPU"
        if self.is_echo:
            return f"{share} ({without}) and adds nothing to it that confirmed positives bear out: it is an echo."
        if self.beyond is None:
            return f"{share} ({without}); too few confirmed positives to see whether it knows more than the rules."
        words = "more than" if self.beyond.low > 0.5 else "no more than can be seen beyond"
        figure = f"known-positive AUC {self.beyond.estimate:.3f} where the rules say the same"
        return f"{share} ({without}); it knows {words} the rules ({figure})."


def echo_check(
    table: Table,
    soft_labels: SoftLabels,
    candidate: Candidate | str,
    config: TrainConfig | None = None,
    *,
    most_rows: int | None = None,
    on_progress: Callable[[TrainProgress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> EchoReport:
    """Cross-fit a candidate with and without the rule columns and compare both with the rules.

    With `most_rows`, on that many rows drawn at random where there are more.
    """
    candidate = Candidate(candidate) if isinstance(candidate, str) else candidate
    if most_rows is not None and len(table) > most_rows:
        rows = np.sort(np.random.default_rng(0).choice(len(table), most_rows, replace=False))
        table = replace(table, frame=table.frame.iloc[rows].reset_index(drop=True))
        soft_labels = soft_labels.take(rows)
    _check_rules(table, soft_labels)
    twins = [_with_columns(candidate, True), _with_columns(candidate, False)]
    kept, dropped = cross_fit(table, soft_labels, twins, config, on_progress=on_progress, should_stop=should_stop)
    for run in (kept, dropped):
        run.need_score()
    reproduced, without = (_reproduced(run) for run in (kept, dropped))
    keys = ("auc_spu", "known_positive_auc", "true_auc")
    figures = {key: figure_of(key, [kept, dropped], kept.basis) for key in keys}
    beyond, beyond_without = (beyond_rules(run) for run in (kept, dropped))
    return EchoReport(candidate, kept, dropped, reproduced, without, beyond, beyond_without, figures)


def beyond_rules(run: Run) -> Interval | None:
    """Known-positive AUC among rows of equal rule score (of one bin, where there are many scores), within folds.

    None where no such set of rows has both a confirmed positive and another row.
    """
    basis, score = run.basis, run.need_score()
    # Each fold has a model of its own, so rows are compared within a level of the rules and a fold.
    cell = _level_of(basis.rule_score) * (int(basis.fold.max()) + 2) + basis.fold + 1
    outranking, spread_of_rest = [], []
    for number in np.unique(cell[basis.judged & basis.is_labeled]):
        rows = basis.judged & (cell == number)
        labeled, rest = score[rows & basis.is_labeled], score[rows & ~basis.is_labeled]
        if rest.size:
            outranking.append(_share_below(labeled, rest))
            outranked = 1.0 - _share_below(rest, labeled)
            spread_of_rest.append(labeled.size**2 * outranked.var() / rest.size)
    if not outranking:
        return None
    return _mean_with_interval(np.concatenate(outranking), sum(spread_of_rest), basis.level)


def _mean_with_interval(outranking: np.ndarray, spread_of_rest: float, level: float) -> Interval:
    """DeLong's two parts of the variance: that of the confirmed positives, and that of the rest beside them."""
    count = outranking.size
    own = outranking.var(ddof=1) / count if count > 1 else 0.25
    estimate, error = float(outranking.mean()), float(np.sqrt(own + spread_of_rest / count**2))
    reach = float(ndtri(0.5 + 0.5 * level)) * error
    return Interval(estimate, max(estimate - reach, 0.0), min(estimate + reach, 1.0), error, level)


def _share_below(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Share of the others that each value outranks; equal scores count half."""
    others = np.sort(others)
    below, upto = (np.searchsorted(others, values, side=side) for side in ("left", "right"))
    return 0.5 * (below + upto) / others.size


def _reproduced(run: Run) -> Interval:
    """The rule score taken as the belief to be reached: share of its own ceiling."""
    folded = folded_auc(run.basis.rule_score, run.need_score(), run.basis)
    share = None if folded is None else share_of(folded, run.basis.rule_score, run.basis)
    if share is None:
        raise TrainingError("The rule score is the same in every row, so there is nothing that could be repeated.")
    return share


def _level_of(rule_score: np.ndarray) -> np.ndarray:
    levels, code = np.unique(rule_score, return_inverse=True)
    if levels.size <= RULE_LEVELS:
        return code
    edges = np.unique(np.quantile(rule_score, np.linspace(0, 1, RULE_LEVELS + 1)[1:-1]))
    return np.searchsorted(edges, rule_score, side="right")


def _with_columns(candidate: Candidate, kept: bool) -> Candidate:
    name = f"{candidate.name}, rule columns {'kept' if kept else 'dropped'}"
    return replace(candidate, settings={**candidate.settings, "keep_rule_columns": kept}, name=name)


def _check_rules(table: Table, soft_labels: SoftLabels) -> None:
    read = set(soft_labels.rule_columns) & set(table.features)
    if not read:
        raise TrainingError("The rules read no feature column, so no model can echo them; there is nothing to check.")
    if read == set(table.features):
        raise TrainingError(
            "The rules read every feature column, so nothing is left to learn from without them; add other columns."
        )
