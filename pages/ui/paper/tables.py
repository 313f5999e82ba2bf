"""Tables of an experiment, where they come from, and the files to take away."""

from __future__ import annotations

from typing import Any

import streamlit as st

from pages.ui.paper.figures import IMAGES
from pages.ui.shared.tables import show_table
from pages.ui.shared.text import plain
from spu_core.experiments import ExperimentResult, ResultTable
from spu_core.tables.spreadsheet import to_csv


def show_tables(result: ExperimentResult, figure: str = "") -> None:
    """The tables behind the chosen figure at once, the others one click away; each with its note and a CSV."""
    chosen = [table for table in result.tables if figure and table.name.startswith(figure)]
    others = [table for table in result.tables if table not in chosen]
    for table in chosen:
        _show_named(result, table)
    if others and chosen:
        with st.expander(f"{len(others)} more table{'s' * (len(others) != 1)}", icon=":material/table:"):
            for table in others:
                _show_named(result, table)
    elif others:
        for table in others:
            _show_named(result, table)


def _show_named(result: ExperimentResult, table: ResultTable) -> None:
    show_result_table(table, f"paper_{result.name}_{table.name}", f"{result.name}-{table.name}.csv")


def show_result_table(table: ResultTable, key: str, file: str = "") -> None:
    frame = table.frame()
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.markdown(f"**{plain(table.title)}**", width="content")
        if file:
            st.download_button(
                "CSV",
                lambda: to_csv(frame).encode("utf-8"),
                file_name=file,
                mime="text/csv",
                icon=":material/download:",
                type="tertiary",
                on_click="ignore",
                key=f"{key}_csv",
            )
    show_table(frame, hide_index=True, column_config=_formats(table), key=key, placeholder="–")
    if table.note:
        st.caption(plain(table.note))


def show_provenance(result: ExperimentResult) -> None:
    """Choices, commit, settings and versions: who reads a figure may ask how it was made."""
    made = result.provenance
    with st.expander("What we chose, and how these figures were made", icon=":material/history_edu:"):
        st.markdown("\n".join(f"- {plain(choice)}" for choice in result.choices))
        st.caption(plain(made.describe()))
        st.json(
            {"commit": made.commit, "settings": dict(made.settings), "versions": dict(made.versions)}, expanded=False
        )


def show_downloads(result: ExperimentResult) -> None:
    """The whole result for programs and for people."""
    forms: dict[str, tuple[Any, str, str]] = {
        "JSON": (result.to_json, "json", "application/json"),
        "Markdown": (result.to_markdown, "md", "text/markdown"),
        "Text": (result.to_text, "txt", "text/plain"),
    }
    with st.container(horizontal=True, vertical_alignment="center"):
        for name, (make, suffix, mime) in forms.items():
            st.download_button(
                name,
                make,
                file_name=f"{result.name}.{suffix}",
                mime=mime,
                icon=":material/download:",
                on_click="ignore",
                key=f"paper_{result.name}_{suffix}",
            )
        st.segmented_control(
            "The camera above a figure saves",
            IMAGES,
            default=IMAGES[0],
            required=True,
            format_func=str.upper,
            key="paper_image",
            help="Move over a figure: the camera at its upper right corner saves it as an image of this form.",
        )


def _formats(table: ResultTable) -> dict[str, Any]:
    """Four decimals for small figures, up to three for the rest, as many as the column needs; text is pinned."""
    found: dict[str, Any] = {}
    for place, name in enumerate(table.columns):
        values = [value for value in table.column(name) if isinstance(value, float)]
        if values:
            largest = max(abs(value) for value in values)
            digits = "%.1e" if 0 < largest < 5e-4 else f"%.{_decimals(values, 4 if largest < 0.1 else 3)}f"
            found[name] = st.column_config.NumberColumn(format=digits)
        elif place == 0:
            found[name] = st.column_config.TextColumn(pinned=True)
    return found


def _decimals(values: list[float], most: int) -> int:
    """How many decimals tell all of the values, up to `most`.

    >>> _decimals([0.0, 0.25, 0.8], 3), _decimals([1.0, 6.0], 3), _decimals([0.12345], 3)
    (2, 0, 3)
    """
    return next(
        (digits for digits in range(most) if all(round(value, digits) == value for value in values if value == value)),
        most,
    )
