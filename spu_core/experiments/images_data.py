"""Fashion-MNIST and CIFAR-10 as pixel columns with their ten classes, from a folder of files or from OpenML.

Whatever the form, the pixels and classes must have the checksum that the stored figures were made with.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from spu_core.errors import TableError, nearest_hint
from spu_core.experiments.data import fetch_openml_frame


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
    if name not in ORIGINS:
        raise TableError(f"There is no image set {name!r}. {nearest_hint(name, ORIGINS)}")
    origin = ORIGINS[name]
    images = origin.from_folder(folder / name) if folder is not None else _from_openml(origin, fetch)
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
    """Colour planes one after the other become colours pixel by pixel.

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


def _from_openml(origin: ImageOrigin, fetch: Callable[[int], Any]) -> ImageSet:
    try:
        return origin.from_frame(fetch(origin.openml))
    # scikit-learn lets network, archive and checksum problems through as they are.
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


ORIGINS: dict[str, ImageOrigin] = {
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
