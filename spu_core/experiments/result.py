"""What an experiment gives: tables, what they say about the paper's claims, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import pandas as pd

from spu_core.errors import SpuError

Cell = str | float | int | None
Verdict = Literal["holds", "holds partly", "does not hold", "not shown"]
VERDICTS: tuple[str, ...] = get_args(Verdict)


@dataclass(frozen=True)
class ResultTable:
    """Rows of plain cells under named columns; None means that there is no such figure.

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
    """What the paper says, whether our figures agree, and which figures."""

    text: str
    verdict: Verdict
    words: str

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise SpuError(f"A verdict must be one of {', '.join(map(repr, VERDICTS))}, got {self.verdict!r}.")


@dataclass(frozen=True)
class Provenance:
    """Where figures come from: `commit` of the program, `versions` of libraries, `settings`, time and day."""

    commit: str
    versions: Mapping[str, str]
    settings: Mapping[str, Any]
    seconds: float
    made_on: str

    def describe(self) -> str:
        """One line, for the foot of a page."""
        size = ", ".join(f"{name} {value}" for name, value in self.settings.items() if value is not None)
        by = self.commit if " " in self.commit else f"commit {self.commit[:12]}"
        return f"Made on {self.made_on} by {by} in {self.seconds / 60:.1f} minutes ({size})."


@dataclass(frozen=True)
class ExperimentResult:
    """Everything one experiment found. `choices` say what was chosen by looking at printed figures, and what not;
    `series` holds plain lists for charts.
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
        """The result as JSON text that `from_json` reads back to an equal value."""
        from spu_core.experiments.result_json import to_json

        return to_json(self)

    @classmethod
    def from_json(cls, source: str | bytes) -> ExperimentResult:
        """Read what `to_json` wrote; anything else is refused in a sentence."""
        from spu_core.experiments.result_json import from_json

        return from_json(source)

    def to_text(self) -> str:
        """Tables, claims, choices and provenance for a terminal."""
        from spu_core.experiments.render import to_text

        return to_text(self)

    def to_markdown(self) -> str:
        """The same as Markdown."""
        from spu_core.experiments.render import to_markdown

        return to_markdown(self)
