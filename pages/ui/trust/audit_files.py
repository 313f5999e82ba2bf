"""Review an audit elsewhere: the list as CSV or for Label Studio, and the verdicts back from a file."""

from __future__ import annotations

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from pages.ui.shared.cached import read_upload
from pages.ui.shared.show import show_chart, theme
from pages.ui.shared.text import count, plain, row_count
from pages.ui.trust.evaluated_model import EvaluatedModel
from pages.ui.trust.review_cards import rows_to_review
from spu_core.charts import strata_chart
from spu_core.engines.audit_results import keep_verdicts
from spu_core.errors import SpuError
from spu_core.tables.spreadsheet import to_csv
from spu_core.trust import AuditPlan, read_verdicts, review_list
from spu_core.trust.audit.label_studio import CONFIG, label_studio_tasks, read_label_studio
from spu_core.trust.audit.verdicts import VerdictFile
from spu_core.workspace import AuditRecord


def show_files(model: EvaluatedModel, audit: AuditRecord, plan: AuditPlan) -> None:
    """Download the list, upload it with verdicts."""
    out, back = st.columns(2, gap="medium")
    with out, st.container(border=True):
        _offer_lists(model, plan, rows_to_review(model, audit, plan))
    with back, st.container(border=True):
        _ask_verdicts(model, audit, plan)


def _offer_lists(model: EvaluatedModel, plan: AuditPlan, rows: tuple[int, ...]) -> None:
    st.subheader("Download the review list", anchor=False)
    st.markdown(
        f"{row_count(len(rows))} in random order, without label, score and soft label, which could influence a "
        "reviewer."
    )
    st.download_button(
        "Spreadsheet (CSV)",
        lambda: to_csv(review_list(model.table, plan).loc[lambda listed: listed["row"].isin(rows)]),
        f"audit-{plan.code}.csv",
        "text/csv",
        icon=":material/download:",
        type="primary",
        on_click="ignore",
        key="trust_download",
        help="Safe to open in a spreadsheet. Fill in verdict (positive, negative, unsure) and reviewer.",
    )
    with st.container(horizontal=True):
        st.download_button(
            "Label Studio tasks (JSON)",
            lambda: label_studio_tasks(model.table, plan, rows=rows),
            f"audit-{plan.code}.json",
            "application/json",
            icon=":material/label:",
            on_click="ignore",
            key="trust_label_studio",
            help="Import this file as the data of a Label Studio project.",
        )
        st.download_button(
            "Labelling interface (XML)",
            CONFIG,
            "labelling-interface.xml",
            "application/xml",
            icon=":material/code:",
            on_click="ignore",
            key="trust_label_config",
            help="Paste it into Settings > Labeling Interface > Code of the Label Studio project.",
        )
    with st.expander("Where the checks go", icon=":material/bar_chart:"):
        show_chart(strata_chart(plan, theme=theme()), "trust_strata")


def _ask_verdicts(model: EvaluatedModel, audit: AuditRecord, plan: AuditPlan) -> None:
    st.subheader("Upload the verdicts", anchor=False)
    # After a save the uploader gets a new key and is empty; the verdicts are in the workspace.
    turn = st.session_state.get("trust_upload_turn", 0)
    given = st.file_uploader(
        "The completed list, or a Label Studio export (JSON)",
        type=["csv", "xlsx", "parquet", "json"],
        key=f"trust_upload_{turn}",
        help="A list needs the columns row and verdict; reviewer and note are kept. Lines without a verdict are "
        "skipped. In Label Studio, export the project as JSON.",
    )
    if given is None:
        return
    try:
        reading = _read(given, plan)
    except SpuError as problem:
        st.error(plain(problem), icon=":material/error:")
        return
    st.caption(f"{count(len(reading.verdicts))} verdicts read, {count(reading.empty)} lines without one.")
    if st.button("Save these verdicts", type="primary", key="trust_keep", disabled=not reading.verdicts):
        kept = keep_verdicts(model.workspace, audit, reading)
        st.session_state["trust_upload_turn"] = turn + 1
        st.toast(f"{count(kept)} verdicts saved.")
        st.rerun()


def _read(given: UploadedFile, plan: AuditPlan) -> VerdictFile:
    """The content decides: a Label Studio export starts with a bracket, which no list does."""
    start = given.getvalue()[:100].decode("utf-8-sig", "replace").lstrip()
    if start.startswith(("[", "{")):
        return read_label_studio(given.getvalue(), plan)
    return read_verdicts(read_upload(given), plan)
