"""A table over a folder of parquet files: the roles, types and laws of `Table`, but only some rows in memory at a time.

Whatever works row by row works on its parts, and gives exactly what the whole table in memory would give: each part
comes in the same form (dtypes, levels), which is decided once over all files.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from spu_core.errors import TableError, nearest_hint
from spu_core.tables.column_types import ColumnType
from spu_core.tables.findings import Finding
from spu_core.tables.fingerprints import column_bits, kind_of_values
from spu_core.tables.folder_files import BATCH_ROWS, FolderFile, batches_of, files_below
from spu_core.tables.positives import check_positive_values
from spu_core.tables.repeats import RepeatedRows, repeats_in_parts
from spu_core.tables.roles import Role
from spu_core.tables.table import Table

if TYPE_CHECKING:
    from spu_core.tables.profiles import TableProfile


# Copies are looked for in a sample of this size before all rows are numbered.
REPEAT_ROWS = 50_000


@dataclass(frozen=True)
class FolderColumn:
    """The form of one column in every part: its type over all files, whether it has gaps, its levels."""

    name: str
    kind: pa.DataType
    type: ColumnType
    has_gaps: bool
    levels: tuple[str, ...] = ()

    def series(self, values: pa.Array) -> pd.Series:
        """Some rows of the column, in the form that all rows have."""
        if self.type is ColumnType.CATEGORY and not _is_number(self.kind):
            return pd.Series(self._categories(values), name=self.name)
        if pa.types.is_string(self.kind):
            return pd.Series(values.cast(pa.string()).to_pandas(), name=self.name).astype("str")
        if pa.types.is_boolean(self.kind):
            dtype = "boolean" if self.has_gaps else "bool"
            return pd.Series(values.to_pandas(), dtype=dtype, name=self.name)
        if pa.types.is_integer(self.kind):
            numbers = values.to_numpy(zero_copy_only=False)
            return pd.Series(numbers.astype(np.float64) if self.has_gaps else numbers, name=self.name, copy=False)
        return values.to_pandas().rename(self.name)

    def _categories(self, values: pa.Array) -> pd.Categorical:
        levels = pd.Index(self.levels, dtype="str")
        if pa.types.is_null(values.type):
            return pd.Categorical.from_codes(np.full(len(values), -1), levels)
        encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
        place = levels.get_indexer(pd.Index(encoded.dictionary.cast(pa.string()).to_pylist(), dtype="str"))
        codes = np.append(place, -1)[encoded.indices.fill_null(len(place)).to_numpy(zero_copy_only=False)]
        if np.count_nonzero(codes < 0) != values.null_count:
            raise TableError(
                f"Column {self.name!r} holds a level that it did not have when the folder was opened; open it again."
            )
        return pd.Categorical.from_codes(codes.astype(np.min_scalar_type(-max(len(levels), 1))), levels)


class TablePart(Table):
    """Some rows of a larger table: a positive value that is rare need not occur among them.

    `frame.index` holds the numbers of the rows in the whole table.
    """

    def _settle_values(self, attribute: str, role: Role) -> None:
        if self.column_with(role) is None:
            object.__setattr__(self, attribute, ())


@dataclass(frozen=True, eq=False)
class TableFolder:
    """A table on disk, made by `open_folder`; immutable, and nobody writes to its files.

    `parts()` gives its rows as tables that fit into memory, `sample()` a table to explore, `read()` all rows.
    """

    name: str
    path: Path
    files: tuple[FolderFile, ...] = field(repr=False)
    columns: tuple[FolderColumn, ...] = field(repr=False)
    roles: Mapping[str, Role]
    positive_values: tuple[Any, ...] = ()
    truth_values: tuple[Any, ...] = ()
    findings: tuple[Finding, ...] = ()
    stand_ins: Mapping[str, pd.Series] = field(default_factory=dict, repr=False)
    known_fingerprint: str = ""

    def __len__(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(file.size for file in self.files)

    @property
    def changed_files(self) -> tuple[str, ...]:
        """Files that are gone, or were written again since the folder was opened; empty where nothing has changed."""
        return tuple(file.name for file in self.files if file.has_changed)

    @property
    def added_files(self) -> tuple[str, ...]:
        """Files that came since the folder was opened: their rows are not rows of this table."""
        known = {file.path for file in self.files}
        return tuple(path.name for path in files_below(self.path) if path not in known)

    @cached_property
    def types(self) -> Mapping[str, ColumnType]:
        return MappingProxyType({column.name: column.type for column in self.columns})

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def features(self) -> tuple[str, ...]:
        """The columns a model may see, in the order of the files."""
        return self.columns_with(Role.FEATURE)

    def columns_with(self, role: Role | str) -> tuple[str, ...]:
        return tuple(name for name, held in self.roles.items() if held == role)

    def column_with(self, role: Role | str) -> str | None:
        return next(iter(self.columns_with(role)), None)

    def frames(self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS) -> Iterator[pd.DataFrame]:
        """The rows in order, at most `rows` at a time, with their numbers as index; only these columns are read."""
        wanted = [self.column(name) for name in (self.column_names if columns is None else columns)]
        types = {column.name: column.kind for column in wanted}
        start = 0
        for file in self.files:
            for batch in batches_of(file, types, rows):
                frame = pd.DataFrame({each.name: each.series(batch[each.name]) for each in wanted}, copy=False)
                if len(frame):
                    frame.index = pd.RangeIndex(start, start + len(frame))
                    start += len(frame)
                    yield frame

    def parts(self, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS) -> Iterator[TablePart]:
        """The rows in order as tables; `is_labeled`, `truth`, `sample_weight` … work on each as on the whole."""
        for frame in self.frames(columns, rows):
            yield self.part(frame)

    def part(self, frame: pd.DataFrame) -> TablePart:
        """Rows in the form of this table, as a table with its roles."""
        names = list(frame.columns)
        return TablePart(
            name=self.name,
            frame=frame,
            roles={name: self.roles[name] for name in names},
            types={name: self.types[name] for name in names},
            positive_values=self.positive_values,
            truth_values=self.truth_values,
        )

    @cached_property
    def is_labeled(self) -> np.ndarray:
        """Whether each row is a confirmed positive: one byte a row."""
        column = self.column_with(Role.LABEL)
        return np.zeros(len(self), dtype=bool) if column is None else self._gathered(column, "is_labeled")

    @cached_property
    def truth(self) -> np.ndarray | None:
        """The real class of each row; None when it is unknown."""
        column = self.column_with(Role.TRUTH)
        return None if column is None else self._gathered(column, "truth")

    @property
    def soft_label(self) -> np.ndarray | None:
        """Ready-made soft labels; None when the files bring none."""
        column = self.column_with(Role.SOFT_LABEL)
        return None if column is None else self._gathered(column, "soft_label")

    @property
    def sample_weight(self) -> np.ndarray | None:
        column = self.column_with(Role.WEIGHT)
        return None if column is None else self._gathered(column, "sample_weight")

    @property
    def groups(self) -> np.ndarray | None:
        column = self.column_with(Role.GROUP)
        return None if column is None else self.values(column).to_numpy()

    @property
    def times(self) -> np.ndarray | None:
        column = self.column_with(Role.TIME)
        return None if column is None else self._gathered(column, "times")

    def values(self, name: str) -> pd.Series:
        """One whole column in memory."""
        return pd.concat([frame[name] for frame in self.frames([self.column(name).name])])

    def column(self, name: str) -> FolderColumn:
        """The form of one column."""
        found = next((column for column in self.columns if column.name == name), None)
        if found is None:
            raise TableError(f"The folder has no column {name!r}. {nearest_hint(name, self.column_names)}")
        return found

    def read(self) -> Table:
        """All rows in memory: the table that reading one file with these rows gives."""
        return self._table(pd.concat(list(self.frames()), ignore_index=True), Table)

    def sample(self, rows: int = 100_000, seed: int = 0) -> Table:
        """A random sample to explore, in the order of the files; everything where there is less."""
        if rows >= len(self):
            return self.read()
        chosen = np.sort(np.random.default_rng(seed).choice(len(self), rows, replace=False, shuffle=False))
        picked = []
        for frame in self.frames():
            inside = chosen[np.searchsorted(chosen, frame.index[0]) : np.searchsorted(chosen, frame.index[-1] + 1)]
            picked.append(frame.iloc[inside - frame.index[0]])
        return self._table(pd.concat(picked, ignore_index=True), TablePart)

    @cached_property
    def repeats(self) -> RepeatedRows | None:
        """Rows that repeat other rows in their features, looked for in a sample first; None where there are none.

        Near copies are found only where the sample holds all rows.
        """
        found = self.sample(REPEAT_ROWS).repeats
        if found is None or len(self) <= REPEAT_ROWS:
            return found
        return repeats_in_parts(found, self.frames(list(self.features)))

    def profile(self) -> TableProfile:
        """What each column holds, column by column in a few megabytes; equal to the profile of the table in memory."""
        from spu_core.tables.folder_profile import profile_folder

        return profile_folder(self)

    def with_roles(self, changes: Mapping[str, Role | str]) -> TableFolder:
        """The same folder with some roles changed, by the laws of `Table.with_roles`."""
        from spu_core.tables.folder_roles import with_roles

        return with_roles(self, changes)

    def with_positive_values(self, *values: Any) -> TableFolder:
        """The same folder, with these label values meaning *confirmed positive*."""
        return replace(self, positive_values=self._checked(Role.LABEL, values))

    def with_truth_values(self, *values: Any) -> TableFolder:
        """The same folder, with these truth values meaning positive."""
        return replace(self, truth_values=self._checked(Role.TRUTH, values))

    @cached_property
    def fingerprint(self) -> str:
        """Equal to the fingerprint of the same rows in memory; unless it is known already, reads every column once."""
        if self.known_fingerprint:
            return self.known_fingerprint
        digest = hashlib.sha256(json.dumps([list(self.column_names), len(self)]).encode())
        for column in self.columns:
            digest.update(kind_of_values(self.outline[column.name]).encode())
            for frame in self.frames([column.name]):
                digest.update(np.ascontiguousarray(column_bits(frame[column.name])).data)
        return digest.hexdigest()

    @cached_property
    def outline(self) -> pd.DataFrame:
        """No rows, but every column in its form: dtypes and levels."""
        empty = {each.name: each.series(pa.nulls(0, each.kind)) for each in self.columns}
        return pd.DataFrame(empty)

    def _gathered(self, column: str, what: str) -> np.ndarray:
        return np.concatenate([getattr(part, what) for part in self.parts([column])])

    def _checked(self, role: Role, values: tuple[Any, ...]) -> tuple[Any, ...]:
        column = self.column_with(role)
        if column is None:
            raise TableError(f"The folder has no {role.value} column; give a column the role {role.value!r} first.")
        one = len(values) == 1 and isinstance(values[0], list | tuple | set | frozenset)
        return check_positive_values(tuple(values[0]) if one else values, self.stand_ins[column])

    def _table(self, frame: pd.DataFrame, kind: type[Table]) -> Table:
        return kind(
            name=self.name,
            frame=frame,
            roles=self.roles,
            types=self.types,
            positive_values=self.positive_values,
            truth_values=self.truth_values,
            findings=self.findings,
        )


def is_folder(source: Any) -> bool:
    """Whether a path names a folder, so that `open_folder` should open it."""
    return isinstance(source, str | os.PathLike) and os.path.isdir(source)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)
