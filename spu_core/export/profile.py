"""A compact portrait of the training rows: quantiles and shares, enough to see later that the data have moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from spu_core.export.reading import need_fields
from spu_core.models import Features
from spu_core.training import Run

LEVELS = np.linspace(0.0, 1.0, 21)
SHOWN_LEVELS = 50
# More rows do not make quantiles of a portrait visibly better.
SAMPLE = 200_000


@dataclass(frozen=True, kw_only=True)
class ColumnProfile:
    """One encoded column: `missing` is a share; a number has `quantiles`, a category `shares` of its first codes.

    `below[k]` is the exact share of values up to quantile k, which ties move away from the level of the quantile.
    `shares[k]` belongs to code k: 0 is a rare or unseen level, then the most frequent levels in order.
    """

    name: str
    missing: float
    quantiles: tuple[float, ...] = ()
    below: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The training rows in outline; `score` outlines the out-of-fold scores, `probe` holds scores of made-up rows.

    The made-up rows walk through the quantiles of every column at once. Their scores are known at export, so that
    whoever loads the bundle can see that it still says the same.
    """

    columns: tuple[ColumnProfile, ...]
    score: ColumnProfile
    rows: int
    probe: tuple[float, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        columns = [column_to_dict(column) for column in self.columns]
        return {
            "columns": columns,
            "score": column_to_dict(self.score),
            "rows": self.rows,
            "probe": list(self.probe),
        }

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Profile:
        need_fields(found, {"columns": list, "score": dict, "rows": int, "probe": list}, "profile")
        columns = tuple(_column_from(entry) for entry in found["columns"])
        score, probe = _column_from(found["score"]), _numbers(found["probe"])
        return cls(columns=columns, score=score, rows=found["rows"], probe=probe)

    def probe_rows(self) -> np.ndarray:
        """The made-up rows, encoded: quantile k of every number, codes in turn for every category, gaps in between."""
        steps = np.arange(LEVELS.size)
        matrix = np.full((LEVELS.size, len(self.columns)), np.nan, dtype=np.float32)
        for place, column in enumerate(self.columns):
            if column.quantiles:
                # Columns walk at different speeds, so that the rows are not all alike.
                matrix[:, place] = np.array(column.quantiles)[(steps * (place % 5 + 1) + place) % LEVELS.size]
            elif column.shares:
                matrix[:, place] = (steps + place) % len(column.shares)
            if column.missing > 0:
                matrix[place % LEVELS.size, place] = np.nan
        return matrix

    def probe_rule_score(self) -> np.ndarray:
        return np.linspace(0.0, 1.0, LEVELS.size)


def profile_of(run: Run) -> Profile:
    """The portrait of the rows a run was trained on."""
    features = run.need_data().rows.features
    judged = run.need_score()[run.evaluation.judged]
    columns = tuple(profile_column(features, place) for place in range(len(features.columns)))
    return Profile(columns=columns, score=number_profile("score", judged, 0.0), rows=len(features))


def profile_column(features: Features, place: int) -> ColumnProfile:
    """The portrait of one encoded column."""
    step = max(1, len(features) // SAMPLE)
    values = features.every(step)[:, place]
    present = values[~np.isnan(values)].astype(np.float64)
    column = features.columns[place]
    missing = 1.0 - present.size / max(values.size, 1)
    if column.is_category:
        return ColumnProfile(name=column.name, missing=missing, shares=code_shares(present, SHOWN_LEVELS + 1))
    return number_profile(column.name, present, missing)


def number_profile(name: str, values: np.ndarray, missing: float) -> ColumnProfile:
    """Twenty-one quantiles, each a value that occurs; none for no values.

    >>> number_profile("x", np.array([0.0, 0.0, 0.0, 5.0]), 0.0).below[0]
    0.75
    """
    if not values.size:
        return ColumnProfile(name=name, missing=missing)
    ordered = np.sort(values)
    quantiles = np.quantile(ordered, LEVELS, method="inverted_cdf")
    below = np.searchsorted(ordered, quantiles, side="right") / ordered.size
    return ColumnProfile(name=name, missing=missing, quantiles=tuple(quantiles.tolist()), below=tuple(below.tolist()))


def column_to_dict(column: ColumnProfile) -> dict[str, Any]:
    parts = {name: list(getattr(column, name)) for name in ("quantiles", "below", "shares")}
    return {"name": column.name, "missing": column.missing, **parts}


def code_shares(codes: np.ndarray, most: int) -> tuple[float, ...]:
    """The share of each code among the values that are present, up to the last one that occurs.

    >>> code_shares(np.array([1.0, 1.0, 2.0, 0.0]), 50)
    (0.25, 0.5, 0.25)
    """
    if not codes.size:
        return ()
    count = np.bincount(codes.astype(np.int64).clip(0, most))
    return tuple((count[:most] / codes.size).tolist())


def _column_from(entry: Mapping[str, Any]) -> ColumnProfile:
    names = {field.name for field in fields(ColumnProfile)}
    need_fields(entry, dict.fromkeys(names, object), "profile of a column")
    parts = {name: _numbers(entry[name]) for name in ("quantiles", "below", "shares")}
    if len(parts["quantiles"]) != len(parts["below"]):
        raise ValueError("quantiles and below differ in length")
    return ColumnProfile(name=str(entry["name"]), missing=float(entry["missing"]), **parts)


def _numbers(values: Any) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
