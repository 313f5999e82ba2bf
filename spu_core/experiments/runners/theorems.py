"""Theorems 1 to 5 and the paper's figures, each checked by a small computation.

Theorems 1, 2 and 5 and Figure 2 are checked here by simulation. Theorems 3 and 4 are in `theorems_exact`, since they
are computed without sampling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from spu_core.checks import check_choice
from spu_core.experiments.catalog import (
    EXPERIMENTS,
    Claim,
    ExperimentResult,
    ExperimentSettings,
    OnProgress,
    ResultTable,
    provenance,
    quiet,
)
from spu_core.experiments.runners import average
from spu_core.experiments.runners.images import PaperSoftLabels
from spu_core.experiments.runners.theorems_exact import (
    TheoremCheck,
    check_theorem3,
    check_theorem4,
    claim_theorem3,
    claim_theorem4,
    rounded,
)
from spu_core.metrics import (
    RocSpu,
    auc_spu_ceiling,
    auc_spu_score,
    fpr_spu_score,
    known_positive_auc_score,
    roc_spu,
    tpr_spu_score,
)
from spu_core.models import Features, SoftLightGBM, SoftLogistic, SoftNeighbors, SoftNetwork
from spu_core.tables.simulators import AntiCheatConfig, AntiCheatWorld
from spu_core.tables.simulators.anti_cheat import RANDOM_RULE
from spu_core.theory import ScarLink

NOISE = np.concatenate([[0.0], np.geomspace(0.01, 3.0, 24)])
CEILING_ROUNDING = 1e-9
"""Differences up to this are rounding errors."""


def _image_labels(rng: np.random.Generator, rows: int) -> np.ndarray:
    return PaperSoftLabels(0.1).draw(rng.random(rows) < 0.1, rng)


def _rule_labels(rng: np.random.Generator, rows: int) -> np.ndarray:
    """Two rules that fire on a fifth and a tenth of the rows, and few labels."""
    believed = np.where(rng.random(rows) < 0.2, 0.3, np.where(rng.random(rows) < 0.1, 0.6, 0.0))
    return np.where(rng.random(rows) < 0.02, 1.0, believed)


DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "0 and 1 only": lambda rng, rows: (rng.random(rows) < 0.2).astype(np.float64),
    "images of Table 2, π = .1": _image_labels,
    "two rules and few labels": _rule_labels,
    "uniform": lambda rng, rows: rng.random(rows),
    "Beta(½, 3)": lambda rng, rows: rng.beta(0.5, 3.0, rows),
}


def check_theorem1(rows: int, repeats: int) -> TheoremCheck:
    """Compare the integral, AUC_SPU of g = S and the best of many other scores, for five kinds of soft labels."""
    found, curves = [], {}
    for place, (name, draw) in enumerate(DISTRIBUTIONS.items()):
        rng = np.random.default_rng([0, place])
        soft_label = draw(rng, rows)
        ceiling, printed = auc_spu_ceiling(soft_label), printed_ceiling(soft_label)
        of_itself = auc_spu_score(soft_label, soft_label)
        tried = np.array([auc_spu_score(soft_label, score) for score in other_scores(soft_label, repeats, rng)])
        equal = (float(soft_label.mean()), printed, of_itself, abs(printed - of_itself))
        found.append((name, *equal, tried.size, float(tried.max()), float(tried.max() - ceiling)))
        curves[name] = {"ceiling": ceiling, "auc_spu": rounded(_by_noise(soft_label, rng))}
    columns = ("soft labels", "E[S]", "printed integral", "AUC_SPU of S", "difference", "scores tried")
    table = ResultTable(
        "theorem1",
        "Theorem 1: the ceiling",
        (*columns, "best of them", "above the ceiling"),
        tuple(found),
        "Scores tried: S with noise, with swapped neighbours, in steps, turned around, and pure noise.",
    )
    return TheoremCheck((table,), {"noise": rounded(NOISE), "curves": curves})


def claim_theorem1(tables: Mapping[str, ResultTable]) -> Claim:
    table = tables["theorem1"]
    gap = max(abs(float(value or 0.0)) for value in table.column("difference"))
    above = max(float(value or 0.0) for value in table.column("above the ceiling"))
    scores = sum(int(value or 0) for value in table.column("scores tried"))
    return Claim(
        "Theorem 1: AUC_SPU cannot exceed the ceiling given by the distribution of S.",
        "holds" if gap < CEILING_ROUNDING and above < CEILING_ROUNDING else "does not hold",
        f"The printed integral equals AUC_SPU of the score g = S to {gap:.0e}, and none of {scores:,} other scores "
        f"exceeds it (largest excess {above:.0e}). The ceiling is 1 only for soft labels of 0 and 1.",
    )


def printed_ceiling(soft_label: np.ndarray) -> float:
    """½ + ∫F(1−F) / (2 ∫F ∫(1−F)) from the steps of the empirical distribution function.

    >>> printed_ceiling(np.array([1.0, 0.5, 0.0]))
    0.9444...
    """
    value, count = np.unique(soft_label, return_counts=True)
    # F is constant between neighbouring values, 0 before the first and 1 after the last.
    step = np.concatenate([[0.0], np.cumsum(count) / soft_label.size])
    width = np.diff(np.concatenate([[0.0], value, [1.0]]))
    below, above = (step * width).sum(), ((1 - step) * width).sum()
    return float(0.5 + (step * (1 - step) * width).sum() / (2 * below * above))


def other_scores(soft_label: np.ndarray, repeats: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Scores that depend on S fully, partly or not at all."""
    rows = soft_label.size
    yield -soft_label
    yield np.sqrt(soft_label)
    for steps in (2, 3, 5, 10):
        yield np.floor(soft_label * steps)
    for _ in range(repeats):
        yield rng.random(rows)
        yield soft_label + rng.normal(size=rows) * rng.choice(NOISE)
        # A few swapped pairs stay close to the ceiling, where a violation would appear first.
        swapped, pair = soft_label.copy(), rng.integers(rows, size=(2, 3))
        swapped[pair[0]], swapped[pair[1]] = soft_label[pair[1]], soft_label[pair[0]]
        yield swapped


def _by_noise(soft_label: np.ndarray, rng: np.random.Generator) -> list[float]:
    noise = rng.normal(size=soft_label.size)
    return [auc_spu_score(soft_label, soft_label + level * noise) for level in NOISE]


STRENGTHS = np.linspace(0.0, 3.0, 9)
SCAR_LINKS = {
    "rare, sharp": ScarLink(0.05, 0.7, 0.05),
    "rare, blurred": ScarLink(0.1, 0.4, 0.2),
    "common": ScarLink(0.4, 0.5, 0.2),
    "most are positive": ScarLink(0.8, 0.6, 0.3),
}


@dataclass(frozen=True)
class World:
    """Rows with a class, soft labels of given means, and scores whose strength varies."""

    link: ScarLink
    rows: int

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(truth, soft labels that depend on the truth only, noise of the score)."""
        truth = rng.random(self.rows) < self.link.prior
        mean = np.where(truth, self.link.positive_mean, self.link.negative_mean)
        return truth, rng.beta(3.0 * mean, 3.0 * (1.0 - mean)), rng.normal(size=self.rows)


def check_theorem2(rows: int, repeats: int) -> TheoremCheck:
    """Measured AUC_SPU against the line, the rates against theirs, and what happens where rules read X."""
    found, series = [], {}
    for place, (name, link) in enumerate(SCAR_LINKS.items()):
        rng = np.random.default_rng([0, place])
        measured = np.array([_measure(World(link, rows), rng) for _ in range(repeats)])
        true_auc, auc_spu, rate_gap = measured[:, 0], measured[:, 1], measured[:, 2]
        slope = average([np.polyfit(x, y, 1)[0] for x, y in zip(true_auc, auc_spu, strict=True)])
        gap = average((auc_spu - link.auc_spu(0.0) - link.slope * true_auc).mean(axis=1))
        setting = (name, link.prior, link.positive_mean, link.negative_mean)
        slopes = (link.slope, slope.mean, slope.error)
        found.append((*setting, *slopes, gap.mean, gap.error, float(rate_gap.mean())))
        series[name] = {
            "true_auc": rounded(true_auc.mean(axis=0)),
            "auc_spu": rounded(auc_spu.mean(axis=0)),
            "spread": rounded(auc_spu.std(axis=0, ddof=1) if repeats > 1 else np.zeros(STRENGTHS.size)),
            "line": rounded([link.auc_spu(0.5), link.auc_spu(1.0)]),
        }
    columns = ("setting", "π", "S_P", "S_N", "slope ad − bc", "measured slope", "slope SE")
    line = ResultTable(
        "theorem2",
        "Theorem 2: AUC_SPU as a line in the true AUC",
        (*columns, "mean distance from line", "distance SE", "largest gap of rates"),
        tuple(found),
        f"{STRENGTHS.size} scores of rising strength, {repeats} draws of {rows:,} rows; the last column is the mean "
        "over draws of the largest |TPR_SPU − (a TPR + b FPR)| at nine thresholds, which is sampling error only.",
    )
    return TheoremCheck((line, _broken(rows, repeats)), {"settings": series})


def claim_theorem2(tables: Mapping[str, ResultTable]) -> Claim:
    rows = tables["theorem2"].records()
    far = [row["setting"] for row in rows if abs(row["mean distance from line"]) > 4 * (row["distance SE"] or 1)]
    broken = tables["theorem2_broken"].records()[-1]
    return Claim(
        "Theorem 2: under generalized SCAR the SPU metrics are linear in the true ones.",
        "does not hold" if far else "holds",
        f"In {len(rows)} settings the measured slopes meet ad − bc to "
        f"{max(abs(row['slope ad − bc'] - row['measured slope']) for row in rows):.4f}. The assumption matters: where "
        f"a rule reads X, the same formula turns a true AUC of {broken['true AUC']:.3f} into "
        f"{broken['implied by Theorem 2']:.2f}.",
    )


def _measure(world: World, rng: np.random.Generator) -> np.ndarray:
    """For each strength: true AUC, AUC_SPU, and the distance of the rates from their lines."""
    truth, soft_label, noise = world.draw(rng)
    columns = []
    for strength in STRENGTHS:
        score = strength * truth + noise
        gaps = [_rate_gap(world.link, truth, soft_label, score > limit) for limit in np.linspace(-1.0, 3.0, 9)]
        columns.append((known_positive_auc_score(truth, score), auc_spu_score(soft_label, score), max(gaps)))
    return np.array(columns).T


def _rate_gap(link: ScarLink, truth: np.ndarray, soft_label: np.ndarray, flagged: np.ndarray) -> float:
    tpr, fpr = float(flagged[truth].mean()), float(flagged[~truth].mean())
    tpr_spu, fpr_spu = link.spu_rates(tpr, fpr)
    return max(abs(tpr_spu_score(soft_label, flagged) - tpr_spu), abs(fpr_spu_score(soft_label, flagged) - fpr_spu))


def _broken(rows: int, repeats: int) -> ResultTable:
    """The same formula with S_P and S_N known exactly, but soft labels that a rule made from X."""
    found = []
    for share in (0.0, 0.25, 0.5, 1.0):
        draws = []
        for repeat in range(repeats):
            truth, soft_label, score = _ruled(rows, share, np.random.default_rng([0, 99, repeat]))
            measured = auc_spu_score(soft_label, score)
            implied = ScarLink.from_truth(soft_label, truth).true_auc(measured)
            draws.append((known_positive_auc_score(truth, score), measured, implied))
        means = np.mean(draws, axis=0)
        error = average([draw[2] - draw[0] for draw in draws]).error
        found.append((share, *means.tolist(), float(means[2] - means[0]), error))
    return ResultTable(
        "theorem2_broken",
        "Theorem 2 where its assumption fails: a rule that reads X",
        ("share of S made by a rule", "true AUC", "AUC_SPU", "implied by Theorem 2", "error", "error SE"),
        tuple(found),
        "A value above 1 refutes the assumption. π, S_P and S_N are known exactly here; the error is the rule's alone.",
    )


def _ruled(rows: int, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Soft labels that, for a share of the rows, follow the column which the score reads as well."""
    truth = rng.random(rows) < 0.2
    column = 1.5 * truth + rng.normal(size=rows)
    mean = np.where(truth, 0.5, 0.2)
    by_class = rng.beta(3.0 * mean, 3.0 * (1.0 - mean))
    by_rule = np.where(column > 1.0, 0.7, 0.05)
    return truth, np.where(rng.random(rows) < share, by_rule, by_class), column


FEATURES = 4
GRID = np.linspace(0.0, 1.0, 201)
CONVERGENCE_LEARNERS: dict[str, Callable[[int], Any]] = {
    "neural network": lambda seed: SoftNetwork(seed=seed, rounds=20),
    "LightGBM": lambda seed: SoftLightGBM(seed=seed, threads=1),
    "nearest neighbours": lambda seed: SoftNeighbors(threads=1),
    "logistic regression": lambda seed: SoftLogistic(),
}
TOO_POOR = "logistic regression"


def soft_mean(matrix: np.ndarray) -> np.ndarray:
    """E[S|X]: nonlinear and with an interaction, so that no linear score has the right order."""
    bent = 2.0 * np.sin(2.0 * matrix[:, 0]) + matrix[:, 1] * matrix[:, 2] - 1.0
    return 0.02 + 0.9 * expit(bent)


def draw_rows(rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(X, S) with S scattered around E[S|X]."""
    matrix = rng.normal(size=(rows, FEATURES))
    mean = soft_mean(matrix)
    return matrix.astype(np.float32), rng.beta(2.0 * mean, 2.0 * (1.0 - mean))


def check_theorem5(sizes: tuple[int, ...], seeds: int, fresh_rows: int) -> TheoremCheck:
    """The gap to the best AUC_SPU on fresh rows, for four learners and growing tables."""
    rng = np.random.default_rng(12345)
    fresh = rng.normal(size=(fresh_rows, FEATURES)).astype(np.float32)
    mean = soft_mean(fresh)
    best = roc_spu(mean, mean)
    found, series = [], {}
    for name, make in CONVERGENCE_LEARNERS.items():
        gaps, curves = [], {}
        for rows in sizes:
            scores = [_score(make, rows, seed, fresh) for seed in range(seeds)]
            gap = average([best.auc - auc_spu_score(mean, score) for score in scores])
            apart = average([_distance(best, roc_spu(mean, score)) for score in scores])
            off = average([np.abs(score - mean).mean() for score in scores])
            found.append((name, rows, best.auc, best.auc - gap.mean, gap.mean, gap.error, apart.mean, off.mean))
            gaps.append((gap.mean, gap.error))
            curves[str(rows)] = rounded(_on_grid(roc_spu(mean, scores[0])), 4)
        series[name] = {"gap": [g for g, _ in gaps], "error": [e for _, e in gaps], "curves": curves}
    table = ResultTable(
        "theorem5",
        "Theorem 5: soft cross-entropy as the rows grow",
        ("learner", "rows", "best AUC_SPU", "reached", "gap", "gap SE", "curves apart", "mean |g − E[S|X]|"),
        tuple(found),
        f"{seeds} seeds, judged on {fresh_rows:,} fresh rows whose E[S|X] is known; “curves apart” is the largest "
        "vertical distance to the optimal ROC_SPU.",
    )
    drawn = {"grid": rounded(GRID, 4), "best": rounded(_on_grid(best), 4), "best_auc": best.auc}
    return TheoremCheck((table,), {**drawn, "sizes": list(sizes), "learners": series})


def claim_theorem5(tables: Mapping[str, ResultTable]) -> Claim:
    gaps: dict[str, list[float]] = {}
    for row in tables["theorem5"].records():
        gaps.setdefault(row["learner"], []).append(row["gap"])
    rows = tables["theorem5"].column("rows")
    falling = [name for name, values in gaps.items() if name != TOO_POOR and values[-1] < 0.5 * values[0]]
    listed = ", ".join(
        f"{name} {values[0]:.3f} → {values[-1]:.4f}" for name, values in gaps.items() if name != TOO_POOR
    )
    return Claim(
        "Theorem 5: thresholding E[S|X] is optimal, and minimising soft cross-entropy comes to it as N grows.",
        "holds" if len(falling) == len(gaps) - 1 else "holds partly" if falling else "does not hold",
        f"From {rows[0]:,} to {rows[-1]:,} rows the gap to the best AUC_SPU falls ({listed}). It needs a model that is "
        f"rich enough: {TOO_POOR} stays {gaps[TOO_POOR][-1]:.3f} below, however many rows it gets.",
    )


def _score(make: Callable[[int], Any], rows: int, seed: int, fresh: np.ndarray) -> np.ndarray:
    matrix, soft_label = draw_rows(rows, np.random.default_rng([seed, rows]))
    return make(seed).fit_rows(Features.of(matrix), soft_label).score_rows(Features.of(fresh))


def _on_grid(curve: RocSpu) -> np.ndarray:
    return np.interp(GRID, curve.fpr, curve.tpr)


def _distance(best: RocSpu, curve: RocSpu) -> float:
    return float((_on_grid(best) - _on_grid(curve)).max())


ALL_PLAYERS = "All players"
PICKED = ("Picked by a detection rule", "Picked at random only", "Never picked")
ENDED = ("Admit", "Fail or skip, never admit", "Pass every check", "No check")
FOLLOWS = (
    "Permanent restriction: label 1",
    "Temporary restriction: soft label",
    "Plays on: unlabelled",
    "Plays on, unchecked: unlabelled",
)


def check_figure2(players: int) -> TheoremCheck:
    """Simulate a season and count players on every path of the procedure."""
    config = AntiCheatConfig(players=players)
    world = AntiCheatWorld(config)
    population = world.draw()
    flows = count_flows(world.season(population), population.truth)
    table = ResultTable(
        "figure2",
        "Figure 2: check and punishment, comparison_counts",
        ("from", "to", "players", "cheaters among them"),
        tuple((flow["from"], flow["to"], flow["players"], flow["cheaters"]) for flow in flows),
        f"One simulated season: {players:,} players, {config.days} days. Who cheats is known to the simulator only.",
    )
    return TheoremCheck((table,), {"flows": flows})


def count_flows(checks: pd.DataFrame, truth: np.ndarray) -> list[dict[str, Any]]:
    """Players, and cheaters among them, on every path; each player counts once at each stage."""
    is_random = checks["rule"].eq(RANDOM_RULE)
    picked = np.full(truth.size, PICKED[2], dtype=object)
    picked[checks["user"]] = PICKED[1]
    picked[checks.loc[~is_random, "user"]] = PICKED[0]
    ended = np.full(truth.size, ENDED[3], dtype=object)
    for outcome, words in (("pass", ENDED[2]), ("fail", ENDED[1]), ("admit", ENDED[0])):
        ended[checks.loc[checks["outcome"].eq(outcome), "user"]] = words
    follows = pd.Series(ended).map(dict(zip(ENDED, FOLLOWS, strict=True))).to_numpy()
    stages = (np.full(truth.size, ALL_PLAYERS, dtype=object), picked, ended, follows)
    return [flow for source, target in pairwise(stages) for flow in _flows(source, target, truth)]


def _flows(source: np.ndarray, target: np.ndarray, truth: np.ndarray) -> list[dict[str, Any]]:
    frame = pd.DataFrame({"from": source, "to": target, "cheats": truth})
    grouped = frame.groupby(["from", "to"], sort=True)["cheats"].agg(["size", "sum"]).reset_index()
    return [
        {"from": str(row["from"]), "to": str(row["to"]), "players": int(row["size"]), "cheaters": int(row["sum"])}
        for row in grouped.to_dict("records")
    ]


@dataclass(frozen=True)
class TheoremSizes:
    """The size of each check; the smoke size takes seconds and has larger errors."""

    rows: int = 20_000
    repeats: int = 20
    scores: int = 2_000
    rows_per_block: int = 200
    sizes: tuple[int, ...] = (250, 1_000, 4_000, 16_000)
    seeds: int = 5
    players: int = 20_000

    @classmethod
    def of(cls, settings: ExperimentSettings) -> TheoremSizes:
        """The size of a full or a smoke run."""
        if settings.is_smoke:
            seeds = settings.count_of_seeds(smoke=2, full=5)
            return cls(3_000, 5, 150, 40, (250, 1_000, 4_000), seeds, 3_000)
        return cls(seeds=settings.count_of_seeds(smoke=2, full=5))


PARTS: dict[str, Callable[[TheoremSizes], TheoremCheck]] = {
    "theorem1": lambda size: check_theorem1(size.rows, 10 * size.repeats),
    "theorem2": lambda size: check_theorem2(size.rows, size.repeats),
    "theorem3": lambda size: check_theorem3(301, size.scores),
    "theorem4": lambda size: check_theorem4(size.rows_per_block),
    "theorem5": lambda size: check_theorem5(size.sizes, size.seeds, size.rows),
    "figure2": lambda size: check_figure2(size.players),
}
TITLES = EXPERIMENTS["theorems"].parts
CLAIMS: dict[str, Callable[[Mapping[str, ResultTable]], Claim]] = {
    "theorem1": claim_theorem1,
    "theorem2": claim_theorem2,
    "theorem3": claim_theorem3,
    "theorem4": claim_theorem4,
    "theorem5": claim_theorem5,
}
CHOICES = (
    "The theorems are statements about distributions, so each is checked where the distribution is known: Theorems 3 "
    "and 4 exactly, the others by simulation with standard errors.",
    "The distributions, links, priors and noise levels were fixed by us before the stored run; none was chosen to make "
    "a theorem look better or worse, except that the noise of Theorem 4 is the hardest kind we know.",
    "Figure 1 exaggerates the noise (ε = 0.3 C_h), so that the two curves can be told apart by eye.",
    "Figure 2 counts one season of our simulator; the paper prints no counts.",
)


def run(
    settings: ExperimentSettings, on_progress: OnProgress = quiet, *, parts: Sequence[str] = tuple(PARTS)
) -> ExperimentResult:
    """All checks, or those of `parts`, one after the other."""
    started, size = perf_counter(), TheoremSizes.of(settings)
    found: dict[str, TheoremCheck] = {}
    for place, name in enumerate(parts):
        check_choice(name, PARTS, "part")
        on_progress(place / len(parts), TITLES[name])
        found[name] = PARTS[name](size)
    tables = tuple(table for part in found.values() for table in part.tables)
    return ExperimentResult(
        "theorems",
        "Theorems 1 to 5, by simulation",
        tables,
        claims({table.name: table for table in tables}),
        CHOICES,
        provenance(settings, perf_counter() - started, seeds=size.seeds),
        {name: part.series for name, part in found.items()},
    )


def claims(tables: Mapping[str, ResultTable]) -> tuple[Claim, ...]:
    """One claim for each theorem that has a table."""
    return tuple(claim(tables) for name, claim in CLAIMS.items() if name in tables)
