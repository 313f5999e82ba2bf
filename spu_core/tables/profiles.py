"""The profile of a table: the values of each column, how often its rows are labelled, and roles that look wrong.

A proposed role is a finding with the column and the role; nothing is changed here.

An identifier is a column of whole numbers that are all different and in order, or so close together that different
numbers cannot be chance, or all of one length.

A group is recognised by its name (`device`, `store` …) or by its rows. A column with few rows per value is proposed if
rows with the same value are far more similar, in at least two features, than rows with neighbouring values, and rows
with neighbouring values are about as different as any two rows. A numeric feature such as age does not pass this test.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from spu_core.codec import Hook, Reader, decode, dump_json, encode
from spu_core.errors import TableError
from spu_core.html_table import count, short_repr
from spu_core.tables.leakage import FEWEST_POSITIVES, TableLike, find_leaks
from spu_core.tables.reading.reading_report import Finding, Severity
from spu_core.tables.reading.values import ColumnType, day_of, stamps
from spu_core.tables.roles import (
    FEWEST_GROUPS,
    Role,
    guess_positive_values,
    is_positive,
    looks_like_label,
    names_confirmation,
    names_groups,
)

QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
EDGE_SHARES = (0.001, 0.999)
LARGEST_BINS = 60
_BINS = 40
_TOP = 20
FEWEST_ROWS = 30
# Six digits: shorter numbers of one length are often amounts or years.
FEWEST_DIGITS = 6
# For uniformly distributed numbers, e^−7 is the probability that no two of them are equal.
CLOSE = 7.0
MOST_ROWS_A_VALUE = 100.0
FEWEST_ROWS_A_VALUE = 1.2
ALIKE = 0.5
SURE = 4.0
LARGEST_SAMPLE = 4_000
# Leaks, repeated rows and roles of a table in files are searched in a sample of this size.
SAMPLE_ROWS = 200_000
_BLOCK_ROWS = 1 << 20
_FIRST_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class Level:
    """One value of a column, its rows, and the share of them that are labelled."""

    value: str
    count: int
    share: float
    label_rate: float


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Rows per bin; bin i holds edge[i] ≤ value < edge[i + 1], and the last bin its upper edge as well.

    `edge` holds nanoseconds since 1970 for dates. The outer bins include all values beyond the 0.1 % quantiles.
    """

    edge: np.ndarray
    count: np.ndarray
    labeled: np.ndarray

    @property
    def label_rate(self) -> np.ndarray:
        """The share of labelled rows in each bin; NaN where a bin is empty."""
        return np.divide(self.labeled, self.count, out=np.full(self.count.size, np.nan), where=self.count > 0)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnProfile:
    """One column: its type and role, its missing values, and the distribution of its values."""

    name: str
    type: ColumnType
    role: Role
    rows: int
    missing: int
    distinct: int
    quantiles: dict[float, float]
    top_levels: tuple[Level, ...]
    histogram: Histogram | None

    @property
    def missing_share(self) -> float:
        """The share of rows without a value."""
        return self.missing / self.rows if self.rows else 0.0

    @property
    def median(self) -> float | str:
        """The middle value of numbers, the middle day of dates; NaN where there is neither."""
        middle = self.quantiles.get(0.5, np.nan)
        return day_of(middle) if self.type is ColumnType.DATETIME and np.isfinite(middle) else middle


@dataclass(frozen=True, slots=True, eq=False)
class TableProfile:
    """The profiles of all columns of a table, and the findings about them."""

    rows: int
    labeled: int
    columns: tuple[ColumnProfile, ...]
    findings: tuple[Finding, ...]

    def __repr__(self) -> str:
        facts = (count(self.rows, "row"), count(len(self.columns), "column"), count(len(self.findings), "finding"))
        return short_repr("TableProfile", None, *facts)

    def column(self, name: str) -> ColumnProfile:
        """The profile of one column."""
        return next(column for column in self.columns if column.name == name)

    def to_frame(self) -> pd.DataFrame:
        """One row per column, for showing."""
        return pd.DataFrame(
            {
                "column": [column.name for column in self.columns],
                "type": [column.type.value for column in self.columns],
                "role": [column.role.value for column in self.columns],
                "missing_share": [column.missing_share for column in self.columns],
                "distinct": [column.distinct for column in self.columns],
                "median": [column.median for column in self.columns],
                "top_level": [column.top_levels[0].value if column.top_levels else "" for column in self.columns],
            }
        )


def profile_table(table: TableLike, on_progress: Callable[[float], None] | None = None) -> TableProfile:
    """Profile every column, and search for leaks, repeated rows and too few labels.

    Columns are read one by one. In a table in files, leaks, repeated rows and roles are searched in a sample.

    >>> from spu_core.tables import Table
    >>> profile = profile_table(Table.from_frame(pd.DataFrame({"age": [1, 2, 3, None], "label": [0, 0, 1, 0]})))
    >>> profile.column("age").missing_share, profile.column("age").quantiles[0.5]
    (0.25, 2.0)
    """
    columns = []
    for done, name in enumerate(table.roles):
        if on_progress is not None:
            on_progress(done / len(table.roles))
        columns.append(_profile_column(table, name))
    sample = table.explored(SAMPLE_ROWS)
    own = (
        *_label_findings(table),
        *_missing_findings(columns),
        *(leak.as_finding() for leak in find_leaks(sample)),
        *([] if sample.repeats is None else [sample.repeats.as_finding()]),
        *propose_roles(sample),
    )
    return TableProfile(len(table), int(table.is_labeled.sum()), tuple(columns), (*table.findings, *own))


def histogram(values: np.ndarray, labeled: np.ndarray) -> Histogram | None:
    """Equal bins between the 0.1 % and 99.9 % quantiles, one per value where few whole numbers occur."""
    ordered = np.sort(values[np.isfinite(values)])
    return _histogram(ordered, values, labeled) if ordered.size else None


def _histogram(ordered: np.ndarray, values: np.ndarray, labeled: np.ndarray) -> Histogram:
    edge = _edges(ordered)
    bins = edge.size - 1
    counts, hits = np.zeros(bins, dtype=np.int64), np.zeros(bins, dtype=np.int64)
    # In blocks, so that a long column needs no second array of its size.
    for start in range(0, values.size, _BLOCK_ROWS):
        block, flags = values[start : start + _BLOCK_ROWS], labeled[start : start + _BLOCK_ROWS]
        finite = np.isfinite(block)
        place = np.clip(_places(block[finite], edge), 0, bins - 1)
        counts += np.bincount(place, minlength=bins)
        hits += np.bincount(place[flags[finite]], minlength=bins)
    edge[0], edge[-1] = min(edge[0], ordered[0]), max(edge[-1], ordered[-1])
    return Histogram(edge, counts, hits)


def _profile_column(table: TableLike, name: str) -> ColumnProfile:
    values = table.values(name)
    found = _levels(values, table.is_labeled) if as_numbers(values[:0]) is None else _numbers(values, table.is_labeled)
    return ColumnProfile(
        name=name,
        type=table.types[name],
        role=table.roles[name],
        rows=len(values),
        missing=int(values.isna().sum()),
        **found,
    )


def _numbers(values: pd.Series, labeled: np.ndarray) -> dict[str, Any]:
    numbers = as_numbers(values)
    assert numbers is not None
    ordered = np.sort(numbers[np.isfinite(numbers)])
    if not ordered.size:
        return {"distinct": int(values.nunique()), "quantiles": {}, "top_levels": (), "histogram": None}
    return {
        "distinct": _distinct(values, ordered),
        "quantiles": dict(zip(QUANTILES, nearest_quantiles(ordered, QUANTILES).tolist(), strict=True)),
        "top_levels": (),
        "histogram": _histogram(ordered, numbers, labeled),
    }


def _distinct(values: pd.Series, ordered: np.ndarray) -> int:
    """Distinct values. Those of decimals are counted in order, which takes less memory than a hash table."""
    if values.dtype != np.float64:
        return int(values.nunique())
    infinite = int((values == np.inf).any()) + int((values == -np.inf).any())
    return 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1])) + infinite


def nearest_quantiles(ordered: np.ndarray, shares: Any) -> np.ndarray:
    """The quantiles that `np.quantile(…, method="nearest")` gives, of values that are in order.

    >>> nearest_quantiles(np.array([1.0, 2.0, 4.0, 8.0]), [0.0, 0.5, 1.0]).tolist()
    [1.0, 4.0, 8.0]
    """
    return ordered[np.around((ordered.size - 1) * np.asarray(shares)).astype(np.int64)]


def as_numbers(values: pd.Series) -> np.ndarray | None:
    """Numbers and dates on one scale; None for categories, flags and text."""
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        return stamps(values)
    if pd.api.types.is_bool_dtype(values.dtype) or not pd.api.types.is_numeric_dtype(values.dtype):
        return None
    return values.to_numpy(dtype=np.float64, na_value=np.nan)


def _levels(values: pd.Series, labeled: np.ndarray) -> dict[str, Any]:
    """The most frequent categories, with the rows and labelled rows of each."""
    codes, levels = pd.factorize(values)
    present = codes >= 0
    counts = np.bincount(codes[present], minlength=len(levels))
    hits = np.bincount(codes[present & labeled], minlength=len(levels))
    order = np.argsort(-counts, kind="stable")
    if len(levels) <= 5_000:
        # Equally frequent categories are in alphabetical order, so that the order of rows does not matter.
        order = np.lexsort((np.array([str(level) for level in levels], dtype=str), -counts))
    top = tuple(
        Level(str(levels[at])[:200], int(counts[at]), counts[at] / len(values), hits[at] / counts[at])
        for at in order[:_TOP].tolist()
    )
    return {"distinct": len(levels), "quantiles": {}, "top_levels": top, "histogram": None}


def _edges(ordered: np.ndarray) -> np.ndarray:
    """The edges of a histogram of finite values in order."""
    low, high = nearest_quantiles(ordered, EDGE_SHARES).tolist()
    least, most = float(ordered[0]), float(ordered[-1])
    if high <= low:
        low, high = least, most
    if high <= low:
        # For very large numbers, half a unit is less than the distance to the next float.
        half = max(0.5, 2.0 * np.spacing(abs(low)))
        return np.array([low - half, low + half])
    if most - least < LARGEST_BINS and (ordered == np.floor(ordered)).all():
        return np.arange(least - 0.5, most + 1.0)
    # The ends are weighted, because the difference of the largest floats overflows.
    share = np.linspace(0.0, 1.0, _BINS + 1)
    return low * (1.0 - share) + high * share


def _places(values: np.ndarray, edge: np.ndarray) -> np.ndarray:
    """The bin of each value, computed directly where the numbers allow it, which is ten times as fast as a search."""
    with np.errstate(over="ignore", divide="ignore"):
        scale = (edge.size - 1) / (edge[-1] - edge[0])
    if not 1e-200 < scale < 1e200:
        return np.searchsorted(edge, values, side="right") - 1
    inner = np.clip(values, edge[0], edge[-1])
    return ((inner - edge[0]) * scale).astype(np.int64)


def _label_findings(table: TableLike) -> list[Finding]:
    """Findings on labels: all rows labelled, or too few."""
    column = table.column_with(Role.LABEL)
    if column is None:
        return []
    count = int(table.is_labeled.sum())
    if count == len(table):
        text = f"Every row is a confirmed case by the label {column!r}, so nothing is unlabelled."
        return [Finding("all_labeled", Severity.ERROR, text, "Check which values mean confirmed case.", column)]
    if count < FEWEST_POSITIVES:
        text = f"Only {count} rows are confirmed cases by the label {column!r}."
        return [Finding("few_labels", Severity.WARNING, text, "Estimates from so few rows are very uncertain.", column)]
    return []


def _missing_findings(columns: list[ColumnProfile]) -> list[Finding]:
    """Features that most rows lack."""
    return [
        Finding(
            "mostly_missing",
            Severity.INFO,
            f"Column {column.name!r} is missing in {column.missing_share:.0%} of the rows.",
            "Check what a missing value means in this column.",
            column.name,
        )
        for column in columns
        if column.role is Role.FEATURE and 0.5 < column.missing_share < 1.0
    ]


# The role that a finding proposes, by its code; leaks propose that no model sees the column.
_PROPOSED = {"id_proposed": Role.ID, "group_proposed": Role.GROUP, "time_proposed": Role.TIME}


def proposed_role(finding: Finding) -> Role | None:
    """The role that a finding proposes for its column; None where it proposes none."""
    if finding.column is None:
        return None
    return Role.IGNORE if finding.code.startswith("leak_") else _PROPOSED.get(finding.code)


@dataclass(frozen=True, slots=True)
class LabelGuess:
    """A column that may be the label: the values that mean confirmed, and how many rows have them."""

    column: str
    positive_values: tuple[Any, ...]
    confirmed: int
    rows: int
    rest: str

    @property
    def is_mark(self) -> bool:
        """Whether the column holds one value, and is empty in the rest: a mark that nothing but a label needs."""
        return self.rest == "empty"

    @property
    def text(self) -> str:
        """The guess in one sentence."""
        shown = " or ".join(repr(str(value)) for value in self.positive_values)
        others = self.rows - self.confirmed
        rows = f"{self.confirmed:,} row{'s' * (self.confirmed != 1)}"
        return f"{self.column!r} looks like the label: {shown} in {rows}, {self.rest} in {others:,}."


def guess_labels(table: TableLike) -> tuple[LabelGuess, ...]:
    """Columns that mark a minority of rows, such as 0/1, yes/unknown or one value and the rest empty; best first.

    >>> from spu_core.tables import Table
    >>> frame = pd.DataFrame({"age": range(40), "subscribed": ["ja"] * 4 + [None] * 36})
    >>> guess_labels(Table.from_frame(frame))[0].text
    "'subscribed' looks like the label: 'ja' in 4 rows, empty in 36."
    """
    found = []
    for name, role in table.roles.items():
        values = table.values(name) if role in (Role.FEATURE, Role.IGNORE) else None
        if values is not None and looks_like_label(values):
            positive = guess_positive_values(values)
            confirmed = int(is_positive(values, positive).sum())
            others = [str(level) for level in values.dropna().unique() if level not in positive]
            rest = " or ".join([*map(repr, others), *(["empty"] if values.isna().any() else [])])
            found.append(LabelGuess(name, positive, confirmed, len(values), rest))
    return tuple(sorted(found, key=lambda each: (not names_confirmation(each.column), each.confirmed)))


def propose_roles(table: TableLike) -> list[Finding]:
    """A finding for each feature that looks like an identifier, and for columns that look like a group or a time."""
    found = [_id_finding(name, why) for name in table.features if (why := why_identifier(table.frame[name]))]
    if table.column_with(Role.GROUP) is None and len(table) >= FEWEST_ROWS:
        found += _group_findings(table, {finding.column for finding in found})
    dates = [name for name, kind in table.types.items() if kind is ColumnType.DATETIME]
    complete = [name for name in dates if table.roles[name] is Role.IGNORE and not table.frame[name].isna().any()]
    if complete and table.column_with(Role.TIME) is None:
        text = f"Column {complete[0]!r} holds a date in every row."
        advice = "Set its role to 'time', so that models can be tested on later rows than they were trained on."
        found.append(Finding("time_proposed", Severity.INFO, text, advice, complete[0]))
    return found


def why_identifier(values: pd.Series) -> str | None:
    """Why a column of numbers looks like an identifier; None where it does not.

    >>> why_identifier(pd.Series(range(1000, 1100)))
    'in order'
    >>> why_identifier(pd.Series([3.5, 1.0] * 50)) is None
    True
    """
    if pd.api.types.is_bool_dtype(values.dtype) or not pd.api.types.is_numeric_dtype(values.dtype):
        return None
    first = values.iloc[:_FIRST_ROWS].dropna()
    if not first.is_unique or (first != np.floor(first)).any():
        return None  # as most columns
    numbers = values.dropna().to_numpy(dtype=np.float64)
    if numbers.size < FEWEST_ROWS or not np.isfinite(numbers).all() or (numbers != np.floor(numbers)).any():
        return None
    steps, ordered = np.diff(numbers), np.sort(numbers)
    if (steps > 0).all() or (steps < 0).all():
        return "in order"
    if (np.diff(ordered) == 0).any():
        return None
    if numbers.size**2 / (2.0 * (ordered[-1] - ordered[0] + 1.0)) > CLOSE:
        return "and too close together to differ by chance"
    digits = {len(f"{abs(number):.0f}") for number in (ordered[0], ordered[-1])}
    one_length = ordered[0] > 0 and len(digits) == 1 and min(digits) >= FEWEST_DIGITS
    return f"all of {min(digits)} digits" if one_length else None


def _id_finding(name: str, why: str) -> Finding:
    text = f"Column {name!r} looks like an identifier: its values are whole numbers, all different, {why}."
    advice = "Set its role to 'id', so that no model learns from it."
    return Finding("id_proposed", Severity.WARNING, text, advice, name)


@dataclass(frozen=True)
class _Likeness:
    """The features in which rows with the same value of a column are alike."""

    column: str
    features: tuple[str, ...]
    ratio: float


def _group_findings(table: TableLike, taken: set[str | None]) -> list[Finding]:
    candidates = [name for name in table.frame.columns if name not in taken and _may_be_group(table, name)]
    named = [name for name in candidates if names_groups(name)]
    if named:
        words = f"Column {named[0]!r} has the name of a group, and its values repeat."
        return [_group_finding(named[0], words)]
    found = [likeness for name in candidates if (likeness := _likeness(table, name)) is not None]
    if not found:
        return []
    best = min(found, key=lambda likeness: (-len(likeness.features), likeness.ratio))
    shown = ", ".join(map(repr, best.features[:3])) + (" and others" if len(best.features) > 3 else "")
    words = f"Rows with the same value of {best.column!r} are alike in {shown}: they may belong to one person or thing."
    return [_group_finding(best.column, words)]


def _group_finding(name: str, words: str) -> Finding:
    advice = f"Give {name!r} the role 'group', so that its rows stay in one fold; otherwise figures can be too good."
    return Finding("group_proposed", Severity.WARNING, words, advice, name)


def _may_be_group(table: TableLike, name: str) -> bool:
    values, kind, role = table.frame[name], table.types[name], table.roles[name]
    # Free text is ignored by default; other ignored columns were set to 'ignore' by a person.
    wanted = role in (Role.FEATURE, Role.ID) or (role is Role.IGNORE and kind is ColumnType.TEXT)
    if not wanted or kind in (ColumnType.DATETIME, ColumnType.BOOLEAN) or values.isna().any():
        return False
    if pd.api.types.is_float_dtype(values.dtype) and bool((values != np.floor(values)).any()):
        return False
    distinct = int(values.nunique())
    return distinct >= FEWEST_GROUPS and FEWEST_ROWS_A_VALUE <= len(values) / distinct <= MOST_ROWS_A_VALUE


def _likeness(table: TableLike, name: str) -> _Likeness | None:
    """Compare two rows of each value, in the order of the values: neighbours have the same value or the next one."""
    values = table.frame[name]
    code, _ = pd.factorize(values, sort=pd.api.types.is_numeric_dtype(values.dtype))
    order = np.argsort(code, kind="stable")
    first = np.flatnonzero(np.diff(code[order], prepend=-1))
    first = first[np.diff(first, append=order.size) > 1][:LARGEST_SAMPLE]
    if first.size < FEWEST_GROUPS:
        return None
    rows = order[np.column_stack([first, first + 1]).ravel()]
    ratios = {
        other: ratio
        for other in table.features
        if other != name and (ratio := _ratio(table.frame[other].iloc[rows])) is not None
    }
    if len(ratios) < 2:
        return None
    return _Likeness(name, tuple(sorted(ratios, key=ratios.__getitem__)), float(np.mean(list(ratios.values()))))


def _ratio(values: pd.Series) -> float | None:
    """Distance of rows with one value divided by that of rows with neighbouring values; None where it is not clear."""
    apart = _distances(values)
    within, between = apart[::2], apart[1::2]
    error = np.sqrt(within.var() / within.size + between.var() / between.size)
    if within.mean() >= ALIKE * between.mean() or between.mean() - within.mean() <= SURE * error:
        return None
    strangers = _distances(values.sample(frac=1.0, random_state=0))
    return float(within.mean() / between.mean()) if between.mean() > 0.5 * strangers.mean() else None


def _distances(values: pd.Series) -> np.ndarray:
    """Distances of consecutive rows: differences of ranks for numbers (a gap is far from all), else 0 or 1."""
    if pd.api.types.is_numeric_dtype(values.dtype):
        ranks = values.rank(pct=True).fillna(-1.0).to_numpy(dtype=np.float64)
        return np.minimum(np.abs(np.diff(ranks)), 1.0)
    codes, _ = pd.factorize(values)
    return (np.diff(codes) != 0).astype(np.float64)


def profile_to_json(profile: TableProfile) -> str:
    """The whole profile as JSON text.

    >>> import pandas as pd
    >>> from spu_core.tables import Table
    >>> profile = Table.from_frame(pd.DataFrame({"age": [1, 2, 3], "label": [0, 0, 1]})).profile()
    >>> profile_from_json(profile_to_json(profile)).column("age").quantiles[0.5]
    2.0
    """
    columns = [_written_column(column) for column in profile.columns]
    return dump_json({**encode(replace(profile, columns=())), "columns": columns})


def profile_from_json(text: str) -> TableProfile:
    """The profile that `profile_to_json` wrote; anything else is refused.

    >>> profile_from_json("{}")
    Traceback (most recent call last):
    spu_core.errors.TableError: The stored profile is damaged (it lacks the field 'rows'.); make the profile again.
    """
    try:
        return decode(TableProfile, json.loads(text), "it", TableError, hooks=_STORED)
    except (ValueError, RecursionError) as error:
        raise TableError(f"The stored profile is damaged ({error}); make the profile again.") from error


def _written_column(column: ColumnProfile) -> dict[str, Any]:
    """Quantiles as pairs and a histogram as three lists; the rest by name."""
    histogram = column.histogram
    bins = None if histogram is None else encode([histogram.edge, histogram.count, histogram.labeled])
    plain = encode(replace(column, quantiles={}, histogram=None))
    return {**plain, "quantiles": encode(list(column.quantiles.items())), "histogram": bins}


def _read_quantiles(reader: Reader, data: Any, place: str) -> dict[float, float]:
    return dict(reader.read(tuple[tuple[float, float], ...], data, place))


def _read_histogram(reader: Reader, data: Any, place: str) -> Histogram:
    edge, *counts = reader.read(tuple[tuple[float, ...], tuple[int, ...], tuple[int, ...]], data, place)
    return Histogram(np.array(edge, dtype=np.float64), *(np.array(count, dtype=np.int64) for count in counts))


_STORED: dict[Any, Hook] = {dict[float, float]: _read_quantiles, Histogram: _read_histogram}
