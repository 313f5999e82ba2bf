"""An audit plan: which n rows to check by hand, so that the estimate of one figure is as precise as possible.

Rows are drawn by strata: bands of the score, with an edge at the threshold, and each band split by the soft label. The
strata have about equal sums of √(p(1−p)), the uncertainty of a row. So a thousand rows that are almost certainly
negative can be in one stratum, while a hundred uncertain rows are in several.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np

from spu_core.checks import check_share
from spu_core.codec import decode, dump_json, encode, parse_json
from spu_core.errors import AssumptionError
from spu_core.html_table import count, short_repr
from spu_core.trust.audit.population import Population, target_named

KNOWN = -1
FEWEST_ROWS = 10
# The mark of rows that cannot be drawn, and limits of stored plans.
OUTSIDE = 255
MOST_TABLE_ROWS = 1_000_000_000
MOST_PLAN_BYTES = 500_000_000


@dataclass(frozen=True)
class Strata:
    """`score_edges` split the scores into bands (edges belong to the lower band); `soft_edges` split each band by S."""

    score_edges: tuple[float, ...]
    soft_edges: tuple[tuple[float, ...], ...]

    @property
    def count(self) -> int:
        return sum(len(edges) + 1 for edges in self.soft_edges)

    def assign(self, population: Population) -> np.ndarray:
        """The stratum of each row, numbered from low to high scores; −1 for known rows."""
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
        """A description of each stratum."""
        scores, found = (-np.inf, *self.score_edges, np.inf), []
        for place, edges in enumerate(self.soft_edges):
            band = _range("score", scores[place], scores[place + 1])
            limits = (-np.inf, *edges, np.inf)
            found += [f"{band}, {_range('S', limits[at], limits[at + 1])}" for at in range(len(edges) + 1)]
        return tuple(name.removesuffix(", any S") for name in found)


def make_strata(population: Population, most: int) -> Strata:
    """About `most` strata, or fewer, of the rows that are not known.

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
    """Edges of the score bands. The threshold is an edge if there are rows on both sides of it."""
    above = score > threshold
    if not above.any() or above.all():
        return _cuts(score, doubt, bands)
    share = doubt[above].sum() / doubt.sum()
    upper = min(max(1, round(bands * share)), bands - 1)
    low = _cuts(score[~above], doubt[~above], bands - upper)
    return (*low, threshold, *_cuts(score[above], doubt[above], upper))


def _cuts(values: np.ndarray, doubt: np.ndarray, parts: int) -> tuple[float, ...]:
    """Edges that split the uncertainty equally; fewer if values tie or a part would have too few rows."""
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


SCHEMA = ("schema", 1)
PROPORTIONAL_SHARE = 0.2
FEWEST_PER_STRATUM = 2
ENOUGH_POSITIVES = 5.0
MOST_STRATA = 12
FEWEST_CHECKS = 10


@dataclass(frozen=True)
class AuditPlan:
    """A drawn sample. Equal rows, settings and seed give the same plan.

    `rows` are the drawn rows of the table, in the random order in which to check them; `row_stratum` is the stratum of
    each. Stratum h has `sizes[h]` rows, of which `drawn[h]` are drawn. `population` is a hash of the scores and soft
    labels for which the plan was made.

    Plans of `draw_audit` serve every score: they answer a `question`, may be looked at `looks` times, and `membership`
    holds the stratum of every row of the table. `strata` is None, since strata are ranges of how much a row would tell.
    """

    target: str
    level: float
    seed: int
    threshold: float
    strata: Strata | None
    sizes: tuple[int, ...]
    drawn: tuple[int, ...]
    rows: tuple[int, ...]
    row_stratum: tuple[int, ...]
    population: str
    prior: float | None = None
    question: str | None = None
    looks: int = 1
    membership: str | None = None

    def __repr__(self) -> str:
        return short_repr("AuditPlan", self.target, count(self.checks, "check"), f"of {count(sum(self.sizes), 'row')}")

    @property
    def checks(self) -> int:
        return len(self.rows)

    @property
    def code(self) -> str:
        """A short code in the review list, so that it cannot be used for another audit."""
        return sha256(self.to_json().encode()).hexdigest()[:8]

    @property
    def inclusion(self) -> np.ndarray:
        """The probability with which each drawn row was drawn."""
        chance = np.array(self.drawn) / np.maximum(np.array(self.sizes), 1)
        return chance[np.array(self.row_stratum, dtype=int)]

    @property
    def is_random(self) -> bool:
        """Whether every row had the same probability to be drawn."""
        return len(self.sizes) == 1

    @property
    def level_of_a_look(self) -> float:
        """The level of one interval, so that those of all looks together hold with `level` (Bonferroni)."""
        return 1.0 - (1.0 - self.level) / self.looks

    @property
    def stratum_names(self) -> tuple[str, ...]:
        """A description of each stratum."""
        if self.strata is not None:
            return self.strata.names
        if self.is_random:
            return ("all rows",)
        last = len(self.sizes)
        ends = {1: " (tell least)", last: " (tell most)"}
        return tuple(f"group {place}{ends.get(place, '')}" for place in range(1, last + 1))

    @property
    def frame(self) -> np.ndarray | None:
        """Flags the rows of the table that could be drawn; None for older plans, which do not say."""
        return None if self.membership is None else self._stratum_of_all != OUTSIDE

    def chance_of(self, rows: np.ndarray, checked: np.ndarray) -> np.ndarray:
        """The probability that this audit checks each of these rows, given which of its rows were checked.

        Within a stratum rows are drawn, and listed, in random order, so those checked so far are a random sample.
        """
        done = np.bincount(
            np.array(self.row_stratum, dtype=int)[np.isin(self.rows, checked)], minlength=len(self.sizes)
        )
        chance = done / np.maximum(np.array(self.sizes), 1)
        empty = [name for name, number, size in zip(self.stratum_names, done, self.sizes, strict=True)
                 if size and not number]  # fmt: skip
        if empty and done.any():
            raise AssumptionError(
                f"No row of {empty[0]!r} has a verdict yet, so nothing is known about the rows like it. "
                "Check more rows of the list."
            )
        found = np.zeros(rows.size)
        if self.membership is not None:
            inside = rows < self._stratum_of_all.size
            stratum = self._stratum_of_all[rows[inside]]
            found[inside] = np.append(chance, 0.0)[np.where(stratum == OUTSIDE, len(self.sizes), stratum)]
            return found
        own = {row: chance[stratum] for row, stratum in zip(self.rows, self.row_stratum, strict=True)}
        return np.array([own.get(row, 0.0) for row in rows.tolist()])

    @cached_property
    def _stratum_of_all(self) -> np.ndarray:
        assert self.membership is not None
        try:
            unpacked = zlib.decompressobj()
            data = unpacked.decompress(b64decode(self.membership, validate=True), MOST_TABLE_ROWS)
            whole = unpacked.eof and np.frombuffer(data, dtype=np.uint8)
        except (ValueError, zlib.error):
            whole = False
        if whole is False:
            raise AssumptionError("The audit plan is damaged: the strata of its rows cannot be read.")
        return whole

    def with_strata(self, population: Population, rows: int) -> AuditPlan:
        """An older plan with the stratum of every row of the table, from the scores and soft labels it was made for."""
        return replace(self, membership=pack_strata(self.strata_of(population), population.row, rows))

    def strata_of(self, population: Population) -> np.ndarray:
        """The stratum of each row; an error if scores or soft labels are not those of a plan for one run."""
        if self.strata is None:
            stratum = self._stratum_of_all[population.row].astype(int)
            return np.where(population.is_known | (stratum == OUTSIDE), KNOWN, stratum)
        if fingerprint(population) != self.population:
            raise AssumptionError(
                "This audit was drawn with other scores, soft labels or labels; "
                "open it with the run and the rules that it was made from."
            )
        return self.strata.assign(population)

    def to_json(self) -> str:
        values = encode(self, "The audit plan", AssumptionError, exact=True)
        if self.question is None:
            # Plans for one run keep their stored form, to the byte.
            values = {name: value for name, value in values.items() if name not in ("question", "looks", "membership")}
        return dump_json({**dict([SCHEMA]), **values})

    @classmethod
    def from_json(cls, text: str | bytes) -> AuditPlan:
        """A plan from untrusted JSON. An incomplete plan is an error."""
        what = "The audit plan"
        given = parse_json(text, what, AssumptionError, MOST_PLAN_BYTES)
        plan = decode(cls, given, what, AssumptionError, schema=SCHEMA)
        plan._check()
        return plan

    def _check(self) -> None:
        strata = len(self.sizes) if self.strata is None else self.strata.count
        fits = len(self.sizes) == len(self.drawn) == strata and len(self.rows) == len(self.row_stratum)
        counted = fits and np.bincount(self.row_stratum, minlength=strata).tolist()
        if not counted or tuple(counted) != self.drawn or len(set(self.rows)) != len(self.rows):
            raise AssumptionError("The audit plan is damaged: its rows do not match its strata.")
        if self.membership is not None:
            inside = self._stratum_of_all[self._stratum_of_all != OUTSIDE]
            if tuple(np.bincount(inside, minlength=strata).tolist()) != self.sizes:
                raise AssumptionError("The audit plan is damaged: its strata do not have the sizes it states.")
        if self.looks < 1:
            raise AssumptionError(f"An audit is looked at once or more, got looks = {self.looks}.")
        target_named(self.target)
        check_share(self.level, "level")


def pack_strata(stratum: np.ndarray, row: np.ndarray, rows: int) -> str:
    """The stratum of every row of the table as compressed text; rows that cannot be drawn are marked."""
    whole = np.full(rows, OUTSIDE, dtype=np.uint8)
    drawable = stratum >= 0
    whole[row[drawable]] = stratum[drawable]
    return b64encode(zlib.compress(whole.tobytes(), 9)).decode("ascii")


def plan_audit(
    population: Population,
    checks: int,
    target: str = "true_auc",
    *,
    level: float = 0.95,
    seed: int = 0,
    prior: float | None = None,
) -> AuditPlan:
    """Draw rows to check by hand, so that one figure becomes as precise as possible.

    Parameters
    ----------
    population : Population
        The rows that the audit is about: `Population.of_run(run, threshold)`.
    checks : int
        Number of rows to check.
    target : str, default "true_auc"
        The figure to measure: a key of `spu_core.trust.TARGETS`.
    level : float, default 0.95
        Confidence level.
    seed : int, default 0
        Seed of the draw. Equal seeds draw equal rows.
    prior : float, optional
        Share of positives, if known. It makes the plan better, not the estimate.

    Returns
    -------
    AuditPlan
        `.rows` to check, with the probability with which each was drawn.

    Raises
    ------
    AssumptionError
        If there are fewer rows than checks, or an argument is not valid.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = Population.of(rng.random(2000), rng.random(2000).round(1), threshold=0.9)
    >>> plan = plan_audit(rows, 100, "precision")
    >>> plan.checks, plan == plan_audit(rows, 100, "precision"), plan == AuditPlan.from_json(plan.to_json())
    (100, True, True)
    """
    level = check_share(level, "level")
    checks = check_count(checks, int(population.is_open.sum()))
    strata = choose_strata(population, checks, target)
    stratum = strata.assign(population)
    sizes = np.bincount(stratum[population.is_open], minlength=strata.count)
    drawn = allocate(checks, sizes, spread_of(population, stratum, target))
    rng = np.random.default_rng(seed)
    places = np.concatenate(
        [rng.choice(np.flatnonzero(stratum == h), count, replace=False) for h, count in enumerate(drawn)]
    )
    # In random order the position of a row tells the reviewer nothing, and fatigue affects all strata equally.
    places = rng.permutation(places)
    return AuditPlan(
        target=target_named(target).key,
        level=level,
        seed=seed,
        threshold=population.threshold,
        strata=strata,
        sizes=tuple(sizes.tolist()),
        drawn=tuple(drawn.tolist()),
        rows=tuple(population.row[places].tolist()),
        row_stratum=tuple(stratum[places].tolist()),
        population=fingerprint(population),
        prior=prior,
    )


def choose_strata(population: Population, checks: int, target: str) -> Strata:
    """The largest number of strata with at least five expected positives in each, else about four."""
    for most in (MOST_STRATA, 9, 6):
        if most * 8 > checks:
            continue
        strata = make_strata(population, most)
        stratum = strata.assign(population)
        sizes = np.bincount(stratum[population.is_open], minlength=strata.count)
        spread = spread_of(population, stratum, target)
        drawn = allocate(checks, sizes, spread)
        enough = expected_positives(population, stratum, drawn) >= ENOUGH_POSITIVES
        # Strata without spread do not affect the target; precision, for example, depends only on flagged rows.
        if (enough | (spread == 0.0)).all():
            return strata
    return make_strata(population, 4)


def allocate(checks: int, sizes: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Checks per stratum: a fifth by size, the rest by size × spread; at least two each, at most all its rows.

    >>> allocate(100, np.array([900, 100]), np.array([0.1, 0.9])).tolist()
    [58, 42]
    """
    sizes = np.asarray(sizes)
    by_size = PROPORTIONAL_SHARE * checks * sizes / sizes.sum()
    # Every stratum gets at least its part of the fifth by size.
    least = np.minimum(np.maximum(FEWEST_PER_STRATUM, np.floor(by_size + 1e-9).astype(int)), sizes)
    weight = sizes * np.asarray(spread)
    by_doubt = weight / weight.sum() if weight.sum() > 0 else sizes / sizes.sum()
    wanted = by_size + (1.0 - PROPORTIONAL_SHARE) * checks * by_doubt
    found = np.clip(wanted, least, sizes)
    for _ in range(100):
        gap = checks - found.sum()
        free = (found < sizes) if gap > 0 else (found > least)
        if abs(gap) < 1e-9 or not free.any():
            break
        share = np.where(free, np.maximum(wanted, 1e-9), 0.0)
        found = np.clip(found + gap * share / share.sum(), least, sizes)
    return _rounded(found, min(checks, int(sizes.sum())), least, sizes)


def spread_of(population: Population, stratum: np.ndarray, target: str) -> np.ndarray:
    """The expected standard deviation, within each stratum, of the influence of a check on the target."""
    influence = planned_influence(population, target)
    variance = influence**2 * population.belief * (1.0 - population.belief)
    rows = stratum >= 0
    count = np.bincount(stratum[rows])
    return np.sqrt(np.bincount(stratum[rows], weights=variance[rows]) / np.maximum(count, 1))


def planned_influence(population: Population, target: str) -> np.ndarray:
    """The influence of each row on a target, linearised at the beliefs."""
    figure = target_named(target)
    total = float((figure.column(population) * population.belief).sum())
    return figure.influence(population, total, float(population.belief.sum()))


def expected_positives(population: Population, stratum: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """The expected number of positives among the checks of each stratum; infinite if every row is checked."""
    rows = stratum >= 0
    count = np.bincount(stratum[rows], minlength=drawn.size)
    mean = np.bincount(stratum[rows], weights=population.belief[rows], minlength=drawn.size) / np.maximum(count, 1)
    return np.where(drawn >= count, np.inf, drawn * mean)


def fingerprint(population: Population) -> str:
    """A hash of the scores, soft labels and known rows."""
    found = sha256()
    for part in (population.score, population.soft_label, population.is_known, population.row):
        found.update(np.ascontiguousarray(part).tobytes())
    return found.hexdigest()[:32]


def check_count(checks: Any, rows: int) -> int:
    if isinstance(checks, bool) or not isinstance(checks, int | np.integer) or checks < FEWEST_CHECKS:
        raise AssumptionError(f"An audit needs at least {FEWEST_CHECKS} checks, got {checks!r}.")
    if checks > rows:
        raise AssumptionError(f"An audit of {checks:,} checks needs as many unknown rows, but there are only {rows:,}.")
    return int(checks)


def _rounded(found: np.ndarray, total: int, least: np.ndarray, most: np.ndarray) -> np.ndarray:
    """Integers with the same sum; the largest remainders are rounded up."""
    whole = np.floor(found + 1e-9).astype(int)
    for place in np.argsort(whole - found, kind="stable"):
        if whole.sum() < total and whole[place] < most[place]:
            whole[place] += 1
    while whole.sum() < total:
        whole[np.argmax(most - whole)] += 1
    while whole.sum() > total and (whole > least).any():
        whole[np.argmax(whole - least)] -= 1
    return whole
