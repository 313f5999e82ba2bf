"""Strata of an audit: bands of the score, cut where rows are flagged, each cut again by the soft label.

The cuts share out √(p(1−p)), the doubt about the rows, in equal parts: a thousand rows that are surely negative need
one stratum, a hundred that could be either need several.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spu_core.trust.audit_population import Population

KNOWN = -1
FEWEST_ROWS = 10


@dataclass(frozen=True)
class Strata:
    """`score_edges` part the scores into bands (a row on an edge belongs below); `soft_edges` part each band by S."""

    score_edges: tuple[float, ...]
    soft_edges: tuple[tuple[float, ...], ...]

    @property
    def count(self) -> int:
        return sum(len(edges) + 1 for edges in self.soft_edges)

    def assign(self, population: Population) -> np.ndarray:
        """The stratum of each row, counted from low scores to high; −1 for rows that are known."""
        band = np.searchsorted(self.score_edges, population.score, side="left")
        stratum = np.full(population.size, KNOWN)
        first = 0
        for place, edges in enumerate(self.soft_edges):
            rows = population.is_open & (band == place)
            stratum[rows] = first + np.searchsorted(edges, population.soft_label[rows], side="left")
            first += len(edges) + 1
        return stratum

    @property
    def names(self) -> tuple[str, ...]:
        """What each stratum holds, in words."""
        scores, found = (-np.inf, *self.score_edges, np.inf), []
        for place, edges in enumerate(self.soft_edges):
            band = _range("score", scores[place], scores[place + 1])
            limits = (-np.inf, *edges, np.inf)
            found += [f"{band}, {_range('S', limits[at], limits[at + 1])}" for at in range(len(edges) + 1)]
        return tuple(name.removesuffix(", any S") for name in found)


def make_strata(population: Population, most: int) -> Strata:
    """At most about `most` strata of the rows that are not known.

    >>> rng = np.random.default_rng(0)
    >>> rows = Population.of(rng.random(500), rng.random(500).round(1), threshold=0.8)
    >>> strata = make_strata(rows, 6)
    >>> 0.8 in strata.score_edges, 2 <= strata.count <= 6
    (True, True)
    """
    rows = population.is_open
    score, soft_label = population.score[rows], population.soft_label[rows]
    doubt = np.sqrt(population.belief[rows] * (1.0 - population.belief[rows]))
    parts = 1 if most < 4 else 2 if most < 12 else 3
    edges = _score_edges(score, doubt, population.threshold, max(2, most // parts))
    band = np.searchsorted(edges, score, side="left")
    soft_edges = tuple(_cuts(soft_label[band == place], doubt[band == place], parts) for place in range(len(edges) + 1))
    return Strata(edges, soft_edges)


def _score_edges(score: np.ndarray, doubt: np.ndarray, threshold: float, bands: int) -> tuple[float, ...]:
    """The threshold is always an edge where rows lie on both sides, so that flagged rows are a union of strata."""
    above = score > threshold
    if not above.any() or above.all():
        return _cuts(score, doubt, bands)
    share = doubt[above].sum() / doubt.sum()
    upper = min(max(1, round(bands * share)), bands - 1)
    low = _cuts(score[~above], doubt[~above], bands - upper)
    return (*low, threshold, *_cuts(score[above], doubt[above], upper))


def _cuts(values: np.ndarray, doubt: np.ndarray, parts: int) -> tuple[float, ...]:
    """Edges that share out the doubt equally; fewer where values tie or a part would have hardly any rows."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(doubt[order])
    wanted = reached[-1] * np.arange(1, parts) / parts
    edges: list[float] = []
    before = 0
    for edge in np.unique(values[order][np.searchsorted(reached, wanted)]):
        below = int(np.count_nonzero(values <= edge))
        if below - before >= FEWEST_ROWS and values.size - below >= FEWEST_ROWS:
            edges.append(float(edge))
            before = below
    return tuple(edges)


def _range(name: str, low: float, high: float) -> str:
    if np.isinf(low):
        return f"any {name}" if np.isinf(high) else f"{name} ≤ {high:.3g}"
    return f"{name} > {low:.3g}" if np.isinf(high) else f"{low:.3g} < {name} ≤ {high:.3g}"
