"""A profile as JSON and back: looking at every column of a large table takes seconds, reading this does not."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from spu_core.errors import TableError
from spu_core.tables.column_types import ColumnType
from spu_core.tables.findings import Finding, Severity
from spu_core.tables.profiles import ColumnProfile, Histogram, Level, TableProfile
from spu_core.tables.roles import Role


def profile_to_json(profile: TableProfile) -> str:
    """The whole profile as text.

    >>> import pandas as pd
    >>> from spu_core.tables import Table
    >>> profile = Table.from_frame(pd.DataFrame({"age": [1, 2, 3], "label": [0, 0, 1]})).profile()
    >>> profile_from_json(profile_to_json(profile)).column("age").quantiles[0.5]
    2.0
    """
    written = {
        "rows": profile.rows,
        "labeled": profile.labeled,
        "columns": [_written_column(column) for column in profile.columns],
        "findings": [{**asdict(finding), "severity": finding.severity.value} for finding in profile.findings],
    }
    return json.dumps(written, ensure_ascii=False)


def profile_from_json(text: str) -> TableProfile:
    """The profile that `profile_to_json` wrote; anything else is refused.

    >>> profile_from_json("{}")
    Traceback (most recent call last):
    spu_core.errors.TableError: The stored profile is damaged ('rows'); look at the columns again.
    """
    try:
        note = json.loads(text)
        return TableProfile(
            rows=int(note["rows"]),
            labeled=int(note["labeled"]),
            columns=tuple(_column(item) for item in note["columns"]),
            findings=tuple(_finding(item) for item in note["findings"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TableError(f"The stored profile is damaged ({error}); look at the columns again.") from error


def _written_column(column: ColumnProfile) -> dict[str, Any]:
    plain = {item.name: getattr(column, item.name) for item in fields(column)}
    histogram = column.histogram
    return {
        **plain,
        "type": column.type.value,
        "role": column.role.value,
        "quantiles": [[float(level), float(value)] for level, value in column.quantiles.items()],
        "top_levels": [asdict(level) for level in column.top_levels],
        "histogram": None if histogram is None else [histogram.edge.tolist(), *_counts(histogram)],
    }


def _counts(histogram: Histogram) -> list[list[int]]:
    return [histogram.count.tolist(), histogram.labeled.tolist()]


def _column(note: dict[str, Any]) -> ColumnProfile:
    bins = note["histogram"]
    return ColumnProfile(
        **{
            **note,
            "type": ColumnType(note["type"]),
            "role": Role(note["role"]),
            "quantiles": {float(level): float(value) for level, value in note["quantiles"]},
            "top_levels": tuple(Level(**level) for level in note["top_levels"]),
            "histogram": None if bins is None else Histogram(np.array(bins[0], float), *map(_whole, bins[1:])),
        }
    )


def _whole(counts: list[int]) -> np.ndarray:
    return np.array(counts, dtype=np.int64)


def _finding(note: dict[str, Any]) -> Finding:
    return Finding(**{**note, "severity": Severity(note["severity"]), "lines": tuple(note["lines"])})
