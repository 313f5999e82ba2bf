"""The review list for reviewers, and the verdicts that they return, as a table or as files of Label Studio.

The list has the drawn rows in random order, without score and soft label, which could influence the reviewer. The files
of Label Studio (https://labelstud.io) are its own JSON: a list of tasks, each with `data`; after the review also with
`annotations`. All cells of a row are one object that the `Table` tag shows as text, so column names need not be valid
XML names, and a cell is never interpreted as HTML.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
import pandas as pd

from spu_core.checks import check_choice
from spu_core.codec import describe, dump_json, encode, parse_json, shorten
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
    """The answer of one reviewer for one row.

    Parameters
    ----------
    row : int
        Row number in the table, from 0.
    verdict : {"positive", "negative", "unsure"}
    reviewer, note : str
    """

    row: int
    verdict: str
    reviewer: str = ANONYMOUS
    note: str = ""


@dataclass(frozen=True, slots=True)
class VerdictFile:
    """Verdicts of a review list, and the number of rows without a verdict."""

    verdicts: tuple[Verdict, ...]
    empty: int


def read_verdicts(frame: pd.DataFrame, plan: AuditPlan, *, unit: str = "Line", first: int = 2) -> VerdictFile:
    """The verdicts of a completed review list.

    Parameters
    ----------
    frame : DataFrame
        The list with the columns "row" and "verdict" (positive, negative, unsure, or yes, no, 1, 0, …), optionally
        "reviewer" and "note". Lines without a verdict are skipped.
    plan : AuditPlan
        The plan by which the rows were drawn.
    unit, first : str and int
        What a line is called in error messages, and the number of the first one.

    Returns
    -------
    VerdictFile
        `.verdicts` for `combine_audits`; `.empty` is the number of lines without a verdict.

    Raises
    ------
    AssumptionError
        If a verdict is unknown, a row is of another audit, or one reviewer has two different verdicts on one row; the
        message names the line.

    Examples
    --------
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
    _check_audit(frame, columns, plan, unit, first)
    drawn = set(plan.rows)
    seen: dict[tuple[int, str], Verdict] = {}
    empty = 0
    for number, values in enumerate(_lines(frame, columns), start=first):
        line = f"{unit} {number}"
        if not values["verdict"]:
            empty += 1
            continue
        verdict = _verdict(line, values, drawn)
        before = seen.setdefault((verdict.row, verdict.reviewer), verdict)
        if before.verdict != verdict.verdict:
            raise AssumptionError(
                f"{line}: {verdict.reviewer!r} has two verdicts on row {verdict.row}, {before.verdict} and "
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


@dataclass(frozen=True, slots=True)
class ReviewerAgreement:
    """Cohen's κ of two reviewers on the rows that both found positive or negative; NaN if it is undefined.

    `table` counts these rows by the first and the second verdict (negative, positive).
    """

    reviewers: tuple[str, str]
    table: tuple[tuple[int, int], tuple[int, int]]
    unsure: int
    kappa: float
    low: float
    high: float
    level: float = 0.95

    @property
    def rows(self) -> int:
        return sum(map(sum, self.table))

    @property
    def sentence(self) -> str:
        """How often the two agree, and κ with its interval."""
        same = self.table[0][0] + self.table[1][1]
        words = f"{self.reviewers[0]} and {self.reviewers[1]} agree on {same:,} of {self.rows:,} rows"
        unsure = f"; on {self.unsure:,} more at least one was unsure" if self.unsure else ""
        if np.isnan(self.kappa):
            return f"{words}{unsure}. Cohen's κ needs rows with both verdicts."
        return f"{words} (Cohen's κ {self.kappa:.2f}, {self.level:.0%}: {self.low:.2f} to {self.high:.2f}){unsure}."


def reviewer_agreement(verdicts: Iterable[Any], *, level: float = 0.95) -> tuple[ReviewerAgreement, ...]:
    """Cohen's κ for each pair of reviewers with rows in common, most rows first.

    The interval is that of a Dirichlet posterior with Jeffreys prior. Unlike the usual standard error, it holds with
    ten rows and with complete agreement. It treats the rows as a random sample of the rows to review.

    >>> names = {"ann": "ppppnnnnnn", "bob": "pppnnnnnnn"}
    >>> words = {"p": "positive", "n": "negative"}
    >>> both = [Verdict(row, words[w], name) for name, text in names.items() for row, w in enumerate(text)]
    >>> round(reviewer_agreement(both)[0].kappa, 3)
    0.783
    """
    by_reviewer: dict[str, dict[int, str]] = {}
    for item in verdicts:
        by_reviewer.setdefault(str(item.reviewer), {})[int(item.row)] = item.verdict
    pairs = []
    for first, second in combinations(sorted(by_reviewer), 2):
        one, two = by_reviewer[first], by_reviewer[second]
        both = Counter((one[row], two[row]) for row in one.keys() & two.keys())
        if both:
            pairs.append(_agreement_of((first, second), both, level))
    return tuple(sorted(pairs, key=lambda pair: -pair.rows))


def _agreement_of(reviewers: tuple[str, str], both: Counter[tuple[str, str]], level: float) -> ReviewerAgreement:
    sides = ("negative", "positive")
    table = np.array([[both[one, two] for two in sides] for one in sides])
    draws = np.random.default_rng(0).dirichlet(table.ravel() + 0.5, size=10_000).reshape(-1, 2, 2)
    tail = 0.5 * (1.0 - level)
    low, high = np.quantile(_kappa(draws), [tail, 1.0 - tail])
    estimate = float(_kappa(table[None] / max(table.sum(), 1))[0])
    counts = ((int(table[0, 0]), int(table[0, 1])), (int(table[1, 0]), int(table[1, 1])))
    return ReviewerAgreement(
        reviewers, counts, both.total() - int(table.sum()), estimate, float(low), float(high), level
    )


def _kappa(shares: np.ndarray) -> np.ndarray:
    """Cohen's κ of tables of shares; NaN where both reviewers always gave the same single verdict."""
    same = shares[:, 0, 0] + shares[:, 1, 1]
    by_chance = (shares.sum(axis=2) * shares.sum(axis=1)).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(by_chance < 1.0, (same - by_chance) / (1.0 - by_chance), np.nan))


def _verdict(line: str, values: dict[str, str], drawn: set[int]) -> Verdict:
    meaning = _MEANING.get(values["verdict"].lower())
    if meaning is None:
        raise AssumptionError(
            f"{line}: unknown verdict {values['verdict']!r}; use positive, negative or unsure (or yes, no, 1, 0), "
            "or leave it empty if the row has not been checked."
        )
    try:
        row = int(float(values["row"]))
    except ValueError:
        raise AssumptionError(f"{line}: {values['row']!r} is not a row number.") from None
    if row not in drawn:
        raise AssumptionError(
            f"{line}: row {row} was not drawn in this audit. Only drawn rows can be used, because the probability "
            "to be drawn must be known."
        )
    return Verdict(row, meaning, values["reviewer"] or ANONYMOUS, values["note"])


def _lines(frame: pd.DataFrame, columns: dict[str, Any]) -> Iterable[dict[str, str]]:
    texts = {name: _texts(frame[columns[name]]) if name in columns else None for name in _COLUMNS}
    for place in range(len(frame)):
        yield {name: "" if column is None else column[place] for name, column in texts.items()}


def _texts(values: pd.Series) -> list[str]:
    return ["" if pd.isna(value) else str(value).strip().removeprefix("'") for value in values]


def _check_audit(frame: pd.DataFrame, columns: dict[str, Any], plan: AuditPlan, unit: str, first: int) -> None:
    """Raise an error if the list belongs to another audit."""
    if "audit" not in columns:
        return
    for number, code in enumerate(_texts(frame[columns["audit"]]), start=first):
        if code and code != plan.code:
            raise AssumptionError(f"{unit} {number} belongs to audit {code}, but this is audit {plan.code}.")


OWN_COLUMNS = ("audit", "row", "stratum", "inclusion_probability", "verdict", "reviewer", "note")
CARD_COLUMNS = 6
HIDDEN_ROLES = (Role.LABEL, Role.TRUTH, Role.SOFT_LABEL)


def review_list(table: Table, plan: AuditPlan, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """One line per drawn row, with empty columns for the verdict (positive, negative or unsure), reviewer and note.

    Parameters
    ----------
    table : Table
        The table that was audited. Its cells have the same text as in the file.
    plan : AuditPlan
        The result of `draw_audit`.
    columns : sequence of str, optional
        Columns to show to reviewers. Default: all but label, truth and soft label.

    Returns
    -------
    DataFrame
        `row` is the row number in the table, from 0. Strata have letters in random order, so that reviewers learn
        nothing from them. `read_verdicts` reads the completed list.

    Raises
    ------
    AssumptionError
        If the table has no such row or column.

    Examples
    --------
    >>> from spu_core.trust.audit.plan import plan_audit
    >>> from spu_core.trust.audit.population import Population
    >>> table = Table.from_frame(pd.DataFrame({"delay": range(50)}))
    >>> plan = plan_audit(Population.of(np.linspace(0, 1, 50), np.linspace(0, 1, 50), threshold=0.5), 10)
    >>> review_list(table, plan).columns.tolist()
    ['audit', 'row', 'stratum', 'inclusion_probability', 'delay', 'verdict', 'reviewer', 'note']
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


def card_of(table: Table, row: int, first: Sequence[str] = ()) -> tuple[dict[str, str], dict[str, str]]:
    """The cells of a row as text, for a reviewer: those of the columns in `first`, and the others.

    Like the review list, without label, truth and soft label. Without `first`, the first six columns come first.
    """
    names = _shown(table, None)
    chosen = [name for name in first if name in names] or names[:CARD_COLUMNS]
    texts = _texts(table.as_written(names, [row]).astype(object).iloc[0])
    cells = dict(zip(names, texts, strict=True))
    return {name: cells[name] for name in chosen}, {name: cells[name] for name in names if name not in chosen}


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


MAX_BYTES = 50_000_000
CONFIG = """<View>
  <Header value="Is this row positive?"/>
  <Table name="row" value="$cells"/>
  <Choices name="verdict" toName="row" choice="single" required="true" showInline="true">
    <Choice value="positive" hotkey="p"/>
    <Choice value="negative" hotkey="n"/>
    <Choice value="unsure" hotkey="u"/>
  </Choices>
  <TextArea name="note" toName="row" placeholder="Note (optional)" maxSubmissions="1"/>
</View>
"""


def label_studio_tasks(
    table: Table, plan: AuditPlan, columns: Sequence[str] | None = None, *, rows: Iterable[int] | None = None
) -> str:
    """The review list of an audit as tasks to import into Label Studio (JSON text); only these `rows` if given.

    Like `review_list`, without score, soft label, stratum and probability. Use `CONFIG` as the labelling interface.
    """
    listed = review_list(table, plan, columns)
    if rows is not None:
        listed = listed[listed["row"].isin(list(rows))]
    shown = [name for name in listed.columns if name not in OWN_COLUMNS]
    tasks = [
        {
            "data": {
                "audit": plan.code,
                "row": int(row),
                "cells": {
                    str(name): "" if pd.isna(cell) else str(cell) for name, cell in zip(shown, cells, strict=True)
                },
            }
        }
        for row, cells in zip(listed["row"], listed[shown].itertuples(index=False, name=None), strict=True)
    ]
    return dump_json(encode(tasks), indent=1)


def read_label_studio(source: str | bytes, plan: AuditPlan) -> VerdictFile:
    """The verdicts of a Label Studio export in its JSON format (not JSON-MIN).

    Skipped and empty annotations count as rows without a verdict. A reviewer is named by e-mail address or name, else
    by the number that Label Studio gave them.

    >>> from spu_core.trust.audit.population import Population
    >>> from spu_core.trust.audit.plan import plan_audit
    >>> import numpy as np
    >>> rows = Population.of(np.linspace(0, 1, 50), np.linspace(0, 1, 50), threshold=0.5)
    >>> plan = plan_audit(rows, 10)
    >>> answer = {"from_name": "verdict", "type": "choices", "value": {"choices": ["positive"]}}
    >>> done = [{"data": {"row": plan.rows[0]}, "annotations": [{"completed_by": 7, "result": [answer]}]}]
    >>> read_label_studio(dump_json(done), plan).verdicts
    (Verdict(row=..., verdict='positive', reviewer='Label Studio user 7', note=''),)
    """
    tasks = parse_json(source, "The Label Studio file", AssumptionError, MAX_BYTES)
    if not isinstance(tasks, list):
        raise AssumptionError(f"A Label Studio export is a list of tasks, but this file holds {describe(tasks)}.")
    lines = [line for place, task in enumerate(tasks, start=1) for line in _task_lines(place, task)]
    listed = pd.DataFrame(lines, columns=["row", "audit", "verdict", "reviewer", "note"])
    return read_verdicts(listed, plan, unit="Annotation", first=1)


def _task_lines(place: int, task: Any) -> Iterator[tuple[str, str, str, str, str]]:
    """A line for each annotation of a task, or one without a verdict."""
    where = f"Task {place} of the Label Studio file"
    data = _field(task, "data", dict, where)
    row = data.get("row")
    if isinstance(row, bool) or not isinstance(row, int):
        raise AssumptionError(f"{where}: data.row must be a row number of the review list, got {shorten(row)}.")
    audit = data.get("audit", "")
    annotations = _field(task, "annotations", list, where)
    if not isinstance(audit, str):
        raise AssumptionError(f"{where}: data.audit must be text, got {describe(audit)}.")
    if not annotations:
        yield str(row), audit, "", "", ""
    for annotation in annotations:
        result = _field(annotation, "result", list, where)
        if annotation.get("was_cancelled"):
            result = []
        verdict, note = (_answer(result, name, key, where) for name, key in (("verdict", "choices"), ("note", "text")))
        yield str(row), audit, verdict, _reviewer(annotation.get("completed_by")), note


def _field(value: Any, name: str, kind: type, where: str) -> Any:
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, kind):
        hint = " Export the project as JSON, not as JSON-MIN or CSV." if name in ("data", "annotations") else ""
        raise AssumptionError(f"{where} has no {'list' if kind is list else 'object'} {name!r}.{hint}")
    return found


def _answer(result: list[Any], name: str, key: str, where: str) -> str:
    """What was entered in one control of the labelling interface; empty if nothing was."""
    for part in result:
        if isinstance(part, dict) and part.get("from_name") == name:
            value = part.get("value")
            texts = value.get(key) if isinstance(value, dict) else None
            texts = [texts] if isinstance(texts, str) else texts
            if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                raise AssumptionError(f"{where}: the value of {name!r} must have a list of texts {key!r}.")
            if name == "verdict" and len(texts) > 1:
                raise AssumptionError(f"{where} has {len(texts)} verdicts in one annotation; choose one.")
            return " ".join(texts)
    return ""


def _reviewer(found: Any) -> str:
    if isinstance(found, dict):
        name = f"{found.get('first_name') or ''} {found.get('last_name') or ''}".strip()
        found = found.get("email") or name or found.get("id")
    return found if isinstance(found, str) and found.strip() else f"Label Studio user {shorten(found)}"
