"""Theorems 3 and 4, computed exactly.

Theorem 3: under a strictly increasing link the best order by AUC_SPU is the best order. Where the link is flat, as with
rules that fire or not, ROC_SPU does not depend on the order of the rows; and a higher AUC_SPU that is not the best
proves nothing. X takes finitely many values, so AUC and AUC_SPU are sums.

Theorem 4: if E[S|X] follows P(Y=1|X) up to ε, the AUC lost is of order ε²; the printed bound fails for large π. η =
P(Y=1|X) is spread evenly around π, E[S|X] is constant on blocks of width 2ε, and the score reverses the rows of each
block. ROC_SPU does not depend on their order, so this score has the best ROC_SPU. It attains the sharp TPR and FPR
bounds, and two thirds of the sharp AUC bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit

from spu_core.experiments.catalog import Claim, ResultTable
from spu_core.metrics import auc_spu_score, roc_spu
from spu_core.theory import MonotoneBound, noisy_monotone_bound
from spu_core.theory.monotone_bound import Version


@dataclass(frozen=True)
class TheoremCheck:
    """The result of checking one theorem: tables, and series for charts."""

    tables: tuple[ResultTable, ...]
    series: Mapping[str, Any] = field(default_factory=dict)


def rounded(values: Any, digits: int = 5) -> list[float]:
    """Numbers to store for a chart, with as many digits as a screen can show.

    >>> rounded([0.123456789, 1.0])
    [0.12346, 1.0]
    """
    return [round(float(value), digits) for value in values]


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
TIE = 1e-9
SHOWN = 250


@dataclass(frozen=True, eq=False)
class LinkScores:
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


def check_theorem3(values: int, scores: int) -> TheoremCheck:
    """The best order and many imperfect ones, under each link."""
    eta = np.linspace(0.02, 0.98, values)
    tried = list(imperfect_scores(eta, scores, np.random.default_rng(0)))
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
    return TheoremCheck((table,), {"links": series})


def claim_theorem3(tables: Mapping[str, ResultTable]) -> Claim:
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


def score_all(eta: np.ndarray, soft_mean: np.ndarray, tried: list[np.ndarray]) -> LinkScores:
    """AUC_SPU needs E[S|X] only, since a score of X is independent of S given X; likewise AUC needs η only."""
    auc_spu = np.array([auc_spu_score(soft_mean, score) for score in tried])
    auc = np.array([auc_spu_score(eta, score) for score in tried])
    best, best_spu = auc_spu_score(eta, eta), auc_spu_score(soft_mean, soft_mean)
    low, high = (auc_spu_score(eta, best_by_spu(soft_mean, ties)) for ties in (-eta, eta))
    return LinkScores(auc_spu, auc, best, best_spu, low, high)


def best_by_spu(soft_mean: np.ndarray, ties: np.ndarray) -> np.ndarray:
    """A score with the best ROC_SPU: the order of E[S|X]; among equal rows that of `ties`.

    >>> best_by_spu(np.array([0.0, 0.0, 0.6, 0.6]), ties=np.array([4, 3, 2, 1]))
    array([1., 0., 3., 2.])
    """
    score = np.empty(soft_mean.size)
    score[np.lexsort((ties, soft_mean))] = np.arange(soft_mean.size)
    return score


def imperfect_scores(eta: np.ndarray, count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """The best order with noise in a random part of the range."""
    return [_disturbed(eta, rng) for _ in range(count)]


def _disturbed(eta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    middle, width, strength = rng.random(), rng.uniform(0.1, 0.7), rng.uniform(0.05, 1.0)
    inside = np.abs(eta - middle) < width / 2
    return eta + strength * inside * rng.normal(size=eta.size) * width


PRIORS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.85, 0.9, 0.93, 0.95, 0.98)
BLOCKS = (100, 70, 50, 35, 25, 18, 12, 8, 6, 5, 4, 3)
SHOWN_BLOCKS = 10
ROUNDING = 1e-9
"""A ratio that exceeds 1 by less than this is a rounding error."""


@dataclass(frozen=True)
class ReversedBlocks:
    """Rows in so many blocks of η, each reversed. The slope C_h is 1, so ε is measured in units of η."""

    prior: float
    blocks: int
    rows_per_block: int = 200

    @property
    def half_width(self) -> float:
        """η lies within this of the prior, and never reaches 0 or 1."""
        return 0.999 * min(self.prior, 1.0 - self.prior)

    @property
    def noise(self) -> float:
        """ε: half of a block, since E[S|X] is the middle of the block."""
        return self.half_width / self.blocks

    @property
    def eta(self) -> np.ndarray:
        size = self.blocks * self.rows_per_block
        return self.prior + self.half_width * ((2.0 * np.arange(size) + 1.0) / size - 1.0)

    @property
    def score(self) -> np.ndarray:
        """A score with the best ROC_SPU: blocks in their order, the rows of each block in reverse."""
        return np.arange(self.eta.size).reshape(self.blocks, -1)[:, ::-1].ravel().astype(np.float64)

    @property
    def loss(self) -> float:
        """The true AUC that this score loses."""
        return auc_spu_score(self.eta, self.eta) - auc_spu_score(self.eta, self.score)

    def rate_losses(self) -> tuple[float, float]:
        """Largest loss of TPR and largest excess of FPR at equal numbers of flagged rows."""
        best, ours = np.sort(self.eta)[::-1], self.eta[np.argsort(-self.score)]
        gap = float((np.cumsum(best) - np.cumsum(ours)).max())
        return gap / float(best.sum()), gap / float((1.0 - best).sum())

    def bound(self, version: Version = "sharp") -> MonotoneBound:
        density = 1.0 / (2.0 * self.half_width)
        return noisy_monotone_bound(noise=self.noise, slope=1.0, density=density, prior=self.prior, version=version)


def check_theorem4(rows_per_block: int) -> TheoremCheck:
    """Loss against both bounds for ten priors, and its growth with ε."""
    found, curves = [], {}
    for prior in PRIORS:
        links = [ReversedBlocks(prior, blocks, rows_per_block) for blocks in BLOCKS]
        losses = np.array([link.loss for link in links])
        one = ReversedBlocks(prior, SHOWN_BLOCKS, rows_per_block)
        printed, sharp = one.bound("printed"), one.bound()
        tpr, fpr = one.rate_losses()
        bounds = [figure for bound in (printed, sharp) for figure in (bound.auc_loss, one.loss / bound.auc_loss)]
        rates = (tpr / sharp.tpr_loss, fpr / printed.fpr_loss, fpr / sharp.fpr_loss)
        found.append((prior, one.noise, one.loss, *bounds, _exponent(links, losses), *rates))
        curves[str(prior)] = {
            "noise": rounded([link.noise for link in links], 8),
            "loss": rounded(losses, 12),
            "printed": rounded([link.bound("printed").auc_loss for link in links], 12),
            "sharp": rounded([link.bound().auc_loss for link in links], 12),
        }
    columns = ("π", "ε / C_h", "AUC lost", "printed bound", "lost / printed", "sharp bound", "lost / sharp")
    table = ResultTable(
        "theorem4",
        "Theorem 4: AUC lost against both bounds",
        (*columns, "exponent of ε", "TPR lost / sharp", "FPR excess / printed", "FPR excess / sharp"),
        tuple(found),
        "A ratio above 1 means that the bound is violated. Sharp: ΔTPR ≤ Mε²/(πC_h²), ΔFPR ≤ Mε²/((1−π)C_h²), "
        "ΔAUC ≤ Mε²/(π(1−π)C_h²). By these constants the printed AUC bound is safe up to π = 7/8; this population "
        "breaks it above 11/12. The printed FPR half has 1/π where the proof needs 1/(1−π), and fails above 4/5.",
    )
    return TheoremCheck((table,), {"priors": curves, "figure1": figure_1()})


def claim_theorem4(tables: Mapping[str, ResultTable]) -> Claim:
    rows = tables["theorem4"].records()
    violated = [row for row in rows if row["lost / printed"] > 1.0]
    ratios = ("lost / sharp", "TPR lost / sharp", "FPR excess / sharp")
    safe = all(row[name] <= 1.0 + ROUNDING for row in rows for name in ratios)
    low, high = (pick(row["exponent of ε"] for row in rows) for pick in (min, max))
    if not violated:
        words = "The printed bound was not violated."
    else:
        at = ", ".join(f"{row['π']:g}" for row in violated)
        worst = max(violated, key=lambda row: row["lost / printed"])
        words = (
            f"The printed bound is violated at π = {at}: at {worst['π']:g} the loss is {worst['AUC lost']:.5f} where "
            f"{worst['printed bound']:.5f} is promised. Its FPR half already fails at π = "
            f"{min(row['π'] for row in rows if row['FPR excess / printed'] > 1.0):g}."
        )
    kept = (
        f"The sharp bound holds at every prior: the TPR and FPR halves are attained (ratio "
        f"{min(row['TPR lost / sharp'] for row in rows):.3f}), the AUC loss reaches "
        f"{max(row['lost / sharp'] for row in rows):.3f} of its bound."
        if safe
        else "The sharp bound is violated, too."
    )
    return Claim(
        "Theorem 4: the AUC lost to noise ε in the link is at most 8Mε² / (πC_h²).",
        "holds" if safe and not violated else "holds partly" if safe else "does not hold",
        f"The loss is of second order (fitted exponents {low:.2f} to {high:.2f}). {words} {kept}",
    )


def figure_1() -> dict[str, list[float] | float]:
    """The paper's Figure 1: the optimal ROC, and the one by E[S|X] = η ± ε with a visible ε that swaps neighbours."""
    prior, noise = 0.4, 0.3
    eta = np.linspace(0.001 * prior, 1.999 * prior, 4_001)
    soft_mean = eta + noise * np.where(np.arange(eta.size) % 2 == 0, 1.0, -1.0)
    grid = np.linspace(0.0, 1.0, 101)
    curves = {"optimal": roc_spu(eta, eta), "by_spu": roc_spu(eta, soft_mean)}
    drawn = {name: rounded(np.interp(grid, curve.fpr, curve.tpr)) for name, curve in curves.items()}
    areas = {f"{name}_auc": round(curve.auc, 5) for name, curve in curves.items()}
    return {"fpr": rounded(grid), **drawn, **areas, "prior": prior, "noise": noise}


def _exponent(links: list[ReversedBlocks], losses: np.ndarray) -> float:
    """The slope of log loss against log ε."""
    return float(np.polyfit(np.log([link.noise for link in links]), np.log(losses), 1)[0])
