"""Appendix A.2 on 1e7 users read in chunks: passes over the (n, k) columns, time, and the certificate of the prior."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from spu_core.tables.simulators import AntiCheatConfig, simulate_anti_cheat
from spu_core.theory.check_prior import CheckCounts, CheckPrior, fit_check_prior_to_counts
from tests.benchmarks.harness import BenchRow, alternate

USERS, CHUNK, DAYS = 10_000_000, 500_000, 30


class Stream:
    """Records of users that can only be read from beginning to end; it counts how often that was done."""

    def __init__(self, users: int = USERS) -> None:
        rng = np.random.default_rng(0)
        self.checks = rng.integers(0, DAYS + 1, users).astype(np.int16)
        is_positive = rng.random(users) < 0.1
        chance = np.where(is_positive, rng.beta(2, 6, users), rng.beta(20, 2, users))
        self.passes_column = rng.binomial(self.checks, chance).astype(np.int16)
        self.passes = 0

    def chunks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        self.passes += 1
        for start in range(0, self.checks.size, CHUNK):
            rows = slice(start, start + CHUNK)
            yield self.checks[rows], self.passes_column[rows]


def fit(stream: Stream) -> CheckPrior:
    """The prior in one pass: after counting, only the distinct records matter."""
    return fit_check_prior_to_counts(count(stream))


def count(stream: Stream) -> CheckCounts:
    """The only work that grows with the number of users."""
    counts = CheckCounts()
    for checks, passes in stream.chunks():
        counts = counts.update(checks, passes)
    return counts


def label(stream: Stream, prior: CheckPrior) -> float:
    """Mean soft label in one more pass."""
    total = 0.0
    for checks, passes in stream.chunks():
        total += float(np.where(passes < checks, 1.0 - prior.posterior_mean(checks, passes), 0.0).sum())
    return total / stream.checks.size


def count_by_hand(stream: Stream) -> np.ndarray:
    """The least that any method must do: one table of all (n, k)."""
    cell = stream.checks.astype(np.int64) * (DAYS + 1) + stream.passes_column
    return np.bincount(cell, minlength=(DAYS + 1) ** 2)


def rows() -> list[BenchRow]:
    stream = Stream()
    start = time.process_time()
    prior = fit(stream)
    label(stream, prior)
    seconds, passes = time.process_time() - start, stream.passes
    cpu = alternate({"count": lambda: count(stream), "by hand": lambda: count_by_hand(stream)}, repeats=3)
    start = time.process_time()
    simulate_anti_cheat(AntiCheatConfig(players=1_000_000))
    simulation = time.process_time() - start
    return [
        BenchRow("A.2: passes over 1e7 users, fit and labels", passes, 40, "at most", "passes"),
        BenchRow("A.2: certificate of the prior", prior.certificate, 1e-8, "at most", ""),
        BenchRow("A.2: fit and labels of 1e7 users", seconds, 30, "at most", "s"),
        BenchRow("A.2: counting with all checks, against by hand", cpu["count"] / cpu["by hand"], 3, "at most"),
        BenchRow("Anti-cheat season of 1e6 players", simulation, 30, "at most", "s"),
    ]
