"""A training job as people watch it: each candidate with how far it is, what came of it, and how it learns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from spu_core.training import Candidate, TrainPlan
from spu_core.workspace import JobRecord, JobStatus, RunRecord

# Losses that a job keeps of each fit: enough to draw, small enough to write four times a second.
MOST_LOSSES = 150


@dataclass(frozen=True, slots=True)
class CandidateState:
    """One candidate of a training job: `state` is waiting, running, finished, failed or stopped."""

    name: str
    method: str
    state: str
    share: float = 0.0
    words: str = ""


@dataclass(frozen=True, eq=False)
class TrainingView:
    """A training job: its candidates in order, the runs it has stored so far, and the losses it has seen.

    Those are losses on held-out rows where the training stops early (`holds_out`), else on the rows it learns from.
    """

    job: JobRecord
    candidates: tuple[CandidateState, ...]
    runs: tuple[str, ...]
    losses: Mapping[str, Sequence[Sequence[float]]]
    holds_out: bool
    seconds_left: float | None

    @property
    def is_active(self) -> bool:
        return not self.job.status.is_over

    @property
    def can_restart(self) -> bool:
        """Whether the job ended without finishing; what it had finished is kept."""
        return self.job.status.is_over and self.job.status is not JobStatus.FINISHED

    @classmethod
    def of(cls, job: JobRecord) -> TrainingView:
        told = {**job.detail, **job.result}
        plan = TrainPlan.from_json(job.parameters["plan"])
        errors = {error["name"]: error["error"] for error in told.get("errors", [])}
        states = tuple(_state(job, told, candidate, errors) for candidate in plan.candidates)
        runs, losses = tuple(told.get("runs", ())), filled(told.get("losses", {}))
        return cls(job, states, runs, losses, plan.config.early_stopping is not None, told.get("seconds_left"))


def training_jobs(jobs: Sequence[JobRecord], dataset: str) -> tuple[TrainingView, ...]:
    """The training jobs of a dataset among `jobs`, the newest first."""
    return tuple(
        TrainingView.of(job) for job in jobs if job.kind == "train" and job.parameters.get("dataset") == dataset
    )


def add_loss(losses: dict[str, list[list[float]]], progress: Any) -> None:
    """Remember the loss of a round, straight lines between those that tell none; a fit begins where rounds do."""
    loss = progress.training_loss if progress.loss is None else progress.loss
    if loss is None or progress.step != "training":
        return
    fits = losses.setdefault(progress.candidate, [[]])
    if progress.iteration <= 1 and fits[-1]:
        fits.append([])
    fit = fits[-1]
    missed = max(progress.iteration - len(fit), 1)
    fit.extend(np.linspace(fit[-1] if fit else loss, loss, missed + 1)[1:].tolist())


def thinned(losses: Mapping[str, Sequence[Sequence[float]]]) -> dict[str, Any]:
    """The same curves with every n-th loss, one n for all, so that none has more than MOST_LOSSES.

    >>> kept = thinned({"a": [list(range(1000)), [1.0]]})
    >>> kept["every"], [len(fit) for fit in kept["fits"]["a"]]
    (7, [143, 1])
    """
    longest = max((len(fit) for fits in losses.values() for fit in fits), default=0)
    every = max(1, -(-longest // MOST_LOSSES))
    fits = {name: [[round(loss, 5) for loss in fit[::every]] for fit in fits] for name, fits in losses.items()}
    return {"every": every, "fits": fits}


def filled(kept: Mapping[str, Any]) -> dict[str, list[list[float]]]:
    """Curves by round again, straight lines between the losses that were kept.

    >>> filled({"every": 2, "fits": {"a": [[0.8, 0.6], [0.5]]}})
    {'a': [[0.8, 0.7, 0.6], [0.5]]}
    """
    every = int(kept.get("every", 1))
    return {name: [_between(fit, every) for fit in fits] for name, fits in kept.get("fits", {}).items()}


def _between(fit: Sequence[float], every: int) -> list[float]:
    rounds = np.arange(max(len(fit) - 1, 0) * every + 1)
    return [round(float(loss), 5) for loss in np.interp(rounds, np.arange(len(fit)) * every, fit)] if fit else []


def _state(job: JobRecord, told: Mapping[str, Any], candidate: Candidate, errors: Mapping[str, str]) -> CandidateState:
    name, method = candidate.name, candidate.method
    if name in errors:
        return CandidateState(name, method, "failed", 1.0, errors[name])
    if name in told.get("finished", ()) or job.status is JobStatus.FINISHED:
        return CandidateState(name, method, "finished", 1.0)
    if job.status.is_over:
        return CandidateState(name, method, "stopped")
    if name != told.get("candidate"):
        return CandidateState(name, method, "waiting")
    before = int(told.get("place", 1)) - 1
    share = float(told.get("share", 0.0)) * int(told.get("candidates", 1)) - before
    return CandidateState(name, method, "running", min(max(share, 0.0), 1.0), _where(told))


def _where(told: Mapping[str, Any]) -> str:
    """Fold, step and round in a few words."""
    fold, folds = told.get("fold"), int(told.get("folds", 1))
    where = "held-out rows" if fold == -1 else "all rows" if fold is None else f"fold {int(fold) + 1} of {folds}"
    step = str(told.get("step", ""))
    rounds = f"round {told['iteration']} of {told['iterations']}" if int(told.get("iterations", 1)) > 1 else ""
    return ", ".join(part for part in (where, "" if step == "training" else step, rounds) if part)


def summary_table(records: Sequence[RunRecord]) -> pd.DataFrame:
    """Stored runs as a leaderboard, best AUC_SPU first, from what the catalogue remembers of them."""
    table = pd.DataFrame([_summary_row(record) for record in records], columns=list(_SUMMARY))
    return table.sort_values("auc_spu", ascending=False, kind="stable", ignore_index=True)


_SUMMARY = ("name", "auc_spu", "low", "high", "share_of_ceiling", "known_positive_auc", "true_auc", "seconds")


def _summary_row(record: RunRecord) -> tuple[Any, ...]:
    metrics = record.summary.get("metrics") or {}
    auc = metrics.get("auc_spu") or {}
    others = (_estimate(metrics, name) for name in ("share_of_ceiling", "known_positive_auc", "true_auc"))
    bounds = (auc.get(name, math.nan) for name in ("estimate", "low", "high"))
    return (record.name, *bounds, *others, float(record.summary.get("seconds") or 0.0))


def _estimate(metrics: Mapping[str, Any], name: str) -> float:
    found = metrics.get(name)
    return math.nan if not found or found.get("estimate") is None else float(found["estimate"])
