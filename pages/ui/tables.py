"""Tables on a page. Their toolbar saves what they hold as CSV, in which no text runs as a formula of a spreadsheet.

The browser writes that file from the cells, so dangerous text gets its apostrophe before it is sent, and is shown
without it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pandas as pd
import streamlit as st

from spu_core.tables.spreadsheet import is_dangerous, safe_frame, safe_names

MOST_CELLS = 200_000  # with more of them, Streamlit shows cells only as they are
LONGEST_TEXT = 1_000  # of a cell; a small file can hold texts of many megabytes, which server and browser would copy


def show_table(
    data: pd.DataFrame | pd.Series, *, column_config: Mapping[str, Any] | None = None, **options: Any
) -> None:
    """A table to read and to take along."""
    frame, pinned = _with_names_in_a_column(pd.DataFrame(data))
    if pinned:
        options["hide_index"] = True
    kept, renamed = safe_to_take_along(frame)
    st.dataframe(kept, column_config={**renamed, **pinned, **(column_config or {})}, **options)


def edit_table(
    frame: pd.DataFrame, editable: Collection[str], *, column_config: Mapping[str, Any], key: str, **options: Any
) -> pd.DataFrame:
    """A table some of whose columns are typed into; what is typed is returned, and taken along, as it was typed."""
    fixed = frame.drop(columns=list(editable))
    names = dict(zip(fixed.columns, safe_names(fixed.columns), strict=True))
    kept, renamed = safe_to_take_along(fixed, frame[list(editable)])
    edited = st.data_editor(
        kept,
        hide_index=True,
        disabled=list(names.values()),
        column_order=[names.get(name, name) for name in frame.columns],
        column_config={**renamed, **column_config},
        key=key,
        **options,
    )
    return frame.assign(**{name: edited[name].to_numpy() for name in editable})


def safe_to_take_along(frame: pd.DataFrame, typed: pd.DataFrame | None = None) -> tuple[Any, dict[str, Any]]:
    """The table as the browser gets it, with the titles of columns whose names had to change.

    >>> kept, titles = safe_to_take_along(pd.DataFrame({"=x": ["=1+1"], "n": [-1]}))
    >>> kept.data.to_csv(index=False), list(titles)
    ("'=x,n\\n'=1+1,-1\\n", ["'=x"])
    """
    frame = _without_long_texts(frame)
    # The browser does not quote a cell for its CR, so that none may be in it.
    safe = safe_frame(frame).replace("\r\n?", "\n", regex=True)
    safe.columns = pd.Index([str(name).replace("\r", "\n") for name in safe.columns])
    titles = {
        new: st.column_config.Column(str(old))
        for new, old in zip(safe.columns, frame.columns, strict=True)
        if new != str(old)
    }
    whole = safe if typed is None else safe.join(typed)
    risky = {name: _dangerous(frame.iloc[:, place]) for place, name in enumerate(safe)}
    risky = {name: mask for name, mask in risky.items() if mask.any()}
    if not risky or whole.size > MOST_CELLS:
        return whole, titles
    shown = whole.style.format(str)
    for name, mask in risky.items():
        shown = shown.format(_without_apostrophe, subset=(whole.index[mask], [name]))
    return shown, titles


def _without_long_texts(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with its long texts cut.

    >>> _without_long_texts(pd.DataFrame({"a": ["x" * 2_000], "n": [1]})).a.str.len().tolist()
    [1001]
    """
    columns = [_cut(frame.iloc[:, place]) for place in range(frame.shape[1])]
    return pd.concat(columns, axis=1) if columns else frame


def _cut(values: pd.Series) -> pd.Series:
    if pd.api.types.is_numeric_dtype(values.dtype):
        return values
    # Each text once: many rows may share one that is long.
    codes, found = pd.factorize(values)
    texts = list(found)
    if not any(map(_is_long, texts)):
        return values
    cut = [f"{text[:LONGEST_TEXT]}…" if _is_long(text) else text for text in texts]
    return pd.Series([*cut, None], dtype="object").take(codes).set_axis(values.index).rename(values.name)


def _is_long(value: object) -> bool:
    return isinstance(value, str) and len(value) > LONGEST_TEXT


def _dangerous(values: pd.Series) -> Any:
    return values.map(lambda value: isinstance(value, str) and is_dangerous(value)).to_numpy(dtype=bool)


def _without_apostrophe(text: object) -> str:
    return str(text)[1:]


def _with_names_in_a_column(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Names that label the lines become a column of their own, so that they are made safe like all others."""
    if pd.api.types.is_numeric_dtype(frame.index.dtype):
        return frame, {}
    name = str(frame.index.name or "")
    return frame.rename_axis(name).reset_index(), {name: st.column_config.Column(pinned=True)}
