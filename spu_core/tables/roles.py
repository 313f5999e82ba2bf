"""What a column is for: the roles, and the laws that a set of roles must keep."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import numpy as np
import pandas as pd

from spu_core.errors import TableError, nearest_hint


class Role(StrEnum):
    """What a column is for; every column has exactly one role."""

    FEATURE = "feature"
    ID = "id"
    LABEL = "label"
    TRUTH = "truth"
    SOFT_LABEL = "soft_label"
    WEIGHT = "weight"
    GROUP = "group"
    TIME = "time"
    IGNORE = "ignore"


# Each of these describes the whole row, so a second column in the same role would contradict the first.
SINGLE_ROLES = (Role.LABEL, Role.TRUTH, Role.SOFT_LABEL, Role.WEIGHT, Role.GROUP, Role.TIME)
# A model that sees one of these sees the answer.
ANSWER_ROLES = (Role.LABEL, Role.TRUTH)


def parse_roles(roles: Mapping[str, Role | str], columns: list[str]) -> dict[str, Role]:
    """The given roles as Role values, for columns that exist.

    >>> parse_roles({"age": "feature"}, ["age"])
    {'age': <Role.FEATURE: 'feature'>}
    >>> parse_roles({"ages": "feature"}, ["age"])
    Traceback (most recent call last):
    spu_core.errors.TableError: Roles name the column 'ages', but the table does not have it. Did you mean 'age'?
    """
    parsed, known, roles_known = {}, set(columns), set(Role)
    for column, role in roles.items():
        if column not in known:
            hint = nearest_hint(str(column), columns)
            raise TableError(f"Roles name the column {column!r}, but the table does not have it. {hint}")
        if role not in roles_known:
            raise TableError(f"Column {column!r} cannot have the role {role!r}. {nearest_hint(str(role), Role)}")
        parsed[column] = Role(role)
    return parsed


def check_roles(roles: Mapping[str, Role], frame: pd.DataFrame) -> None:
    """Refuse roles that contradict each other or the values of their columns."""
    for role in SINGLE_ROLES:
        holders = [column for column, held in roles.items() if held is role]
        if len(holders) > 1:
            named = " and ".join(map(repr, holders))
            raise TableError(f"Only one column can have the role {role.value!r}, but {named} have it.")
        if holders and role in _VALUE_LAWS:
            _VALUE_LAWS[role](frame[holders[0]])


def check_role_changes(before: Mapping[str, Role], changes: Mapping[str, Role]) -> None:
    """A label or truth column does not turn into a feature unless another column takes its place.

    >>> check_role_changes({"y": Role.LABEL}, {"y": Role.FEATURE})
    Traceback (most recent call last):
    spu_core.errors.TableError: Column 'y' has the role 'label', so it cannot become a feature: a model \
would see the answer. If the role is wrong, give 'label' to another column, or set 'y' to 'ignore' first.
    >>> check_role_changes({"y": Role.LABEL, "z": Role.FEATURE}, {"y": Role.FEATURE, "z": Role.LABEL})
    """
    for column, role in changes.items():
        held = before.get(column)
        if role is Role.FEATURE and held in ANSWER_ROLES and held not in changes.values():
            raise TableError(
                f"Column {column!r} has the role {held.value!r}, so it cannot become a feature: a model would see "
                f"the answer. If the role is wrong, give {held.value!r} to another column, or set {column!r} to "
                "'ignore' first."
            )


def _check_truth(values: pd.Series) -> None:
    missing = values.isna().to_numpy()
    if missing.any():
        raise TableError(
            f"Column {values.name!r} cannot have the role 'truth': it is missing in {int(missing.sum()):,} rows "
            f"(first: row {int(missing.argmax())}). Keep only rows with a known truth, or use the role 'label'."
        )


def _check_soft_label(values: pd.Series) -> None:
    numbers = _numbers(values, Role.SOFT_LABEL)
    bad = ~((numbers >= 0.0) & (numbers <= 1.0))
    if bad.any():
        _refuse(values, Role.SOFT_LABEL, "must lie in [0, 1]", int(bad.argmax()))


def _check_weight(values: pd.Series) -> None:
    numbers = _numbers(values, Role.WEIGHT)
    bad = ~(np.isfinite(numbers) & (numbers >= 0.0))
    if bad.any():
        _refuse(values, Role.WEIGHT, "must be finite and not negative", int(bad.argmax()))


def _numbers(values: pd.Series, role: Role) -> np.ndarray:
    if not pd.api.types.is_numeric_dtype(values.dtype):
        _refuse(values, role, "must be numbers", 0)
    return values.to_numpy(dtype=np.float64, na_value=np.nan)


def _refuse(values: pd.Series, role: Role, law: str, row: int) -> None:
    shown = values.iloc[row] if len(values) else None
    raise TableError(
        f"Column {values.name!r} cannot have the role {role.value!r}: its values {law}, but row {row} holds {shown!s}."
    )


_VALUE_LAWS = {Role.TRUTH: _check_truth, Role.SOFT_LABEL: _check_soft_label, Role.WEIGHT: _check_weight}
