"""One cell of Table 2: an image set, its positive classes and a seed; three networks that differ in target only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from time import process_time
from typing import Any

import numpy as np

from spu_core.experiments.images_beliefs import TARGETS, PaperSoftLabels
from spu_core.experiments.images_data import ImageSet
from spu_core.metrics import auc_spu_ceiling, auc_spu_interval, known_positive_auc_score
from spu_core.models import Features, SoftCnn


@dataclass(frozen=True)
class Recipe:
    """How the network of one image set is trained, and how many training images are held out for validation.

    `train` and `epochs` cut the training short; None takes all images and the rounds of the network.
    """

    network: dict[str, Any]
    validation: int = 5_000
    train: int | None = None
    epochs: int | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the network; `epochs` replaces the rounds of the recipe."""
        return self.network if self.epochs is None else {**self.network, "rounds": self.epochs}


# Fixed before the runs that are stored: the same for all three methods, and nothing was stopped early.
RECIPES = {
    "fashion-mnist": Recipe({"rounds": 4, "first_stride": 2}),
    "cifar10": Recipe({"rounds": 6, "first_stride": 1, "flip": True}),
}


@dataclass(frozen=True)
class Task:
    """Which classes count as positive."""

    images: str
    positive: tuple[int, ...]

    @property
    def classes(self) -> str:
        """As the paper writes them."""
        return ",".join(map(str, self.positive))


TASKS = (
    Task("fashion-mnist", (0,)),
    Task("fashion-mnist", (0, 2, 4, 6)),
    Task("cifar10", (0,)),
    Task("cifar10", (0, 1, 8, 9)),
)


@dataclass(frozen=True)
class CellRow:
    """One trained network: true AUC on test images, and what validation images with soft labels say about it.

    `predicted_auc` is the true AUC that Theorem 2 implies from `auc_spu`; `validation_auc` is the truth that it
    should meet, on the same images. `train_images` is None where all but the held-out ones were used, `epochs` where
    they are those of the recipe.
    """

    images: str
    positive: str
    method: str
    seed: int
    test_auc: float
    auc_spu: float
    ceiling: float
    perfect_level: float
    predicted_auc: float
    predicted_error: float
    validation_auc: float
    cpu_seconds: float
    train_images: int | None = None
    epochs: int | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Cell:
    """The images of one task with soft labels drawn by one seed, split by class into training and validation."""

    task: Task
    images: ImageSet
    seed: int
    recipe: Recipe

    def rows(self, threads: int = 1) -> Iterator[CellRow]:
        """Train and measure the methods one after the other."""
        rng = np.random.default_rng([self.seed, len(self.task.positive), len(self.task.images)])
        truth = np.isin(self.images.train_class, self.task.positive)
        labels = PaperSoftLabels(float(truth.mean()))
        soft_label = labels.draw(truth, rng)
        train, held_out = split_by_class(self.images.train_class, self.recipe, rng)
        for method in TARGETS:
            with torch_threads(threads):
                yield self._row(method, labels, soft_label, train, held_out)

    def _row(
        self, method: str, labels: PaperSoftLabels, soft_label: np.ndarray, train: np.ndarray, held_out: np.ndarray
    ) -> CellRow:
        started = process_time()
        model = SoftCnn(**self.recipe.settings, seed=self.seed)
        model.fit_rows(Features.of(self.images.train[train]), TARGETS[method](soft_label[train]))
        validation_score = model.score_rows(Features.of(self.images.train[held_out]))
        test_score = model.score_rows(Features.of(self.images.test))
        measured = auc_spu_interval(soft_label[held_out], validation_score)
        implied = labels.link.true_auc_interval(measured)
        return CellRow(
            self.task.images,
            self.task.classes,
            method,
            self.seed,
            test_auc=_true_auc(self.images.test_class, self.task, test_score),
            auc_spu=measured.estimate,
            ceiling=auc_spu_ceiling(soft_label[held_out]),
            perfect_level=labels.link.perfect_level,
            predicted_auc=implied.estimate,
            predicted_error=implied.standard_error,
            validation_auc=_true_auc(self.images.train_class[held_out], self.task, validation_score),
            cpu_seconds=round(process_time() - started, 1),
            train_images=self.recipe.train,
            epochs=self.recipe.epochs,
        )


def split_by_class(classes: np.ndarray, recipe: Recipe, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(training, validation) positions, each class in its exact share: π would move otherwise."""
    order = rng.permutation(classes.size)
    shares = [order[classes[order] == each] for each in np.unique(classes)]
    held_out = recipe.validation // len(shares)
    size = None if recipe.train is None else held_out + recipe.train // len(shares)
    train = np.concatenate([part[held_out:size] for part in shares])
    return np.sort(train), np.sort(np.concatenate([part[:held_out] for part in shares]))


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Give torch this many threads, and put its own number back after."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _true_auc(classes: np.ndarray, task: Task, score: np.ndarray) -> float:
    return known_positive_auc_score(np.isin(classes, task.positive), score)
