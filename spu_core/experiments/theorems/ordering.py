"""Theorem 3: under a strictly increasing link the best order by AUC_SPU is the best order.

Two limits: where the link is flat, as under rules that fire or not, ROC_SPU cannot see the order of the rows; and a
better AUC_SPU that is not the best proves nothing. Everything is exact: X takes finitely many values, so
AUC and AUC_SPU are sums, not samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from spu_core.experiments.result import Claim, ResultTable
from spu_core.experiments.theorems.part import Part, rounded
from spu_core.metrics import auc_spu_score

Link = Callable[[np.ndarray], np.ndarray]
STRICT, FLAT, NOT = "strictly", "not strictly", "no"
LINKS: dict[str, tuple[Link, str]] = {
    "linear: .1 + .6 η": (lambda eta: 0.1 + 0.6 * eta, STRICT),
    "convex: η³": (lambda eta: eta**3, STRICT),
    "concave: √η": (np.sqrt, STRICT),
    "steep: logistic of 12 (η − ½)": (lambda eta: expit(12 * (eta - 0.5)), STRICT),
    "one rule: .6 where η > .7": (lambda eta: 0.6 * (eta > 0.7), FLAT),
    "one rule: .6 where η > .9": (lambda eta: 0.6 * (eta > 0.9), FLAT),
    "not monotone: 1 − 4 (η − ½)²": (lambda eta: np.clip(1 - 4 * (eta - 0.5) ** 2, 0.0, 1.0), NOT),
}
LINEAR = next(iter(LINKS))
TIE = 1e-9
SHOWN = 250


@dataclass(frozen=True, eq=False)
class Scored:
    """AUC_SPU and true AUC of many imperfect scores under one link.

    `best_spu` is the best possible AUC_SPU; `chosen_auc` and `chosen_high` are the lowest and the highest true AUC of
    the scores that reach it.
    """

    auc_spu: np.ndarray
    auc: np.ndarray
    best_auc: float
    best_spu: float
    chosen_auc: float
    chosen_high: float

    @property
    def disagreement(self) -> float:
        """Share of pairs of scores in which the one with the larger AUC_SPU has the smaller AUC."""
        by_spu, by_truth = (np.subtract.outer(each, each) for each in (self.auc_spu, self.auc))
        pairs = (np.abs(by_spu) > TIE) & (np.abs(by_truth) > TIE)
        return float((by_spu * by_truth < 0)[pairs].mean()) if pairs.any() else 0.0

    def worst_pair(self) -> tuple[int, int]:
        """(from, to): AUC_SPU rises and AUC falls furthest."""
        rise, fall = np.subtract.outer(self.auc_spu, self.auc_spu), np.subtract.outer(self.auc, self.auc)
        after, before = np.unravel_index(np.argmin(np.where(rise > TIE, fall, np.inf)), fall.shape)
        return int(before), int(after)


def run(values: int, scores: int, seed: int = 0) -> Part:
    """The best order and many imperfect ones, under each link."""
    eta = np.linspace(0.02, 0.98, values)
    tried = list(imperfect_scores(eta, scores, np.random.default_rng(seed)))
    found, series = [], {}
    for name, (link, rises) in LINKS.items():
        scored = score_all(eta, link(eta), tried)
        before, after = scored.worst_pair()
        example = [float(each[place]) for each in (scored.auc_spu, scored.auc) for place in (before, after)]
        has_example = example[3] < example[2] - TIE
        lost = scored.best_auc - scored.chosen_auc
        row = (name, rises, scored.best_auc, scored.chosen_auc, lost, scored.disagreement)
        found.append((*row, *(example if has_example else [None] * 4)))
        series[name] = {
            "auc_spu": rounded(scored.auc_spu[:SHOWN]),
            "auc": rounded(scored.auc[:SHOWN]),
            "pair": rounded(example) if has_example else [],
            "best": rounded([scored.best_spu, scored.chosen_auc, scored.chosen_high]),
        }
    columns = ("link h", "increasing", "best AUC", "AUC of the best by AUC_SPU", "lost", "pairs that disagree")
    table = ResultTable(
        "theorem3",
        "Theorem 3: the best order, and the order of others",
        (*columns, "AUC_SPU before", "AUC_SPU after", "AUC before", "AUC after"),
        tuple(found),
        f"{scores:,} imperfect scores of {values} values of X, computed exactly. Where several scores have the best "
        "AUC_SPU, the one with the lowest true AUC is shown. The last four columns show the pair in which AUC_SPU "
        "rises while the true AUC falls furthest.",
    )
    return Part((table,), {"links": series})


def claim(tables: Mapping[str, ResultTable]) -> Claim:
    rows = [row for row in tables["theorem3"].records() if row["increasing"] == STRICT]
    flat = max((row for row in tables["theorem3"].records() if row["increasing"] == FLAT), key=lambda row: row["lost"])
    lost = max(abs(row["lost"]) for row in rows)
    worst = max(rows, key=lambda row: row["pairs that disagree"])
    kept = "loses nothing" if lost == 0.0 else f"loses at most {lost:.0e}"
    return Claim(
        "Theorem 3: if E[S|X] rises strictly with P(Y=1|X), the score with the best ROC_SPU has the best ROC.",
        "holds" if lost < TIE else "does not hold",
        f"The best order by AUC_SPU {kept} of the true AUC under every strictly increasing link. Rules that fire or "
        f"not make the link flat, and the theorem says nothing: under “{flat['link h']}” a score with the best "
        f"ROC_SPU can have a true AUC of {flat['AUC of the best by AUC_SPU']:.3f}, where {flat['best AUC']:.3f} is "
        f"possible. A second caveat, which the paper names: under “{worst['link h']}” "
        f"{worst['pairs that disagree']:.0%} of pairs of imperfect scores disagree; in one, AUC_SPU rises from "
        f"{worst['AUC_SPU before']:.3f} to {worst['AUC_SPU after']:.3f} while the true AUC falls from "
        f"{worst['AUC before']:.3f} to {worst['AUC after']:.3f}. Only the linear link excludes that.",
    )


def score_all(eta: np.ndarray, soft_mean: np.ndarray, tried: list[np.ndarray]) -> Scored:
    """AUC_SPU needs E[S|X] only, since a score of X is independent of S given X; likewise AUC needs η only."""
    auc_spu = np.array([auc_spu_score(soft_mean, score) for score in tried])
    auc = np.array([auc_spu_score(eta, score) for score in tried])
    best, best_spu = auc_spu_score(eta, eta), auc_spu_score(soft_mean, soft_mean)
    low, high = (auc_spu_score(eta, best_by_spu(soft_mean, ties)) for ties in (-eta, eta))
    return Scored(auc_spu, auc, best, best_spu, low, high)


def best_by_spu(soft_mean: np.ndarray, ties: np.ndarray) -> np.ndarray:
    """A score with the best ROC_SPU: the order of E[S|X]; among equal rows, which ROC_SPU cannot see, that of `ties`.

    >>> best_by_spu(np.array([0.0, 0.0, 0.6, 0.6]), ties=np.array([4, 3, 2, 1]))
    array([1., 0., 3., 2.])
    """
    score = np.empty(soft_mean.size)
    score[np.lexsort((ties, soft_mean))] = np.arange(soft_mean.size)
    return score


def imperfect_scores(eta: np.ndarray, count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """The best order, disturbed in a random part of the range: models err in different places."""
    return [_disturbed(eta, rng) for _ in range(count)]


def _disturbed(eta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    middle, width, strength = rng.random(), rng.uniform(0.1, 0.7), rng.uniform(0.05, 1.0)
    inside = np.abs(eta - middle) < width / 2
    return eta + strength * inside * rng.normal(size=eta.size) * width
