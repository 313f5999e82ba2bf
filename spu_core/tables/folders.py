"""Opening a folder of parquet files: one pass over all rows finds the facts and the form of each column.

The result of that pass can be stored as text, so that the folder is opened again without another pass.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from spu_core.codec import decode
from spu_core.errors import TableError
from spu_core.tables.reading.blocks import longest_cell
from spu_core.tables.reading.reading_report import Finding, ReadLimits
from spu_core.tables.reading.typed_columns import empty_findings
from spu_core.tables.reading.values import FEW_ROWS, ColumnType, names_an_id, type_of_text
from spu_core.tables.roles import Role, guess_roles, is_named_like, parse_roles
from spu_core.tables.stores import FolderColumn, FolderFile, ParquetStore, batches_of, list_files, open_files
from spu_core.tables.table import Table

_FEW_VALUES = 64
_FIRST_TEXTS = 1_000


@dataclass(frozen=True, eq=False)
class ColumnFacts:
    """Rows, gaps, extremes, and the counts of values while there are few.

    `few` maps values, in order of first appearance, to their rows; None once there are more than `most_few`. From then
    on `hashes` holds 64 bits of each distinct value of each part, for texts, ids and groups.
    """

    name: str
    kind: pa.DataType
    rows: int = 0
    missing: int = 0
    low: Any = None
    high: Any = None
    hashes: tuple[np.ndarray, ...] = field(default=(), repr=False)
    few: dict[Any, int] | None = field(default_factory=dict, repr=False)
    first_texts: int = 0
    one_word: bool = True
    most_few: int = _FEW_VALUES

    @classmethod
    def empty(cls, name: str, kind: pa.DataType, levels: int) -> ColumnFacts:
        return cls(name, kind, most_few=max(levels, FEW_ROWS) if pa.types.is_string(kind) else _FEW_VALUES)

    def add(self, values: pa.Array) -> ColumnFacts:
        """These facts and those of the next rows."""
        if not len(values):
            return self
        present = _present(values)
        few, found = self._more_values(present)
        low, high = _extremes(found)
        return replace(
            self,
            rows=self.rows + len(values),
            missing=self.missing + len(values) - len(present),
            low=_least(self.low, low),
            high=_most(self.high, high),
            hashes=(*self.hashes, *self._more_hashes(few, found)),
            few=few,
            **self._texts(values),
        )

    @property
    def present(self) -> int:
        return self.rows - self.missing

    @cached_property
    def distinct(self) -> int:
        """Distinct values; 0 for many values of a column where no guess needs them."""
        if self.few is not None:
            return len(self.few)
        return np.unique(np.concatenate(self.hashes)).size if self.hashes else 0

    @property
    def all_differ(self) -> bool:
        """Whether no value occurs twice."""
        return self.distinct == self.present

    def type(self, levels: int) -> ColumnType:
        """The type that the values of all rows suggest: equal to `guess_type` of the whole column."""
        if pa.types.is_boolean(self.kind):
            return ColumnType.BOOLEAN
        if pa.types.is_timestamp(self.kind):
            return ColumnType.DATETIME
        if pa.types.is_string(self.kind) or pa.types.is_null(self.kind):
            return type_of_text(self.name, self.present, self.distinct, levels, lambda: self.one_word)
        whole = pa.types.is_integer(self.kind) and not self.missing
        is_id = whole and names_an_id(self.name) and self.rows > 0 and self.all_differ
        return ColumnType.IDENTIFIER if is_id else ColumnType.NUMBER

    def stand_in(self) -> pd.Series:
        """A short column with the properties of the long one: frequent values, extremes, gaps and repeats.

        Roles and positive values are guessed from it, so that no guess needs all rows at once.
        """
        values = self._shown()
        if values and not self.all_differ:
            values += values[-1:]
        share = self.missing / self.rows if self.rows else 0.0
        gaps = 0 if not self.missing else len(values) or 1 if share >= 0.5 else 1
        if gaps == 1 and len(values) == 1 and share < 0.5:
            values *= 2
        return as_series(self.name, self.kind, values, gaps)

    def _shown(self) -> list[Any]:
        if self.few is None:
            return [self.low, self.high, _between(self.low, self.high)]
        ranks = {count: place for place, count in enumerate(sorted(set(self.few.values())), start=1)}
        most = 50 if len(self.few) > _FEW_VALUES else len(ranks)
        return [value for value, count in self.few.items() for _ in range(min(ranks[count], most))]

    def _more_hashes(self, few: dict[Any, int] | None, found: pa.Array) -> tuple[np.ndarray, ...]:
        counted = pa.types.is_string(self.kind) or names_an_id(self.name) or is_named_like(Role.GROUP, self.name)
        if few is not None or not counted:
            return ()
        before = () if self.few is None else (_hashes(pa.array(list(self.few), self.kind)),)
        return (*before, _hashes(found))

    def _more_values(self, present: pa.Array) -> tuple[dict[Any, int] | None, pa.Array]:
        """The rows of each value while they are few, and the values to hash: each once where that is cheap."""
        if self.few is None:
            return None, present.unique() if pa.types.is_string(self.kind) else present
        found = present.value_counts()
        distinct = found.field("values")
        if len(distinct) > self.most_few:
            return None, distinct
        few = dict(self.few)
        for value, count in zip(distinct.to_pylist(), found.field("counts").to_pylist(), strict=True):
            few[value] = few.get(value, 0) + count
        return (few if len(few) <= self.most_few else None), distinct

    def _texts(self, values: pa.Array) -> dict[str, Any]:
        """Whether the first thousand texts are single words."""
        if not (pa.types.is_dictionary(values.type) or pa.types.is_string(values.type)):
            return {}
        left = _FIRST_TEXTS - self.first_texts
        if left <= 0:
            return {}
        first = values.drop_null()[:left]
        texts = pd.Series(first.cast(pa.string()).to_pylist(), dtype="str")
        spaced = bool(len(texts)) and bool(texts.str.contains(r"\s").any())
        return {"first_texts": self.first_texts + len(first), "one_word": self.one_word and not spaced}


def _present(values: pa.Array) -> pa.Array:
    """The values that are not missing; dictionaries are decoded, and -0.0 becomes 0.0."""
    if pa.types.is_dictionary(values.type):
        return values.drop_null().cast(pa.string())
    if pa.types.is_floating(values.type):
        numbers = pc.drop_null(values).to_numpy(zero_copy_only=False) + 0.0
        return pa.array(numbers[~np.isnan(numbers)])
    return values.drop_null()


def _extremes(distinct: pa.Array) -> tuple[Any, Any]:
    if not len(distinct) or pa.types.is_null(distinct.type):
        return None, None
    found = pc.min_max(distinct.cast(pa.int8()) if pa.types.is_boolean(distinct.type) else distinct)
    return found["min"].as_py(), found["max"].as_py()


def _hashes(distinct: pa.Array) -> np.ndarray:
    if pa.types.is_string(distinct.type):
        return pd.util.hash_array(np.array(distinct.to_pylist(), dtype=object), categorize=False)
    if pa.types.is_timestamp(distinct.type):
        distinct = distinct.cast(pa.int64())
    elif pa.types.is_boolean(distinct.type) or pa.types.is_null(distinct.type):
        distinct = distinct.cast(pa.int8())
    return pd.util.hash_array(distinct.to_numpy(zero_copy_only=False))


def _least(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else min(one, other)


def _most(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else max(one, other)


def _between(low: Any, high: Any) -> Any:
    """A third value, so that a column of many values never looks like one of two."""
    if isinstance(low, str):
        return f"{low} …"
    if isinstance(low, int | float):
        return low + (high - low) / 2 if np.isfinite(high - low) else 0.5 * low + 0.5 * high
    return low + (high - low) / 2


def as_series(name: str, kind: pa.DataType, values: list[Any], gaps: int) -> pd.Series:
    """A short column of these values, and of gaps behind them."""
    padded = [*values, *[None] * gaps]
    if pa.types.is_boolean(kind):
        flags = [None if value is None else bool(value) for value in padded]
        return pd.Series(flags, name=name, dtype="boolean" if gaps else "bool")
    if pa.types.is_string(kind) or pa.types.is_null(kind):
        return pd.Series(padded, name=name, dtype="str")
    if pa.types.is_timestamp(kind):
        return pd.Series(pa.array(padded, type=kind).to_pandas(), name=name)
    if pa.types.is_integer(kind) and not gaps:
        return pd.Series([int(value) for value in padded], name=name, dtype=kind.to_pandas_dtype())
    return pd.Series(padded, name=name, dtype=np.float64)


def open_folder(
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    roles: Mapping[str, Role | str] | None = None,
    positive_values: Iterable[Any] | None = None,
    limits: ReadLimits | None = None,
) -> Table:
    """A table over all parquet files below a folder; roles and values not given are guessed, as for a table in memory.

    One pass over the rows is made. Types and roles equal those of one file with the same rows.

    Parameters
    ----------
    path : path
        Folder that holds the parquet files, also in folders below it.
    name : str, optional
        Name of the table; the name of the folder by default.
    roles : mapping of column to role, optional
        Roles that are known; the others are guessed.
    positive_values : iterable, optional
        Label values that mean *confirmed case*.
    limits : ReadLimits, optional
        Sizes beyond which a cell is refused, and the largest number of distinct texts in a category.

    Returns
    -------
    Table
        The table; its rows stay in the files.

    Raises
    ------
    TableError
        If there is no parquet file, or if files do not fit together.
    """
    limits = limits or ReadLimits()
    files, types, findings = open_files(list_files(path))
    facts = survey(files, types, limits)
    columns = tuple(form_of(fact, limits.levels) for fact in facts.values())
    stand_ins = {column.name: in_form(column, facts[column.name].stand_in()) for column in columns}
    given = parse_roles(roles or {}, list(stand_ins))
    kinds = {column.name: column.type for column in columns}
    table = Table(
        name=name or Path(path).name,
        roles=guess_roles(stand_ins, kinds, given),
        types=kinds,
        positive_values=() if positive_values is None else tuple(positive_values),
        findings=(*findings, *(found for each in columns for found in empty_findings(each.name, stand_ins[each.name]))),
        store=ParquetStore(Path(path), files, columns, stand_ins),
    )
    return table.without_copies(given)


def survey(files: Iterable[FolderFile], types: dict[str, pa.DataType], limits: ReadLimits) -> dict[str, ColumnFacts]:
    """The statistics of every column, in one pass."""
    facts = {name: ColumnFacts.empty(name, kind, limits.levels) for name, kind in types.items()}
    for file in files:
        for batch in batches_of(file, types):
            for name, values in batch.items():
                _check_cells(name, values, file, limits)
                facts[name] = facts[name].add(values)
    return facts


def form_of(facts: ColumnFacts, levels: int) -> FolderColumn:
    """The form of the column in every part."""
    kind = facts.type(levels)
    is_level = kind is ColumnType.CATEGORY and (pa.types.is_string(facts.kind) or pa.types.is_null(facts.kind))
    names = tuple(sorted(facts.few or ())) if is_level else ()
    return FolderColumn(facts.name, facts.kind, kind, facts.missing > 0, names)


def in_form(column: FolderColumn, short: pd.Series) -> pd.Series:
    """A stand-in with the categories of its column."""
    if column.type is ColumnType.CATEGORY and not pd.api.types.is_numeric_dtype(short.dtype):
        return short.astype(pd.CategoricalDtype(pd.Index(column.levels, dtype="str")))
    return short


def _check_cells(name: str, values: pa.Array, file: FolderFile, limits: ReadLimits) -> None:
    longest = longest_cell(values)
    if longest > limits.cell_bytes:
        raise TableError(
            f"{file.name!r} has a cell of {longest:,} bytes in column {name!r}; the limit is {limits.cell_bytes:,}. "
            "Shorten it, or raise the limit 'cell_bytes'."
        )


def is_folder(source: Any) -> bool:
    """Whether a path names a folder, so that `open_folder` should open it."""
    return isinstance(source, str | os.PathLike) and os.path.isdir(source)


def parquet_store(table: Table) -> ParquetStore:
    """The files of a table that `open_folder` made; a table in memory is refused."""
    if not isinstance(table.store, ParquetStore):
        raise TableError(f"The rows of {table.name!r} are in memory, not in files; open files with open_folder().")
    return table.store


_SCHEMA = 1
_MOMENT = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=(.+))?\]")


@dataclass(frozen=True)
class StoredColumn:
    """The form of a column as it is stored: `kind` is the name of its Arrow type, `stand_in` a few typical values."""

    name: str
    kind: str
    type: ColumnType
    has_gaps: bool
    levels: tuple[str, ...]
    stand_in: tuple[Any, ...]


@dataclass(frozen=True)
class StoredSurvey:
    """The result of the pass over all rows: files (path, rows, bytes, time of writing), columns and findings."""

    files: tuple[tuple[str, int, int, int], ...]
    columns: tuple[StoredColumn, ...]
    findings: tuple[Finding, ...]


def survey_to_json(folder: Table) -> str:
    """The result of the pass over all rows as JSON, without rows."""
    store = parquet_store(folder)
    files = ((file.path.relative_to(store.path).as_posix(), file.rows, file.size, file.written) for file in store.files)
    columns = (_stored_column(column, store.stand_ins[column.name]) for column in store.columns)
    found = asdict(StoredSurvey(tuple(files), tuple(columns), folder.findings))
    # Not by `encode`: a stand-in may hold infinite numbers, and has to keep them.
    return json.dumps({"schema": _SCHEMA, **found}, ensure_ascii=False)


def folder_from_survey(text: str, path: Path, known_fingerprint: str = "", **described: Any) -> Table:
    """The table as it was opened; `described` gives name, roles and values, which people may change.

    Its files may have changed since; `store.changed_files` lists them.
    """
    what = f"The stored description of the folder {path.name!r}"
    try:
        kept = decode(StoredSurvey, json.loads(text), what, TableError, schema=("schema", _SCHEMA))
        columns = tuple(
            FolderColumn(each.name, _kind(each.kind), each.type, each.has_gaps, each.levels) for each in kept.columns
        )
        pairs = zip(columns, kept.columns, strict=True)
        store = ParquetStore(
            path,
            tuple(FolderFile(path / name, *facts) for name, *facts in kept.files),
            columns,
            {column.name: _stand_in(column, stored.stand_in) for column, stored in pairs},
            known_fingerprint,
        )
        return Table(
            types={column.name: column.type for column in columns}, findings=kept.findings, store=store, **described
        )
    except (TypeError, ValueError, pa.ArrowException) as problem:
        raise TableError(f"{what} is damaged ({problem}); open it again.") from None


def _stored_column(column: FolderColumn, stand_in: pd.Series) -> StoredColumn:
    values = pa.Array.from_pandas(stand_in.astype(object) if column.levels else stand_in, type=column.kind)
    if pa.types.is_timestamp(column.kind):
        values = values.cast(pa.int64())
    kept = tuple(values.to_pylist())
    return StoredColumn(column.name, str(column.kind), column.type, column.has_gaps, column.levels, kept)


def _stand_in(column: FolderColumn, kept: Sequence[Any]) -> pd.Series:
    is_moment = pa.types.is_timestamp(column.kind)
    values = pa.array(kept, type=pa.int64()).cast(column.kind).to_pylist() if is_moment else kept
    present = [value for value in values if value is not None]
    return in_form(column, as_series(column.name, column.kind, present, len(kept) - len(present)))


def _kind(text: str) -> pa.DataType:
    moment = _MOMENT.fullmatch(text)
    return pa.type_for_alias(text) if moment is None else pa.timestamp(moment[1], moment[2])
