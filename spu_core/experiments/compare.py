"""A fresh result beside the stored one: the same rows and columns, and how far they lie apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spu_core.experiments.result import ExperimentResult, ResultTable

# Columns that say how large a run was, not what it found.
SIZES = ("seeds", "worlds", "count", "scores tried", "rows")


def compare_verdicts(stored: ExperimentResult, fresh: ExperimentResult) -> ResultTable:
    """Every claim of the fresh result with both verdicts."""
    before = {claim.text: claim.verdict for claim in stored.claims}
    rows = tuple((claim.text, before.get(claim.text), claim.verdict) for claim in fresh.claims)
    return ResultTable("verdicts", "Verdicts", ("claim", "stored", "now"), rows)


def compare_figures(stored: ExperimentResult, fresh: ExperimentResult) -> ResultTable:
    """Every number that both results have, in the order of the fresh one.

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
