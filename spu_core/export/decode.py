"""Encoded values back in the words of the table: for reasons, drift hints and the model card."""

from __future__ import annotations

import numpy as np

from spu_core.models.columns import Column, Family


def decode(column: Column, value: float) -> str:
    """The value that was encoded, as text.

    >>> job = Column("job", Family.TEXT, is_category=True, levels=("clerk", "pilot"))
    >>> decode(job, 2.0), decode(job, 0.0), decode(Column("day", Family.DATE), 19723.5)
    ('pilot', 'a rare or new level', '2024-01-01')
    """
    if np.isnan(value):
        return "missing"
    if column.is_category:
        code = int(value)
        return column.levels[code - 1] if 0 < code <= len(column.levels) else "a rare or new level"
    # The matrix is float32, so digits beyond the seventh are not the table's.
    number = float(value) + column.offset
    if column.family is Family.DATE:
        return str(np.datetime64("1970-01-01") + np.timedelta64(int(np.floor(number)), "D"))
    if column.family is Family.BOOLEAN:
        return "yes" if number else "no"
    return f"{number:.6g}" if abs(number) < 1e6 or number % 1 else f"{number:.0f}"
