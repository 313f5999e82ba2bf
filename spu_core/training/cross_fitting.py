"""Cross-fitting: all candidates on the same folds, every row scored by a model that never saw it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from spu_core.errors import EngineError, SpuError
from spu_core.labels import SoftLabels
from spu_core.labels.belief_suggestions import labels_follow_rules
from spu_core.tables import Table, TableFolder
from spu_core.training.basis import FOLLOWS_RULES, FROM_LABELS, Basis
from spu_core.training.candidate import Candidate, named_apart
from spu_core.training.config import TrainConfig
from spu_core.training.folds import Split
from spu_core.training.parts import Fits, Here, PartFit, Place
from spu_core.training.progress import Reporter, TrainingCancelled, TrainProgress
from spu_core.training.rows import TrainingRows, analyst_value
from spu_core.training.run import Run


def cross_fit(
    table: Table | TableFolder,
    soft_labels: SoftLabels,
    candidates: Iterable[Candidate | str],
    config: TrainConfig | None = None,
    *,
    split: Split | None = None,
    on_progress: Callable[[TrainProgress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> list[Run]:
    """Train all candidates on the same folds; one that fails becomes a run with an `error`.

    When `should_stop()` says so, `TrainingCancelled` is raised; its `.runs` are those finished before.
    """
    runs: list[Run] = []
    stream = iter_cross_fit(
        table, soft_labels, candidates, config, split=split, on_progress=on_progress, should_stop=should_stop
    )
    try:
        runs.extend(stream)
    except TrainingCancelled as cancelled:
        cancelled.runs = tuple(runs)
        raise
    return runs


def iter_cross_fit(
    table: Table | TableFolder,
    soft_labels: SoftLabels,
    candidates: Iterable[Candidate | str],
    config: TrainConfig | None = None,
    *,
    split: Split | None = None,
    on_progress: Callable[[TrainProgress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    place: Place | None = None,
) -> Iterator[Run]:
    """The same, each run as soon as it is finished; `place` decides where the fits are done (here, one by one)."""
    config, listed, place = config or TrainConfig(), named_apart(candidates), place or Here()
    rows = place.prepare(table, soft_labels, config, split)
    work = _Work(rows, basis_of(rows, soft_labels, config), config, getattr(soft_labels, "is_refined", False))
    parts = len(list(rows.split.parts()))
    reporter = Reporter([candidate.name for candidate in listed], parts, on_progress, should_stop)
    return _runs(work, listed, reporter, place.fits(rows, listed, config))


def basis_of(rows: TrainingRows, soft_labels: SoftLabels, config: TrainConfig) -> Basis:
    """What runs on these rows are judged by: the analyst's S, also where they learn from refined S."""
    evidence = rows.evidence
    assert evidence.rule_score is not None
    return Basis(
        soft_label=analyst_value(soft_labels),
        is_labeled=evidence.is_labeled,
        rule_score=evidence.rule_score,
        fold=rows.split.fold,
        judged=rows.split.judged,
        truth=evidence.truth,
        weight=evidence.weight,
        groups=evidence.groups,
        refined=evidence.soft_label if getattr(soft_labels, "is_refined", False) else None,
        randomly_checked=rows.randomly_checked,
        labels_note=_labels_note(soft_labels, config),
        data_notes=rows.notes,
        budget=config.review_budget,
        level=config.level,
    )


@dataclass(frozen=True, eq=False)
class _Work:
    """What all candidates of one call share."""

    rows: TrainingRows
    basis: Basis
    config: TrainConfig
    on_refined: bool


def _runs(work: _Work, candidates: tuple[Candidate, ...], reporter: Reporter, fits: Fits) -> Iterator[Run]:
    for place, candidate in enumerate(candidates):
        reporter.begin(place)
        try:
            run = _cross_fit_one(work, candidate, fits(candidate, reporter))
        except EngineError:
            raise  # the place has failed, not the candidate
        except Exception as problem:
            # A failing library must not cost the other candidates; what the caller raised is not a failure.
            if reporter.raised is not None:
                raise reporter.raised from None
            run = Run(candidate.name, candidate, work.config, work.basis, error=_words(problem), rows=work.rows)
        yield replace(run, seconds=reporter.finish())


def _cross_fit_one(work: _Work, candidate: Candidate, fits: Iterable[PartFit]) -> Run:
    done = list(fits)
    score = np.empty(work.rows.split.fold.size)
    for part, fit in zip(work.rows.split.parts(), done, strict=True):
        score[part.score] = fit.score
    score.setflags(write=False)
    run = Run(
        name=candidate.name,
        candidate=candidate,
        config=work.config,
        basis=work.basis,
        score=score,
        learning_curve=tuple(fit.losses for fit in done if fit.losses),
        rounds=tuple(fit.rounds for fit in done if fit.rounds is not None),
        tunings=tuple(fit.tuning for fit in done if fit.tuning is not None),
        selections=tuple(fit.selection for fit in done if fit.selection is not None),
        trained_on_refined=work.on_refined,
        rows=work.rows,
    )
    return run.judged_by(work.basis)


def _words(problem: Exception) -> str:
    """Our own errors speak for themselves; others are named."""
    if isinstance(problem, SpuError):
        return str(problem)
    if isinstance(problem, MemoryError):
        return "There was not enough memory; use fewer rows, fewer columns or a smaller model."
    return f"{type(problem).__name__}: {problem}"


def _labels_note(soft_labels: SoftLabels, config: TrainConfig) -> str | None:
    matrix = getattr(soft_labels, "matrix", None)
    follows = getattr(soft_labels, "labels_follow_rules", False)
    follows = follows or (matrix is not None and labels_follow_rules(matrix, np.asarray(soft_labels.is_labeled)))
    if config.rules_chose_checks or follows:
        return FOLLOWS_RULES
    return FROM_LABELS if config.beliefs_from_labels else None
