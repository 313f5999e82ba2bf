"""Changes of how columns of a table are read: another type, or more values that mean *missing*.

The cells are read again as they are written in the file, so a number column of codes can become a category without
losing a zero. The original table stays as it is; `changes` says what differs before anything is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa

from spu_core.errors import TableError
from spu_core.tables.reading.reading_report import Finding
from spu_core.tables.reading.typed_columns import Written, empty_findings
from spu_core.tables.reading.values import MISSING_MARKS, SOFT_MARKS, ColumnType, Marks, parse_dates, to_numbers
from spu_core.tables.roles import Role, check_role_changes, default_role
from spu_core.tables.table import Table

# The types that a person can choose; identifiers and flags are set by roles and values.
CHOICES = (ColumnType.NUMBER, ColumnType.CATEGORY, ColumnType.DATETIME, ColumnType.TEXT)
# Findings about how cells were read, which no longer hold after a change.
_ABOUT_CELLS = (
    "level_like_missing", "mixed_column", "leading_zeros", "huge_integers", "units_removed", "ambiguous_dates",
    "infinite_values", "constant_column", "empty_column",
)  # fmt: skip
MOST_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """What changes in one column: its type and role, and how many cells lose or get a value.

    `examples` are cells as they are written, each with its new value; empty text stands for a missing value.
    """

    column: str
    type_before: ColumnType
    type_after: ColumnType
    role_before: Role
    role_after: Role
    lost: int
    gained: int
    distinct: int
    examples: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """The change in one sentence."""
        parts = []
        if self.type_before is not self.type_after:
            parts.append(f"{self.type_before.value} becomes {self.type_after.value}")
        if self.lost:
            parts.append(f"{self.lost:,} {'cell becomes' if self.lost == 1 else 'cells become'} missing")
        if self.gained:
            parts.append(f"{self.gained:,} {'cell gets' if self.gained == 1 else 'cells get'} a value")
        if self.role_before is not self.role_after:
            parts.append(f"its role becomes {self.role_after.value}")
        values = "value" if self.distinct == 1 else "values"
        words = "; ".join(parts) or "nothing changes"
        return f"{words}; {self.distinct:,} distinct {values}."


def edit_columns(
    table: Table,
    *,
    types: Mapping[str, ColumnType | str] | None = None,
    missing: Mapping[str, Iterable[str]] | None = None,
) -> tuple[Table, tuple[ColumnChange, ...]]:
    """The table with other types and missing marks, and what changed in each of these columns.

    Parameters
    ----------
    table : Table
        A table in memory.
    types : mapping of column to type, optional
        New types: number, category, datetime or text.
    missing : mapping of column to marks, optional
        Cells that mean *missing* in a column.

    Returns
    -------
    tuple of Table and tuple of ColumnChange
        A new table with the same rows, and the changes.

    Raises
    ------
    TableError
        If a column or type is unknown, or no cell can be read as the new type.

    Examples
    --------
    >>> from spu_core.tables import read_table
    >>> table = read_table(b"code,size\\n1,small\\n2,unknown\\n2,large\\n")
    >>> edited, changes = edit_columns(table, types={"code": "category"}, missing={"size": ["unknown"]})
    >>> [change.text for change in changes]
    ['number becomes category; 2 distinct values.', '1 cell becomes missing; 2 distinct values.']
    >>> edited.frame["code"].tolist()
    ['1', '2', '2']
    """
    asked, marks = dict(types or {}), {name: tuple(map(str, cells)) for name, cells in (missing or {}).items()}
    columns = [name for name in table.roles if name in asked or name in marks]
    unknown = [name for name in (*asked, *marks) if name not in table.roles]
    if unknown:
        raise TableError(f"The table has no column {unknown[0]!r}.")
    edited = table
    changes = []
    for name in columns:
        edited, change = _edited(edited, name, _type(asked.get(name, table.types[name])), marks.get(name, ()))
        changes.append(change)
    return edited, tuple(changes)


def soft_marks_of(table: Table) -> dict[str, tuple[str, ...]]:
    """Categories that may mean *missing*, such as `unknown` or `-`: column → its marks."""
    found = {name: tuple(table.outline[name].cat.categories) for name in table.roles if _is_category(table, name)}
    marks = {name: tuple(str(level) for level in levels if level in SOFT_MARKS) for name, levels in found.items()}
    return {name: each for name, each in marks.items() if each}


def _is_category(table: Table, name: str) -> bool:
    return isinstance(table.outline[name].dtype, pd.CategoricalDtype)


def _type(kind: ColumnType | str) -> ColumnType:
    if kind not in set(ColumnType):
        raise TableError(f"A column cannot be read as {kind!r}; choose from {', '.join(CHOICES)}.")
    return ColumnType(kind)


def _edited(table: Table, name: str, kind: ColumnType, marks: tuple[str, ...]) -> tuple[Table, ColumnChange]:
    before = table.frame[name]
    cells = table.as_written([name])[name].astype(object)
    texts = cells.map(_text, na_action="ignore")
    gone = set(marks)
    if kind is table.types[name]:
        after = before.mask(texts.isin(gone))
        if isinstance(after.dtype, pd.CategoricalDtype):
            after = after.cat.remove_unused_categories()
    else:
        kept = texts.mask(texts.isin({*gone, *MISSING_MARKS}))
        after = _READ[kind](kept, table).rename(name)
    if before.notna().any() and not after.notna().any():
        raise TableError(f"No cell of column {name!r} can be read as {kind.value}.")
    role = _role(table, name, kind)
    lost, gained = int((before.notna() & after.isna()).sum()), int((before.isna() & after.notna()).sum())
    change = ColumnChange(
        name, table.types[name], kind, table.roles[name], role, lost, gained, int(after.nunique()),
        _examples(texts, before, after),
    )  # fmt: skip
    frame = table.frame.assign(**{name: after})
    edited = table.with_frame(
        frame,
        types={**table.types, name: kind},
        roles={**table.roles, name: role},
        positive_values=() if role is Role.LABEL and change.type_before is not kind else table.positive_values,
        written={**table.written, name: Written(texts)},
        findings=(*_other_findings(table.findings, name), *empty_findings(name, after)),
    )
    return edited, change


def _other_findings(findings: Iterable[Finding], name: str) -> tuple[Finding, ...]:
    return tuple(each for each in findings if each.column != name or each.code not in _ABOUT_CELLS)


def _role(table: Table, name: str, kind: ColumnType) -> Role:
    """The role follows the type where it was the usual one of the old type; any other role stays."""
    role = table.roles[name]
    if role is not default_role(table.types[name]):
        return role
    wanted = default_role(kind)
    check_role_changes(table.roles, {name: wanted})
    return wanted


def _examples(texts: pd.Series, before: pd.Series, after: pd.Series) -> tuple[tuple[str, str], ...]:
    """Cells that lose their value first, then other different cells."""
    lost = before.notna() & after.isna()
    order = pd.concat(
        [texts[lost].drop_duplicates(), texts[~lost & texts.notna()].drop_duplicates().head(MOST_EXAMPLES)]
    )
    places = order.index[:MOST_EXAMPLES]
    return tuple((str(texts[at])[:60], "" if pd.isna(after[at]) else _text(after[at])[:60]) for at in places)


def _text(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _numbers(texts: pd.Series, table: Table) -> pd.Series:
    dialect = None if table.reading is None else table.reading.dialect
    marks = Marks(
        (dialect and dialect.decimal) or ".",
        (dialect and dialect.thousands) or "",
    )
    found = to_numbers(pa.array(texts.where(texts.notna(), None), type=pa.string()), marks).values
    return pd.Series(found.to_pandas(), index=texts.index)


def _dates(texts: pd.Series, table: Table) -> pd.Series:
    codes, levels = pd.factorize(texts)
    dates = parse_dates(codes, pd.Series(levels, dtype="object"))
    if dates is None:
        raise TableError(f"Column {texts.name!r} cannot be read as dates: not all of its cells have the same format.")
    return dates.values.set_axis(texts.index)


def _category(texts: pd.Series, table: Table) -> pd.Series:
    codes, levels = pd.factorize(texts, sort=True)
    return pd.Series(pd.Categorical.from_codes(codes, pd.Index(levels, dtype="str")), index=texts.index)


_READ = {
    ColumnType.NUMBER: _numbers,
    ColumnType.DATETIME: _dates,
    ColumnType.CATEGORY: _category,
    ColumnType.TEXT: lambda texts, table: texts.astype("str"),
}
