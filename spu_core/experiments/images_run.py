"""All cells of Table 2, seed by seed; each row can be kept in a file at once, so that a run may be cut and resumed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spu_core.experiments.images_beliefs import TARGETS
from spu_core.experiments.images_cells import RECIPES, TASKS, Cell, CellRow, Recipe, Task
from spu_core.experiments.images_data import ImageSet, load_images
from spu_core.experiments.settings import OnProgress, quiet


@dataclass(frozen=True)
class ImagePlan:
    """Which tasks to run with how many seeds; `train` and `epochs` cut the training short."""

    seeds: int = 3
    train: int | None = None
    epochs: int | None = None
    threads: int = 1
    tasks: Sequence[Task] = TASKS

    def recipe(self, images: str) -> Recipe:
        """The recipe of an image set at this size.

        >>> ImagePlan(epochs=2).recipe("cifar10").settings["rounds"]
        2
        """
        return replace(RECIPES[images], train=self.train, epochs=self.epochs)

    def made(self, row: CellRow) -> bool:
        """Whether a row comes from a plan of this size."""
        return (row.train_images, row.epochs) == (self.train, self.epochs)

    def cells(self) -> Iterator[tuple[int, Task]]:
        """Seeds outermost: a run that is cut has whole seeds behind it."""
        return ((seed, task) for seed in range(self.seeds) for task in self.tasks)


def run_images(
    plan: ImagePlan, folder: Path | None, on_progress: OnProgress = quiet, keep: Path | None = None
) -> list[CellRow]:
    """Rows of all cells. With `keep`, every row is appended to that file, and cells that it holds are not run again."""
    rows = [] if keep is None else [row for row in read_rows(keep) if plan.made(row)]
    done = {(row.seed, row.images, row.positive) for row in complete_cells(rows)}
    rows = [row for row in rows if (row.seed, row.images, row.positive) in done]
    loaded: dict[str, ImageSet] = {}
    total = plan.seeds * len(plan.tasks)
    for place, (seed, task) in enumerate(plan.cells()):
        if (seed, task.images, task.classes) in done:
            continue
        on_progress(place / total, f"seed {seed}: {task.images}, positive {task.classes}")
        loaded.setdefault(task.images, load_images(task.images, folder))
        for row in Cell(task, loaded[task.images], seed, plan.recipe(task.images)).rows(plan.threads):
            rows.append(row)
            if keep is not None:
                append_row(keep, row)
    return rows


def append_row(path: Path, row: CellRow) -> None:
    """One line of JSON at the end of a file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row.as_dict()) + "\n")


def read_rows(path: Path) -> list[CellRow]:
    """The rows that were appended so far; a last line that was cut is left out."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    return [CellRow(**json.loads(line)) for line in lines if line.endswith("\n")]


def complete_cells(rows: Sequence[CellRow]) -> list[CellRow]:
    """Rows of cells in which every method has been trained."""
    methods: dict[tuple[Any, ...], set[str]] = {}
    for row in rows:
        methods.setdefault(_cell_of(row), set()).add(row.method)
    return [row for row in rows if len(methods[_cell_of(row)]) == len(TARGETS)]


def _cell_of(row: CellRow) -> tuple[Any, ...]:
    return row.train_images, row.epochs, row.seed, row.images, row.positive
