"""Candidates side by side: leaderboard, paired differences, figures that disagree, and what soft labels are worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from spu_core.checks import check_countable
from spu_core.errors import TrainingError
from spu_core.labels import SoftLabels
from spu_core.metrics import Interval
from spu_core.training.figures import WITHOUT_TRUTH, Figure, disagreements, figure_of
from spu_core.training.judging import BUILT_FROM_IT
from spu_core.training.pairs import Pair, groups_of
from spu_core.training.refined import RefinedLabels, with_refined
from spu_core.training.run import Run
from spu_core.training.verdict import Verdict, verdict

PAIRS_NOTE = "p-values concern these fitted models, take the soft labels as given, and are corrected by Holm's method."


@dataclass(frozen=True, eq=False)
class Comparison:
    """What can be said about several runs that are judged by one S on the same rows.

    `groups` are neighbours in the ranking of which no two can be told apart. `notes` are sentences that belong under
    the table; `disagreements` say where the figures put another candidate first.
    """

    runs: tuple[Run, ...]
    figures: dict[str, Figure]
    groups: tuple[tuple[str, ...], ...]
    verdict: Verdict
    disagreements: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Paired differences in AUC_SPU, all pairs."""
        return self.figures["auc_spu"].pairs

    @property
    def best(self) -> Run:
        """The run with the highest AUC_SPU; `groups[0]` has those it cannot be told from."""
        return self.runs[0]

    @property
    def leaderboard(self) -> pd.DataFrame:
        """One row per run, best AUC_SPU first, failed candidates last."""
        letters = _letters(self.groups)
        return pd.DataFrame([_row(run, letters.get(run.name, "")) for run in self.runs])

    @property
    def three_figures(self) -> pd.DataFrame:
        """AUC_SPU on the analyst's S, on refined S and known-positive AUC side by side, with the rank by each."""
        finished = [run for run in self.runs if run.score is not None]
        return pd.DataFrame([_figures_row(run, self.figures) for run in finished])

    @property
    def pairs_table(self) -> pd.DataFrame:
        """Every pair as a row: difference, bounds, p-value plain and corrected."""
        return pd.DataFrame([_pair_row(pair) for pair in self.pairs], columns=_PAIR_COLUMNS)


def compare_runs(runs: Sequence[Run], *, refined: RefinedLabels | None = None) -> Comparison:
    """Compare runs of one table; runs judged by different soft labels are refused (see `runs_on`)."""
    _check_comparable(runs)
    if refined is not None:
        runs = with_refined(runs, refined)
    finished = sorted((run for run in runs if run.metrics is not None), key=_minus_auc)
    failed = [run for run in runs if run.metrics is None]
    if not finished:
        raise TrainingError(f"No candidate was trained, so there is nothing to compare: {failed[0].error}")
    basis = finished[0].basis
    figures = {key: figure_of(key, finished, basis) for key in (*WITHOUT_TRUTH, "true_auc")}
    ranked = [run.name for run in finished]
    return Comparison(
        runs=(*finished, *failed),
        figures=figures,
        groups=groups_of(ranked, figures["auc_spu"].pairs),
        verdict=verdict(finished, figures),
        disagreements=disagreements([figures[key] for key in WITHOUT_TRUTH]),
        notes=_notes(finished),
    )


def runs_on(runs: Sequence[Run], soft_labels: SoftLabels) -> list[Run]:
    """The same scores judged by one S that the analyst chooses, whatever S each run was trained on."""
    if isinstance(soft_labels, RefinedLabels):
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
        check_countable(value[run.basis.judged])
    rule_score = np.asarray(soft_labels.rule_score, dtype=np.float64)
    labels = np.asarray(soft_labels.is_labeled, dtype=bool)
    changes: dict[str, Any] = {"soft_label": value, "rule_score": rule_score, "is_labeled": labels}
    return [run.judged_by(replace(run.basis, **changes)) for run in runs]


def _check_comparable(runs: Sequence[Run]) -> None:
    if not runs:
        raise TrainingError("There is no run to compare.")
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TrainingError(f"Two runs are called {twice!r}; rename one, so that the table can tell them apart.")
    first = runs[0]
    for run in runs[1:]:
        if run.fold.size != first.fold.size:
            raise TrainingError(
                f"{run.name!r} scores {run.fold.size:,} rows and {first.name!r} {first.fold.size:,}; "
                "only runs of the same table can be compared."
            )
        if not run.basis.same_as(first.basis):
            raise TrainingError(
                f"{run.name!r} and {first.name!r} are judged by different soft labels or rows, and AUC_SPU on "
                "different soft labels must not be ranked: choose one S and use runs_on(runs, soft_labels)."
            )
        if not np.array_equal(run.fold, first.fold):
            raise TrainingError(f"{run.name!r} and {first.name!r} have different folds; train them on the same ones.")


def _minus_auc(run: Run) -> float:
    assert run.metrics is not None
    return -run.metrics.auc_spu.estimate


def _notes(finished: Sequence[Run]) -> tuple[str, ...]:
    notes = [PAIRS_NOTE] if len(finished) > 1 else []
    if len(finished) > 1:
        notes.append(
            f"The first row was chosen among {len(finished)} candidates on these rows, so its interval comes after a "
            "selection and is a little too hopeful."
        )
    cut = [repr(run.name) for run in finished if run.is_cut]
    if cut:
        notes.append(f"The tuning of {', '.join(cut)} was cut by its time budget and cannot be repeated to the bit.")
    own = [(run.name, note) for run in finished for note in (run.stopping_note, run.selection_note) if note]
    notes += [f"{name!r}: {note}" for name, note in own]
    notes += _level_notes(finished)
    interval = finished[0].metrics.auc_spu if finished[0].metrics else None
    if interval is not None and interval.warning:
        notes.append(interval.warning)
    return tuple(notes)


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


def _letters(groups: Sequence[tuple[str, ...]]) -> dict[str, str]:
    """Candidates that share a letter cannot be told apart."""
    letters: dict[str, str] = {}
    for number, group in enumerate(groups):
        for name in group:
            letters[name] = letters.get(name, "") + _letter(number)
    return letters


def _letter(number: int) -> str:
    return chr(ord("a") + number) if number < 26 else f"({number + 1})"


def _row(run: Run, letters: str) -> dict[str, Any]:
    row: dict[str, Any] = {"name": run.name, "method": run.candidate.method, "group": letters}
    metrics = run.metrics
    for name in ("auc_spu", "share_of_ceiling", "known_positive_auc", "refined_auc_spu", "true_auc"):
        interval = None if metrics is None else getattr(metrics, name)
        row |= _bounds(name, interval)
    for name in _PLAIN:
        value = None if metrics is None else getattr(metrics, name)
        row[name] = np.nan if value is None else value
    row["refined_note"] = None if metrics is None else metrics.refined_note
    row["known_positive_note"] = None if metrics is None else metrics.known_positive_note
    return {**row, "seconds": run.seconds, "error": run.error}


def _bounds(name: str, interval: Interval | None) -> dict[str, float]:
    if interval is None:
        return {name: np.nan, f"{name}_low": np.nan, f"{name}_high": np.nan}
    return {name: interval.estimate, f"{name}_low": interval.low, f"{name}_high": interval.high}


def _figures_row(run: Run, figures: dict[str, Figure]) -> dict[str, Any]:
    row: dict[str, Any] = {"name": run.name}
    for key in WITHOUT_TRUTH:
        interval = getattr(run.metrics, key)
        ranked = list(figures[key].value)
        row[key] = np.nan if interval is None else interval.estimate
        row[f"{key}_rank"] = ranked.index(run.name) + 1 if run.name in ranked else None
    row["note"] = BUILT_FROM_IT if run.is_built_from_refined and figures["refined_auc_spu"].value else None
    return row


def _pair_row(pair: Pair) -> tuple[Any, ...]:
    found = pair.difference
    bounds = (found.estimate, found.low, found.high, found.standard_error)
    return (pair.first, pair.second, *bounds, found.p_value, pair.p_holm, pair.can_be_told_apart)


_PAIR_COLUMNS = ["first", "second", "difference", "low", "high", "standard_error", "p_value", "p_holm", "told_apart"]
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
