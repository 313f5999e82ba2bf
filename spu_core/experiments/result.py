"""The result of an experiment: tables, verdicts on the paper's claims, and provenance; as JSON, text and Markdown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import fill
from typing import Any, Literal, get_args

import pandas as pd

from spu_core.codec import decode, encode, parse_json
from spu_core.errors import SpuError, WorkspaceError

Cell = str | float | None
Verdict = Literal["holds", "holds partly", "does not hold", "not shown"]
VERDICTS: tuple[str, ...] = get_args(Verdict)


@dataclass(frozen=True)
class ResultTable:
    """A table of plain cells; None means that there is no such figure.

    >>> table = ResultTable("auc", "True AUC", ("data", "ours"), (("adult", 0.863), ("bank", None)))
    >>> table.column("ours")
    (0.863, None)
    >>> table.records()[0]
    {'data': 'adult', 'ours': 0.863}
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""

    def __post_init__(self) -> None:
        for place, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise SpuError(
                    f"Row {place} of table {self.name!r} has {len(row)} cells, but the table has "
                    f"{len(self.columns)} columns; give one cell per column (None where there is no figure)."
                )

    def frame(self) -> pd.DataFrame:
        """The rows as a data frame."""
        return pd.DataFrame([list(row) for row in self.rows], columns=list(self.columns))

    def column(self, name: str) -> tuple[Cell, ...]:
        """All cells of one column."""
        place = self.columns.index(name)
        return tuple(row[place] for row in self.rows)

    def records(self) -> list[dict[str, Any]]:
        """Each row as a dictionary."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper (`text`), the verdict, and the figures behind it (`words`)."""

    text: str
    verdict: Verdict
    words: str

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise SpuError(f"A verdict must be one of {', '.join(map(repr, VERDICTS))}, got {self.verdict!r}.")


@dataclass(frozen=True)
class Provenance:
    """Where a result comes from: commit of the program, versions of libraries, settings, time and day."""

    commit: str
    versions: Mapping[str, str]
    settings: Mapping[str, Any]
    seconds: float
    made_on: str

    def describe(self) -> str:
        """One line of text."""
        size = ", ".join(f"{name} {value}" for name, value in self.settings.items() if value is not None)
        by = self.commit if " " in self.commit else f"commit {self.commit[:12]}"
        return f"Made on {self.made_on} by {by} in {self.seconds / 60:.1f} minutes ({size})."


@dataclass(frozen=True)
class ExperimentResult:
    """All results of one experiment. `choices` say what was chosen after looking at the printed figures and what was
    not; `series` holds plain lists for charts.
    """

    name: str
    title: str
    tables: tuple[ResultTable, ...]
    claims: tuple[Claim, ...]
    choices: tuple[str, ...]
    provenance: Provenance
    series: Mapping[str, Any] = field(default_factory=dict)

    def table(self, name: str) -> ResultTable:
        """The table of this name."""
        for each in self.tables:
            if each.name == name:
                return each
        names = ", ".join(repr(each.name) for each in self.tables)
        raise SpuError(f"Experiment {self.name!r} has no table {name!r}; it has {names}.")

    def to_json(self) -> str:
        """The result as indented JSON, one table row per line; `from_json` reads it back to an equal value."""
        value = {**dict([SCHEMA]), **encode(self, "result", WorkspaceError, exact=True)}
        return _indented(value) + "\n"

    @classmethod
    def from_json(cls, source: str | bytes) -> ExperimentResult:
        """Read what `to_json` wrote; anything else is refused with a `WorkspaceError`."""
        value = parse_json(source, WHAT, WorkspaceError, MAX_BYTES)
        return decode(cls, value, WHAT, WorkspaceError, schema=SCHEMA, complete=True)

    def to_text(self) -> str:
        """Title, tables, claims, choices and provenance, wrapped for a terminal; wide tables are not wrapped."""
        parts = [self.title, "=" * len(self.title)]
        for table in self.tables:
            parts += ["", table.title, text_table(table)]
            parts += [_wrapped(table.note)] if table.note else []
        parts += ["", "What the paper claims, and what we found"]
        parts += [_wrapped(f"[{each.verdict}] {each.text} {each.words}", "- ") for each in self.claims]
        parts += ["", "Choices"]
        parts += [_wrapped(choice, "- ") for choice in self.choices]
        return "\n".join([*parts, "", _wrapped(self.provenance.describe())])

    def to_markdown(self) -> str:
        """The same as Markdown."""
        parts = [f"## {self.title}"]
        for table in self.tables:
            parts += [f"### {table.title}", markdown_table(table)]
            parts += [table.note] if table.note else []
        parts += ["### What the paper claims, and what we found"]
        parts += ["\n".join(f"- **{each.verdict}**: {each.text} {each.words}" for each in self.claims)]
        parts += ["### Choices", "\n".join(f"- {choice}" for choice in self.choices)]
        return "\n\n".join([*parts, f"*{self.provenance.describe()}*"]) + "\n"


SCHEMA = ("schema", 1)
WHAT = "The stored experiment"
MAX_BYTES = 20_000_000


def _indented(value: Any, depth: int = 0) -> str:
    """Indented JSON with lists of plain values on one line, so that tables stay readable."""
    inside, outside = "  " * (depth + 1), "  " * depth
    if isinstance(value, dict) and value:
        lines = [f"{inside}{json.dumps(name)}: {_indented(inner, depth + 1)}" for name, inner in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{outside}}}"
    if isinstance(value, list) and any(_is_long(inner) for inner in value):
        return "[\n" + ",\n".join(inside + _indented(inner, depth + 1) for inner in value) + f"\n{outside}]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _is_long(value: Any) -> bool:
    return isinstance(value, list | dict) or (isinstance(value, str) and len(value) > 40)


WIDTH = 110


def text_table(table: ResultTable) -> str:
    """Columns aligned by spaces.

    >>> print(text_table(ResultTable("t", "T", ("data", "AUC"), (("adult", 0.8632), ("bank", None)))))
    data     AUC
    adult  0.863
    bank       –
    """
    cells = [list(table.columns), *([cell_text(cell) for cell in row] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    is_text = [any(isinstance(cell, str) for cell in table.column(name)) for name in table.columns]
    return "\n".join(_line(row, widths, is_text) for row in cells)


def markdown_table(table: ResultTable) -> str:
    """The table as Markdown, numbers to the right."""
    is_text = [any(isinstance(cell, str) for cell in table.column(name)) for name in table.columns]
    rows = [list(table.columns), [" --- " if text else " ---: " for text in is_text]]
    rows += [[cell_text(cell) for cell in row] for row in table.rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|").strip() for cell in row) + " |" for row in rows)


def cell_text(cell: Cell) -> str:
    """A cell as text; small numbers such as standard errors get one digit more than an AUC.

    >>> [cell_text(cell) for cell in (0.8632, 0.00241, 1e-12, 1234, "adult", None)]
    ['0.863', '0.0024', '1.0e-12', '1,234', 'adult', '–']
    """
    if cell is None:
        return "–"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    if cell != 0.0 and abs(cell) < 5e-5:
        return f"{cell:.1e}"
    return f"{cell:.4f}" if abs(cell) < 0.1 else f"{cell:.3f}"


def _line(row: list[str], widths: list[int], is_text: list[bool]) -> str:
    cells = [
        cell.ljust(width) if text else cell.rjust(width) for cell, width, text in zip(row, widths, is_text, strict=True)
    ]
    return "  ".join(cells).rstrip()


def _wrapped(text: str, mark: str = "") -> str:
    return fill(text, WIDTH, initial_indent=mark, subsequent_indent=" " * len(mark))


# Columns that hold sizes of the run, not results.
SIZES = ("seeds", "worlds", "count", "scores tried", "rows")


def compare_verdicts(stored: ExperimentResult, fresh: ExperimentResult) -> ResultTable:
    """Every claim of the new result with both verdicts."""
    before = {claim.text: claim.verdict for claim in stored.claims}
    rows = tuple((claim.text, before.get(claim.text), claim.verdict) for claim in fresh.claims)
    return ResultTable("verdicts", "Verdicts", ("claim", "stored", "now"), rows)


def compare_figures(stored: ExperimentResult, fresh: ExperimentResult) -> ResultTable:
    """Every number that both results have, in the order of the new one.

    >>> from dataclasses import replace
    >>> from spu_core.experiments.result import Provenance
    >>> def one(auc):
    ...     table = ResultTable("t", "T", ("data", "auc"), (("adult", auc),))
    ...     return ExperimentResult("x", "X", (table,), (), (), Provenance("c", {}, {}, 1.0, "today"))
    >>> compare_figures(one(0.8), one(0.75)).rows
    (('T', 'adult', 'auc', 0.8, 0.75, -0.05...),)
    """
    known = {table.name: table for table in stored.tables}
    rows = [row for table in fresh.tables if table.name in known for row in _pairs(known[table.name], table)]
    columns = ("table", "row", "figure", "stored", "now", "now − stored")
    return ResultTable("figures", "Figures, stored and now", columns, tuple(rows))


def _pairs(stored: ResultTable, fresh: ResultTable) -> list[tuple[Any, ...]]:
    keys = _key_columns(fresh)
    before = {_key(row, keys): row for row in stored.records()}
    found = []
    for row in fresh.records():
        old: Mapping[str, Any] = before.get(_key(row, keys), {})
        for name, value in row.items():
            if name not in keys and name not in SIZES and _is_figure(value) and _is_figure(old.get(name)):
                found.append((fresh.title, _key(row, keys), name, old[name], value, value - old[name]))
    return found


def _key_columns(table: ResultTable) -> tuple[str, ...]:
    """Columns before the first one that holds measured numbers: text, and numbers that make the rows distinct."""
    keys: list[str] = []
    for name in table.columns:
        is_text = any(isinstance(value, str) for value in table.column(name))
        distinct = {tuple(row[key] for key in keys) for row in table.records()}
        if not is_text and len(distinct) == len(table.rows):
            break
        keys.append(name)
    return tuple(keys)


def _key(row: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return ", ".join(str(row[key]) for key in keys)


def _is_figure(value: Any) -> bool:
    return isinstance(value, float)
