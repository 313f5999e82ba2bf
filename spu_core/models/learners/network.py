"""A three-layer neural network on soft labels, in plain NumPy, equal to the bit for equal seeds.

docs/architecture.md says why it is not scikit-learn's `MLPClassifier`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import expit, logit

from spu_core.models.features import Features, LinearView
from spu_core.models.fit_inputs import BestRound, FitMonitor, ThrottledReport
from spu_core.models.learners.base import SoftLearner, one_blas_thread
from spu_core.models.model import Blob, State
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
