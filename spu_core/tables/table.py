"""The table: typed columns with roles, over rows in memory or in files; its fingerprint; storing it as one file.

The file stores values, roles, types, positive values, reading and findings together. The fingerprint depends on
values only: equal data have equal fingerprints, whatever dtypes the columns have.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pandas.api import types as kinds

from spu_core.codec import decode, dump_json, encode, parse_json
from spu_core.errors import TableError, nearest_hint
from spu_core.html_table import count, html_table, short_name, short_repr
from spu_core.tables.leakage import copies_of, refuse_copies
from spu_core.tables.profiles import SAMPLE_ROWS, TableProfile, profile_table
from spu_core.tables.reading.file_reader import schema_metadata
from spu_core.tables.reading.reading_report import Finding, Reading, Severity
from spu_core.tables.reading.typed_columns import TEXT_COLUMN, Written
from spu_core.tables.reading.values import ColumnType, guess_type, moment_bits
from spu_core.tables.repeats import RepeatedRows, find_repeats, repeats_in_parts
from spu_core.tables.roles import (
    SINGLE_ROLES,
    Role,
    check_positive_values,
    check_role_changes,
    check_roles,
    guess_positive_values,
    guess_roles,
    is_positive,
    means_negative,
    parse_roles,
)
from spu_core.tables.stores import FrameStore, Store

# Repeated rows of a table in files are searched in a sample of this size before all rows are numbered.
REPEAT_ROWS = 50_000


def as_pandas(frame: Any) -> pd.DataFrame:
    """A pandas frame from itself, or from anything with `to_pandas`: a polars frame, an Arrow table."""
    if isinstance(frame, pd.DataFrame):
        return frame
    convert = getattr(frame, "to_pandas", None)
    found = convert() if callable(convert) else None
    if not isinstance(found, pd.DataFrame):
        hint = "; collect it first: frame.collect()" if hasattr(frame, "collect") else ""
        raise TableError(f"A table is made from a pandas or polars frame, got {type(frame).__name__}{hint}.")
    return found


@dataclass(frozen=True, eq=False, init=False)
class Table:
    """Rows with column roles, in memory or in parquet files; immutable, and `.frame` must not be modified.

    `Table.from_frame`, `read_table` and `open_folder` make tables; they guess what is not given.

    Parameters
    ----------
    name : str
        Name of the table.
    frame : pandas.DataFrame
        Rows; column names are distinct, non-empty text.
    roles : mapping of column to Role
        Role of every column.
    types : mapping of column to ColumnType
        Type of every column.
    positive_values, truth_values : tuple, default ()
        Values of the label and of the truth that mean positive; guessed where empty.
    reading : Reading, optional
        How the file was read.
    findings : tuple of Finding, default ()
        What was noticed.
    written : mapping of column to Written, default {}
        How cells are written in the file, where the type would write them differently.
    store : FrameStore or ParquetStore, optional
        Where the rows are; used if no frame is given.

    Raises
    ------
    TableError
        If names, roles or positive values are not valid.

    Examples
    --------
    >>> table = Table.from_frame(pd.DataFrame({"age": [31, 54, 47], "label": [0, 1, 0]}), name="people")
    >>> table.features, table.column_with("label"), table.positive_values
    (('age',), 'label', (1,))
    >>> table.is_labeled
    array([False,  True, False])
    """

    name: str
    store: Store = field(repr=False)
    roles: Mapping[str, Role]
    types: Mapping[str, ColumnType]
    positive_values: tuple[Any, ...]
    truth_values: tuple[Any, ...]
    reading: Reading | None = field(repr=False)
    findings: tuple[Finding, ...]
    written: Mapping[str, Written] = field(repr=False)

    def __init__(
        self,
        name: str,
        frame: pd.DataFrame | None = None,
        roles: Mapping[str, Role] = MappingProxyType({}),
        types: Mapping[str, ColumnType] = MappingProxyType({}),
        positive_values: tuple[Any, ...] = (),
        truth_values: tuple[Any, ...] = (),
        reading: Reading | None = None,
        findings: tuple[Finding, ...] = (),
        written: Mapping[str, Written] = MappingProxyType({}),
        *,
        store: Store | None = None,
    ) -> None:
        if frame is not None:
            store = FrameStore(frame, is_part=store is not None and store.is_part)
        if store is None:
            raise TableError("A table needs rows: give a frame or a store.")
        columns = list(store.outline.columns)
        _check_columns(columns)
        parsed = parse_roles(roles, columns)
        check_roles(parsed, store.stand_ins)
        self._set("name", name)
        self._set("store", store)
        self._set("roles", MappingProxyType({column: parsed[column] for column in columns}))
        self._set("types", MappingProxyType({column: ColumnType(types[column]) for column in columns}))
        self._set("positive_values", self._settled(Role.LABEL, positive_values))
        self._set("truth_values", self._settled(Role.TRUTH, truth_values))
        self._set("reading", reading)
        self._set("findings", tuple(each for each in findings if self._still_holds(each)))
        self._set("written", MappingProxyType({**written}))

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        name: str = "table",
        roles: Mapping[str, Role | str] | None = None,
        positive_values: Iterable[Any] | None = None,
    ) -> Table:
        """A table from a pandas or polars frame or an Arrow table; what is not given of types and roles is guessed.

        Values and dtypes stay as they are; the index is dropped, since rows are counted from 0.
        """
        frame = as_pandas(frame).reset_index(drop=True)
        columns = list(frame.columns)
        _check_columns(columns)
        types = {column: guess_type(frame[column]) for column in columns}
        given = parse_roles(roles or {}, columns)
        table = cls(
            name=name,
            frame=frame,
            roles=guess_roles(frame, types, given),
            types=types,
            positive_values=() if positive_values is None else positive_values,  # type: ignore[arg-type]
        )
        return table.without_copies(given)

    def without_copies(self, given: Mapping[str, Role] = MappingProxyType({})) -> Table:
        """The same table; guessed features that copy the label or truth are ignored, given ones are refused."""
        copies = copies_of(self, self.features)
        refuse_copies({name: copies[name] for name in given if name in copies}, self.roles)
        if not copies:
            return self
        found = tuple(copy_finding(name, answer) for name, answer in copies.items())
        roles = {**self.roles, **dict.fromkeys(copies, Role.IGNORE)}
        return replace(self, roles=roles, findings=(*self.findings, *found))

    def __repr__(self) -> str:
        label = self.column_with(Role.LABEL)
        found = None if label is None else f"label {short_name(label)}"
        return short_repr("Table", self.name, count(len(self), "row"), count(len(self.roles), "column"), found)

    def _repr_html_(self) -> str:
        columns = {"column": list(self.roles), "role": list(self.roles.values()), "type": list(self.types.values())}
        if self.in_memory and len(self):
            columns["first row"] = [str(value) for value in self.frame.iloc[0]]
        return html_table(repr(self), pd.DataFrame(columns, dtype=object))

    def __len__(self) -> int:
        return len(self.store)

    def __reduce__(self) -> Any:
        state = {each.name: getattr(self, each.name) for each in fields(self)}
        # Read-only views of dictionaries cannot be pickled.
        state |= {name: dict(state[name]) for name in ("roles", "types", "written")}
        return partial(Table, **state), ()

    @property
    def in_memory(self) -> bool:
        """Whether all rows are in memory; else they are read from files, in parts."""
        return self.store.in_memory

    @property
    def frame(self) -> pd.DataFrame:
        """All rows of a table in memory; refused for a table in files."""
        return self.store.frame

    @property
    def outline(self) -> pd.DataFrame:
        """A frame with the dtypes and categories of all columns; without rows where these are in files."""
        return self.store.outline

    @property
    def column_names(self) -> tuple[str, ...]:
        """All columns, in order."""
        return tuple(self.roles)

    @property
    def features(self) -> tuple[str, ...]:
        """The columns a model may see, in the order of the table."""
        return self.columns_with(Role.FEATURE)

    def columns_with(self, role: Role | str) -> tuple[str, ...]:
        """All columns with this role, in the order of the table."""
        return tuple(name for name, held in self.roles.items() if held == role)

    def column_with(self, role: Role | str) -> str | None:
        """The (first) column with this role; None when there is none."""
        return next(iter(self.columns_with(role)), None)

    def values(self, name: str) -> pd.Series:
        """One whole column in memory."""
        if name not in self.roles:
            raise TableError(f"The table has no column {name!r}. {nearest_hint(name, self.roles)}")
        return self.store.values(name)

    def frames(self, columns: Sequence[str] | None = None, rows: int | None = None) -> Iterator[pd.DataFrame]:
        """The rows in order, at most `rows` at a time, with their numbers as index; only these columns are read.

        By default a table in memory is one frame, and a table in files frames of 65,536 rows.
        """
        return self.store.frames(columns, rows)

    def parts(self, columns: Sequence[str] | None = None, rows: int | None = None) -> Iterator[Table]:
        """The rows in order as tables with at least these columns; a table in memory is one part by default.

        `is_labeled`, `truth`, `sample_weight` … work on each part as on the whole.
        """
        if self.in_memory and rows is None:
            yield self
            return
        for frame in self.frames(columns, rows):
            yield self.part(frame)

    def part(self, frame: pd.DataFrame) -> Table:
        """Some rows and columns in the form of this table, as a table with its roles and values."""
        names = list(frame.columns)
        return Table(
            name=self.name,
            roles={name: self.roles[name] for name in names},
            types={name: self.types[name] for name in names},
            positive_values=self.positive_values,
            truth_values=self.truth_values,
            store=FrameStore(frame, is_part=True),
        )

    def read(self) -> Table:
        """The same table with all rows in memory."""
        return self if self.in_memory else self.with_frame(pd.concat(list(self.frames()), ignore_index=True))

    def sample(self, rows: int = 100_000, seed: int = 0) -> Table:
        """A random sample in memory, in the order of the rows; all rows where there are fewer."""
        if rows >= len(self):
            return self.read()
        chosen = np.sort(np.random.default_rng(seed).choice(len(self), rows, replace=False, shuffle=False))
        return self._taken(chosen, is_part=True)

    def explored(self, rows: int = SAMPLE_ROWS) -> Table:
        """This table if it is in memory, else a sample of it: for searches that need many columns at once."""
        return self if self.in_memory else self.sample(rows)

    @cached_property
    def is_labeled(self) -> np.ndarray:
        """Whether each row is a confirmed case; all False when there is no label column."""
        column = self.column_with(Role.LABEL)
        if column is None:
            return np.zeros(len(self), dtype=bool)
        return is_positive(self.values(column), self.positive_values)

    @cached_property
    def truth(self) -> np.ndarray | None:
        """The real class of each row, to evaluate with and never to train on; None when it is unknown."""
        column = self.column_with(Role.TRUTH)
        return None if column is None else is_positive(self.values(column), self.truth_values)

    @property
    def soft_label(self) -> np.ndarray | None:
        """Soft labels in [0, 1] from a column; None when there is no such column."""
        return self._numbers_with(Role.SOFT_LABEL)

    @property
    def sample_weight(self) -> np.ndarray | None:
        """The weight of each row; None when all rows count the same."""
        return self._numbers_with(Role.WEIGHT)

    @property
    def groups(self) -> np.ndarray | None:
        """The group of each row (a patient, a household); rows of a group stay on one side of every split."""
        column = self.column_with(Role.GROUP)
        return None if column is None else self.values(column).to_numpy()

    @property
    def times(self) -> np.ndarray | None:
        """When each row happened: datetime64 or numbers."""
        column = self.column_with(Role.TIME)
        if column is None:
            return None
        values = self.values(column)
        if isinstance(values.dtype, pd.DatetimeTZDtype):
            values = values.dt.tz_convert("UTC").dt.tz_localize(None)
        return values.to_numpy()

    @cached_property
    def repeats(self) -> RepeatedRows | None:
        """Rows that repeat other rows in their features; None where there are none.

        In files they are searched in a sample first, and near copies are found only where the sample holds all rows.
        """
        features = list(self.features)
        sample = self.explored(REPEAT_ROWS)
        found = find_repeats(sample.frame[features])
        if found is None or len(sample) == len(self):
            return found
        return repeats_in_parts(found, self.frames(features))

    @cached_property
    def fingerprint(self) -> str:
        """The sha256 of column names and content: equal exactly when the data are equal."""
        return self.store.known_fingerprint or _digest(self.store)

    def with_roles(self, changes: Mapping[str, Role | str]) -> Table:
        """The same table with some roles changed.

        A role that only one column can have moves: its former column is ignored unless it is in `changes` too.

        >>> table = Table.from_frame(pd.DataFrame({"a": [0, 1], "b": [1, 0], "y": [0, 1]}))
        >>> {name: role.value for name, role in table.with_roles({"a": "label"}).roles.items()}
        {'a': 'label', 'b': 'feature', 'y': 'ignore'}
        """
        parsed = parse_roles(changes, list(self.roles))
        check_role_changes(self.roles, parsed)
        moving = {role for role in parsed.values() if role in SINGLE_ROLES}
        replaced = {name: Role.IGNORE for name, held in self.roles.items() if held in moving}
        roles = {**self.roles, **replaced, **parsed}
        same_label = self.column_with(Role.LABEL) == _holder_of(roles, Role.LABEL)
        same_truth = self.column_with(Role.TRUTH) == _holder_of(roles, Role.TRUTH)
        changed = replace(
            self,
            roles=roles,
            positive_values=self.positive_values if same_label else (),
            truth_values=self.truth_values if same_truth else (),
        )
        return changed.without_copies(parsed)

    def with_positive_values(self, *values: Any) -> Table:
        """The same table, with these label values meaning *confirmed case*."""
        if self.column_with(Role.LABEL) is None:
            raise TableError(
                "The table has no label column; give a column the role 'label' before its positive values."
            )
        return replace(self, positive_values=_one_tuple(values))

    def with_truth_values(self, *values: Any) -> Table:
        """The same table, with these truth values meaning positive."""
        if self.column_with(Role.TRUTH) is None:
            raise TableError(
                "The table has no truth column; give a column the role 'truth' before its positive values."
            )
        return replace(self, truth_values=_one_tuple(values))

    def with_frame(self, frame: pd.DataFrame, **changes: Any) -> Table:
        """The same table with these rows in place of its own, and with other changes such as roles or types."""
        return replace(self, store=FrameStore(frame, self.store.is_part), **changes)

    def only(self, rows: Any) -> Table:
        """The same table with some of its rows, by number or by a flag for each, numbered anew."""
        return self._taken(np.arange(len(self))[rows])

    def as_written(self, columns: Iterable[str] | None = None, rows: Any = None) -> pd.DataFrame:
        """The cells as they are written in the file, for exports: `$1.50` and `31.01.2024`, not 1.5 and 2024-01-31.

        Columns whose values are written in the same way keep their type.

        >>> from spu_core.tables import read_table
        >>> table = read_table(b"price,day\\n$1.50,31.01.2024\\n$2.00,01.02.2024\\n")
        >>> table.frame["price"].tolist(), table.as_written()["price"].tolist()
        ([1.5, 2.0], ['$1.50', '$2.00'])
        """
        frame = self.frame if columns is None else self.frame[list(columns)]
        frame = frame.set_axis(range(len(frame))) if rows is None else frame.set_axis(range(len(frame))).iloc[rows]
        texts = {name: self.written[name].cells(frame[name]) for name in frame.columns if name in self.written}
        return frame.assign(**texts).reset_index(drop=True)

    def profile(self, on_progress: Callable[[float], None] | None = None) -> TableProfile:
        """The profile of every column, with findings and advice; `on_progress` is called with the share of columns."""
        return profile_table(self, on_progress)

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the table as one typed file, with its roles, reading and findings."""

        write_table(self, path)

    @classmethod
    def from_parquet(cls, path: str | os.PathLike[str], *, is_part: bool = False) -> Table:
        """Read a table that `to_parquet` wrote; `is_part` if it holds only some rows of a larger table."""

        return read_stored(path, is_part)

    def _still_holds(self, finding: Finding) -> bool:
        """Whether a finding still applies; one about a guessed label or group does not after the role has changed."""
        label, group = self.column_with(Role.LABEL), self.column_with(Role.GROUP)
        holds = {
            "label_guessed": finding.column == label,
            "no_label": label is None,
            "group_guessed": finding.column == group,
        }
        return holds.get(finding.code, True)

    def _numbers_with(self, role: Role) -> np.ndarray | None:
        column = self.column_with(role)
        return None if column is None else self.values(column).to_numpy(dtype=np.float64)

    def _taken(self, places: np.ndarray, *, is_part: bool = False) -> Table:
        written = {name: how.only(places) for name, how in self.written.items()}
        return replace(self, store=self.store.take(places, is_part=is_part), written=written)

    def _settled(self, role: Role, given: Any) -> tuple[Any, ...]:
        """The positive values of the column with this role, checked unless the whole table has checked them."""
        column = self.column_with(role)
        if column is None:
            return ()
        if self.store.is_part:
            return given or guess_positive_values(self.values(column))
        return positive_values_of(self.store.stand_ins[column], given, role)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


# The names that tables in files and their parts had before there was one class.
TableFolder: TypeAlias = Table
TablePart: TypeAlias = Table


def positive_values_of(values: pd.Series, given: Any, role: Role) -> tuple[Any, ...]:
    """The positive values of a label or truth column: the given ones in its form, else good guesses."""
    if not (isinstance(given, tuple) and given == ()):
        return check_positive_values(given, values)
    guessed = guess_positive_values(values)
    present = values.dropna().unique()
    if not guessed and not all(map(means_negative, present[:3].tolist())):
        levels = ", ".join(repr(str(level)) for level in present[:5])
        raise TableError(
            f"Column {values.name!r} cannot have the role {role.value!r} without positive values: it holds "
            f"{levels} …, and none of them clearly means positive. Give the positive values."
        )
    return guessed


def copy_finding(name: str, answer: str) -> Finding:
    """The finding for a feature that copies the label or truth."""
    text = f"Column {name!r} is a copy of the column {answer!r}: a model would only repeat it, so it is ignored."
    return Finding("copy_ignored", Severity.WARNING, text, "Nothing needs to be done.", name)


def _holder_of(roles: Mapping[str, Role], role: Role) -> str | None:
    """The column that has a role."""
    return next((name for name, held in roles.items() if held is role), None)


def _one_tuple(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """`with_positive_values("a", "b")` and `with_positive_values(["a", "b"])` mean the same."""
    one = len(values) == 1 and isinstance(values[0], list | tuple | set | frozenset)
    return tuple(values[0]) if one else values


def _check_columns(columns: list[Any]) -> None:
    if not columns:
        raise TableError("The table has no columns.")
    for name in columns:
        if not isinstance(name, str) or not name:
            raise TableError(f"Column names must be non-empty text, got {name!r}; rename the column.")
    if len(set(columns)) < len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        raise TableError(f"Two columns are called {twice!r}; rename one of them.")


_KEY = b"spu_table"
_SCHEMA = 2
_LARGEST_NOTE = 32 * 1024**2


def write_table(table: Table, path: str | os.PathLike[str]) -> None:
    """Write the table; an existing file is replaced."""
    texts = {f"{TEXT_COLUMN}{name}": how.texts for name, how in table.written.items() if how.texts is not None}
    values = pa.Table.from_pandas(table.frame.assign(**texts), preserve_index=False)
    values = values.replace_schema_metadata({**(values.schema.metadata or {}), _KEY: _note_of(table)})
    pq.write_table(values, path, compression="zstd")


def read_stored(path: str | os.PathLike[str], is_part: bool = False) -> Table:
    """Read a table that `write_table` wrote; the metadata is parsed strictly."""
    shown = os.fspath(path)
    try:
        with open(path, "rb") as stream:
            metadata = schema_metadata(stream, str(shown))
        frame = pq.read_table(path).to_pandas()
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"{shown!r} cannot be read as a stored table: {str(error).splitlines()[0]}.") from error
    if _KEY not in metadata:
        raise TableError(f"{shown!r} was not written by Table.to_parquet; use read_table for other parquet files.")
    return _with_note(metadata[_KEY], frame, str(shown), is_part)


@dataclass(frozen=True)
class StoredNote:
    """What the file of a table holds beside its values."""

    name: str
    roles: Mapping[str, Role]
    types: Mapping[str, ColumnType]
    positive_values: tuple[Any, ...]
    truth_values: tuple[Any, ...]
    reading: Reading | None
    written: Mapping[str, tuple[str, str, str]]
    findings: tuple[Finding, ...]


def _note_of(table: Table) -> bytes:
    written = {name: (how.style, how.decimal, how.missing) for name, how in table.written.items()}
    given = {each.name: getattr(table, each.name) for each in fields(StoredNote)}
    note = encode(StoredNote(**{**given, "written": written}), "The table", TableError, exact=True)
    return dump_json({"schema": _SCHEMA, **note}).encode()


def _with_note(note: bytes, frame: pd.DataFrame, shown: str, is_part: bool) -> Table:
    what = f"{shown!r}: the note stored with the table"
    parsed = parse_json(note, what, TableError, _LARGEST_NOTE)
    if isinstance(parsed, dict) and parsed.get("schema") == 1:
        parsed = {"written": {}, **parsed, "schema": _SCHEMA}
    kept = decode(StoredNote, parsed, what, TableError, schema=("schema", _SCHEMA), complete=True)
    texts = {name for name in frame.columns if name.startswith(TEXT_COLUMN)}
    written = {name: Written(frame.get(f"{TEXT_COLUMN}{name}"), *how) for name, how in kept.written.items()}
    given = {each.name: getattr(kept, each.name) for each in fields(kept)} | {"written": written}
    try:
        return Table(**given, store=FrameStore(frame.drop(columns=texts) if texts else frame, is_part))
    except TableError as error:
        raise TableError(f"{shown!r}: the stored table contradicts itself. {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TableError(f"{what} is damaged: {error}.") from error


def fingerprint(frame: pd.DataFrame) -> str:
    """sha256 over column names, kinds and values, in order.

    >>> a = pd.DataFrame({"x": [1, 2], "c": ["u", "v"]})
    >>> fingerprint(a) == fingerprint(a.astype({"c": "category"})), fingerprint(a) == fingerprint(a[::-1])
    (True, False)
    """
    return _digest(FrameStore(frame))


def _digest(store: Store) -> str:
    outline = store.outline
    digest = hashlib.sha256(json.dumps([list(outline.columns), len(store)]).encode())
    for name in outline.columns:
        digest.update(kind_of_values(outline[name]).encode())
        for frame in store.frames([name]):
            digest.update(np.ascontiguousarray(column_bits(frame[name])).data)
    return digest.hexdigest()


def kind_of_values(values: pd.Series) -> str:
    """The kind of the values of a column, independent of its dtype."""
    if kinds.is_bool_dtype(values.dtype):
        return "boolean"
    if kinds.is_datetime64_any_dtype(values.dtype):
        return "datetime"
    return "number" if kinds.is_numeric_dtype(values.dtype) else "text"


def column_bits(values: pd.Series) -> np.ndarray:
    """Bits of each cell that depend on the cell only, so that a column can be hashed in parts."""
    kind = kind_of_values(values)
    if kind == "datetime":
        return moment_bits(values)
    if kind == "number" and isinstance(values.dtype, np.dtype):
        # One bit pattern for every NaN and for both zeros.
        return values.to_numpy() if values.dtype.kind in "iu" else _canonical(values.to_numpy())
    return pd.util.hash_pandas_object(values, index=False).to_numpy()


def _canonical(numbers: np.ndarray) -> np.ndarray:
    numbers = numbers + 0.0
    numbers[np.isnan(numbers)] = np.nan
    return numbers
