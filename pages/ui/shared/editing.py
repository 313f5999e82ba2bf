"""Editable tables: which lines a person has changed."""

from __future__ import annotations

from typing import Any

import pandas as pd


def edited_lines(before: pd.DataFrame, after: Any, columns: list[str]) -> pd.DataFrame:
    """Lines of which one of the columns was edited and the first of them is filled in; an empty cell is no text."""
    after = pd.DataFrame(after)
    texts = after[columns].fillna("")
    differs = (texts != before[columns].fillna("")).any(axis=1)
    return after[differs & (texts[columns[0]] != "")]
