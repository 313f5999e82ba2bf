"""A table over a folder of parquet files: roles, types and checks as in `Table`, but only some rows are in memory.

Functions that work row by row give the same result on the parts as on the whole table in memory: each part has the
same dtypes and categories, which are decided once over all files.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from spu_core.errors import TableError, nearest_hint
from spu_core.tables.column_facts import ColumnFacts, quantile_ranks, select
from spu_core.tables.folder_files import BATCH_ROWS, FolderColumn, FolderFile, batches_of, files_below
from spu_core.tables.leakage import FEWEST_ROWS_A_SIDE, find_leaks, refuse_copies
from spu_core.tables.profiles import (
    EDGE_SHARES,
    QUANTILES,
    ColumnProfile,
    Histogram,
    Level,
    TableProfile,
    as_numbers,
    counts_between,
    edges_between,
    label_findings,
    missing_findings,
    propose_roles,
    repeat_findings,
    stretched,
    top_levels,
)
from spu_core.tables.reading.reading_report import Finding
from spu_core.tables.reading.values import ColumnType
from spu_core.tables.repeats import RepeatedRows, repeats_in_parts
from spu_core.tables.roles import Role, check_positive_values, check_role_changes, check_roles, parse_roles
from spu_core.tables.table import (
    Table,
    column_bits,
    copy_finding,
    holder_of,
    kind_of_values,
    positive_values_of,
    replaced_columns,
)

SAMPLE_ROWS = 200_000
# Repeated rows are searched in a sample of this size before all rows are numbered.
REPEAT_ROWS = 50_000
# Up to this many distinct texts are counted; columns of ids have no frequent values to show.
MOST_LEVELS = 32_768


class TablePart(Table):
    """Some rows of a larger table: a positive value that is rare need not occur among them.

    `frame.index` holds the numbers of the rows in the whole table.
    """

    def _settle_values(self, attribute: str, role: Role) -> None:
        if self.column_with(role) is None:
            object.__setattr__(self, attribute, ())


@dataclass(frozen=True, eq=False)
class TableFolder:
    """A table on disk, made by `open_folder`; immutable, and its files are never written.

    `parts()` gives its rows as tables that fit into memory, `sample()` a table to explore, `read()` all rows.

    Parameters
    ----------
    name : str
        Name of the table.
    path : Path
        The folder.
    files : tuple of FolderFile
        Its parquet files in order.
    columns : tuple of FolderColumn
        The form of each column over all files.
    roles : mapping of column to Role
        Role of every column.
    positive_values, truth_values : tuple, default ()
        Values of the label and of the truth that mean positive.
    findings : tuple of Finding, default ()
        What was noticed.
    stand_ins : mapping of column to Series, default {}
        A short column for each long one, with its values, extremes and gaps, to check roles and values on.
    known_fingerprint : str, default ""
        The fingerprint, where it is known already.
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
        """Files that were deleted or rewritten since the folder was opened; empty where nothing has changed."""
        return tuple(file.name for file in self.files if file.has_changed)

    @property
    def added_files(self) -> tuple[str, ...]:
        """Files added since the folder was opened; their rows are not part of this table."""
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
        """Soft labels of a column of the files; None when there is no such column."""
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
        """A random sample to explore, in the order of the files; all rows where there are fewer."""
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
        """Rows that repeat other rows in their features, searched in a sample first; None where there are none.

        Near copies are found only where the sample holds all rows.
        """
        found = self.sample(REPEAT_ROWS).repeats
        if found is None or len(self) <= REPEAT_ROWS:
            return found
        return repeats_in_parts(found, self.frames(list(self.features)))

    def profile(self) -> TableProfile:
        """The profile of every column, made in a few megabytes; equal to the profile of the table in memory."""

        return profile_folder(self)

    def with_roles(self, changes: Mapping[str, Role | str]) -> TableFolder:
        """The same folder with some roles changed, with the same checks as `Table.with_roles`."""

        return with_roles(self, changes)

    def with_positive_values(self, *values: Any) -> TableFolder:
        """The same folder, with these label values meaning *confirmed positive*."""
        return replace(self, positive_values=self._checked(Role.LABEL, values))

    def with_truth_values(self, *values: Any) -> TableFolder:
        """The same folder, with these truth values meaning positive."""
        return replace(self, truth_values=self._checked(Role.TRUTH, values))

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint, equal to that of the same rows in memory; reads every column once if it is not known yet."""
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
        """An empty frame with the dtypes and categories of all columns."""
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


def with_positive_values_set(folder: TableFolder, given: tuple[Any, ...] | None = None) -> TableFolder:
    """The folder with its positive values, given or guessed, in the form of the columns."""
    label, truth = folder.column_with(Role.LABEL), folder.column_with(Role.TRUTH)
    positive = folder.positive_values if given is None else given
    return replace(
        folder,
        positive_values=() if label is None else positive_values_of(folder.stand_ins[label], positive, Role.LABEL),
        truth_values=()
        if truth is None
        else positive_values_of(folder.stand_ins[truth], folder.truth_values, Role.TRUTH),
    )


def with_roles(folder: TableFolder, changes: Mapping[str, Role | str]) -> TableFolder:
    """The same folder with some roles changed; a role that only one column can have moves."""
    parsed = parse_roles(changes, list(folder.column_names))
    check_role_changes(folder.roles, parsed)
    roles = {**folder.roles, **replaced_columns(folder.roles, parsed), **parsed}
    check_roles(roles, folder.stand_ins)  # type: ignore[arg-type]
    same_label = folder.column_with(Role.LABEL) == holder_of(roles, Role.LABEL)
    same_truth = folder.column_with(Role.TRUTH) == holder_of(roles, Role.TRUTH)
    changed = replace(
        folder,
        roles=MappingProxyType({name: roles[name] for name in folder.column_names}),
        positive_values=folder.positive_values if same_label else (),
        truth_values=folder.truth_values if same_truth else (),
    )
    return without_copies(with_positive_values_set(changed), parsed)


def without_copies(folder: TableFolder, given: Mapping[str, Role] = MappingProxyType({})) -> TableFolder:
    """The same folder; guessed features that copy the label or truth are ignored, given ones are refused."""
    copies = _copies_of(folder)
    asked = {name: answer for name, answer in copies.items() if given.get(name) is Role.FEATURE}
    refuse_copies(asked, folder.roles)
    if not copies:
        return folder
    found = tuple(copy_finding(name, answer) for name, answer in copies.items())
    roles = {**folder.roles, **dict.fromkeys(copies, Role.IGNORE)}
    return replace(folder, roles=MappingProxyType(roles), findings=(*folder.findings, *found))


def _copies_of(folder: TableFolder) -> dict[str, str]:
    """Features that copy the label or truth, each with the column that it copies."""
    answers = [name for role in (Role.LABEL, Role.TRUTH) if (name := folder.column_with(role)) is not None]
    suspects = [name for name in folder.features if _may_copy(folder.stand_ins[name])]
    if not answers or not suspects:
        return {}
    still = {(name, answer): dict[Any, bool]() for answer in answers for name in suspects}
    sides = {answer: np.zeros(2, dtype=np.int64) for answer in answers}
    for part in folder.parts([*answers, *suspects]):
        flags = {folder.column_with(Role.LABEL): part.is_labeled, folder.column_with(Role.TRUTH): part.truth}
        for answer in answers:
            flag = flags[answer]
            assert flag is not None
            sides[answer] += np.bincount(flag, minlength=2)
            still = {
                pair: seen
                for pair, seen in still.items()
                if pair[1] != answer or _agrees(seen, part.frame[pair[0]], flag)
            }
    enough = {answer for answer, counts in sides.items() if counts.min() >= FEWEST_ROWS_A_SIDE}
    copies: dict[str, str] = {}
    for (name, answer), seen in still.items():
        if answer in enough and len(set(seen.values())) == 2:
            copies.setdefault(name, answer)
    return copies


def _may_copy(stand_in: pd.Series) -> bool:
    return stand_in.nunique() + bool(stand_in.isna().any()) == 2


def _agrees(seen: dict[Any, bool], values: pd.Series, answer: np.ndarray) -> bool:
    """Whether each value occurs with one class only; the classes found so far are kept in `seen`."""
    codes, levels = pd.factorize(values)
    for code in range(-1, len(levels)):
        sides = np.unique(answer[codes == code])
        if not sides.size:
            continue
        key = None if code < 0 else levels[code]
        if sides.size > 1 or seen.setdefault(key, bool(sides[0])) != bool(sides[0]):
            return False
    return True


def profile_folder(folder: TableFolder, on_progress: Callable[[float], None] | None = None) -> TableProfile:
    """Profile every column, check the number of labels, and search a sample for leaks, repeats and roles."""
    columns = tuple(_profile_columns(folder, on_progress))
    sample = folder.sample(SAMPLE_ROWS)
    leaks = tuple(leak.as_finding() for leak in find_leaks(sample))
    own = (
        *label_findings(folder),
        *missing_findings(columns),
        *leaks,
        *repeat_findings(sample),
        *propose_roles(sample),
    )
    return TableProfile(len(folder), int(folder.is_labeled.sum()), columns, (*folder.findings, *own))


def folder_histogram(folder: TableFolder, name: str) -> Histogram | None:
    """The histogram of one column over all rows, as the rule editor draws it; None for texts and flags."""
    if as_numbers(folder.outline[name]) is None:
        return None
    return _numbers_of(folder, name)[1]


def _profile_columns(folder: TableFolder, on_progress: Callable[[float], None] | None) -> Iterator[ColumnProfile]:
    for done, column in enumerate(folder.columns):
        if on_progress is not None:
            on_progress(done / len(folder.columns))
        yield _profile_column(folder, column)


def _profile_column(folder: TableFolder, column: FolderColumn) -> ColumnProfile:
    name = column.name
    facts = replace(ColumnFacts.empty(name, column.kind, max(len(column.levels), 1)), counts_decimals=True)
    for file in folder.files:
        for batch in batches_of(file, {name: column.kind}):
            facts = facts.add(batch[name])
    is_number = as_numbers(folder.outline[name]) is not None
    quantiles, histogram = _numbers_of(folder, name) if is_number else ({}, None)
    levels: tuple[Level, ...] = () if is_number or facts.distinct > MOST_LEVELS else _levels_of(folder, name)
    return ColumnProfile(
        name=name,
        type=column.type,
        role=folder.roles[name],
        rows=facts.rows,
        missing=facts.missing,
        distinct=facts.distinct,
        quantiles=quantiles,
        top_levels=levels,
        histogram=histogram,
    )


def _numbers_of(folder: TableFolder, name: str) -> tuple[dict[float, float], Histogram | None]:
    shares = np.array([*QUANTILES, *EDGE_SHARES])
    found = select(lambda: (numbers for numbers, _ in _finite(folder, name)), lambda n: quantile_ranks(n, shares))
    if found is None:
        return {}, None
    values = dict(zip(QUANTILES, found.value.tolist(), strict=False))
    least, most = values[0.0], values[1.0]
    low, high = found.value[-2:].tolist()
    edge = edges_between(
        (low, high),
        (least, most),
        lambda: all(bool((numbers == np.floor(numbers)).all()) for numbers, _ in _finite(folder, name)),
    )
    counts, hits = np.zeros(edge.size - 1, dtype=np.int64), np.zeros(edge.size - 1, dtype=np.int64)
    for numbers, labeled in _finite(folder, name, with_labels=True):
        more, of_labeled = counts_between(edge, numbers, labeled)
        counts, hits = counts + more, hits + of_labeled
    return values, Histogram(stretched(edge, least, most), counts, hits)


def _finite(folder: TableFolder, name: str, *, with_labels: bool = False) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The finite numbers of a column, part by part, and whether their rows are labelled."""
    for frame, labeled in _with_labels(folder, name, with_labels):
        numbers = as_numbers(frame[name])
        assert numbers is not None
        finite = np.isfinite(numbers)
        yield numbers[finite], labeled[finite]


def _levels_of(folder: TableFolder, name: str) -> tuple[Level, ...]:
    counts: dict[str, list[int]] = {}
    for frame, labeled in _with_labels(folder, name, True):
        codes, levels = pd.factorize(frame[name])
        rows = np.bincount(codes[codes >= 0], minlength=len(levels))
        hits = np.bincount(codes[(codes >= 0) & labeled], minlength=len(levels))
        for level, row, hit in zip(map(str, levels), rows.tolist(), hits.tolist(), strict=True):
            held = counts.setdefault(level, [0, 0])
            held[0], held[1] = held[0] + row, held[1] + hit
    rows, hits = np.array(list(counts.values()), dtype=np.int64).reshape(-1, 2).T
    return top_levels(list(counts), rows, hits, len(folder))


def _with_labels(folder: TableFolder, name: str, wanted: bool) -> Iterator[tuple[pd.DataFrame, np.ndarray]]:
    label = folder.column_with(Role.LABEL)
    names = list(dict.fromkeys([name, *([label] if wanted and label is not None else [])]))
    for part in folder.parts(names):
        yield part.frame, part.is_labeled if wanted else np.zeros(len(part), dtype=bool)
