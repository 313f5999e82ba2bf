"""The review list for reviewers, and the verdicts that they return.

The list has the drawn rows in random order, without score and soft label, which could influence the reviewer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from spu_core.checks import check_choice
from spu_core.errors import AssumptionError, nearest_hint
from spu_core.tables import Role, Table
from spu_core.trust.audit.plan import AuditPlan

Treatment = Literal["mean", "agreed", "worst_case"]
TREATMENTS = {
    "mean": "If reviewers disagree or are unsure, a row counts as the share of reviewers who found it positive "
    "(unsure: half).",
    "agreed": "Rows on which reviewers disagree or are unsure are left out, as if they had not been drawn. This is "
    "correct only if such rows are similar to the others of their stratum.",
    "worst_case": "Rows on which reviewers disagree or are unsure count once as negative and once as positive. The "
    "confidence interval covers both.",
}
_WORDS = {
    "positive": ("positive", "yes", "y", "true", "1", "1.0", "p"),
    "negative": ("negative", "no", "n", "false", "0", "0.0"),
    "unsure": ("unsure", "unclear", "?", "maybe"),
}
_MEANING = {word: meaning for meaning, words in _WORDS.items() for word in words}
_COLUMNS = ("row", "verdict", "reviewer", "note", "audit")
ANONYMOUS = "reviewer"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of one reviewer for one row: positive, negative or unsure."""

    row: int
    verdict: str
    reviewer: str = ANONYMOUS
    note: str = ""


@dataclass(frozen=True, slots=True)
class VerdictFile:
    """Verdicts of a review list, and the number of rows without a verdict."""

    verdicts: tuple[Verdict, ...]
    empty: int


def read_verdicts(frame: pd.DataFrame, plan: AuditPlan) -> VerdictFile:
    """The verdicts of a completed review list.

    An unknown verdict, a row of another audit, or two different verdicts of one reviewer on one row are errors; the
    message names the line.

    >>> from spu_core.trust.audit.population import Population
    >>> from spu_core.trust.audit.plan import plan_audit
    >>> rows = Population.of(np.linspace(0, 1, 50), np.linspace(0, 1, 50), threshold=0.5)
    >>> plan = plan_audit(rows, 10)
    >>> read_verdicts(pd.DataFrame({"row": plan.rows[:2], "verdict": ["yes", ""]}), plan)
    VerdictFile(verdicts=(Verdict(row=..., verdict='positive', reviewer='reviewer', note=''),), empty=1)
    """
    columns = {str(name).strip().lower(): name for name in frame.columns}
    for needed in ("row", "verdict"):
        if needed not in columns:
            raise AssumptionError(f"The list has no column {needed!r}. {nearest_hint(needed, map(str, frame.columns))}")
    _check_audit(frame, columns, plan)
    drawn = set(plan.rows)
    seen: dict[tuple[int, str], Verdict] = {}
    empty = 0
    for line, values in enumerate(_lines(frame, columns), start=2):
        if not values["verdict"]:
            empty += 1
            continue
        verdict = _verdict(line, values, drawn)
        before = seen.setdefault((verdict.row, verdict.reviewer), verdict)
        if before.verdict != verdict.verdict:
            raise AssumptionError(
                f"Line {line}: {verdict.reviewer!r} has two verdicts on row {verdict.row}, {before.verdict} and "
                f"{verdict.verdict}; keep one of them, or name the second reviewer."
            )
    return VerdictFile(tuple(seen.values()), empty)


@dataclass(frozen=True, eq=False)
class Agreement:
    """One number per row after the treatment of disagreement; `low` and `high` differ only for "worst_case"."""

    row: np.ndarray
    low: np.ndarray
    high: np.ndarray
    treatment: str
    split: int
    twice: int
    agreed: int

    @property
    def sentence(self) -> str:
        """The number of rows on which reviewers disagree, and how they are treated."""
        rows = f"{self.row.size:,} rows have verdicts"
        if self.twice:
            rows += f", {self.twice:,} of them by several reviewers, who agree on {self.agreed:,}"
        if not self.split:
            return f"{rows}; no verdict is split or unsure."
        return f"{rows}; {self.split:,} are split or unsure. {TREATMENTS[self.treatment]}"


def agree(verdicts: Iterable[Any], treatment: Treatment = "mean") -> Agreement:
    """One number per row, from objects with `row`, `verdict` and `reviewer`.

    >>> split = [Verdict(3, "positive", "ann"), Verdict(3, "negative", "bob"), Verdict(5, "negative", "ann")]
    >>> agree(split).low.tolist(), agree(split, "agreed").row.tolist(), agree(split, "worst_case").high.tolist()
    ([0.5, 0.0], [5], [1.0, 0.0])
    """
    check_choice(treatment, TREATMENTS, "treatment", AssumptionError)
    values = {"positive": 1.0, "negative": 0.0, "unsure": 0.5}
    by_row: dict[int, list[float]] = {}
    for item in verdicts:
        by_row.setdefault(int(item.row), []).append(values[item.verdict])
    if not by_row:
        raise AssumptionError("No row has a verdict yet; check some rows of the list first.")
    row = np.array(sorted(by_row))
    mean = np.array([np.mean(by_row[at]) for at in row.tolist()])
    is_split = (mean > 0.0) & (mean < 1.0)
    several = np.array([len(by_row[at]) > 1 for at in row.tolist()])
    low, high = (np.where(is_split, end, mean) if treatment == "worst_case" else mean for end in (0.0, 1.0))
    kept = ~is_split if treatment == "agreed" else np.ones(row.size, dtype=bool)
    return Agreement(
        row[kept],
        low[kept],
        high[kept],
        treatment,
        int(is_split.sum()),
        int(several.sum()),
        int((several & ~is_split).sum()),
    )


def _verdict(line: int, values: dict[str, str], drawn: set[int]) -> Verdict:
    meaning = _MEANING.get(values["verdict"].lower())
    if meaning is None:
        raise AssumptionError(
            f"Line {line}: unknown verdict {values['verdict']!r}; use positive, negative or unsure (or yes, no, 1, 0), "
            "or leave it empty if the row has not been checked."
        )
    try:
        row = int(float(values["row"]))
    except ValueError:
        raise AssumptionError(f"Line {line}: {values['row']!r} is not a row number.") from None
    if row not in drawn:
        raise AssumptionError(
            f"Line {line}: row {row} was not drawn in this audit. Only drawn rows can be used, because the probability "
            "to be drawn must be known."
        )
    return Verdict(row, meaning, values["reviewer"] or ANONYMOUS, values["note"])


def _lines(frame: pd.DataFrame, columns: dict[str, Any]) -> Iterable[dict[str, str]]:
    texts = {name: _texts(frame[columns[name]]) if name in columns else None for name in _COLUMNS}
    for place in range(len(frame)):
        yield {name: "" if column is None else column[place] for name, column in texts.items()}


def _texts(values: pd.Series) -> list[str]:
    return ["" if pd.isna(value) else str(value).strip().removeprefix("'") for value in values]


def _check_audit(frame: pd.DataFrame, columns: dict[str, Any], plan: AuditPlan) -> None:
    """Raise an error if the list belongs to another audit."""
    if "audit" not in columns:
        return
    for line, code in enumerate(_texts(frame[columns["audit"]]), start=2):
        if code and code != plan.code:
            raise AssumptionError(f"Line {line} belongs to audit {code}, but this is audit {plan.code}.")


OWN_COLUMNS = ("audit", "row", "stratum", "inclusion_probability", "verdict", "reviewer", "note")
HIDDEN_ROLES = (Role.LABEL, Role.TRUTH, Role.SOFT_LABEL)


def review_list(table: Table, plan: AuditPlan, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """One line per drawn row, with empty columns for the verdict (positive, negative or unsure), reviewer and note.

    `row` is the row number in the table, from 0. Cells have the same text as in the file. Strata have letters in random
    order, so that reviewers learn nothing from them. Default `columns`: all but label, truth and soft label.
    """
    rows = np.array(plan.rows)
    if rows.size and rows.max() >= len(table):
        raise AssumptionError(f"The audit drew row {rows.max()}, but {table.name!r} has only {len(table):,} rows.")
    shown = table.as_written(_shown(table, columns), rows)
    # A column of the table with the name of one of our columns is renamed.
    shown.columns = pd.Index([f"{name} (data)" if name in OWN_COLUMNS else name for name in shown.columns])
    letters = stratum_letters(plan)
    ours = pd.DataFrame(
        {
            "audit": plan.code,
            "row": rows,
            "stratum": [letters[number] for number in plan.row_stratum],
            "inclusion_probability": plan.inclusion,
        }
    )
    return pd.concat([ours, shown, pd.DataFrame({name: [""] * len(rows) for name in OWN_COLUMNS[4:]})], axis=1)


def stratum_letters(plan: AuditPlan) -> tuple[str, ...]:
    """The letter of each stratum, in an order that depends on the seed."""
    order = np.random.default_rng([plan.seed, 11]).permutation(len(plan.sizes))
    return tuple(chr(ord("A") + int(place)) for place in order)


def _shown(table: Table, columns: Sequence[str] | None) -> list[str]:
    if columns is None:
        return [str(name) for name in table.frame.columns if table.roles.get(name) not in HIDDEN_ROLES]
    unknown = [name for name in columns if name not in table.frame.columns]
    if unknown:
        raise AssumptionError(
            f"The table has no column {unknown[0]!r}. {nearest_hint(unknown[0], table.frame.columns)}"
        )
    first = table.column_with(Role.ID)
    return list(dict.fromkeys([*([first] if first else []), *columns]))
