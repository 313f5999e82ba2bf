"""Roles that a column should probably have: identifiers among the features, and groups that nobody has named.

Nothing is changed here: a proposal is a finding that names the column and the role.

An identifier is a column of whole numbers that are all different and in order, or so close together that different
numbers cannot be chance, or all of one length.

A group is looked for by its name (`device`, `store` …) and by its rows. A column with few rows a value is proposed if
rows with the same value are far more alike, in at least two features, than rows with neighbouring values, and these are
about as unlike as any two rows. A feature that others follow smoothly, such as age, does not look like that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from spu_core.tables.column_types import ColumnType
from spu_core.tables.findings import Finding, Severity
from spu_core.tables.role_guesses import FEWEST_GROUPS, names_groups
from spu_core.tables.roles import Role
from spu_core.tables.table import Table

FEWEST_ROWS = 30
# Six digits: shorter numbers of one length are often amounts or years.
FEWEST_DIGITS = 6
# If numbers were spread evenly, e^−7 would be the chance that no two of them are equal.
CLOSE = 7.0
MOST_ROWS_A_VALUE = 100.0
FEWEST_ROWS_A_VALUE = 1.2
ALIKE = 0.5
SURE = 4.0
LARGEST_SAMPLE = 10_000


def propose_roles(table: Table) -> list[Finding]:
    """A finding for each feature that looks like an identifier, and one for a column that looks like a group."""
    found = [_id_finding(name, why) for name in table.features if (why := why_identifier(table.frame[name]))]
    if table.column_with(Role.GROUP) is None and len(table) >= FEWEST_ROWS:
        found += _group_findings(table, {finding.column for finding in found})
    return found


def why_identifier(values: pd.Series) -> str | None:
    """What makes a column of numbers look like an identifier, in words; None where nothing does.

    >>> why_identifier(pd.Series(range(1000, 1100)))
    'in order'
    >>> why_identifier(pd.Series([3.5, 1.0] * 50)) is None
    True
    """
    if pd.api.types.is_bool_dtype(values.dtype) or not pd.api.types.is_numeric_dtype(values.dtype):
        return None
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


def _group_findings(table: Table, taken: set[str | None]) -> list[Finding]:
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


def _may_be_group(table: Table, name: str) -> bool:
    values, kind, role = table.frame[name], table.types[name], table.roles[name]
    # Free text is ignored by default; other columns are ignored because somebody said so.
    wanted = role in (Role.FEATURE, Role.ID) or (role is Role.IGNORE and kind is ColumnType.TEXT)
    if not wanted or kind in (ColumnType.DATETIME, ColumnType.BOOLEAN) or values.isna().any():
        return False
    if pd.api.types.is_float_dtype(values.dtype) and bool((values != np.floor(values)).any()):
        return False
    distinct = int(values.nunique())
    return distinct >= FEWEST_GROUPS and FEWEST_ROWS_A_VALUE <= len(values) / distinct <= MOST_ROWS_A_VALUE


def _likeness(table: Table, name: str) -> _Likeness | None:
    """Two rows of each value, in the order of the values: each row beside the next has the same value, or the next."""
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
    """How far apart rows of one value are, as a share of what neighbouring values are; None where that is not clear."""
    apart = _distances(values)
    within, between = apart[::2], apart[1::2]
    strangers = float(_distances(values.sample(frac=1.0, random_state=0)).mean())
    error = np.sqrt(within.var() / within.size + between.var() / between.size)
    is_alike = within.mean() < ALIKE * between.mean() and between.mean() - within.mean() > SURE * error
    return float(within.mean() / between.mean()) if is_alike and between.mean() > 0.5 * strangers else None


def _distances(values: pd.Series) -> np.ndarray:
    """Between consecutive rows: of the ranks of numbers (a gap is far from all of them), else 0 or 1."""
    if pd.api.types.is_numeric_dtype(values.dtype):
        ranks = values.rank(pct=True).fillna(-1.0).to_numpy(dtype=np.float64)
        return np.minimum(np.abs(np.diff(ranks)), 1.0)
    codes, _ = pd.factorize(values)
    return (np.diff(codes) != 0).astype(np.float64)
