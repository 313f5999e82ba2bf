"""What was read: the table or the folder, its first rows, its profile, and the next step."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pages.ui.shared.cached import draw_once, load_folder, load_full_profile, load_profile
from pages.ui.shared.shell import Page, choose_in_address, link_to, missing_in_data, show_errors, step_named
from pages.ui.shared.show import (
    in_percent,
    meaning,
    share_column,
    show_chart,
    show_findings,
    show_table,
    theme,
)
from pages.ui.shared.text import count, plain, share, sized
from spu_core.charts import brush_chart, category_chart, missing_chart
from spu_core.engines.jobs.read import read_again, reading_of, start_looking, start_registering
from spu_core.tables import ColumnProfile, ColumnType, Dialect, Reading, Role, Table, TableProfile, parquet_store
from spu_core.tables.profiles import proposed_role
from spu_core.workspace import DatasetRecord, Home
from spu_core.workspace.home import MOST_OFFERED, MOST_SEEN, FolderOffer, FolderRoots

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
    with st.expander(f"Rejected lines ({count(reading.rejected_rows)})", icon=":material/report:"):
        lines = [(each.line, each.reason, each.text) for each in reading.rejected]
        show_table(pd.DataFrame(lines, columns=["line", "reason", "text"]), hide_index=True)


def show_next_step(page: Page, table: Table, profile: TableProfile) -> None:
    """The link to the rules, or what is missing before them."""
    has_label = table.column_with(Role.LABEL) is not None
    missing = missing_in_data(has_label=has_label, rows=profile.rows, labeled=profile.labeled)
    with st.container(border=True, key="data_next"):
        if missing is not None:
            # What to do about a label is said above, where it is chosen.
            st.markdown(f":material/pending: **{missing[0]}** {missing[1] if has_label else ''}")
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
        name = st.selectbox(
            "Column",
            names,
            index=_first_feature(profile, names),
            key=f"data_column_{page.dataset.id if page.dataset else ''}",
        )
        column = profile.column(name)
        st.caption(f"{share(column.missing_share)} missing · {count(column.distinct)} distinct values")
        _show_column(column)
    if any(column.missing for column in profile.columns):
        with st.expander("Missing values", icon=":material/data_alert:"):
            show_chart(draw_once(missing_chart, profile, theme=theme()), key="data_missing")


def _first_feature(profile: TableProfile, names: list[str]) -> int:
    """The column to show first: the first that models learn from and that does not look like an identifier."""
    proposed = {finding.column for finding in profile.findings if proposed_role(finding) is not None}
    features = (name for name in names if profile.column(name).role is Role.FEATURE and name not in proposed)
    return names.index(next(features, names[0]))


def _has_bars(column: ColumnProfile) -> bool:
    """Whether the column can be shown as bars; not if all its values are different."""
    return column.histogram is not None or (bool(column.top_levels) and column.distinct < column.rows)


def _show_column(column: ColumnProfile) -> None:
    if column.histogram is not None:
        dates = column.type is ColumnType.DATETIME
        show_chart(
            draw_once(brush_chart, column.histogram, column.name, dates=dates, theme=theme()), key="data_histogram"
        )
        return
    levels = column.top_levels
    positives = [round(level.count * level.label_rate) for level in levels]
    rest = [level.count - positive for level, positive in zip(levels, positives, strict=True)]
    names = [level.value for level in levels]
    show_chart(category_chart(names, positives, rest, column.name, theme=theme()), key="data_levels")


LIST_SECONDS = 15


def register_folder(page: Page) -> None:
    """Choose a folder or a large file that the operator allows; nothing is shown without any."""
    with show_errors(page.title):
        offers = _offers(str(page.workspace.home.folder))
        if not offers:
            return
        with st.container(border=True, key="data_folders"):
            st.subheader("Or a folder on this server", anchor=False)
            _choose_folder(page, offers)


def _choose_folder(page: Page, offers: tuple[FolderOffer, ...]) -> None:
    which, register = st.columns([5, 1], gap="small", vertical_alignment="bottom")
    chosen = which.selectbox(
        "Folders of Parquet files, and text files of any size",
        range(len(offers)),
        index=None,
        format_func=lambda place: offers[place].text,
        placeholder="Choose a folder or a file",
        key="data_folder",
        help="Rows are read in parts, so a table may be larger than memory. Parquet files stay where they are, also "
        "those in subfolders; a text file is converted once, into your workspace. The list covers about the first "
        f"{count(MOST_SEEN)} names below each root.",
    )
    asked = register.button("Register", width="stretch", disabled=chosen is None, key="data_register")
    if len(offers) >= MOST_OFFERED:
        st.caption(f"Only the first {count(MOST_OFFERED)} of them are listed.")
    if asked and chosen is not None:
        _follow(start_registering(page.workspace, offers[chosen]).id)


@st.cache_data(max_entries=32, ttl=LIST_SECONDS, show_spinner=False)
def _offers(home: str) -> tuple[FolderOffer, ...]:
    return FolderRoots.allowed(Home.at(home)).offers()


def _follow(job: str) -> None:
    choose_in_address(reading=job)
    st.rerun()


def show_folder(page: Page, table: Table) -> None:
    """What was registered, some rows of the sample, and a warning if the files have changed."""
    assert page.dataset is not None
    st.subheader("What was registered", anchor=False)
    folder = load_folder(page.workspace, page.dataset)
    _show_changes(page, folder)
    store = parquet_store(folder)
    with st.container(horizontal=True, key="data_figures"):
        st.metric("Rows", count(len(folder)), border=True, width=CARD_WIDTH)
        st.metric("Columns", count(len(folder.roles)), border=True, width=CARD_WIDTH)
        st.metric("Confirmed cases", _positives(page), border=True, width=CARD_WIDTH, help=meaning("label"))
        st.metric("Files", f"{count(len(store.files))} · {sized(store.size)}", border=True, width=CARD_WIDTH)
    show_sample_note(page.dataset, table)
    if table.reading is not None:
        st.caption(plain(table.reading.describe()))
        show_rejected(table.reading)
    show_first_rows(table)
    st.caption(f"The first {count(min(SHOWN_ROWS, len(table)))} rows of the sample.")


def _positives(page: Page) -> str:
    assert page.dataset is not None
    known = load_full_profile(page.workspace, page.dataset)
    return "–" if known is None else count(known.labeled)


def show_sample_note(dataset: DatasetRecord, table: Table) -> None:
    """Show a note where the page uses a sample of the rows."""
    if is_sampled(dataset, table):
        st.caption(
            f":material/filter_alt: This page uses a random sample of {count(len(table))} of {count(dataset.n_rows)} "
            "rows; training, comparing and scoring use all rows."
        )


def is_sampled(dataset: DatasetRecord, table: Table) -> bool:
    """Whether the rows to explore are fewer than all."""
    return dataset.folder is not None and len(table) < dataset.n_rows


def _show_changes(page: Page, folder: Table) -> None:
    store = parquet_store(folder)
    changed, added = store.changed_files, store.added_files
    if changed:
        _show_changed(page, changed)
    elif added:
        files, them = ("1 new file", "it") if len(added) == 1 else (f"{count(len(added))} new files", "them")
        with st.container(border=True, key="data_added"):
            st.info(
                f"**{files} since this folder was registered.** This dataset does not include {them}. Register the "
                f"folder again to get a new dataset with {them}.",
                icon=":material/note_add:",
            )
            _register_again(page)


def _show_changed(page: Page, changed: tuple[str, ...]) -> None:
    assert page.dataset is not None
    is_ours = page.workspace.converted.path_of(str(page.dataset.folder)) is not None
    way = "you register the file that it was made from" if is_ours else "it is registered again"
    more = f" and {count(len(changed) - 1)} more" if len(changed) > 1 else ""
    with st.container(border=True, key="data_changed"):
        st.warning(
            f"**This folder has changed on disk since it was registered** ({plain(changed[0])}{more}). This page shows "
            f"the earlier sample; training and comparing are not possible until {way}.",
            icon=":material/sync_problem:",
        )
        if not is_ours:
            _register_again(page)


def _register_again(page: Page) -> None:
    assert page.dataset is not None
    if st.button("Register it again", icon=":material/refresh:", key="data_register_again"):
        offer = page.workspace.datasets.roots.find(str(page.dataset.folder))
        _follow(start_registering(page.workspace, offer).id)


def folder_profile(page: Page) -> TableProfile:
    """The profile of all rows; until a job has made it for the current roles, that of the sample, and a button."""
    assert page.dataset is not None
    known = load_full_profile(page.workspace, page.dataset)
    if known is not None:
        return known
    with st.container(border=True, horizontal=True, vertical_alignment="center", key="data_look"):
        st.markdown(":material/filter_alt: The roles have changed, so this profile is of the sample.", width="content")
        if st.button("Profile all rows", icon=":material/search:", key="data_look_again"):
            _follow(start_looking(page.workspace, page.dataset).id)
    return load_profile(page.workspace, page.dataset)
