"""What was read and how, a form to read it differently, the profile of the columns, and the next step."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pages.ui.shared.shell import Page, choose_in_address
from pages.ui.shared.show import (
    in_percent,
    meaning,
    share_column,
    show_chart,
    show_findings,
    show_table,
    theme,
)
from pages.ui.shared.steps import link_to, missing_in_data, step_named
from pages.ui.shared.text import count, plain, share
from spu_core.charts import brush_chart, category_chart, label_rate_chart, missing_chart
from spu_core.engines.jobs.read import read_again, reading_of
from spu_core.tables import ColumnProfile, ColumnType, Dialect, Reading, Role, Table, TableProfile
from spu_core.tables.profiles import proposed_role

SEPARATORS = {"detect": None, "comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
ENCODINGS = {"detect": None, "UTF-8": "utf-8", "UTF-16": "utf-16", "Latin-1": "latin-1", "Windows-1252": "cp1252"}
DECIMALS = {"detect": None, "point": ".", "comma": ","}
HEADERS = {"detect": None, "names": True, "data": False}
SHOWN_ROWS = 200
WIDTHS = {"column": 144, "missing_share": 106, "distinct": 70}
MOST_LINES = 24
# Two cards beside each other on a phone.
CARD_WIDTH = 164
LABEL_CODES = ("no_label", "label_guessed")


def show_reading(page: Page, table: Table, *, is_latest: bool) -> None:
    """What was read, how it was read, and what was left out; `is_latest` is False after a refused upload."""
    assert page.dataset is not None
    st.subheader("What was read" if is_latest else f"Still open: {plain(page.dataset.name)}", anchor=False)
    labeled = int(table.is_labeled.sum())
    rejected = table.reading.rejected_rows if table.reading else 0
    with st.container(horizontal=True, key="data_figures"):
        st.metric("Rows", count(len(table)), border=True, width=CARD_WIDTH)
        st.metric("Columns", count(len(table.frame.columns)), border=True, width=CARD_WIDTH)
        st.metric("Confirmed cases", count(labeled), border=True, width=CARD_WIDTH, help=meaning("label"))
        st.metric("Rejected lines", count(rejected), border=True, width=CARD_WIDTH)
    if table.reading is not None:
        st.caption(plain(table.reading.describe()))
        show_rejected(table.reading)
        _read_differently(page, table.reading)
    show_first_rows(table)
    if len(table) > SHOWN_ROWS:
        st.caption(f"The first {SHOWN_ROWS} of {count(len(table))} rows.")


def show_first_rows(table: Table) -> None:
    """The first rows, numbered from 1 as on all pages."""
    first = table.frame.head(SHOWN_ROWS)
    show_table(first.set_axis(pd.RangeIndex(1, len(first) + 1, name="row")), height=240, key="data_preview")


def _read_differently(page: Page, reading: Reading) -> None:
    assert page.dataset is not None
    with st.expander("Read it differently", icon=":material/tune:", key="data_differently"):
        earlier = reading_of(page.workspace, page.dataset.id)
        if earlier is None:
            st.caption("Uploads are kept for a day; upload the file again to read it in another way.")
            return
        with st.form("data_dialect", border=False):
            dialect = _ask_dialect(reading)
            if st.form_submit_button("Read it again", icon=":material/refresh:", key="data_read_again"):
                job = read_again(page.workspace, earlier, dialect)
                choose_in_address(reading=job.id)
                st.rerun()


def _ask_dialect(reading: Reading) -> Dialect:
    if reading.format == "parquet":
        st.caption("A Parquet file defines how it is read.")
        return Dialect()
    columns = st.columns(4)
    header = columns[0].selectbox("First row", list(HEADERS), key="data_header")
    if reading.format == "excel":
        sheet = columns[1].text_input("Sheet", placeholder=reading.dialect.sheet, key="data_sheet", max_chars=100)
        return Dialect(header=HEADERS[header], sheet=sheet.strip() or None)
    separator = columns[1].selectbox("Separator", list(SEPARATORS), key="data_separator")
    encoding = columns[2].selectbox("Encoding", list(ENCODINGS), key="data_encoding")
    decimal = columns[3].selectbox("Decimal mark", list(DECIMALS), key="data_decimal")
    return Dialect(
        separator=SEPARATORS[separator],
        encoding=ENCODINGS[encoding],
        decimal=DECIMALS[decimal],
        header=HEADERS[header],
    )


def show_rejected(reading: Reading) -> None:
    """The lines that could not be read, with the reasons."""
    if not reading.rejected:
        return
    with st.expander(f"{count(reading.rejected_rows)} lines were not read", icon=":material/report:"):
        lines = [(each.line, each.reason, each.text) for each in reading.rejected]
        show_table(pd.DataFrame(lines, columns=["line", "reason", "text"]), hide_index=True)


def show_next_step(page: Page, table: Table, profile: TableProfile) -> None:
    """The link to the rules, or what is missing before them."""
    has_label = table.column_with(Role.LABEL) is not None
    missing = missing_in_data(has_label=has_label, rows=profile.rows, labeled=profile.labeled)
    with st.container(border=True, key="data_next"):
        if missing is not None:
            st.markdown(f":material/pending: **{missing[0]}** {missing[1]}")
        if missing is None or not has_label:
            label = "Next: define rules" if missing is None else "Define rules without a label"
            link_to(step_named("Soft labels"), label, page.query)


def show_profile(page: Page, profile: TableProfile) -> None:
    """One column at a time: its values, what is missing, and where confirmed cases are frequent."""
    st.subheader("Columns", anchor=False)
    # The label and proposed roles are shown above, where they can be set.
    show_findings(each for each in profile.findings if each.code not in LABEL_CODES and proposed_role(each) is None)
    names = [column.name for column in profile.columns if _has_bars(column)]
    if not names:
        return
    left, right = st.columns([2, 3], gap="medium")
    with left:
        show_table(
            in_percent(profile.to_frame(), "missing_share")[[*WIDTHS]],
            hide_index=True,
            height="content" if len(profile.columns) <= MOST_LINES else 760,
            column_config={
                "column": st.column_config.TextColumn("column", width=WIDTHS["column"]),
                "missing_share": share_column("missing", "Empty cells.", width=WIDTHS["missing_share"]),
                "distinct": st.column_config.NumberColumn("distinct", format="localized", width=WIDTHS["distinct"]),
            },
            key="data_columns",
        )
    with right, st.container(border=True):
        name = st.selectbox("Column", names, key=f"data_column_{page.dataset.id if page.dataset else ''}")
        column = profile.column(name)
        st.caption(f"{share(column.missing_share)} missing · {count(column.distinct)} distinct values")
        _show_column(column)
    if any(column.missing for column in profile.columns):
        with st.expander("Missing values", icon=":material/data_alert:"):
            show_chart(missing_chart(profile, theme=theme()), key="data_missing")


def _has_bars(column: ColumnProfile) -> bool:
    """Whether the column can be shown as bars; not if all its values are different."""
    return column.histogram is not None or (bool(column.top_levels) and column.distinct < column.rows)


def _show_column(column: ColumnProfile) -> None:
    if column.histogram is not None:
        dates = column.type is ColumnType.DATETIME
        st.markdown("**Distribution of the values**")
        show_chart(brush_chart(column.histogram, column.name, dates=dates, theme=theme()), key="data_histogram")
        st.markdown("**Share of confirmed cases**")
        show_chart(label_rate_chart(column.histogram, column.name, dates=dates, theme=theme()), key="data_rates")
        return
    levels = column.top_levels
    positives = [round(level.count * level.label_rate) for level in levels]
    rest = [level.count - positive for level, positive in zip(levels, positives, strict=True)]
    names = [level.value for level in levels]
    show_chart(category_chart(names, positives, rest, column.name, theme=theme()), key="data_levels")
