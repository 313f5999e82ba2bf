"""Review queues: each model's top rows, users drawn at random, and rows where model and rules disagree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from spu_core.checks import check_score, check_soft_label
from spu_core.errors import TableError
from spu_core.trust.outcomes.arms import assign_arms, check_random_share, hash_shares
from spu_core.trust.outcomes.ratios import RANDOM


@dataclass(frozen=True, kw_only=True)
class QueuePlan:
    """How many users to check and how they are chosen; equal plans on equal rows choose the same users.

    `random_share` of the users, and of the checks, belongs to chance. `seed` splits the users, so it stays the same
    from one round to the next; `turn` counts the rounds, so that chance draws anew.

    >>> QueuePlan(budget=0)
    Traceback (most recent call last):
    spu_core.errors.TableError: budget must be at least 1 check, got 0.
    """

    budget: int
    random_share: float = 0.1
    seed: int = 0
    turn: int = 1

    def __post_init__(self) -> None:
        if self.budget < 1:
            raise TableError(f"budget must be at least 1 check, got {self.budget}.")
        check_random_share(self.random_share)


@dataclass(frozen=True, slots=True)
class ArmPlan:
    """How one arm was filled: of `users` open to it, `checks` were taken, all with a score of at least `cut`."""

    arm: str
    users: int
    checks: int
    cut: float

    @property
    def chance(self) -> float:
        """The share of its users that it checks: for chance, every user's probability to be checked."""
        return self.checks / self.users if self.users else 0.0


@dataclass(frozen=True, eq=False)
class Queue:
    """Rows to check, arm by arm, the highest score first; `score` is the score of the arm's own model.

    Users drawn by chance carry the score of the first model, which had no say in drawing them.
    """

    row: np.ndarray
    user: np.ndarray
    arm: np.ndarray
    score: np.ndarray
    plans: tuple[ArmPlan, ...]

    def __len__(self) -> int:
        return self.row.size

    def to_frame(self) -> pd.DataFrame:
        return pd.DataFrame({"user": self.user, "row": self.row, "arm": self.arm, "score": self.score})


def fill_queue(users: Any, scores: Mapping[str, Any], plan: QueuePlan, *, is_open: Any = None) -> Queue:
    """Choose whom to check: `scores` has one score per row for each model, `is_open` says which rows may be chosen.

    A user with several rows is checked for the best of them, once. Equal scores are put in order by the hash of the
    user, not by their place in the file.

    >>> score = np.arange(1_000) / 1_000
    >>> queue = fill_queue(range(1_000), {"model": score}, QueuePlan(budget=50))
    >>> {each.arm: each.checks for each in queue.plans}
    {'model': 45, 'random': 5}
    >>> bool(queue.score[queue.arm == "model"].min() > 0.9)
    True
    """
    users = np.asarray(users, dtype=object)
    checked = {name: check_score(values, users.size, f"score of {name!r}") for name, values in scores.items()}
    arms = assign_arms(users, list(checked), random_share=plan.random_share, seed=plan.seed)
    is_open = np.ones(users.size, dtype=bool) if is_open is None else np.asarray(is_open, dtype=bool)
    if is_open.size != users.size:
        raise TableError(f"is_open has {is_open.size} rows, but there are {users.size} users; each row needs both.")
    luck = hash_shares(users, plan.seed, f"turn {plan.turn}")
    wanted = _budgets(plan, list(checked))
    parts = [_fill(arms == name, (users, checked, luck, is_open), (name, wanted[name])) for name in wanted]
    rows = np.concatenate([rows for rows, _ in parts])
    if not rows.size:
        raise TableError("Nobody is left to check: every user is confirmed or was in a queue before.")
    first = next(iter(checked))
    score = np.array([checked[first if arm == RANDOM else arm][row] for row, arm in zip(rows, arms[rows], strict=True)])
    return Queue(rows, users[rows], arms[rows].astype(str), score, tuple(plan for _, plan in parts))


def _budgets(plan: QueuePlan, models: list[str]) -> dict[str, int]:
    """Checks per arm: chance gets its share (at least one check), the models equal parts."""
    chance = round(plan.budget * plan.random_share)
    chance = max(chance, 1) if plan.random_share > 0 and plan.budget > len(models) else chance
    rest = plan.budget - chance
    each = {name: rest // len(models) + (place < rest % len(models)) for place, name in enumerate(models)}
    return {**each, RANDOM: chance} if plan.random_share > 0 else each


def _fill(mine: np.ndarray, parts: tuple[Any, ...], wanted: tuple[str, int]) -> tuple[np.ndarray, ArmPlan]:
    users, scores, luck, is_open = parts
    name, budget = wanted
    # By chance alone the hash decides, and decides the same for all rows of a user.
    order_by = luck if name == RANDOM else scores[name]
    rows = np.flatnonzero(mine & is_open)
    rows = rows[np.lexsort((luck[rows], -order_by[rows]))]
    rows = rows[~pd.Series(users[rows]).duplicated().to_numpy()]
    taken = rows[:budget]
    cut = float(order_by[taken].min()) if taken.size and name != RANDOM else float("nan")
    return taken, ArmPlan(name, rows.size, taken.size, cut)


MODEL_ABOVE = "the model suspects, the rules do not"
RULES_ABOVE = "the rules suspect, the model does not"
BOTH = "both"
SIDES = {"both": (MODEL_ABOVE, RULES_ABOVE), "model": (MODEL_ABOVE,), "rules": (RULES_ABOVE,)}


@dataclass(frozen=True, eq=False)
class Disagreement:
    """Rows in order of `gap`, the share of all rows that lie between the row's two ranks; the largest first."""

    row: np.ndarray
    gap: np.ndarray
    side: np.ndarray
    model_percentile: np.ndarray
    rules_percentile: np.ndarray

    def __len__(self) -> int:
        return self.row.size

    def to_frame(self) -> pd.DataFrame:
        names = ("row", "side", "gap", "model_percentile", "rules_percentile")
        return pd.DataFrame({name: getattr(self, name) for name in names})


def disagreement(
    score: Any, rule_score: Any, *, is_open: Any = None, budget: int = 50, side: str = BOTH
) -> Disagreement:
    """The rows whose place by the model's score and by the rules' differs most.

    Both are turned into percentiles first (rows with equal values share the middle), since their scales differ. With
    `side="both"` each side gets half of the budget, where it has that many.

    >>> found = disagreement([0.9, 0.1, 0.5, 0.4], [0.0, 0.8, 0.5, 0.3], budget=2)
    >>> found.row.tolist(), found.side.tolist()
    ([0, 1], ['the model suspects, the rules do not', 'the rules suspect, the model does not'])
    """
    score, rules = check_score(score), check_soft_label(rule_score, "rule_score")
    if score.size != rules.size:
        raise TableError(f"score has {score.size} rows, but rule_score has {rules.size}; both need one per row.")
    if side not in SIDES or budget < 1:
        raise TableError(f"side must be one of {sorted(SIDES)} and budget at least 1, got {side!r} and {budget}.")
    if np.ptp(rules) == 0:
        raise TableError("The rules say the same of every row, so a model cannot disagree with them anywhere.")
    by_model, by_rules = (
        100.0 * (pd.Series(values).rank().to_numpy() - 0.5) / values.size for values in (score, rules)
    )
    gap = (by_model - by_rules) / 100.0
    open_rows = np.arange(score.size) if is_open is None else np.flatnonzero(np.asarray(is_open, dtype=bool))
    above = open_rows[gap[open_rows] > 0]
    # Rows of which the rules say nothing share a middle rank; being ranked below it is no suspicion of the rules.
    below = open_rows[(gap[open_rows] < 0) & (rules[open_rows] > rules.min())]
    ordered = [above[np.argsort(-gap[above], kind="stable")], below[np.argsort(gap[below], kind="stable")]]
    rows = _shared(ordered, budget, side)
    rows = rows[np.argsort(-np.abs(gap[rows]), kind="stable")]
    sides = np.where(gap[rows] > 0, MODEL_ABOVE, RULES_ABOVE)
    return Disagreement(rows, np.abs(gap[rows]), sides, by_model[rows], by_rules[rows])


def _shared(ordered: list[np.ndarray], budget: int, side: str) -> np.ndarray:
    if side != BOTH:
        return ordered[0 if side == "model" else 1][:budget]
    half = min(budget // 2, ordered[1].size)
    first = ordered[0][: budget - half]
    return np.concatenate([first, ordered[1][: budget - first.size]])
