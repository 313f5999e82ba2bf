"""The parts of the Data page: bring a file, read it differently, say what columns are for, look at them."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from pages.ui.shell import Page, choose_in_address
from pages.ui.show import meaning, show_chart, show_findings, theme
from pages.ui.text import count, plain, share, sized
from spu_core.charts import category_chart, label_rate_chart, missing_chart
from spu_core.errors import SpuError
from spu_core.tables import ColumnProfile, ColumnType, Dialect, Reading, Role, Table, TableProfile, read_table
from spu_core.tables.samples import SAMPLES, load_sample, load_sample_rules

FILE_TYPES = ["csv", "tsv", "txt", "gz", "parquet", "xlsx"]
SEPARATORS = {"detect": None, "comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
ENCODINGS = {"detect": None, "UTF-8": "utf-8", "UTF-16": "utf-16", "Latin-1": "latin-1", "Windows-1252": "cp1252"}
DECIMALS = {"detect": None, "point": ".", "comma": ","}


def upload_file(page: Page) -> None:
    """A file becomes a stored dataset as soon as it arrives; it can then be read differently."""
    st.subheader("Your file", anchor=False)
    uploaded = st.file_uploader(
        "CSV, TSV, Parquet or Excel, also gzipped. What is in the file decides, not its name.",
        type=FILE_TYPES,
        key="data_upload",
    )
    if uploaded is None:
        return
    dialect = _chosen_dialect()
    wanted = (uploaded.file_id, dialect)
    if st.session_state.get("data_read") != wanted:
        _read_and_store(page, uploaded, dialect)
        st.session_state["data_read"] = wanted
        st.rerun()


def take_sample(page: Page) -> None:
    """One click brings a sample with rules that suit it."""
    st.subheader("Or a sample", anchor=False)
    for name, sample in SAMPLES.items():
        if st.button(sample.title, key=f"sample_{name}", help=sample.description, width="stretch"):
            with st.spinner(f"Loading {sample.title} …"):
                dataset = page.workspace.datasets.save(load_sample(name), sample.title)
                rules = page.workspace.rule_sets.create(sample.title, load_sample_rules(name), "came with the sample")
            choose_in_address(dataset=dataset.id, rules=rules.id)
            st.rerun()


def choose_earlier(page: Page) -> None:
    """Datasets that are in the workspace already; deleting one says first what goes with it."""
    known = page.workspace.datasets.list()
    if not known:
        return
    st.subheader("Or earlier work", anchor=False)
    ids = [record.id for record in known]
    names = {record.id: f"{record.name} · {count(record.n_rows)} rows · {sized(record.size)}" for record in known}
    current = ids.index(page.dataset.id) if page.dataset and page.dataset.id in ids else 0
    chosen = st.selectbox(
        "Datasets of this workspace", ids, index=current, format_func=names.__getitem__, key="data_earlier"
    )
    open_it, delete_it = st.columns(2)
    if open_it.button("Open", width="stretch", disabled=page.dataset is not None and chosen == page.dataset.id):
        choose_in_address(dataset=chosen, rules=None)
        st.rerun()
    if delete_it.button("Delete …", width="stretch", icon=":material/delete:"):
        _confirm_deletion(page, chosen)


@st.dialog("Delete this dataset?")
def _confirm_deletion(page: Page, dataset: str) -> None:
    plan = page.workspace.plan_deletion("dataset", dataset)
    st.write(plain(plan))
    if st.button("Delete it for good", type="primary", icon=":material/delete_forever:"):
        page.workspace.delete(plan)
        choose_in_address(dataset=None, rules=None)
        st.rerun()


def _read_and_store(page: Page, uploaded: Any, dialect: Dialect) -> None:
    with st.status(f"Reading {plain(uploaded.name)} …") as status:
        try:
            uploaded.seek(0)
            table = read_table(uploaded, name=uploaded.name, dialect=dialect)
        except SpuError:
            status.update(label="This file could not be read.", state="error")
            raise
        status.update(label=f"Keeping {count(len(table))} rows in your workspace …")
        dataset = page.workspace.datasets.save(table)
        status.update(label="Read and kept.", state="complete")
    choose_in_address(dataset=dataset.id, rules=None)


def _chosen_dialect() -> Dialect:
    with st.expander("Read it differently", icon=":material/tune:"):
        columns = st.columns(4)
        separator = columns[0].selectbox("Separator", list(SEPARATORS), key="data_separator")
        encoding = columns[1].selectbox("Encoding", list(ENCODINGS), key="data_encoding")
        decimal = columns[2].selectbox("Decimal mark", list(DECIMALS), key="data_decimal")
        header = columns[3].selectbox("First row", ["detect", "names", "data"], key="data_header")
    return Dialect(
        separator=SEPARATORS[separator],
        encoding=ENCODINGS[encoding],
        decimal=DECIMALS[decimal],
        header={"detect": None, "names": True, "data": False}[header],
    )


def show_reading(page: Page, table: Table) -> None:
    """What was read, how, and what was left out."""
    assert page.dataset is not None
    st.subheader("What was read", anchor=False)
    labeled = int(table.is_labeled.sum())
    figures = st.columns(4)
    figures[0].metric("Rows", count(len(table)), border=True)
    figures[1].metric("Columns", count(len(table.frame.columns)), border=True)
    figures[2].metric("Confirmed positives", count(labeled), border=True, help=meaning("label"))
    rejected = table.reading.rejected_rows if table.reading else 0
    figures[3].metric("Rejected lines", count(rejected), border=True)
    if table.reading is not None:
        st.caption(plain(table.reading.describe()))
        _show_rejected(table.reading)
    st.dataframe(table.frame.head(200), height=240, key="data_preview")


def _show_rejected(reading: Reading) -> None:
    if not reading.rejected:
        return
    with st.expander(f"{count(reading.rejected_rows)} lines were not read", icon=":material/report:"):
        lines = [(each.line, each.reason, each.text) for each in reading.rejected]
        st.dataframe(pd.DataFrame(lines, columns=["line", "reason", "text"]), hide_index=True)


def edit_roles(page: Page, table: Table) -> None:
    """What each column is for; a change is kept at once."""
    assert page.dataset is not None
    st.subheader("What each column is for", anchor=False)
    names = list(table.frame.columns)
    examples = [", ".join(map(str, table.frame[name].dropna().unique()[:3])) for name in names]
    shown = pd.DataFrame(
        {
            "column": names,
            "role": [table.roles[name].value for name in names],
            "type": [table.types[name].value for name in names],
            "examples": examples,
        }
    )
    edited = st.data_editor(
        shown,
        hide_index=True,
        disabled=["column", "type", "examples"],
        column_config={
            "role": st.column_config.SelectboxColumn(
                "role", options=[role.value for role in Role], required=True, help=meaning("role")
            )
        },
        key=f"data_roles_{page.dataset.id}_{page.dataset.version}",
    )
    changes = {
        name: after for name, before, after in zip(names, shown["role"], edited["role"], strict=True) if before != after
    }
    if changes:
        page.workspace.datasets.save_roles(table.with_roles(changes), page.dataset)
        st.rerun()
    _edit_positive_values(page, table)


def _edit_positive_values(page: Page, table: Table) -> None:
    assert page.dataset is not None
    label = table.column_with(Role.LABEL)
    if label is None:
        st.info("No column is the label yet: choose the one that marks confirmed positives.", icon=":material/info:")
        return
    values = table.frame[label].dropna().unique()[:200].tolist()
    known = [value for value in table.positive_values if value in values]
    if not known and table.positive_values:
        st.caption(f"Every row with a value in {plain(label)} counts as a confirmed positive.")
        return
    chosen = st.multiselect(
        "Which values of the label mean *confirmed positive*?",
        values,
        default=known,
        key=f"data_positive_{page.dataset.id}_{page.dataset.version}",
    )
    if chosen and set(chosen) != set(known):
        page.workspace.datasets.save_roles(table.with_positive_values(chosen), page.dataset)
        st.rerun()


def show_profile(page: Page, profile: TableProfile) -> None:
    """One column at a time: its values, what is missing, and where confirmed positives are frequent."""
    st.subheader("A look at the columns", anchor=False)
    show_findings(profile.findings)
    names = [column.name for column in profile.columns if column.histogram is not None or column.top_levels]
    if not names:
        return
    left, right = st.columns([2, 3], gap="medium")
    with left:
        st.dataframe(
            profile.to_frame(),
            hide_index=True,
            height=420,
            column_config={"missing_share": st.column_config.ProgressColumn("missing", min_value=0, max_value=1)},
            key="data_columns",
        )
    with right, st.container(border=True):
        name = st.selectbox("Column", names, key="data_column")
        column = profile.column(name)
        st.caption(f"{share(column.missing_share)} missing · {count(column.distinct)} distinct values")
        _show_column(column)
    if any(column.missing for column in profile.columns):
        with st.expander("Missing values", icon=":material/data_alert:"):
            show_chart(missing_chart(profile, theme=theme()), key="data_missing")


def _show_column(column: ColumnProfile) -> None:
    if column.histogram is not None:
        dates = column.type is ColumnType.DATETIME
        show_chart(label_rate_chart(column.histogram, column.name, dates=dates, theme=theme()), key="data_rates")
        return
    levels = column.top_levels
    positives = [round(level.count * level.label_rate) for level in levels]
    rest = [level.count - positive for level, positive in zip(levels, positives, strict=True)]
    names = [level.value for level in levels]
    show_chart(category_chart(names, positives, rest, column.name, theme=theme()), key="data_levels")
