"""The image experiment of Table 2: its soft labels, the image sets, and the training of the networks.

Soft labels follow generalized SCAR: given the class, S does not depend on the image. Images come from a folder of files
or from OpenML, and must have the checksum that the stored results were made with. Each trained network can be written
to a file at once, so that an interrupted run can continue.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from spu_core.checks import check_flags
from spu_core.errors import AssumptionError, TableError, nearest_hint
from spu_core.experiments.catalog import OnProgress, quiet
from spu_core.experiments.runners.uci import fetch_openml_frame
from spu_core.metrics import auc_spu_ceiling, auc_spu_interval, known_positive_auc_score
from spu_core.models import Features, SoftCnn
from spu_core.theory import ScarLink

LEVELS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
LARGEST_PRIOR = 15 / 28
"""For larger priors the probabilities of the negatives would sum to more than 1."""


@dataclass(frozen=True)
class PaperSoftLabels:
    """P(S = k/4) is 1/5 for each k in positives, and π(4−k) / (5k(1−π)) for k = 1, 2, 3 in negatives (else S = 0).

    Then P(Y=1|S=s) = s for s = ¼, ½, ¾, and S = 1 in positives only. S = 0 can be positive: see `positive_at_zero`.

    >>> labels = PaperSoftLabels(prior=0.1)
    >>> labels.negative.round(4).tolist()
    [0.9037, 0.0667, 0.0222, 0.0074, 0.0]
    >>> round(labels.link.perfect_level, 3), round(labels.ceiling, 3)
    (0.785, 0.979)
    """

    prior: float

    def __post_init__(self) -> None:
        if not 0.0 < self.prior < LARGEST_PRIOR:
            raise AssumptionError(
                f"The paper's soft labels need a share of positives between 0 and 15/28 = {LARGEST_PRIOR:.3f}, "
                f"got {self.prior:g}: beyond it P(S=0|Y=0) would be negative."
            )

    @property
    def positive(self) -> np.ndarray:
        """P(S = level | Y = 1)."""
        return np.full(5, 0.2)

    @property
    def negative(self) -> np.ndarray:
        """P(S = level | Y = 0)."""
        k = np.arange(1, 4)
        middle = self.prior * (4 - k) / (5 * k * (1 - self.prior))
        return np.concatenate([[1.0 - middle.sum()], middle, [0.0]])

    @property
    def link(self) -> ScarLink:
        """The link of Theorem 2 for these soft labels; π, S_P and S_N are known exactly."""
        return ScarLink(self.prior, float(self.positive @ LEVELS), float(self.negative @ LEVELS))

    @property
    def ceiling(self) -> float:
        """The ceiling of Theorem 1; only a score that knows S reaches it."""
        share = self.prior * self.positive + (1 - self.prior) * self.negative
        mean = float(share @ LEVELS)
        gap = float(share @ np.abs(LEVELS[:, None] - LEVELS) @ share)
        return 0.5 + gap / (4 * mean * (1 - mean))

    def draw(self, truth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One soft label per row, given its class only."""
        truth = check_flags(truth, None, "truth")
        soft_label = rng.choice(LEVELS, truth.size, p=self.negative)
        soft_label[truth] = rng.choice(LEVELS, int(truth.sum()), p=self.positive)
        return soft_label


# The target of each method: the paper's method and its two baselines.
TARGETS = {
    "RESULT": lambda soft_label: soft_label,
    "BL0": lambda soft_label: (soft_label == 1.0).astype(np.float64),
    "BL1": lambda soft_label: (soft_label > 0.0).astype(np.float64),
}


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images as rows of pixels (row by row, channels last, 0 to 255), and the class 0…9 of each."""

    name: str
    train: np.ndarray
    train_class: np.ndarray
    test: np.ndarray
    test_class: np.ndarray

    @property
    def digest(self) -> str:
        """sha256 of all pixels and classes, in this order."""
        content = sha256()
        for part in (self.train, self.train_class, self.test, self.test_class):
            content.update(np.ascontiguousarray(part, dtype=np.uint8).data)
        return content.hexdigest()


@dataclass(frozen=True)
class ImageOrigin:
    """Where an image set comes from: its OpenML number, the checksum of its content, how a folder is read."""

    title: str
    openml: int
    digest: str
    from_folder: Callable[[Path], ImageSet]
    from_frame: Callable[[Any], ImageSet]


def load_images(name: str, folder: Path | None, *, fetch: Callable[[int], Any] = fetch_openml_frame) -> ImageSet:
    """The image set of this name from a data folder or, without one, from OpenML; checked either way."""
    if name not in IMAGE_ORIGINS:
        raise TableError(f"There is no image set {name!r}. {nearest_hint(name, IMAGE_ORIGINS)}")
    origin = IMAGE_ORIGINS[name]
    images = origin.from_folder(folder / name) if folder is not None else _images_from_openml(origin, fetch)
    if images.digest != origin.digest:
        raise TableError(
            f"{origin.title} has the sha256 {images.digest[:12]}…, but the figures were made with "
            f"{origin.digest[:12]}…; get the original files again."
        )
    return images


def read_fashion_mnist(folder: Path) -> ImageSet:
    """60,000 + 10,000 grey images of 28×28 in the four files of their authors."""
    train, test = (_idx(folder / f"{part}-images-idx3-ubyte.gz", 16) for part in ("train", "t10k"))
    train_class, test_class = (_idx(folder / f"{part}-labels-idx1-ubyte.gz", 8) for part in ("train", "t10k"))
    return ImageSet("fashion-mnist", train.reshape(-1, 784), train_class, test.reshape(-1, 784), test_class)


def read_cifar10(folder: Path) -> ImageSet:
    """50,000 + 10,000 colour images of 32×32: sheets of 100×100 tiles, or the authors' binary version."""
    if (folder / "data_batch_1.bin").is_file():
        return _from_batches(folder)
    train = np.concatenate([_sheet(folder / f"data_batch_{batch}.webp") for batch in range(1, 6)])
    test = _sheet(folder / "test_batch.webp")
    with np.load(_present(folder / "labels.npz"), allow_pickle=False) as labels:
        return ImageSet("cifar10", train, labels["y_train"], test, labels["y_test"])


def channels_last(rows: np.ndarray) -> np.ndarray:
    """Reorder colour planes to colours pixel by pixel.

    >>> channels_last(np.arange(3072)[None])[0, :3].tolist()
    [0, 1024, 2048]
    """
    return np.ascontiguousarray(rows.reshape(-1, 3, 1024).transpose(0, 2, 1)).reshape(-1, 3072)


def _from_batches(folder: Path) -> ImageSet:
    """Each record is a class and three colour planes."""
    names = [*(f"data_batch_{batch}.bin" for batch in range(1, 6)), "test_batch.bin"]
    records = [np.fromfile(_present(folder / name), dtype=np.uint8).reshape(-1, 3073) for name in names]
    train, test = np.concatenate(records[:5]), records[5]
    return ImageSet("cifar10", channels_last(train[:, 1:]), train[:, 0], channels_last(test[:, 1:]), test[:, 0])


def _images_from_openml(origin: ImageOrigin, fetch: Callable[[int], Any]) -> ImageSet:
    try:
        return origin.from_frame(fetch(origin.openml))
    # scikit-learn does not wrap network, archive and checksum errors.
    except (OSError, ValueError) as problem:
        raise TableError(
            f"{origin.title} is not shipped with this program, and OpenML could not be asked for data set "
            f"{origin.openml} ({type(problem).__name__}: {problem}). Connect to the internet, or put the files into a "
            "folder and name it by --data or SPU_DATA."
        ) from None


def _frame_of(name: str, training: int, planes: bool) -> Callable[[Any], ImageSet]:
    """OpenML lists the training images first, then the test images, the class in the last column."""

    def read(frame: Any) -> ImageSet:
        pixels = frame.iloc[:, :-1].to_numpy(dtype=np.uint8)
        pixels = channels_last(pixels) if planes else pixels
        classes = frame.iloc[:, -1].astype(str).astype(np.uint8).to_numpy()
        return ImageSet(name, pixels[:training], classes[:training], pixels[training:], classes[training:])

    return read


def _idx(path: Path, header: int) -> np.ndarray:
    with gzip.open(_present(path)) as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def _sheet(path: Path) -> np.ndarray:
    from PIL import Image

    with Image.open(_present(path)) as sheet:
        pixels = np.asarray(sheet.convert("RGB"))
    tiles = pixels.reshape(100, 32, 100, 32, 3).swapaxes(1, 2)
    return np.ascontiguousarray(tiles).reshape(-1, 3072)


def _present(path: Path) -> Path:
    if not path.is_file():
        raise TableError(
            f"{path.name} is missing in the folder {path.parent.name!r} of the data folder; put it there, "
            "or name another folder by --data or SPU_DATA."
        )
    return path


IMAGE_ORIGINS: dict[str, ImageOrigin] = {
    "fashion-mnist": ImageOrigin(
        "Fashion-MNIST",
        40996,
        "ca3ab2a37f845e1b8ae23cab1b51749a3011ba3bf1d9016176d75cbaabac376f",
        read_fashion_mnist,
        _frame_of("fashion-mnist", 60_000, planes=False),
    ),
    "cifar10": ImageOrigin(
        "CIFAR-10",
        40927,
        "80387ddb9a0edf3fc4a964ee3770296169bb26a651050df20035579673099660",
        read_cifar10,
        _frame_of("cifar10", 50_000, planes=True),
    ),
}


@dataclass(frozen=True)
class NetworkSetup:
    """How the network of one image set is trained, and how many training images are held out for validation.

    `train` and `epochs` cut the training short; None takes all images and the rounds of the network.
    """

    network: dict[str, Any]
    validation: int = 5_000
    train: int | None = None
    epochs: int | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the network; `epochs` replaces the rounds of the setup."""
        return self.network if self.epochs is None else {**self.network, "rounds": self.epochs}


# Fixed before the stored runs; the same for all three methods, without early stopping.
SETUPS = {
    "fashion-mnist": NetworkSetup({"rounds": 4, "first_stride": 2}),
    "cifar10": NetworkSetup({"rounds": 6, "first_stride": 1, "flip": True}),
}


@dataclass(frozen=True)
class ImageTask:
    """Which classes count as positive."""

    images: str
    positive: tuple[int, ...]

    @property
    def classes(self) -> str:
        """As the paper writes them."""
        return ",".join(map(str, self.positive))


TASKS = (
    ImageTask("fashion-mnist", (0,)),
    ImageTask("fashion-mnist", (0, 2, 4, 6)),
    ImageTask("cifar10", (0,)),
    ImageTask("cifar10", (0, 1, 8, 9)),
)


@dataclass(frozen=True)
class CellRow:
    """One trained network: its true AUC on test images, and metrics on validation images with soft labels.

    `predicted_auc` is the true AUC that Theorem 2 implies from `auc_spu`; `validation_auc` is the truth that it
    should meet, on the same images. `train_images` is None where all but the held-out ones were used, `epochs` where
    they are those of the setup.
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


@dataclass(frozen=True, eq=False)
class ImageCell:
    """The images of one task with soft labels drawn by one seed, split by class into training and validation."""

    task: ImageTask
    images: ImageSet
    seed: int
    setup: NetworkSetup

    def rows(self, threads: int = 1) -> Iterator[CellRow]:
        """Train and measure the methods one after the other."""
        rng = np.random.default_rng([self.seed, len(self.task.positive), len(self.task.images)])
        truth = np.isin(self.images.train_class, self.task.positive)
        labels = PaperSoftLabels(float(truth.mean()))
        soft_label = labels.draw(truth, rng)
        train, held_out = split_by_class(self.images.train_class, self.setup, rng)
        for method in TARGETS:
            with torch_threads(threads):
                yield self._row(method, labels, soft_label, train, held_out)

    def _row(
        self, method: str, labels: PaperSoftLabels, soft_label: np.ndarray, train: np.ndarray, held_out: np.ndarray
    ) -> CellRow:
        started = process_time()
        model = SoftCnn(**self.setup.settings, seed=self.seed)
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
            train_images=self.setup.train,
            epochs=self.setup.epochs,
        )


def split_by_class(classes: np.ndarray, setup: NetworkSetup, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(training, validation) positions, stratified by class, so that π stays the same."""
    order = rng.permutation(classes.size)
    shares = [order[classes[order] == each] for each in np.unique(classes)]
    held_out = setup.validation // len(shares)
    size = None if setup.train is None else held_out + setup.train // len(shares)
    train = np.concatenate([part[held_out:size] for part in shares])
    return np.sort(train), np.sort(np.concatenate([part[:held_out] for part in shares]))


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Set the number of torch threads, and restore it afterwards."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _true_auc(classes: np.ndarray, task: ImageTask, score: np.ndarray) -> float:
    return known_positive_auc_score(np.isin(classes, task.positive), score)


@dataclass(frozen=True)
class ImagePlan:
    """Which tasks to run with how many seeds; `train` and `epochs` cut the training short."""

    seeds: int = 3
    train: int | None = None
    epochs: int | None = None
    threads: int = 1
    tasks: Sequence[ImageTask] = TASKS

    def setup(self, images: str) -> NetworkSetup:
        """The setup of an image set at this size.

        >>> ImagePlan(epochs=2).setup("cifar10").settings["rounds"]
        2
        """
        return replace(SETUPS[images], train=self.train, epochs=self.epochs)

    def made(self, row: CellRow) -> bool:
        """Whether a row comes from a plan of this size."""
        return (row.train_images, row.epochs) == (self.train, self.epochs)

    def cells(self) -> Iterator[tuple[int, ImageTask]]:
        """Seeds are the outer loop, so that an interrupted run has complete seeds."""
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
        for row in ImageCell(task, loaded[task.images], seed, plan.setup(task.images)).rows(plan.threads):
            rows.append(row)
            if keep is not None:
                append_row(keep, row)
    return rows


def append_row(path: Path, row: CellRow) -> None:
    """One line of JSON at the end of a file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(row)) + "\n")


def read_rows(path: Path) -> list[CellRow]:
    """The rows that were written so far; an incomplete last line is left out."""
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
