"""Which values of a label column mean *confirmed positive*."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import TableError, nearest_hint

# In place of a list of values: every row that has a value at all is positive, as with a date of confirmation.
ANY_VALUE = "<any value>"

# Words that name the positive side of a label, from the most to the least telling.
POSITIVE_WORDS = (
    "positive", "pos", "confirmed", "labeled", "labelled", "fraud", "fraudulent", "cheater", "cheat",
    "malignant", "case", "yes", "y", "true", "t", "1", "1.0", "converted", "conversion", "default", "churn",
    "churned", "bad", "sick", "ill", "disease", ">50k", ">50k.",
)  # fmt: skip


def guess_positive_values(values: pd.Series) -> tuple[Any, ...]:
    """The values that most likely mean *confirmed positive*; empty when nothing speaks for any value.

    >>> guess_positive_values(pd.Series([-1, 1, -1])), guess_positive_values(pd.Series(["no", "yes"]))
    ((1,), ('yes',))
    >>> guess_positive_values(pd.Series(pd.to_datetime([None, "2024-03-01", None])))
    ('<any value>',)
    """
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        return (ANY_VALUE,)
    counts = values.value_counts()
    counts = counts[counts > 0]
    levels = [_plain(value) for value in counts.index]
    if pd.api.types.is_bool_dtype(values.dtype):
        return (True,)
    if pd.api.types.is_numeric_dtype(values.dtype):
        return (max(levels),) if 0 < len(levels) <= 2 else ()
    if len(levels) == 1:
        # One value and gaps: the value is the confirmation. One value everywhere: it says nothing.
        return (levels[0],) if values.isna().any() or _rank_of_word(levels[0]) is not None else ()
    known = [level for level in levels if _rank_of_word(level) is not None]
    if known:
        best = min(_rank_of_word(level) for level in known)  # type: ignore[type-var]
        return tuple(sorted(level for level in known if _rank_of_word(level) == best))
    return (levels[-1],) if len(levels) == 2 else ()


def check_positive_values(given: Iterable[Any], values: pd.Series) -> tuple[Any, ...]:
    """The given values in the column's own form ("1" for a column of numbers is 1), or an error in words.

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
    """A Python value in place of a numpy scalar: positive values are stored as JSON."""
    return value.item() if isinstance(value, np.generic) else value
