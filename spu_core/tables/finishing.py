"""From streamed columns to a typed frame, with findings on what the values of each column show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa

from spu_core.tables.column_types import ColumnType, guess_type
from spu_core.tables.columns import NumberColumn, TextColumn
from spu_core.tables.dates import parse_dates
from spu_core.tables.findings import Finding, Severity
from spu_core.tables.numbers import SOFT_MARKS, Marks, to_numbers
from spu_core.tables.sniffing import looks_like_date

_TEXTUAL = (ColumnType.CATEGORY, ColumnType.TEXT, ColumnType.IDENTIFIER)
_TRUE_FALSE = ({"true", "false"}, {"t", "f"})


@dataclass(frozen=True)
class TypedColumn:
    """One finished column."""

    values: pd.Series
    type: ColumnType
    findings: tuple[Finding, ...] = ()


def finish_number(name: str, column: NumberColumn, levels: int) -> TypedColumn:
    """A number column, with findings on cells that were no numbers."""
    values = pd.Series(column.finish(), name=name, copy=False)
    found = [
        *_bad_cells(name, column),
        *_units(name, column),
        *_infinite(name, values),
        *hollow(name, values),
    ]
    return TypedColumn(values, guess_type(values, levels), tuple(found))


def finish_text(name: str, column: TextColumn, marks: Marks, asked: ColumnType | None) -> TypedColumn:
    """A text column as booleans, dates, levels or strings, whichever was asked for or fits all of its values."""
    whole, why = column.finish(), column.why
    values = _to_pandas(whole, name)
    typed = None if asked in _TEXTUAL else _as_boolean(values) or _as_dates(values)
    if typed is not None:
        return typed
    kind = asked if asked in _TEXTUAL else guess_type(values, column.levels)
    if kind is ColumnType.CATEGORY and not isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype("category")
    if kind is not ColumnType.CATEGORY and isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype("str")
    found = [
        *_kept_as_text(name, why),
        *_mixed(values, marks, why),
        *_soft_marks(values),
        *hollow(name, values),
    ]
    return TypedColumn(values, kind, tuple(found))


def hollow(name: str, values: pd.Series) -> list[Finding]:
    """Findings on columns that say nothing: all missing, or one value everywhere."""
    if not len(values):
        return []
    if values.isna().all():
        return [
            Finding(
                "empty_column",
                Severity.WARNING,
                f"Column {name!r} has no value in any row.",
                "Ignore it.",
                name,
            )
        ]
    first = values.iloc[0]
    if not values.isna().any() and len(values) > 1 and bool((values == first).all()):
        text = f"Column {name!r} holds {str(first)[:50]!r} in every row."
        return [Finding("constant_column", Severity.INFO, text, "It cannot tell rows apart.", name)]
    return []


def _to_pandas(whole: pa.ChunkedArray, name: str) -> pd.Series:
    if not pa.types.is_dictionary(whole.type):
        return pd.Series(whole.to_pandas(), name=name).astype("str")
    # Levels in the order of the alphabet, so that the order of rows does not show in them.
    levels = whole.chunk(0).dictionary.to_pylist() if whole.num_chunks else []
    order = np.argsort(np.array(levels, dtype=object), kind="stable") if levels else np.zeros(0, dtype=np.int64)
    place = np.empty(len(levels) + 1, dtype=np.int32)
    place[order], place[-1] = np.arange(len(levels)), -1
    codes = np.concatenate([_codes(chunk, len(levels)) for chunk in whole.chunks]) if levels else _all_missing(whole)
    categories = pd.Index([levels[at] for at in order], dtype="str")
    return pd.Series(pd.Categorical.from_codes(place[codes], categories), name=name)


def _codes(chunk: pa.DictionaryArray, missing: int) -> np.ndarray:
    return chunk.indices.fill_null(missing).to_numpy(zero_copy_only=False)


def _all_missing(whole: pa.ChunkedArray) -> np.ndarray:
    return np.full(len(whole), -1)


def _as_boolean(values: pd.Series) -> TypedColumn | None:
    if not isinstance(values.dtype, pd.CategoricalDtype):
        return None
    words = {str(level).lower() for level in values.cat.categories}
    if words not in _TRUE_FALSE:
        return None
    true = {level: str(level).lower() in ("true", "t") for level in values.cat.categories}
    flags = values.astype("object").map(true)
    typed = flags.astype("boolean") if flags.isna().any() else flags.astype("bool")
    return TypedColumn(typed, ColumnType.BOOLEAN)


def _as_dates(values: pd.Series) -> TypedColumn | None:
    few = values.cat.categories[:20] if isinstance(values.dtype, pd.CategoricalDtype) else values.dropna().head(20)
    # A look at a few values spares the search in columns of words.
    if not any(looks_like_date(str(value)) for value in few):
        return None
    codes, levels = pd.factorize(values)
    dates = parse_dates(codes, pd.Series(levels, dtype="object"))
    if dates is None:
        return None
    found = []
    if dates.ambiguous:
        text = f"Column {values.name!r}: every date fits day-first and month-first; it was read as {dates.format}."
        found = [Finding("ambiguous_dates", Severity.WARNING, text, "Write dates as YYYY-MM-DD.", str(values.name))]
    return TypedColumn(dates.values.rename(str(values.name)), ColumnType.DATETIME, tuple(found))


def _bad_cells(name: str, column: NumberColumn) -> list[Finding]:
    if not column.bad:
        return []
    shown = ", ".join(repr(text[:30]) for _, text in column.examples[:3])
    text = f"Column {name!r} holds numbers, but {column.bad:,} of {column.present:,} cells are not: {shown}."
    advice = "These cells were set to missing; correct them, or read the column as text."
    return [Finding("mixed_column", Severity.WARNING, text, advice, name)]


def _units(name: str, column: NumberColumn) -> list[Finding]:
    if not column.units:
        return []
    text = f"Column {name!r}: a currency or percent sign was left out of {column.units:,} cells; 12 % was read as 12."
    return [Finding("units_removed", Severity.INFO, text, "Check that all rows use one unit.", name)]


def _infinite(name: str, values: pd.Series) -> list[Finding]:
    if values.dtype.kind != "f":
        return []
    count = int(np.isinf(values.to_numpy()).sum())
    if not count:
        return []
    text = f"Column {name!r} holds {count:,} infinite numbers."
    return [Finding("infinite_values", Severity.WARNING, text, "Models need finite numbers; correct these.", name)]


_WHY_TEXT = {
    "leading_zeros": "has numbers with leading zeros, like postal codes; it was kept as text so that none is lost",
    "huge_integers": "has whole numbers too long for exact arithmetic; it was kept as text so that no digit is lost",
}


def _kept_as_text(name: str, why: str | None) -> list[Finding]:
    if why not in _WHY_TEXT:
        return []
    return [Finding(why, Severity.INFO, f"Column {name!r} {_WHY_TEXT[why]}.", "Read it as number if it is one.", name)]


def _mixed(values: pd.Series, marks: Marks, why: str | None) -> list[Finding]:
    """A text column most of whose cells are numbers is likelier a damaged number column."""
    levels, counts = _level_counts(values)
    total = int(counts.sum())
    if why in _WHY_TEXT or not total:
        return []
    numbers = to_numbers(pa.array(levels, type=pa.string()), marks).values
    numeric = numbers.is_valid().to_numpy(zero_copy_only=False)
    good = int(counts[numeric].sum())
    if good < 0.5 * total or good == total:
        return []
    name, bad = str(values.name), total - good
    shown = ", ".join(repr(str(text)[:30]) for text in levels[~numeric][:3])
    text = f"Column {name!r} mixes {good:,} numbers with {bad:,} other cells ({shown}); it was kept as text."
    return [Finding("mixed_column", Severity.WARNING, text, "Correct the cells, or read the column as number.", name)]


def _level_counts(values: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """The distinct values and how often each occurs."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        codes = values.cat.codes.to_numpy()
        counts = np.bincount(codes[codes >= 0], minlength=len(values.cat.categories))
        return values.cat.categories.to_numpy(dtype=object), counts
    # A thousand cells show whether free text is mostly numbers.
    found = values.dropna().head(1_000).value_counts()
    return found.index.to_numpy(dtype=object), found.to_numpy()


def _soft_marks(values: pd.Series) -> list[Finding]:
    if not isinstance(values.dtype, pd.CategoricalDtype):
        return []
    marks = [level for level in values.cat.categories if level in SOFT_MARKS]
    if not marks:
        return []
    count = int(values.isin(marks).sum())
    shown = ", ".join(map(repr, marks))
    text = (
        f"Column {values.name!r} holds {shown} in {count:,} rows; it was kept as a level, since it can mean something."
    )
    advice = "If it means a missing value, add it to the missing marks."
    return [Finding("level_like_missing", Severity.INFO, text, advice, str(values.name))]
