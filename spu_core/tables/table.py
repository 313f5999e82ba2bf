"""The table: rows with typed columns, each with a role; also its fingerprint, and how it is stored as one parquet file.

The file stores values, roles, types, positive values, reading and findings together. The fingerprint depends on
values only: equal data have equal fingerprints, whatever dtypes the columns have.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Self, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pandas.api import types as kinds

from spu_core.codec import decode, parse_json
from spu_core.errors import TableError
from spu_core.tables.leakage import copies_of, refuse_copies
from spu_core.tables.profiles import TableProfile, profile_table
from spu_core.tables.reading.file_reader import schema_metadata
from spu_core.tables.reading.reading_report import Finding, Reading, Severity
from spu_core.tables.reading.typed_columns import TEXT_COLUMN, Written
from spu_core.tables.reading.values import ColumnType, guess_type, moment_bits
from spu_core.tables.repeats import RepeatedRows, find_repeats
from spu_core.tables.roles import (
    SINGLE_ROLES,
    Role,
    check_positive_values,
    check_role_changes,
    check_roles,
    guess_positive_values,
    guess_roles,
    is_positive,
    parse_roles,
)


@dataclass(frozen=True, eq=False)
class Table:
    """Rows with column roles; immutable, and `.frame` must not be modified.

    `Table.from_frame` and `read_table` make tables; both guess what is not given.

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
    frame: pd.DataFrame = field(repr=False)
    roles: Mapping[str, Role]
    types: Mapping[str, ColumnType]
    positive_values: tuple[Any, ...] = ()
    truth_values: tuple[Any, ...] = ()
    reading: Reading | None = field(default=None, repr=False)
    findings: tuple[Finding, ...] = ()
    written: Mapping[str, Written] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        columns = list(self.frame.columns)
        _check_columns(columns)
        roles = parse_roles(self.roles, columns)
        check_roles(roles, self.frame)
        object.__setattr__(self, "frame", self.frame.copy(deep=False))
        object.__setattr__(self, "roles", MappingProxyType({name: roles[name] for name in columns}))
        object.__setattr__(self, "types", MappingProxyType({name: ColumnType(self.types[name]) for name in columns}))
        object.__setattr__(self, "written", MappingProxyType({**self.written}))
        self._settle_values("positive_values", Role.LABEL)
        self._settle_values("truth_values", Role.TRUTH)
        object.__setattr__(self, "findings", tuple(each for each in self.findings if self._still_holds(each)))

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        name: str = "table",
        roles: Mapping[str, Role | str] | None = None,
        positive_values: Iterable[Any] | None = None,
    ) -> Table:
        """A table from a data frame; types, roles and positive values that are not given are guessed.

        Values and dtypes stay as they are; the index is dropped, since rows are counted from 0.
        """
        frame = frame.reset_index(drop=True)
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
        asked = [name for name, role in given.items() if role is Role.FEATURE]
        refuse_copies(copies_of(self.frame, asked, self._answers), self.roles)
        copies = copies_of(self.frame, self.features, self._answers)
        if not copies:
            return self
        found = tuple(copy_finding(name, answer) for name, answer in copies.items())
        roles = {**self.roles, **dict.fromkeys(copies, Role.IGNORE)}
        return replace(self, roles=roles, findings=(*self.findings, *found))

    def __len__(self) -> int:
        return len(self.frame)

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

    @cached_property
    def is_labeled(self) -> np.ndarray:
        """Whether each row is a confirmed positive; all False when there is no label column."""
        column = self.column_with(Role.LABEL)
        if column is None:
            return np.zeros(len(self), dtype=bool)
        return is_positive(self.frame[column], self.positive_values)

    @cached_property
    def truth(self) -> np.ndarray | None:
        """The real class of each row, to evaluate with and never to train on; None when it is unknown."""
        column = self.column_with(Role.TRUTH)
        return None if column is None else is_positive(self.frame[column], self.truth_values)

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
        return None if column is None else self.frame[column].to_numpy()

    @property
    def times(self) -> np.ndarray | None:
        """When each row happened: datetime64 or numbers."""
        column = self.column_with(Role.TIME)
        if column is None:
            return None
        values = self.frame[column]
        if isinstance(values.dtype, pd.DatetimeTZDtype):
            values = values.dt.tz_convert("UTC").dt.tz_localize(None)
        return values.to_numpy()

    @cached_property
    def repeats(self) -> RepeatedRows | None:
        """Rows that repeat other rows in their features; None where there are none."""
        return find_repeats(self.frame[list(self.features)])

    @cached_property
    def fingerprint(self) -> str:
        """The sha256 of column names and content: equal exactly when the data are equal."""
        return fingerprint(self.frame)

    def with_roles(self, changes: Mapping[str, Role | str]) -> Table:
        """The same table with some roles changed.

        A role that only one column can have moves: its former column is ignored unless it is in `changes` too.

        >>> table = Table.from_frame(pd.DataFrame({"a": [0, 1], "b": [1, 0], "y": [0, 1]}))
        >>> {name: role.value for name, role in table.with_roles({"a": "label"}).roles.items()}
        {'a': 'label', 'b': 'feature', 'y': 'ignore'}
        """
        parsed = parse_roles(changes, list(self.frame.columns))
        check_role_changes(self.roles, parsed)
        roles = {**self.roles, **replaced_columns(self.roles, parsed), **parsed}
        same_label = self.column_with(Role.LABEL) == holder_of(roles, Role.LABEL)
        same_truth = self.column_with(Role.TRUTH) == holder_of(roles, Role.TRUTH)
        changed = replace(
            self,
            roles=roles,
            positive_values=self.positive_values if same_label else (),
            truth_values=self.truth_values if same_truth else (),
        )
        return changed.without_copies(parsed)

    def with_positive_values(self, *values: Any) -> Table:
        """The same table, with these label values meaning *confirmed positive*."""
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

    def only(self, rows: Any) -> Table:
        """The same table with some of its rows, by number or by a flag for each, numbered anew."""
        places = np.arange(len(self))[rows]
        written = {name: how.only(places) for name, how in self.written.items()}
        return replace(self, frame=self.frame.iloc[places].reset_index(drop=True), written=written)

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

    def profile(self) -> TableProfile:
        """The profile of every column, with findings and advice."""
        return profile_table(self)

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the table as one typed file, with its roles, reading and findings."""

        write_table(self, path)

    @classmethod
    def from_parquet(cls, path: str | os.PathLike[str]) -> Self:
        """Read a table that `to_parquet` wrote."""

        return read_stored(path, cls)

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
        return None if column is None else self.frame[column].to_numpy(dtype=np.float64)

    @property
    def _answers(self) -> dict[str, np.ndarray]:
        """The label and truth columns with their values as flags."""
        found = {self.column_with(Role.LABEL): self.is_labeled, self.column_with(Role.TRUTH): self.truth}
        return {name: flags for name, flags in found.items() if name is not None and flags is not None}

    def _settle_values(self, attribute: str, role: Role) -> None:
        column, given = self.column_with(role), getattr(self, attribute)
        object.__setattr__(
            self, attribute, () if column is None else positive_values_of(self.frame[column], given, role)
        )


def positive_values_of(values: pd.Series, given: Any, role: Role) -> tuple[Any, ...]:
    """The positive values of a label or truth column: the given ones in its form, else good guesses."""
    if not (isinstance(given, tuple) and given == ()):
        return check_positive_values(given, values)
    guessed = guess_positive_values(values)
    if not guessed and values.notna().any():
        levels = ", ".join(repr(str(level)) for level in values.dropna().unique()[:5])
        raise TableError(
            f"Column {values.name!r} cannot have the role {role.value!r} without positive values: it holds "
            f"{levels} …, and none of them clearly means positive. Give the positive values."
        )
    return guessed


def copy_finding(name: str, answer: str) -> Finding:
    """The finding for a feature that copies the label or truth."""
    text = f"Column {name!r} is a copy of the column {answer!r}: a model would only repeat it, so it is ignored."
    return Finding("copy_ignored", Severity.WARNING, text, "Nothing needs to be done.", name)


def replaced_columns(before: Mapping[str, Role], changes: Mapping[str, Role]) -> dict[str, Role]:
    """The columns that lose a single role because another column gets it."""
    moving = {role for role in changes.values() if role in SINGLE_ROLES}
    return {name: Role.IGNORE for name, held in before.items() if held in moving}


def holder_of(roles: Mapping[str, Role], role: Role) -> str | None:
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


AnyTable = TypeVar("AnyTable", bound=Table)
_KEY = b"spu_table"
_SCHEMA = 2
_LARGEST_NOTE = 32 * 1024**2


def write_table(table: Table, path: str | os.PathLike[str]) -> None:
    """Write the table; an existing file is replaced."""
    texts = {f"{TEXT_COLUMN}{name}": how.texts for name, how in table.written.items() if how.texts is not None}
    values = pa.Table.from_pandas(table.frame.assign(**texts), preserve_index=False)
    note = json.dumps(_to_json(table), allow_nan=False, ensure_ascii=False).encode()
    values = values.replace_schema_metadata({**(values.schema.metadata or {}), _KEY: note})
    pq.write_table(values, path, compression="zstd")


def read_stored(path: str | os.PathLike[str], kind: type[AnyTable]) -> AnyTable:
    """Read a table that `write_table` wrote, as this class; the metadata is parsed strictly."""
    shown = os.fspath(path)
    try:
        with open(path, "rb") as stream:
            metadata = schema_metadata(stream, str(shown))
        frame = pq.read_table(path).to_pandas()
    except (pa.ArrowException, OSError) as error:
        raise TableError(f"{shown!r} cannot be read as a stored table: {str(error).splitlines()[0]}.") from error
    if _KEY not in metadata:
        raise TableError(f"{shown!r} was not written by Table.to_parquet; use read_table for other parquet files.")
    return _from_json(_parse(metadata[_KEY], str(shown)), frame, str(shown), kind)


def _to_json(table: Table) -> dict[str, Any]:
    return {
        "schema": _SCHEMA,
        "name": table.name,
        "roles": {name: role.value for name, role in table.roles.items()},
        "types": {name: kind.value for name, kind in table.types.items()},
        "positive_values": list(table.positive_values),
        "truth_values": list(table.truth_values),
        "reading": None if table.reading is None else asdict(table.reading),
        "written": {name: [how.style, how.decimal, how.missing] for name, how in table.written.items()},
        "findings": [{**asdict(finding), "severity": finding.severity.value} for finding in table.findings],
    }


def _parse(note: bytes, shown: str) -> dict[str, Any]:
    parsed = parse_json(note, f"{shown!r}: the note stored with the table", TableError, _LARGEST_NOTE)
    expected = {"schema", "name", "roles", "types", "positive_values", "truth_values", "reading", "findings", "written"}
    if isinstance(parsed, dict) and parsed.get("schema") == 1:
        parsed = {"written": {}, **parsed, "schema": _SCHEMA}
    if not isinstance(parsed, dict) or set(parsed) != expected:
        raise TableError(f"{shown!r}: the note stored with the table must have exactly the fields {sorted(expected)}.")
    if parsed["schema"] != _SCHEMA:
        raise TableError(f"{shown!r} was stored in schema {parsed['schema']!r}; this version reads {_SCHEMA}.")
    return parsed


def _from_json(note: dict[str, Any], frame: pd.DataFrame, shown: str, kind: type[AnyTable]) -> AnyTable:
    texts = {name for name in frame.columns if name.startswith(TEXT_COLUMN)}
    try:
        return kind(
            name=_text(note["name"]),
            frame=frame.drop(columns=texts) if texts else frame,
            roles=note["roles"],
            types=note["types"],
            positive_values=tuple(note["positive_values"]),
            truth_values=tuple(note["truth_values"]),
            reading=None if note["reading"] is None else _reading(note["reading"]),
            written={
                name: _how_written(how, frame.get(f"{TEXT_COLUMN}{name}")) for name, how in note["written"].items()
            },
            findings=tuple(_exactly(Finding, item, lines=tuple(item["lines"])) for item in note["findings"]),
        )
    except TableError as error:
        raise TableError(f"{shown!r}: the stored table contradicts itself. {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TableError(f"{shown!r}: the note stored with the table is damaged: {error}.") from error


def _how_written(note: list[Any], texts: pd.Series | None) -> Written:
    style, decimal, missing = map(_text, note)
    return Written(texts, style, decimal, missing)


def _reading(note: dict[str, Any]) -> Reading:
    return decode(Reading, note, "reading", TableError, complete=True)


def _exactly(kind: Any, note: dict[str, Any], **parsed: Any) -> Any:
    """Make the dataclass from a mapping that has exactly its fields."""
    names = {item.name for item in fields(kind)}
    if set(note) != names:
        raise TableError(f"A stored {kind.__name__} must have exactly the fields {sorted(names)}, got {sorted(note)}.")
    return kind(**{**note, **parsed})


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TableError(f"The name of a stored table must be text, got {value!r}.")
    return value


def fingerprint(frame: pd.DataFrame) -> str:
    """sha256 over column names, kinds and values, in order.

    >>> a = pd.DataFrame({"x": [1, 2], "c": ["u", "v"]})
    >>> fingerprint(a) == fingerprint(a.astype({"c": "category"})), fingerprint(a) == fingerprint(a[::-1])
    (True, False)
    """
    digest = hashlib.sha256(json.dumps([list(frame.columns), len(frame)]).encode())
    for name in frame.columns:
        values = frame[name]
        digest.update(kind_of_values(values).encode())
        digest.update(np.ascontiguousarray(column_bits(values)).data)
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
