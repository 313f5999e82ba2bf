"""A convolutional network on soft labels for pixel columns; needs the extra `vision` (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import expit, logit

from spu_core.errors import TrainingError
from spu_core.models.features import Features
from spu_core.models.fit_inputs import BestRound, FitMonitor, ThrottledReport
from spu_core.models.learners.base import SoftLearner
from spu_core.models.model import Blob, State
from spu_core.models.settings import SEED, setting

BLOCK = 512


class SoftCnn(SoftLearner):
    """Three convolutions with batch norm for square images whose pixels are the columns (row by row, channels last).

    AdamW with a one-cycle rate on mini-batches of soft cross-entropy. Grey images of 28×28 have 784 columns,
    colour images of 32×32 have 3,072; other numbers of columns are refused.
    """

    key = "cnn"
    title = "Convolutional network"
    stops_early = True

    rounds: int = setting(default=4, low=1, high=1_000, log=True, help="Passes over the images.")
    learning_rate: float = setting(
        default=0.003, low=1e-6, high=1.0, log=True, tunable=True, help="Peak of the one-cycle rate."
    )
    width: int = setting(default=16, low=1, high=512, help="Channels of the first convolution.")
    first_stride: int = setting(
        default=2, low=1, high=2, help="2 halves the image at once (28×28), 1 keeps it (32×32)."
    )
    flip: bool = setting(default=False, help="Show each image mirrored half of the time.")
    batch_rows: int = setting(default=128, low=2, high=100_000, log=True, help="Images per step.")
    seed: int = setting(SEED)

    def _learn(self, features: Features, target: np.ndarray, weight: np.ndarray | None, monitor: FitMonitor) -> None:
        torch = _torch()
        self.shape_ = image_shape(features.active.size)
        # The random state of torch is global; it is restored after the fit.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            matrix = features.matrix
            self.center_, self.scale_ = float(np.nanmean(matrix)), float(np.nanstd(matrix)) or 1.0
            share = float(np.clip(np.average(target, weights=weight), 1e-6, 1 - 1e-6))
            self.network_ = self._network(float(logit(share)))
            weights = np.ones(target.size) if weight is None else weight
            self._train(features, target, weights, monitor)

    def _train(self, features: Features, target: np.ndarray, weight: np.ndarray, monitor: FitMonitor) -> None:
        torch = _torch()
        images = self._images(features.matrix)
        target_, weight_ = (
            torch.from_numpy(target.astype(np.float32)),
            torch.from_numpy(weight.astype(np.float32)),
        )
        steps = max(1, target.size // self.batch_rows)
        optimiser = torch.optim.AdamW(self.network_.parameters(), lr=self.learning_rate, weight_decay=1e-4)
        cycle = torch.optim.lr_scheduler.OneCycleLR(
            optimiser, self.learning_rate, total_steps=steps * self.rounds + 1, pct_start=0.25
        )
        best, kept = BestRound(monitor.stop.patience if monitor.stop else 0), None
        rng, report_batch = np.random.default_rng(self.seed), ThrottledReport(monitor, self.rounds)
        for done in range(1, self.rounds + 1):
            self.network_.train()
            for batch in np.array_split(rng.permutation(target.size), steps):
                shown = images[batch]
                if self.flip:
                    mirrored = torch.from_numpy(rng.random(batch.size) < 0.5)
                    shown[mirrored] = shown[mirrored].flip(3)
                margin = self.network_(shown)[:, 0]
                losses = torch.nn.functional.binary_cross_entropy_with_logits(margin, target_[batch], reduction="none")
                optimiser.zero_grad()
                ((losses * weight_[batch]).sum() / weight_[batch].sum()).backward()
                optimiser.step()
                cycle.step()
                report_batch(done - 1)
            watched = None
            if monitor.stop is not None:
                watched = monitor.stop(self._score(monitor.stop.features.select(features.active)))
                if best.update(done, watched):
                    kept = {name: value.clone() for name, value in self.network_.state_dict().items()}
            monitor.report(done, self.rounds, watched)
            if monitor.stop is not None and best.is_over(done):
                break
        if kept is not None:
            self.network_.load_state_dict(kept)
        self.rounds_ = best.iteration if monitor.stop else self.rounds

    def _score(self, features: Features) -> np.ndarray:
        torch = _torch()
        self.network_.eval()
        margins = []
        with torch.no_grad():
            for start in range(0, len(features), BLOCK):
                part = features.take(np.arange(start, min(start + BLOCK, len(features)))).matrix
                # Blocks of one size: the scores of a row must not depend on how many come with it.
                block = np.zeros((BLOCK, part.shape[1]), dtype=np.float32)
                block[: len(part)] = part
                margins.append(self.network_(self._images(block))[: len(part), 0].numpy())
        return expit(np.concatenate(margins).astype(np.float64))

    def _images(self, matrix: np.ndarray) -> Any:
        """Batch × channels × height × width; stored channels last as the columns are, which convolves faster."""
        side, _, channels = self.shape_
        filled = np.nan_to_num((matrix.astype(np.float32) - self.center_) / self.scale_, nan=0.0)
        return _torch().from_numpy(filled.astype(np.float32).reshape(-1, side, side, channels)).permute(0, 3, 1, 2)

    def _network(self, start: float) -> Any:
        torch = _torch()
        nn = torch.nn
        sizes = (self.shape_[2], self.width, 2 * self.width, 4 * self.width)
        layers: list[Any] = []
        for depth, (a, b) in enumerate(pairwise(sizes)):
            first = depth == 0 and self.first_stride == 2
            kernel, stride = (5, 2) if first else (3, 1)
            layers += [nn.Conv2d(a, b, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(b), nn.ReLU()]
            layers += [] if first else [nn.MaxPool2d(2, ceil_mode=True)]
        head = nn.Linear(sizes[-1], 1)
        nn.init.constant_(head.bias, start)
        network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)
        return network.to(memory_format=torch.channels_last)

    def to_state(self) -> State:
        """Plain arrays of all layers."""
        own = {"center": self.center_, "scale": self.scale_, "shape": list(self.shape_)}
        blobs: dict[str, Blob] = {name: value.numpy().copy() for name, value in self.network_.state_dict().items()}
        return {**self.describe(), **own, "rounds": self.rounds_, "active": self.active_.tolist()}, blobs

    @classmethod
    def from_state(cls, description: Mapping[str, Any], blobs: Mapping[str, Blob]) -> SoftCnn:
        torch = _torch()
        model = cls.restored(description)
        model.center_, model.scale_ = description["center"], description["scale"]
        model.shape_ = tuple(description["shape"])
        model.network_ = model._network(0.0)
        model.network_.load_state_dict({name: torch.from_numpy(np.array(blob)) for name, blob in blobs.items()})
        return model


def image_shape(pixels: int) -> tuple[int, int, int]:
    """(height, width, channels) of a square grey or colour image with this many numbers.

    >>> image_shape(784), image_shape(3072)
    ((28, 28, 1), (32, 32, 3))
    >>> image_shape(10)
    Traceback (most recent call last):
    spu_core.errors.TrainingError: 10 pixel columns make no square image of 1 or 3 channels, at least 8 pixels wide.
    """
    for channels in (1, 3):
        side = round((pixels / channels) ** 0.5)
        if side >= 8 and side * side * channels == pixels:
            return side, side, channels
    raise TrainingError(f"{pixels:,} pixel columns make no square image of 1 or 3 channels, at least 8 pixels wide.")


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise TrainingError(
            "The convolutional network needs torch, which is not installed; "
            "install the extra: pip install 'spu-studio[vision]'."
        ) from None
    return torch
