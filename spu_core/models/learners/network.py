"""A three-layer neural network on soft labels, in plain NumPy, equal to the bit for equal seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit

from spu_core.models.features import Features
from spu_core.models.learners.base import SoftLearner, one_blas_thread
from spu_core.models.learners.network_parts import Adam, Layers, Loss, NonNegativePu, soft_cross_entropy
from spu_core.models.linear_view import LinearView
from spu_core.models.settings import SEED, Setting
from spu_core.models.state import Blob, State, loads
from spu_core.models.watch import BestRound, Pulse, Watch

BLOCK = 4096


@loads("neural_net")
class SoftNetwork(SoftLearner):
    """Two rectified hidden layers and a logistic output, trained by Adam on mini-batches of soft cross-entropy."""

    key = "neural_net"
    title = "Neural network"
    stops_early = True
    settings: ClassVar[tuple[Setting, ...]] = (
        Setting(name="rounds", default=30, low=1, high=10_000, log=True, help="Passes over the rows."),
        Setting(
            name="hidden",
            default=64,
            low=1,
            high=4096,
            log=True,
            tunable=True,
            help="Units of each hidden layer.",
        ),
        Setting(
            name="learning_rate",
            default=0.002,
            low=1e-6,
            high=1.0,
            log=True,
            tunable=True,
            help="Step of Adam.",
        ),
        Setting(
            name="weight_decay",
            default=0.01,
            low=0.0,
            high=100.0,
            tunable=True,
            help="Pull of the weights towards 0.",
        ),
        Setting(name="batch_rows", default=256, low=1, high=1_000_000, log=True, help="Rows per step."),
        SEED,
    )

    def __init__(
        self,
        *,
        rounds: int = 30,
        hidden: int = 64,
        learning_rate: float = 0.002,
        weight_decay: float = 0.01,
        batch_rows: int = 256,
        seed: int = 0,
    ) -> None:
        self.rounds = rounds
        self.hidden = hidden
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_rows = batch_rows
        self.seed = seed

    def _learn(self, features: Features, target: np.ndarray, weight: np.ndarray | None, watch: Watch) -> None:
        with one_blas_thread():
            self._descend(features, target, np.ones(target.size) if weight is None else weight, watch)

    def _descend(self, features: Features, target: np.ndarray, weight: np.ndarray, watch: Watch) -> None:
        self.view_ = features.linear_view()
        rows = self.view_.transform_rows(features).astype(np.float32)
        rng = np.random.default_rng(self.seed)
        share = float(np.average(target, weights=weight))
        self.layers_ = Layers.start(rows.shape[1], (self.hidden, self.hidden), self._start_share(share), rng)
        adam = Adam(self.layers_, self.learning_rate, self.weight_decay)
        loss = self._loss(target, weight)
        best = BestRound(watch.stop.patience if watch.stop else 0)
        kept, pulse = self.layers_, Pulse(watch, self.rounds)
        for done in range(1, self.rounds + 1):
            # The rate falls to zero along a half cosine, so that the last steps settle instead of wandering.
            adam.rate = self.learning_rate * 0.5 * (1 + np.cos(np.pi * (done - 1) / self.rounds))
            for batch in self._batches(target, rng):
                outputs = self.layers_.forward(rows[batch])
                _, slope = loss(outputs[-1][:, 0].astype(np.float64), target[batch], weight[batch])
                adam.update(self.layers_.backward(outputs, slope))
                pulse(done - 1)
            watched = None
            if watch.stop is not None:
                watched = watch.stop(self._score(watch.stop.features.select(features.active)))
                kept = self.layers_.copy() if best.update(done, watched) else kept
            watch.report(done, self.rounds, watched)
            if watch.stop is not None and best.is_over(done):
                break
        self.layers_ = kept
        self.rounds_ = best.iteration if watch.stop else self.rounds

    def _loss(self, target: np.ndarray, weight: np.ndarray) -> Loss:
        return soft_cross_entropy

    def _start_share(self, share: float) -> float:
        return share

    def _batches(self, target: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
        order = rng.permutation(target.size)
        yield from np.array_split(order, max(1, target.size // self.batch_rows))

    def _score(self, features: Features) -> np.ndarray:
        """In blocks of one size, the last one filled up: a BLAS product may round by the number of rows."""
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
        model = cls(**description["settings"])
        model.rounds_ = description["rounds"]
        model.view_ = LinearView.from_state(blobs)
        model.active_ = model.view_.active
        weights, biases = ([np.asarray(blobs[f"{name}{depth}"]) for depth in range(3)] for name in ("weight", "bias"))
        model.layers_ = Layers(weights, biases)
        model.classes_ = np.array([0, 1])
        return model


@loads("nnpu_net")
class NnpuNetwork(SoftNetwork):
    """The same network under the non-negative PU risk; the target is the label flag."""

    key = "nnpu_net"
    title = "Neural network, nnPU risk"
    settings = (
        *SoftNetwork.settings,
        Setting(
            name="prior",
            default=0.2,
            low=1e-6,
            high=1 - 1e-6,
            help="Share of positives among all rows, labelled ones included.",
        ),
    )

    def __init__(
        self,
        *,
        rounds: int = 30,
        hidden: int = 64,
        learning_rate: float = 0.002,
        weight_decay: float = 0.01,
        batch_rows: int = 256,
        seed: int = 0,
        prior: float = 0.2,
    ) -> None:
        super().__init__(
            rounds=rounds,
            hidden=hidden,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            batch_rows=batch_rows,
            seed=seed,
        )
        self.prior = prior

    def _loss(self, target: np.ndarray, weight: np.ndarray) -> Loss:
        labeled = float(np.average(target, weights=weight))
        return NonNegativePu(max(0.0, (self.prior - labeled) / (1.0 - labeled)))

    def _start_share(self, share: float) -> float:
        return self.prior

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
