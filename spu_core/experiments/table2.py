"""Table 2: soft labels against both baselines on images, and what AUC_SPU says about the truth there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import numpy as np

from spu_core.experiments.averages import SO, Average, average, corrected, paired
from spu_core.experiments.data import data_folder
from spu_core.experiments.images_beliefs import TARGETS
from spu_core.experiments.images_cells import CellRow
from spu_core.experiments.images_run import ImagePlan, complete_cells, run_images
from spu_core.experiments.result import ExperimentResult, ResultTable
from spu_core.experiments.settings import ExperimentSettings, OnProgress, provenance, quiet
from spu_core.experiments.table2_words import CHOICES, PRINTED, claims

__all__ = ["claims", "result_of", "run"]

NAMES = {"fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}
# Images for training where all but the held-out ones are used; both sets have 10,000 test images.
TRAINED, TESTED = {"fashion-mnist": 55_000, "cifar10": 45_000}, 10_000
PAIRS = (("RESULT", "BL0"), ("RESULT", "BL1"), ("BL1", "BL0"))
# A short training: the smoke version, and beside the whole one the case where networks are far from done.
SHORT_IMAGES, SHORT_EPOCHS = 8_000, 2
_VALIDATION = ("auc_spu", "ceiling", "perfect_level", "predicted_auc", "validation_auc")


def run(settings: ExperimentSettings, on_progress: OnProgress = quiet, *, keep: Path | None = None) -> ExperimentResult:
    """Train all cells, shortly and then wholly; a full run takes about 17 CPU-minutes a seed.

    With `keep` each network is written to that file when it is ready, and a run that was cut goes on from there.
    """
    started = perf_counter()
    rows: list[CellRow] = []
    plans = plans_of(settings)
    for place, plan in enumerate(plans):

        def say(share: float, words: str, place: int = place) -> None:
            on_progress((place + share) / len(plans), words)

        rows += run_images(plan, data_folder(settings.data), say, keep)
    return result_of(rows, settings, perf_counter() - started)


def plans_of(settings: ExperimentSettings) -> tuple[ImagePlan, ...]:
    """A smoke run trains one seed shortly; a full run three seeds, shortly and wholly."""
    plan = ImagePlan(settings.count_of_seeds(smoke=1, full=3), threads=settings.threads)
    short = replace(plan, train=SHORT_IMAGES, epochs=SHORT_EPOCHS)
    return (short,) if settings.is_smoke else (short, plan)


def result_of(rows: Sequence[CellRow], settings: ExperimentSettings, seconds: float) -> ExperimentResult:
    """Rows of whole cells as a result; cells that are not complete are left out."""
    rows = complete_cells(rows)
    tables = (_auc_table(rows), _difference_table(rows), _validation_table(rows))
    seeds = {_size(row): len({each.seed for each in rows if _size(each) == _size(row)}) for row in rows}
    return ExperimentResult(
        "table2",
        "Table 2: images under generalized SCAR",
        tables,
        claims({table.name: table for table in tables}),
        CHOICES,
        provenance(settings, seconds, seeds=max(seeds.values(), default=0), seeds_by_training_images=seeds),
        {"rows": [row.as_dict() for row in rows]},
    )


def _auc_table(rows: Sequence[CellRow]) -> ResultTable:
    found = []
    for (size, images, positive), cell in _cells(rows):
        for method, values in _by_method(cell, "test_auc").items():
            ours, printed = average(values), PRINTED[images, positive][method]
            compared = (printed, ours.mean, ours.error, ours.mean - printed)
            found.append((size, NAMES[images], positive, method, *compared, ours.count))
    return ResultTable(
        "auc",
        "True AUC on the test images",
        ("training images", "images", "positive classes", "method", "paper", "ours", "SE", "ours − paper", "seeds"),
        tuple(found),
        "RESULT is the paper's method (soft cross-entropy). SE: standard error over seeds.",
    )


def _difference_table(rows: Sequence[CellRow]) -> ResultTable:
    found = []
    for (size, images, positive), cell in _cells(rows):
        aucs, printed = _by_method(cell, "test_auc"), PRINTED[images, positive]
        for first, second in PAIRS:
            ours = paired(aucs[first], aucs[second])
            wins = sum(one > other for one, other in zip(aucs[first], aucs[second], strict=True))
            wide = corrected(ours, TESTED / (cell[0].train_images or TRAINED[images]))
            compared = (printed[first] - printed[second], ours.mean, ours.error, wide.error)
            verdicts = (wins, ours.count, _words(ours), _words(wide))
            found.append((size, NAMES[images], positive, f"{first} − {second}", *compared, *verdicts))
    columns = ("training images", "images", "positive classes", "difference", "paper", "ours", "SE", "corrected SE")
    return ResultTable(
        "differences",
        "What soft labels gain over each baseline, and BL1 over BL0",
        (*columns, "seeds won", "seeds", "over seeds", "corrected"),
        tuple(found),
        "Paired over seeds: the same images, soft labels and split. 'over seeds' is about these images: Student's 95 % "
        "interval leaves 0 out. 'corrected' uses the standard error of Nadeau and Bengio, an approximation here: the "
        "test images are the same for every seed.",
    )


def _validation_table(rows: Sequence[CellRow]) -> ResultTable:
    found = []
    for (size, images, positive), cell in _cells(rows):
        for method in TARGETS:
            kept = [row for row in cell if row.method == method]
            figures = [float(np.mean([getattr(row, name) for row in kept])) for name in _VALIDATION]
            error = float(np.mean([row.predicted_error for row in kept])) / len(kept) ** 0.5
            found.append((size, NAMES[images], positive, method, *figures, figures[3] - figures[4], error))
    columns = ("training images", "images", "positive classes", "method", "AUC_SPU", "ceiling", "perfect classifier")
    return ResultTable(
        "validation",
        "What validation images with soft labels say: AUC_SPU, and the truth that Theorem 2 implies",
        (*columns, "AUC by Theorem 2", "true AUC there", "error", "its SE"),
        tuple(found),
        "The ceiling of Theorem 1 is reached only by a score that sees S; a perfect classifier of Y reaches the level "
        "beside it. The error of Theorem 2 is the sampling error of AUC_SPU, divided by the slope ad − bc.",
    )


def _cells(rows: Sequence[CellRow]) -> Iterator[tuple[tuple[str, str, str], list[CellRow]]]:
    """Rows by (training images, image set, positive classes): all images first, cells as the paper lists them."""
    for size in sorted({_size(row) for row in rows}, reverse=True):
        for images, positive in PRINTED:
            cell = [row for row in rows if (_size(row), row.images, row.positive) == (size, images, positive)]
            if cell:
                yield (size, images, positive), cell


def _size(row: CellRow) -> str:
    images = "all" if row.train_images is None else f"{row.train_images:,}"
    return images if row.epochs is None else f"{images}, {row.epochs} epochs"


def _by_method(cell: Sequence[CellRow], name: str) -> dict[str, list[float]]:
    """One value per seed, in the order of seeds, so that methods can be paired."""
    ordered = sorted(cell, key=lambda row: row.seed)
    return {method: [float(getattr(row, name)) for row in ordered if row.method == method] for method in TARGETS}


def _words(difference: Average) -> str:
    return "one seed" if difference.error is None else SO[difference.sign]
