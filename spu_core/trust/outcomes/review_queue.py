"""Review queues (top rows of each model, random users, rows on which model and rules disagree), and the outcome files
that reviewers return for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from spu_core.checks import check_score, check_soft_label
from spu_core.errors import TableError
from spu_core.labels.check_log import OUTCOME_CODES
from spu_core.trust.outcomes.arms import assign_arms, check_random_share, hash_shares
from spu_core.trust.outcomes.ratios import OUTCOME_NAMES, RANDOM


@dataclass(frozen=True, kw_only=True)
class QueuePlan:
    """How many users to check and how they are chosen. Equal plans on equal rows choose the same users.

    `random_share` is the share of users, and of checks, in the random arm. `seed` determines the split of the users and
    must stay the same in all rounds. `turn` is the number of the round; each round draws other random users.

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
    """How one arm was filled: `checks` of its `users` were chosen, all with a score of at least `cut`."""

    arm: str
    users: int
    checks: int
    cut: float

    @property
    def chance(self) -> float:
        """Share of its users that are checked; in the random arm, the probability of each user to be checked."""
        return self.checks / self.users if self.users else 0.0


@dataclass(frozen=True, eq=False)
class Queue:
    """Rows to check, arm by arm, highest scores first; `score` is the score of the arm's model.

    Random users have the score of the first model, which was not used to choose them.
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
    """Choose users to check. `scores` has one score per row for each model; only rows with `is_open` may be chosen.

    A user with several rows is checked once, for the row with the highest score. Equal scores are ordered by the hash
    of the user, not by their position in the file.

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
    random_order = hash_shares(users, plan.seed, f"turn {plan.turn}")
    wanted = _budgets(plan, list(checked))
    parts = [_fill(arms == name, (users, checked, random_order, is_open), (name, wanted[name])) for name in wanted]
    rows = np.concatenate([rows for rows, _ in parts])
    if not rows.size:
        raise TableError("No user is left to check: all users are confirmed or were in an earlier queue.")
    first = next(iter(checked))
    score = np.array([checked[first if arm == RANDOM else arm][row] for row, arm in zip(rows, arms[rows], strict=True)])
    return Queue(rows, users[rows], arms[rows].astype(str), score, tuple(plan for _, plan in parts))


def _budgets(plan: QueuePlan, models: list[str]) -> dict[str, int]:
    """Checks per arm: the random arm gets its share (at least one check), the models get equal parts."""
    chance = round(plan.budget * plan.random_share)
    chance = max(chance, 1) if plan.random_share > 0 and plan.budget > len(models) else chance
    rest = plan.budget - chance
    each = {name: rest // len(models) + (place < rest % len(models)) for place, name in enumerate(models)}
    return {**each, RANDOM: chance} if plan.random_share > 0 else each


def _fill(in_arm: np.ndarray, parts: tuple[Any, ...], wanted: tuple[str, int]) -> tuple[np.ndarray, ArmPlan]:
    users, scores, random_order, is_open = parts
    name, budget = wanted
    # In the random arm the hash determines the order; it is equal for all rows of a user.
    order_by = random_order if name == RANDOM else scores[name]
    rows = np.flatnonzero(in_arm & is_open)
    rows = rows[np.lexsort((random_order[rows], -order_by[rows]))]
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
    """The rows whose rank by the model's score and by the rule score differs most.

    Both scores are converted to percentiles (midranks for ties), since their scales differ. With `side="both"` each
    side gets half of the budget, if it has that many rows.

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
        raise TableError("The rule score is the same in every row, so model and rules cannot be compared.")
    by_model, by_rules = (
        100.0 * (pd.Series(values).rank().to_numpy() - 0.5) / values.size for values in (score, rules)
    )
    gap = (by_model - by_rules) / 100.0
    open_rows = np.arange(score.size) if is_open is None else np.flatnonzero(np.asarray(is_open, dtype=bool))
    above = open_rows[gap[open_rows] > 0]
    # Rows with the lowest rule score share a midrank; a lower model rank does not mean that the rules suspect them.
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


USER_COLUMNS, OUTCOME_COLUMNS, DAY_COLUMNS = ("user", "id"), ("outcome", "result"), ("day", "date")
SHOWN = 5


@dataclass(frozen=True, slots=True)
class OutcomeLine:
    """The outcome of one row of the queue; `day` is an ISO date or empty."""

    row: int
    user: str
    outcome: str
    day: str = ""


@dataclass(frozen=True, slots=True)
class OutcomeFile:
    """Outcomes of users in the queue, users that are not in it, and the number of lines without an outcome."""

    lines: tuple[OutcomeLine, ...]
    unknown: tuple[str, ...]
    open: int

    @property
    def sentence(self) -> str:
        """A summary of the file in a sentence."""
        words = {"confirmed": "admitted", "failed": "failed", "cleared": "passed"}
        counts = {word: sum(line.outcome == name for line in self.lines) for word, name in words.items()}
        shown = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        text = f"{len(self.lines):,} outcomes ({shown})"
        if self.open:
            text += f"; {self.open:,} lines have none yet"
        if self.unknown:
            text += f"; {len(self.unknown):,} names are not in this queue: {_few(self.unknown)}"
        return f"{text}."


def read_outcomes(frame: pd.DataFrame, rows: Mapping[str, int]) -> OutcomeFile:
    """Match the lines of a file with a queue; `rows` maps the name of each user in the queue to its row.

    The file needs the columns user (or id) and outcome (or result), and may have day (or date). Outcomes are confirmed
    (or admitted), failed, skipped (the same as failed) and cleared (or passed); a line without an outcome is still
    open. An unknown outcome, an invalid date and a user with two lines are errors, since guessing could falsify the
    shares.

    >>> frame = pd.DataFrame({"user": ["a", "b", "x"], "outcome": ["Admit", None, "pass"]})
    >>> found = read_outcomes(frame, {"a": 4, "b": 9})
    >>> found.lines, found.unknown, found.open
    ((OutcomeLine(row=4, user='a', outcome='admitted', day=''),), ('x',), 1)
    """
    user, outcome = _column(frame, USER_COLUMNS, "user"), _column(frame, OUTCOME_COLUMNS, "outcome")
    day = next((frame[name] for name in frame.columns if str(name).strip().lower() in DAY_COLUMNS), None)
    names = [_name(value, rows) for value in user]
    outcomes = [_outcome(value, line) for line, value in enumerate(outcome, 2)]
    _refuse_twice(names)
    days = [""] * len(names) if day is None else [_day(value, line) for line, value in enumerate(day, 2)]
    known = [place for place, name in enumerate(names) if name in rows and outcomes[place]]
    return OutcomeFile(
        tuple(OutcomeLine(rows[names[at]], names[at], outcomes[at], days[at]) for at in known),
        tuple(name for name in names if name and name not in rows),
        sum(name in rows and not outcome for name, outcome in zip(names, outcomes, strict=True)),
    )


def _column(frame: pd.DataFrame, wanted: tuple[str, ...], what: str) -> pd.Series:
    for name in frame.columns:
        if str(name).strip().lstrip("\ufeff").lower() in wanted:
            return frame[name]
    found = ", ".join(repr(str(name)) for name in frame.columns[:8])
    raise TableError(f"The outcome file has no column {what!r}; its columns are {found}.")


def _name(value: Any, rows: Mapping[str, int]) -> str:
    """The name as the queue writes it: whole numbers without a decimal point, without a spreadsheet's apostrophe."""
    if value is None or value != value or value is pd.NA:
        return ""
    is_whole = isinstance(value, float | np.floating) and float(value).is_integer()
    text = str(int(value)) if is_whole else str(value).strip()
    bare = text.removeprefix("'")
    return bare if text not in rows and bare in rows else text


def _outcome(value: Any, line: int) -> str:
    """The name of the outcome; empty if there is none yet."""
    if value is None or value != value or value is pd.NA or not str(value).strip():
        return ""
    word = str(value).strip().lower()
    if word not in OUTCOME_CODES:
        known = ", ".join(("confirmed", "failed", "skipped", "cleared"))
        raise TableError(f"Line {line} has the unknown outcome {str(value)[:40]!r}; use one of {known}.")
    return OUTCOME_NAMES[OUTCOME_CODES[word]]


def _day(value: Any, line: int) -> str:
    if value is None or value is pd.NaT or value != value or not str(value).strip():
        return ""
    try:
        return pd.Timestamp(value).date().isoformat()
    except (ValueError, TypeError):
        raise TableError(
            f"Line {line} has the day {str(value)[:40]!r}, which is not a date; write it like 2026-03-31."
        ) from None


def _refuse_twice(names: list[str]) -> None:
    seen: dict[str, int] = {}
    for line, name in enumerate(names, 2):
        if name and name in seen:
            raise TableError(f"User {name!r} is in lines {seen[name]} and {line}; keep one line per user.")
        seen[name] = line


def _few(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(repr(name) for name in names[:SHOWN]) + more
