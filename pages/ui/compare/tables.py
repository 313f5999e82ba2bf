"""Shares in tables: bars with whole percents."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st


def in_percent(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """The same table with a share written in percent, as `share_column` shows it.

    >>> in_percent(pd.DataFrame({"share": [0.25]}), "share")["share"].tolist()
    [25.0]
    """
    return table.assign(**{column: 100.0 * table[column]})


def share_column(title: str, words: str, width: int | None = None) -> Any:
    """A bar from 0 to 100%."""
    bar = st.column_config.ProgressColumn
    return bar(title, format="%.0f%%", min_value=0, max_value=100, help=words, width=width)
