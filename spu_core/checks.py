"""Input checks for arrays and numbers. Public functions call them; private functions do not check their arguments.

Checks of other objects are in their own packages (for example those of rules in `spu_core.rules`). Every check returns
the value in the form that calculations need (a float64 or bool array, a float), or raises an error that names the
argument, the requirement, the value and the row.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from spu_core.errors import AssumptionError, ScoreError, SoftLabelError, SpuError

# Larger integers are not exact in float64, so different scores would become equal.
LARGEST_EXACT_INTEGER = 2**53


def check_kind(value: Any, kind: Any, name: str, use: str, error: type[SpuError]) -> None:
    """Refuse an object of another type with a sentence that says how to get the right one.

    >>> check_kind("a", int, "rows must be a whole number", "use len(frame)", ScoreError)
    Traceback (most recent call last):
    spu_core.errors.ScoreError: rows must be a whole number, got str; use len(frame).
    """
    if not isinstance(value, kind):
        raise error(f"{name}, got {type(value).__name__}; {use}.")


def check_soft_label(values: Any, name: str = "soft_label") -> np.ndarray:
    """Soft labels as a float64 array in [0, 1].

    >>> check_soft_label([0, 0.5, 1])
    array([0. , 0.5, 1. ])
    >>> check_soft_label([0.2, 1.5])
    Traceback (most recent call last):
    spu_core.errors.SoftLabelError: soft_label must lie in [0, 1], but row 1 holds 1.5.
    """
    soft_label = _numbers(values, name, SoftLabelError)
    # This also finds NaN, since every comparison with NaN is false.
    if not (soft_label.min() >= 0.0 and soft_label.max() <= 1.0):
        bad = np.flatnonzero(~((soft_label >= 0.0) & (soft_label <= 1.0)))
        raise SoftLabelError(f"{name} must lie in [0, 1], but {_first_rows(bad, soft_label)}.")
    return soft_label


def check_score(values: Any, length: int | None = None, name: str = "score") -> np.ndarray:
    """Scores as a finite float64 array, of length `length` if it is given."""
    score = _numbers(values, name, ScoreError)
    check_length(score, length, name)
    # The minimum and maximum of an array with NaN are NaN, so two values show whether all are finite.
    if not (np.isfinite(score.min()) and np.isfinite(score.max())):
        bad = np.flatnonzero(~np.isfinite(score))
        raise ScoreError(f"{name} must be finite, but {_first_rows(bad, score)}.")
    return score


def check_sample_weight(values: Any, length: int) -> np.ndarray:
    """Row weights as a float64 array: finite, not negative, not all zero."""
    weight = check_score(values, length, "sample_weight")
    if weight.min() < 0.0:
        bad = np.flatnonzero(weight < 0.0)
        raise ScoreError(f"sample_weight must not be negative, but {_first_rows(bad, weight)}.")
    if not weight.any():
        raise ScoreError("sample_weight is zero in every row; at least one row needs a positive weight.")
    return weight


def check_flags(values: Any, length: int | None, name: str) -> np.ndarray:
    """A boolean array. 0 and 1 are accepted; other values raise an error."""
    flags = np.asarray(values)
    _check_one_dimension(flags, name, ScoreError)
    check_length(flags, length, name)
    if flags.dtype == np.bool_:
        return flags
    numbers = _numbers(flags, name, ScoreError)
    bad = np.flatnonzero((numbers != 0.0) & (numbers != 1.0))
    if bad.size:
        raise ScoreError(f"{name} must be true or false (1 or 0), but {_first_rows(bad, numbers)}.")
    return numbers == 1.0


def check_groups(values: Any, length: int) -> np.ndarray:
    """Group codes 0 … k−1, one per row. A missing group is an error: rows without a group do not belong together."""
    import pandas as pd

    groups = np.asarray(values)
    _check_one_dimension(groups, "groups", ScoreError)
    check_length(groups, length, "groups")
    codes, _ = pd.factorize(groups)
    if codes.min() < 0:
        raise ScoreError(f"groups is missing in row {int(np.argmin(codes))}; give each such row a group of its own.")
    return codes


def check_length(values: np.ndarray, length: int | None, name: str) -> None:
    """Raise an error if the array does not have `length` rows."""
    if length is not None and values.shape[0] != length:
        raise ScoreError(
            f"{name} has {values.shape[0]} rows, but soft_label has {length}; both must describe the same rows."
        )


def check_countable(soft_label: np.ndarray, weight: np.ndarray | None = None, name: str = "soft_label") -> None:
    """Raise an error if Σs or Σ(1−s) is 0, because rates divide by both."""
    counted, rows = (soft_label, "row") if weight is None else (soft_label[weight > 0.0], "row with a positive weight")
    if counted.max() == 0.0:
        raise SoftLabelError(
            f"{name} is 0 in every {rows}, so there are no positives; add confirmed cases or a rule that fires."
        )
    if counted.min() == 1.0:
        raise SoftLabelError(
            f"{name} is 1 in every {rows}, so there are no negatives; some rows need a soft label below 1."
        )


def check_share(value: Any, name: str, error: type[SpuError] = AssumptionError, *, closed: bool = False) -> float:
    """A number strictly between 0 and 1; with `closed`, 0 and 1 are allowed."""
    number = check_number(value, name, error)
    inside = 0.0 <= number <= 1.0 if closed else 0.0 < number < 1.0
    if not inside:
        allowed = "in [0, 1]" if closed else "strictly between 0 and 1"
        raise error(f"{name} must lie {allowed}, got {number:g}.")
    return number


def check_number(value: Any, name: str, error: type[SpuError] = SpuError) -> float:
    """One finite number."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real) or not np.isfinite(float(value)):
        raise error(f"{name} must be one finite number, got {value!r}.")
    return float(value)


def check_choice(value: str, choices: Any, name: str, error: type[SpuError] = SpuError) -> str:
    """One of the named choices."""
    if value not in choices:
        raise error(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")
    return value


def read_only(array: np.ndarray) -> np.ndarray:
    """The array, or a copy of it, that cannot be changed.

    >>> mine = np.zeros(2)
    >>> kept = read_only(mine)
    >>> mine[0] = 1.0
    >>> kept.tolist()
    [0.0, 0.0]
    """
    if array.flags.writeable or array.base is not None:
        array = array.copy(order="K")
        array.flags.writeable = False
    return array


def _numbers(values: Any, name: str, error: type[SpuError]) -> np.ndarray:
    if hasattr(values, "to_numpy") and getattr(values, "ndim", 1) == 1:
        values = _from_pandas(values)
    array = np.asarray(values)
    _check_one_dimension(array, name, error)
    if array.dtype.kind == "O" and all(isinstance(value, Real) for value in array):
        array = array.astype(np.float64)
    if array.dtype.kind not in "buif":
        example = array[0].item() if hasattr(array[0], "item") else array[0]
        raise error(f"{name} must hold numbers, but its first row is {example!r} ({type(example).__name__}).")
    if array.dtype.kind in "ui" and array.dtype.itemsize == 8:
        _refuse_inexact_integers(array, name, error)
    return np.ascontiguousarray(array, dtype=np.float64)


def _from_pandas(values: Any) -> Any:
    """Nullable pandas columns become floats with NaN, so that the checks also find missing values."""
    kind = getattr(values.dtype, "kind", "O")
    return values.to_numpy(dtype=np.float64, na_value=np.nan) if kind in "buif" else values.to_numpy()


def _refuse_inexact_integers(array: np.ndarray, name: str, error: type[SpuError]) -> None:
    if int(array.max()) > LARGEST_EXACT_INTEGER or int(array.min()) < -LARGEST_EXACT_INTEGER:
        raise error(f"{name} holds integers beyond 2**53, which floats cannot represent exactly; pass ranks instead.")


def _check_one_dimension(array: np.ndarray, name: str, error: type[SpuError]) -> None:
    if array.ndim != 1:
        hint = " For predict_proba output take column 1." if array.ndim == 2 else ""
        raise error(f"{name} must be one-dimensional, got shape {array.shape}.{hint}")
    if array.size == 0:
        raise error(f"{name} is empty; at least one row is needed.")


def _first_rows(rows: np.ndarray, values: np.ndarray) -> str:
    """A description of the first three bad rows."""
    named = [f"row {row} holds {values[row]:g}" for row in rows[:3].tolist()]
    more = f" (and {rows.size - 3:,} more)" if rows.size > 3 else ""
    return ", ".join(named) + more
