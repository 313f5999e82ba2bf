"""Good first guesses for the roles of columns, by name, type and values; the analyst can change every one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pandas as pd

from spu_core.tables.column_types import ColumnType
from spu_core.tables.roles import Role

# Who has several rows, and what may have them; a bare `device` or `store` is as often a kind of thing, so it is only
# proposed (role_proposals.py).
_WHO = "user|patient|customer|client|member|person|subject|player"
_WHAT = "account|device|store|shop|household|family"
_NUMBERED = "_?(id|nbr|no|number|key|code)"
# With fewer values, a column is a feature rather than a list of people or things.
FEWEST_GROUPS = 20

# For each role the patterns of names that speak for it, the most telling first.
_NAMES = {
    Role.TRUTH: (
        r"(ground|hidden|true|real)?_?truth(_label)?",
        r"(true|real|actual|gold)_(label|class|y)|y_true",
    ),
    Role.SOFT_LABEL: (r"soft_?labels?(_value)?",),
    # A bare "weight" is more often kilograms than the weight of a row.
    Role.WEIGHT: (r"(sample|row|case|survey|instance)_?weights?",),
    Role.LABEL: (
        r"(is_)?labell?ed|labels?|(is_)?confirmed(_\w+)?|(is_|known_)?positive",
        r"target|class|y|outcome",
        r"is_(fraud|cheat(er)?|spam|bot|default|churn(ed)?|converted)",
        r"fraud|cheater|spam|churn(ed)?|converted|conversion",
    ),
    Role.GROUP: (
        r"group(_?id)?|household(_?id)?|family(_?id)?|cluster(_?id)?|patient_?(id|nbr)|account_?id",
        rf"({_WHO})({_NUMBERED})?|({_WHAT}){_NUMBERED}",
    ),
    Role.TIME: (r"(event_?|record_?)?(date|time|timestamp|datetime|day|month|ts)", r"\w+_(at|date|time|on)"),
}
_CONFIRMATION = re.compile(r"confirm|fraud|positive|diagnos|label|convert|caught|ban|admit|churn|default|chargeback")
# A date that most rows lack is the day on which something happened to few of them.
MOSTLY_MISSING = 0.5


def guess_roles(frame: pd.DataFrame, types: Mapping[str, ColumnType], given: Mapping[str, Role]) -> dict[str, Role]:
    """A role for every column; the given ones are kept.

    >>> frame = pd.DataFrame({"user_id": range(30), "age": [3.0] * 15 + [4.0] * 15, "label": [0, 1] * 15})
    >>> kinds = {"user_id": ColumnType.IDENTIFIER, "age": ColumnType.NUMBER, "label": ColumnType.NUMBER}
    >>> {name: role.value for name, role in guess_roles(frame, kinds, {}).items()}
    {'user_id': 'id', 'age': 'feature', 'label': 'label'}
    """
    roles = dict(given)
    for role, fits in _FITS.items():
        if role not in roles.values():
            column = _first_named(role, frame, types, roles, fits)
            if column is not None:
                roles[column] = role
    if Role.LABEL not in roles.values():
        roles |= _date_of_confirmation(frame, types, roles)
    if Role.TIME not in roles.values():
        roles |= _only_complete_date(frame, types, roles)
    return {name: roles.get(name) or _role_by_type(frame[name], types[name]) for name in frame.columns}


def names_groups(name: str) -> bool:
    """Whether a column's name says that its values are people or things which can have several rows.

    >>> names_groups("Device"), names_groups("customerId"), names_groups("age")
    (True, True, False)
    """
    return bool(re.fullmatch(f"({_WHO}|{_WHAT})({_NUMBERED})?", _snake(name)))


def _first_named(
    role: Role,
    frame: pd.DataFrame,
    types: Mapping[str, ColumnType],
    taken: Mapping[str, Role],
    fits: Callable[[pd.Series, ColumnType], bool],
) -> str | None:
    for pattern in _NAMES[role]:
        for name in frame.columns:
            named = name not in taken and re.fullmatch(pattern, _snake(name))
            if named and fits(frame[name], types[name]):
                return name
    return None


def _snake(name: str) -> str:
    """`isLabeled`, `Is Labeled` and `is-labeled` are one name."""
    return re.sub(r"[\s\-.]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.strip())).lower()


def _date_of_confirmation(
    frame: pd.DataFrame, types: Mapping[str, ColumnType], taken: Mapping[str, Role]
) -> dict[str, Role]:
    sparse = [
        name
        for name in frame.columns
        if name not in taken and types[name] is ColumnType.DATETIME and _is_mostly_missing(frame[name])
    ]
    named = [name for name in sparse if _CONFIRMATION.search(_snake(name))]
    chosen = named[:1] or (sparse if len(sparse) == 1 else [])
    return dict.fromkeys(chosen, Role.LABEL)


def _only_complete_date(
    frame: pd.DataFrame, types: Mapping[str, ColumnType], taken: Mapping[str, Role]
) -> dict[str, Role]:
    dates = [name for name in frame.columns if types[name] is ColumnType.DATETIME and name not in taken]
    complete = [name for name in dates if not frame[name].isna().any()]
    return dict.fromkeys(complete if len(complete) == 1 else [], Role.TIME)


def _role_by_type(values: pd.Series, kind: ColumnType) -> Role:
    if kind is ColumnType.IDENTIFIER:
        return Role.ID
    # Models take numbers, levels and flags; free text and raw dates are there to be read.
    return Role.IGNORE if kind in (ColumnType.TEXT, ColumnType.DATETIME) else Role.FEATURE


def _is_mostly_missing(values: pd.Series) -> bool:
    share = float(values.isna().mean())
    return MOSTLY_MISSING <= share < 1.0


def _is_two_sided(values: pd.Series, kind: ColumnType) -> bool:
    if kind is ColumnType.DATETIME:
        return _is_mostly_missing(values)
    distinct = values.nunique()
    return distinct == 2 or (distinct == 1 and bool(values.isna().any()))


def _is_truth(values: pd.Series, kind: ColumnType) -> bool:
    return kind is not ColumnType.DATETIME and values.nunique() == 2 and not values.isna().any()


def _is_share(values: pd.Series, kind: ColumnType) -> bool:
    return kind is ColumnType.NUMBER and bool(values.between(0.0, 1.0).all())


def _is_weight(values: pd.Series, kind: ColumnType) -> bool:
    return kind is ColumnType.NUMBER and bool(values.between(0.0, float("inf"), inclusive="left").all())


def _repeats(values: pd.Series, kind: ColumnType) -> bool:
    return kind is not ColumnType.DATETIME and not values.isna().any() and not values.is_unique


def _is_group(values: pd.Series, kind: ColumnType) -> bool:
    sure = re.fullmatch(_NAMES[Role.GROUP][0], _snake(str(values.name)))
    return _repeats(values, kind) and (bool(sure) or values.nunique() >= FEWEST_GROUPS)


def _is_time(values: pd.Series, kind: ColumnType) -> bool:
    # A number called "day" or "month" is a feature more often than a clock.
    is_clock = kind is ColumnType.DATETIME or _snake(str(values.name)).endswith(("timestamp", "ts"))
    return is_clock and not values.isna().any()


_FITS: dict[Role, Callable[[pd.Series, ColumnType], bool]] = {
    Role.TRUTH: _is_truth,
    Role.SOFT_LABEL: _is_share,
    Role.WEIGHT: _is_weight,
    Role.LABEL: _is_two_sided,
    Role.GROUP: _is_group,
    Role.TIME: _is_time,
}
