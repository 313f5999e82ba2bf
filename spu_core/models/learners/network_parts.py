"""A small neural network in NumPy: layers, losses, and Adam."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from scipy.special import expit, logit

# A loss takes (margin, target, weight) of a batch and returns (value, slope of the value in each margin).
Loss = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[float, np.ndarray]]


def soft_cross_entropy(margin: np.ndarray, target: np.ndarray, weight: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean of −[s ln g + (1−s) ln(1−g)] with g = logistic(margin)."""
    total = weight.sum()
    value = (weight * (np.logaddexp(0.0, margin) - target * margin)).sum() / total
    return float(value), weight * (expit(margin) - target) / total


@dataclass(frozen=True)
class NonNegativePu:
    """nnPU risk π R_P⁺ + max(0, R_U⁻ − π R_P⁻) with the sigmoid loss; π is the prior among the *unlabelled* rows.

    Unlabelled rows here exclude the labelled ones, so the share of positives among them is
    π_U = (π − ρ)/(1 − ρ) and not π. Where the negative part falls below 0, only that part is climbed back.
    """

    unlabeled_prior: float

    def __call__(self, margin: np.ndarray, target: np.ndarray, weight: np.ndarray) -> tuple[float, np.ndarray]:
        positive = _shares(weight * target)
        unlabeled = _shares(weight * (1.0 - target))
        as_positive, as_negative = expit(-margin), expit(margin)
        slope = as_positive * as_negative
        gain = self.unlabeled_prior * (positive * as_positive).sum()
        rest = (unlabeled * as_negative).sum() - self.unlabeled_prior * (positive * as_negative).sum()
        rest_slope = (unlabeled - self.unlabeled_prior * positive) * slope
        if rest < 0:
            return float(gain), -rest_slope
        return float(gain + rest), rest_slope - self.unlabeled_prior * positive * slope


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
        """For scoring: rounding then stays far below what anyone compares."""
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
