"""The result of an experiment: tables, verdicts on the paper's claims, and provenance; as JSON, text and Markdown."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from textwrap import fill
from typing import Any, Literal, NoReturn, get_args

import pandas as pd

from spu_core.codec import parse_json
from spu_core.errors import SpuError, WorkspaceError

Cell = str | float | int | None
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
        value = {"schema": SCHEMA, **_plain(asdict(self), "result")}
        return _indented(value) + "\n"

    @classmethod
    def from_json(cls, source: str | bytes) -> ExperimentResult:
        """Read what `to_json` wrote; anything else is refused with a `WorkspaceError`."""
        value = _fields(
            parse_json(source, what=WHAT, error=WorkspaceError, max_bytes=MAX_BYTES),
            "result",
            {"schema": int, "name": str, "title": str, "tables": list, "claims": list, "choices": list}
            | {"provenance": dict, "series": dict},
        )
        if value["schema"] != SCHEMA:
            _refuse(f"has schema {value['schema']}, but this version reads schema {SCHEMA}; store it again")
        return cls(
            name=value["name"],
            title=value["title"],
            tables=tuple(map(_table, value["tables"])),
            claims=tuple(Claim(**_fields(each, "claim", dict.fromkeys(CLAIM, str))) for each in value["claims"]),
            choices=tuple(_texts(value["choices"], "choices")),
            provenance=Provenance(**_fields(value["provenance"], "provenance", PROVENANCE)),
            series=value["series"],
        )

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


SCHEMA = 1
WHAT = "The stored experiment"
MAX_BYTES = 20_000_000
CLAIM = ("text", "verdict", "words")
PROVENANCE: dict[str, Any] = {
    "commit": str, "versions": dict, "settings": dict, "seconds": (int, float), "made_on": str,
}  # fmt: skip
TABLE: dict[str, Any] = {"name": str, "title": str, "columns": list, "rows": list, "note": str}


def _table(value: Any) -> ResultTable:
    fields = _fields(value, "table", TABLE)
    columns = tuple(_texts(fields["columns"], "columns"))
    return ResultTable(fields["name"], fields["title"], columns, tuple(map(_row, fields["rows"])), fields["note"])


def _row(value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list):
        _refuse(f"holds the row {value!r}; a row must be a list")
    return tuple(map(_cell, value))


def _cell(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float | type(None)):
        _refuse(f"holds the cell {value!r}; a cell must be text, a number or null")
    return value


def _texts(values: Sequence[Any], name: str) -> list[str]:
    if not all(isinstance(value, str) for value in values):
        _refuse(f"holds {name} that are not all text")
    return list(values)


def _fields(value: Any, what: str, types: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != set(types):
        found = sorted(value) if isinstance(value, dict) else type(value).__name__
        _refuse(f"has a {what} with {found}; exactly {sorted(types)} are wanted")
    for name, kind in types.items():
        if not isinstance(value[name], kind) or isinstance(value[name], bool):
            _refuse(f"has {name} = {value[name]!r} in its {what}, which has the wrong type")
    return value


def _refuse(words: str) -> NoReturn:
    raise WorkspaceError(f"{WHAT} {words}.")


def _plain(value: Any, where: str) -> Any:
    """JSON values; numbers of NumPy become Python's, and numbers that are not finite are refused."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner, f"{where}.{name}") for name, inner in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(inner, where) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise WorkspaceError(f"{where} holds {value}, which JSON cannot say; use None where there is no figure.")
    if isinstance(value, str | int | float | bool | type(None)):
        return value
    raise WorkspaceError(f"{where} holds a {type(value).__name__}; results keep text, numbers, lists and dictionaries.")


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
