"""Columns that split the rows exactly as the label or the truth does: the same answer in other words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from spu_core.errors import TableError

# With fewer rows on either side, two columns agree by chance.
FEWEST_ROWS = 5
_FEW = 1_000


def splits_like(values: pd.Series, answer: np.ndarray) -> bool:
    """Whether a column has two values (a missing one counts) that part the rows as the answer does.

    With fewer than five rows on either side the answer is no: such agreement is no evidence.

    >>> answer = np.array([False, True, False] * 5)
    >>> splits_like(pd.Series(["no", "yes", "no"] * 5), answer), splits_like(pd.Series(range(15)), answer)
    (True, False)
    """
    if min(int(answer.sum()), int((~answer).sum())) < FEWEST_ROWS:
        return False
    # Most columns show their innocence in a few rows.
    if len(values) > _FEW and values.iloc[:_FEW].nunique() > 2:
        return False
    codes, levels = pd.factorize(values)
    if len(levels) > 2 or (len(levels) == 2 and codes.min() < 0):
        return False
    same = codes == codes[int(answer.argmax())]
    return bool((same == answer).all())


def copies_of(frame: pd.DataFrame, columns: Iterable[str], answers: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Which of the columns are copies, each with the answer column that it repeats."""
    found: dict[str, str] = {}
    for name in columns:
        for answer_name, answer in answers.items():
            if splits_like(frame[name], answer):
                found.setdefault(name, answer_name)
    return found


def refuse_copies(copies: Mapping[str, str], answer_roles: Mapping[str, str]) -> None:
    """A copy of the label or truth is not accepted as a feature."""
    for name, answer in copies.items():
        raise TableError(
            f"Column {name!r} splits the rows exactly as the {answer_roles[answer]} {answer!r} does, so it cannot "
            "become a feature: a model would see the answer. Set it to 'ignore'."
        )
