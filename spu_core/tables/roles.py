"""Roles of columns, the values of a label that mean positive, and guesses of both.

Guesses use names, types and values; the analyst can change each of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from spu_core.errors import TableError, nearest_hint
from spu_core.tables.reading.values import ColumnType

ColumnValues: TypeAlias = "pd.DataFrame | Mapping[str, pd.Series]"


class Role(StrEnum):
    """The purpose of a column; every column has exactly one role."""

    FEATURE = "feature"
    ID = "id"
    LABEL = "label"
    TRUTH = "truth"
    SOFT_LABEL = "soft_label"
    WEIGHT = "weight"
    GROUP = "group"
    TIME = "time"
    IGNORE = "ignore"


# Only one column can have each of these roles, because they describe the whole row.
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


def check_roles(roles: Mapping[str, Role], frame: ColumnValues) -> None:
    """Refuse roles that contradict each other or the values of their columns."""
    for role in SINGLE_ROLES:
        holders = [column for column, held in roles.items() if held is role]
        if len(holders) > 1:
            named = " and ".join(map(repr, holders))
            raise TableError(f"Only one column can have the role {role.value!r}, but {named} have it.")
        if holders and role in _VALUE_LAWS:
            _VALUE_LAWS[role](frame[holders[0]])


def check_role_changes(before: Mapping[str, Role], changes: Mapping[str, Role]) -> None:
    """Refuse to turn a label or truth column into a feature unless another column takes its place.

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


# Used instead of a list of values: every row with a value is positive, as with a date of confirmation.
ANY_VALUE = "<any value>"

# Words for the positive class of a label, from the most to the least specific.
POSITIVE_WORDS = (
    "positive", "pos", "confirmed", "labeled", "labelled", "fraud", "fraudulent", "cheater", "cheat",
    "malignant", "case", "yes", "y", "true", "t", "1", "1.0", "converted", "conversion", "default", "churn",
    "churned", "bad", "sick", "ill", "disease", ">50k", ">50k.", "ja", "oui", "sì", "sí", "si", "sim", "tak",
)  # fmt: skip
NEGATIVE_WORDS = (
    "0", "0.0", "-1", "no", "n", "none", "false", "f", "unknown", "unlabeled", "unlabelled", "negative", "neg",
    "not confirmed", "unconfirmed", "open", "nein", "non", "nie", "não", "unbekannt", "inconnu", "-", "?",
)  # fmt: skip


def guess_positive_values(values: pd.Series) -> tuple[Any, ...]:
    """The values that most likely mean *confirmed case*; empty when there is no evidence for any value.

    >>> guess_positive_values(pd.Series([-1, 1, -1])), guess_positive_values(pd.Series(["no", "yes"]))
    ((1,), ('yes',))
    >>> guess_positive_values(pd.Series(pd.to_datetime([None, "2024-03-01", None])))
    ('<any value>',)
    >>> guess_positive_values(pd.Series([0, 0])), guess_positive_values(pd.Series(["yes", "unknown"]))
    ((), ('yes',))
    """
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        return (ANY_VALUE,)
    counts = values.value_counts()
    counts = counts[counts > 0]
    levels = [_plain(value) for value in counts.index]
    if levels and all(map(means_negative, levels)):
        return ()  # no row is confirmed yet
    if pd.api.types.is_bool_dtype(values.dtype):
        return (True,) if levels else ()
    if pd.api.types.is_numeric_dtype(values.dtype):
        return (max(levels),) if 0 < len(levels) <= 2 else ()
    if len(levels) == 1:
        # One value and gaps: the value is the confirmation. One value everywhere: no information.
        return (levels[0],) if values.isna().any() or _rank_of_word(levels[0]) is not None else ()
    known = [level for level in levels if _rank_of_word(level) is not None]
    if known:
        best = min(_rank_of_word(level) for level in known)  # type: ignore[type-var]
        return tuple(sorted(level for level in known if _rank_of_word(level) == best))
    others = [level for level in levels if not means_negative(level)]
    return (others[-1],) if len(levels) == 2 else ()


def means_negative(level: Any) -> bool:
    """Whether a value of a label means *not confirmed*: 0, -1, no, unknown, false …

    >>> [means_negative(level) for level in (0, -1.0, False, "Unknown", "nein", 1, "yes")]
    [True, True, True, True, True, False, False]
    """
    if isinstance(level, str):
        return level.strip().lower() in NEGATIVE_WORDS
    return bool(level <= 0) if isinstance(level, int | float) else False


def check_positive_values(given: Iterable[Any], values: pd.Series) -> tuple[Any, ...]:
    """The given values in the column's own form ("1" for a column of numbers is 1), or an error.

    >>> check_positive_values(["1"], pd.Series([0, 1], name="y"))
    (1,)
    >>> check_positive_values(["yess"], pd.Series(["no", "yes"], name="y"))
    Traceback (most recent call last):
    spu_core.errors.TableError: The label column 'y' has no value 'yess'. Did you mean 'yes'?
    """
    wanted = (given,) if isinstance(given, str | bytes) or not isinstance(given, Iterable) else tuple(given)
    if not wanted:
        raise TableError(
            f"positive_values for column {values.name!r} is empty; name at least one value, e.g. 1 or 'yes'."
        )
    if ANY_VALUE in [value for value in wanted if isinstance(value, str)]:
        return (ANY_VALUE,)
    levels = [_plain(value) for value in values.dropna().unique()]
    return tuple(_find_level(value, levels, str(values.name)) for value in wanted)


def is_positive(values: pd.Series, positive_values: tuple[Any, ...]) -> np.ndarray:
    """A bool per row: whether it holds one of the positive values; a missing value is not positive.

    >>> is_positive(pd.Series(["yes", None, "no"]), ("yes",))
    array([ True, False, False])
    """
    if positive_values == (ANY_VALUE,):
        return values.notna().to_numpy(dtype=bool)
    return np.asarray(values.isin(list(positive_values)), dtype=bool)


def _find_level(value: Any, levels: list[Any], column: str) -> Any:
    for level in levels:
        if type(level) is type(value) and level == value:
            return level
    for level in levels:
        if level == value or str(level) == str(value) or _number(level) == _number(value) != None:  # noqa: E711
            return level
    hint = nearest_hint(str(value), map(str, levels))
    raise TableError(f"The label column {column!r} has no value {value!r}. {hint}")


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _rank_of_word(level: Any) -> int | None:
    word = str(level).strip().lower()
    return POSITIVE_WORDS.index(word) if word in POSITIVE_WORDS else None


def _plain(value: Any) -> Any:
    """A Python value instead of a numpy scalar, because positive values are stored as JSON."""
    return value.item() if isinstance(value, np.generic) else value


# Names of people and things that can have several rows. A bare `device` or `store` can also be a category, so it is
# only proposed (profiles.py).
_WHO = "user|patient|customer|client|member|person|subject|player"
_WHAT = "account|device|store|shop|household|family"
_NUMBERED = "_?(id|nbr|no|number|key|code)"
# A column with fewer values is a feature rather than a list of people or things.
FEWEST_GROUPS = 20

# For each role the patterns of its usual names, the most specific first.
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
_CONFIRMATION = re.compile(
    r"confirm|fraud|positive|diagnos|label|conver[ts]|caught|\bban|_ban|admit|churn|default|chargeback|detected|malignan"
)
# A label by its name and shape only: confirmed cases are a minority.
LARGEST_SHARE = 0.5
# A date that most rows lack is probably the day of an event that few rows have.
MOSTLY_MISSING = 0.5


def guess_roles(frame: ColumnValues, types: Mapping[str, ColumnType], given: Mapping[str, Role]) -> dict[str, Role]:
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
        roles |= _flag_of_confirmation(frame, types, roles) or _date_of_confirmation(frame, types, roles)
    if Role.TIME not in roles.values():
        roles |= _only_complete_date(frame, types, roles)
    return {name: roles.get(name) or default_role(types[name]) for name in types}


def is_named_like(role: Role, name: str) -> bool:
    """Whether a column has one of the usual names of a role.

    >>> is_named_like(Role.GROUP, "householdId"), is_named_like(Role.GROUP, "age")
    (True, False)
    """
    return any(re.fullmatch(pattern, _snake(name)) for pattern in _NAMES[role])


def names_confirmation(name: str) -> bool:
    """Whether the name of a column speaks of confirmed cases.

    >>> names_confirmation("conversionSeen"), names_confirmation("city")
    (True, False)
    """
    return is_named_like(Role.LABEL, name) or _CONFIRMATION.search(_snake(name)) is not None


def names_groups(name: str) -> bool:
    """Whether a column has the name of people or things that can have several rows.

    >>> names_groups("Device"), names_groups("customerId"), names_groups("age")
    (True, True, False)
    """
    return bool(re.fullmatch(f"({_WHO}|{_WHAT})({_NUMBERED})?", _snake(name)))


def _first_named(
    role: Role,
    frame: ColumnValues,
    types: Mapping[str, ColumnType],
    taken: Mapping[str, Role],
    fits: Callable[[pd.Series, ColumnType], bool],
) -> str | None:
    for pattern in _NAMES[role]:
        for name in types:
            named = name not in taken and re.fullmatch(pattern, _snake(name))
            if named and fits(frame[name], types[name]):
                return name
    return None


def _snake(name: str) -> str:
    """`isLabeled`, `Is Labeled` and `is-labeled` are one name."""
    return re.sub(r"[\s\-.]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.strip())).lower()


def _flag_of_confirmation(
    frame: ColumnValues, types: Mapping[str, ColumnType], taken: Mapping[str, Role]
) -> dict[str, Role]:
    """The only column whose name speaks of confirmed cases, such as `admitted`, and that few rows have."""
    named = [name for name in types if name not in taken and _CONFIRMATION.search(_snake(name))]
    chosen = [name for name in named if types[name] is not ColumnType.DATETIME and looks_like_label(frame[name])]
    return dict.fromkeys(chosen if len(chosen) == 1 else [], Role.LABEL)


def looks_like_label(values: pd.Series) -> bool:
    """Whether a column marks a minority of rows: 0/1, yes/no, yes/unknown, or one value and the rest missing.

    >>> looks_like_label(pd.Series(["ja", None, None])), looks_like_label(pd.Series(["red", "blue", "red"]))
    (True, False)
    """
    levels = values.dropna().unique()[:3]
    if len(levels) == 2:
        is_answer = sum(map(means_negative, map(_plain, levels))) == 1
    else:
        is_answer = len(levels) == 1 and bool(values.isna().any()) and not means_negative(_plain(levels[0]))
    if not is_answer:
        return False
    found = guess_positive_values(values)
    return bool(found) and 0.0 < float(is_positive(values, found).mean()) < LARGEST_SHARE


def _date_of_confirmation(
    frame: ColumnValues, types: Mapping[str, ColumnType], taken: Mapping[str, Role]
) -> dict[str, Role]:
    sparse = [
        name
        for name in types
        if name not in taken and types[name] is ColumnType.DATETIME and _is_mostly_missing(frame[name])
    ]
    named = [name for name in sparse if _CONFIRMATION.search(_snake(name))]
    chosen = named[:1] or (sparse if len(sparse) == 1 else [])
    return dict.fromkeys(chosen, Role.LABEL)


def _only_complete_date(
    frame: ColumnValues, types: Mapping[str, ColumnType], taken: Mapping[str, Role]
) -> dict[str, Role]:
    dates = [name for name in types if types[name] is ColumnType.DATETIME and name not in taken]
    complete = [name for name in dates if not frame[name].isna().any()]
    return dict.fromkeys(complete if len(complete) == 1 else [], Role.TIME)


def default_role(kind: ColumnType) -> Role:
    """The role of a column of this type, where nothing else is known."""
    if kind is ColumnType.IDENTIFIER:
        return Role.ID
    # Models use numbers, categories and flags; free text and raw dates are only for people.
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
    # A number called "day" or "month" is more often a feature than a time.
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
