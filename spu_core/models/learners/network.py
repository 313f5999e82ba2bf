"""Neural networks on soft labels.

The three-layer network is plain NumPy, equal to the bit for equal seeds; docs/architecture.md says why it is not
scikit-learn's `MLPClassifier`. The convolutional network for pixel columns needs the extra `vision` (torch).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import expit, logit

from spu_core.errors import TrainingError
from spu_core.models.features import Features, LinearView
from spu_core.models.learners.base import SoftLearner, one_blas_thread
from spu_core.models.model import BestRound, Blob, FitMonitor, State, ThrottledReport
from spu_core.models.settings import SEED, setting

BLOCK = 4096
# The share of positives that the nnPU risk pretends.
BALANCED = 0.5


class SoftNetwork(SoftLearner):
    """Two rectified hidden layers and a logistic output, trained by Adam on mini-batches of soft cross-entropy."""

    key = "neural_net"
    title = "Neural network"
    stops_early = True

    rounds: int = setting(default=30, low=1, high=10_000, log=True, help="Passes over the rows.")
    hidden: int = setting(default=64, low=1, high=4096, log=True, tunable=True, help="Units of each hidden layer.")
    learning_rate: float = setting(default=0.002, low=1e-6, high=1.0, log=True, tunable=True, help="Step of Adam.")
    weight_decay: float = setting(
        default=0.01, low=0.0, high=100.0, tunable=True, help="Pull of the weights towards 0."
    )
    batch_rows: int = setting(default=256, low=1, high=1_000_000, log=True, help="Rows per step.")
    seed: int = setting(SEED)

    def _learn(self, features: Features, target: np.ndarray, weight: np.ndarray | None, monitor: FitMonitor) -> None:
        with one_blas_thread():
            self._train(features, target, np.ones(target.size) if weight is None else weight, monitor)

    def _train(self, features: Features, target: np.ndarray, weight: np.ndarray, monitor: FitMonitor) -> None:
        self.view_ = features.linear_view()
        rows = self.view_.transform_rows(features).astype(np.float32)
        rng = np.random.default_rng(self.seed)
        share = float(np.average(target, weights=weight))
        self.layers_ = Layers.start(rows.shape[1], (self.hidden, self.hidden), self._start_share(share), rng)
        adam = Adam(self.layers_, self.learning_rate, self.weight_decay)
        loss = self._loss(target, weight)
        best = BestRound(monitor.stop.patience if monitor.stop else 0)
        kept, report_batch = self.layers_, ThrottledReport(monitor, self.rounds)
        for done in range(1, self.rounds + 1):
            # The rate falls to zero along a half cosine, so that the last steps converge.
            adam.rate = self.learning_rate * 0.5 * (1 + np.cos(np.pi * (done - 1) / self.rounds))
            for batch in self._batches(target, rng):
                outputs = self.layers_.forward(rows[batch])
                _, slope = loss(outputs[-1][:, 0].astype(np.float64), target[batch], weight[batch])
                adam.update(self.layers_.backward(outputs, slope))
                report_batch(done - 1)
            watched = None
            if monitor.stop is not None:
                watched = monitor.stop(self._score(monitor.stop.features.select(features.active)))
                kept = self.layers_.copy() if best.update(done, watched) else kept
            monitor.report(done, self.rounds, watched)
            if monitor.stop is not None and best.is_over(done):
                break
        self.layers_ = kept
        self.rounds_ = best.iteration if monitor.stop else self.rounds

    def _loss(self, target: np.ndarray, weight: np.ndarray) -> Loss:
        return soft_cross_entropy

    def _start_share(self, share: float) -> float:
        return share

    def _batches(self, target: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
        order = rng.permutation(target.size)
        yield from np.array_split(order, max(1, target.size // self.batch_rows))

    def _score(self, features: Features) -> np.ndarray:
        """In blocks of one size: the rounding of a BLAS product may depend on the number of rows."""
        layers, score = self.layers_.as_double(), np.empty(len(features))
        for start in range(0, len(features), BLOCK):
            part = np.arange(start, min(start + BLOCK, len(features)))
            rows = np.zeros((BLOCK, self.view_.width))
            rows[: part.size] = self.view_.transform_rows(features.take(part))
            score[part] = expit(layers.forward(rows)[-1][: part.size, 0])
        return score

    def to_state(self) -> State:
        """Plain arrays: the layers and the linear view."""
        layers = {f"weight{depth}": part for depth, part in enumerate(self.layers_.weights)}
        layers |= {f"bias{depth}": part for depth, part in enumerate(self.layers_.biases)}
        return {**self.describe(), "rounds": self.rounds_}, {**layers, **self.view_.to_state()}

    @classmethod
    def from_state(cls, description: Mapping[str, Any], blobs: Mapping[str, Blob]) -> SoftNetwork:
        model = cls.restored(description)
        model.view_ = LinearView.from_state(blobs)
        model.active_ = model.view_.active
        weights, biases = ([np.asarray(blobs[f"{name}{depth}"]) for depth in range(3)] for name in ("weight", "bias"))
        model.layers_ = Layers(weights, biases)
        return model


class NnpuNetwork(SoftNetwork):
    """The same network under the non-negative PU risk; the target is the label flag."""

    key = "nnpu_net"
    title = "Neural network, nnPU risk"

    prior: float = setting(
        default=0.2, low=1e-6, high=1 - 1e-6, help="Share of positives among all rows, labelled ones included."
    )

    def _loss(self, target: np.ndarray, weight: np.ndarray) -> Loss:
        labeled = float(np.average(target, weights=weight))
        return NonNegativePu(max(0.0, (self.prior - labeled) / (1.0 - labeled)))

    def _start_share(self, share: float) -> float:
        return BALANCED

    def _batches(self, target: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Every batch holds its share of labelled rows: a batch without one has no risk to estimate."""
        count = max(1, target.size // self.batch_rows)
        labeled, rest = np.flatnonzero(target > 0), np.flatnonzero(target == 0)
        rest_parts = np.array_split(rng.permutation(rest), count)
        size = max(labeled.size / count, 16)
        for part in rest_parts:
            # With few labels each batch draws from all of them.
            picked = rng.choice(labeled, int(np.ceil(size)), replace=size * count > labeled.size + count)
            yield np.concatenate([picked, part])


# A loss takes (margin, target, weight) of a batch and returns (value, slope of the value in each margin).
Loss = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[float, np.ndarray]]


def soft_cross_entropy(margin: np.ndarray, target: np.ndarray, weight: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean of −[s ln g + (1−s) ln(1−g)] with g = logistic(margin)."""
    total = weight.sum()
    value = (weight * (np.logaddexp(0.0, margin) - target * margin)).sum() / total
    return float(value), weight * (expit(margin) - target) / total


@dataclass(frozen=True)
class NonNegativePu:
    """nnPU risk ½ R_P⁺ + ½ max(0, R_U⁻ − π R_P⁻) / (1 − π) with the sigmoid loss; π is the prior of *unlabelled* rows.

    Both classes have the weight ½ (Su, Chen and Xu 2021), whatever π is: weighted by π, as Kiryo and others have it,
    the best network for rare positives calls every row negative, and what is left of its scores can rank backwards.

    Unlabelled rows here exclude the labelled ones, so the share of positives among them is
    π_U = (π − ρ)/(1 − ρ) and not π. Where the negative part falls below 0, the step goes
    against the gradient of that part only.
    """

    unlabeled_prior: float

    def __call__(self, margin: np.ndarray, target: np.ndarray, weight: np.ndarray) -> tuple[float, np.ndarray]:
        positive = _shares(weight * target)
        unlabeled = _shares(weight * (1.0 - target))
        as_positive, as_negative = expit(-margin), expit(margin)
        slope = as_positive * as_negative
        negative = (unlabeled - self.unlabeled_prior * positive) / (1.0 - self.unlabeled_prior)
        gain, rest = BALANCED * (positive * as_positive).sum(), (1.0 - BALANCED) * (negative * as_negative).sum()
        rest_slope = (1.0 - BALANCED) * negative * slope
        if rest < 0:
            return float(gain), -rest_slope
        return float(gain + rest), rest_slope - BALANCED * positive * slope


@dataclass
class Layers:
    """Weights and biases of a network with rectified hidden layers and one output, the margin."""

    weights: list[np.ndarray]
    biases: list[np.ndarray]

    @classmethod
    def start(cls, width: int, hidden: tuple[int, ...], share: float, rng: np.random.Generator) -> Layers:
        """He's random start; the output starts at logit(share)."""
        sizes = (width, *hidden, 1)
        weights = [
            (rng.standard_normal((a, b)) * np.sqrt(2.0 / max(a, 1))).astype(np.float32) for a, b in pairwise(sizes)
        ]
        weights[-1] *= np.float32(0.1)
        biases = [np.zeros(size, dtype=np.float32) for size in sizes[1:]]
        biases[-1][:] = logit(np.clip(share, 1e-6, 1 - 1e-6))
        return cls(weights, biases)

    def forward(self, rows: np.ndarray) -> list[np.ndarray]:
        """The output of every layer; the last one is a column of margins."""
        outputs = [rows]
        for depth, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True), start=1):
            out = outputs[-1] @ weight + bias
            outputs.append(out if depth == len(self.weights) else np.maximum(out, 0.0))
        return outputs

    def backward(self, outputs: list[np.ndarray], slope: np.ndarray) -> list[np.ndarray]:
        """Slopes of the loss in weights and biases, in the order of `parameters`."""
        error = slope.astype(np.float32)[:, None]
        in_weights: list[np.ndarray] = []
        in_biases: list[np.ndarray] = []
        for depth in range(len(self.weights) - 1, -1, -1):
            in_weights.insert(0, outputs[depth].T @ error)
            in_biases.insert(0, error.sum(axis=0))
            if depth:
                error = (error @ self.weights[depth].T) * (outputs[depth] > 0)
        return in_weights + in_biases

    @property
    def parameters(self) -> list[np.ndarray]:
        return self.weights + self.biases

    def as_double(self) -> Layers:
        """The same network in double precision, for scoring."""
        return Layers([w.astype(np.float64) for w in self.weights], [b.astype(np.float64) for b in self.biases])

    def copy(self) -> Layers:
        return Layers([w.copy() for w in self.weights], [b.copy() for b in self.biases])


@dataclass
class Adam:
    """Adam with decoupled weight decay on the weights (not the biases)."""

    layers: Layers
    rate: float
    decay: float
    step: int = 0
    mean: list[np.ndarray] = field(init=False)
    square: list[np.ndarray] = field(init=False)

    def __post_init__(self) -> None:
        self.mean = [np.zeros_like(part) for part in self.layers.parameters]
        self.square = [np.zeros_like(part) for part in self.layers.parameters]

    def update(self, slopes: list[np.ndarray]) -> None:
        self.step += 1
        rate = self.rate * np.sqrt(1 - 0.999**self.step) / (1 - 0.9**self.step)
        for place, (part, slope) in enumerate(zip(self.layers.parameters, slopes, strict=True)):
            self.mean[place] += np.float32(0.1) * (slope - self.mean[place])
            self.square[place] += np.float32(0.001) * (slope * slope - self.square[place])
            if part.ndim == 2:
                part *= np.float32(1 - self.rate * self.decay)
            part -= np.float32(rate) * self.mean[place] / (np.sqrt(self.square[place]) + np.float32(1e-8))


def _shares(weight: np.ndarray) -> np.ndarray:
    total = weight.sum()
    return weight / total if total > 0 else weight


IMAGE_BLOCK = 512


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
            for start in range(0, len(features), IMAGE_BLOCK):
                part = features.take(np.arange(start, min(start + IMAGE_BLOCK, len(features)))).matrix
                # Blocks of one size: the scores of a row must not depend on how many come with it.
                block = np.zeros((IMAGE_BLOCK, part.shape[1]), dtype=np.float32)
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
