"""Outcome files from reviewers: one line per user, matched with a review queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import TableError
from spu_core.labels.check_log import OUTCOME_CODES
from spu_core.trust.outcomes.ratios import OUTCOME_NAMES

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
