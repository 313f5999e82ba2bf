"""A look at the columns: their values, what is missing, and where confirmed positives are frequent."""

from __future__ import annotations

import streamlit as st

from pages.ui.compare.tables import in_percent, share_column
from pages.ui.shared.shell import Page
from pages.ui.shared.show import show_chart, show_findings, theme
from pages.ui.shared.tables import show_table
from pages.ui.shared.text import count, share
from spu_core.charts import brush_chart, category_chart, label_rate_chart, missing_chart
from spu_core.tables import ColumnProfile, ColumnType, TableProfile

WIDTHS = {"column": 144, "missing_share": 106, "distinct": 70}
MOST_LINES = 24


def show_profile(page: Page, profile: TableProfile) -> None:
    """One column at a time: its values, what is missing, and where confirmed positives are frequent."""
    st.subheader("A look at the columns", anchor=False)
    # That no column is the label is said beside the roles, where it can be mended.
    show_findings(finding for finding in profile.findings if finding.code != "no_label")
    names = [column.name for column in profile.columns if _is_worth_a_look(column)]
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


def _is_worth_a_look(column: ColumnProfile) -> bool:
    """Whether it has bars to show; a column whose every value differs has not."""
    return column.histogram is not None or (bool(column.top_levels) and column.distinct < column.rows)


def _show_column(column: ColumnProfile) -> None:
    if column.histogram is not None:
        dates = column.type is ColumnType.DATETIME
        st.markdown("**How the values are spread**")
        show_chart(brush_chart(column.histogram, column.name, dates=dates, theme=theme()), key="data_histogram")
        st.markdown("**Where confirmed positives are frequent**")
        show_chart(label_rate_chart(column.histogram, column.name, dates=dates, theme=theme()), key="data_rates")
        return
    levels = column.top_levels
    positives = [round(level.count * level.label_rate) for level in levels]
    rest = [level.count - positive for level, positive in zip(levels, positives, strict=True)]
    names = [level.value for level in levels]
    show_chart(category_chart(names, positives, rest, column.name, theme=theme()), key="data_levels")
