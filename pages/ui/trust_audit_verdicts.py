"""The review list of an audit, and the verdicts: uploaded or entered, read strictly, both reviewers kept."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pages.ui import table_cached
from pages.ui.editing import edited_lines
from pages.ui.show import show_chart, theme
from pages.ui.tables import edit_table
from pages.ui.text import count, plain
from pages.ui.trust_case import TrustCase
from spu_core.charts import strata_chart
from spu_core.engines.audit_results import filled_list, keep_verdicts
from spu_core.errors import SpuError
from spu_core.export import to_csv
from spu_core.trust import AuditPlan, read_verdicts, review_list
from spu_core.workspace import VERDICTS, AuditRecord

SHOWN_COLUMNS = 8


def show_list(case: TrustCase, audit: AuditRecord, plan: AuditPlan) -> None:
    """Where the checks go, and the list to download."""
    with st.container(border=True):
        st.subheader("1 · Check these rows", anchor=False)
        st.markdown(
            f"{count(plan.checks)} rows in random order, without score and soft label, which would sway a reviewer. "
            "Each carries its stratum and the chance with which it was drawn."
        )
        st.download_button(
            "Download the review list",
            to_csv(review_list(case.table, plan)),
            f"audit-{plan.code}.csv",
            "text/csv",
            icon=":material/download:",
            type="primary",
            key="trust_download",
            help="CSV, safe to open in a spreadsheet. Fill in verdict (positive, negative, unsure) and reviewer.",
        )
        with st.expander("Where the checks go", icon=":material/bar_chart:"):
            show_chart(strata_chart(plan, theme=theme()), "trust_strata")


def show_verdicts(case: TrustCase, audit: AuditRecord, plan: AuditPlan) -> None:
    """Upload the filled list, or enter verdicts here."""
    standing = case.page.workspace.audits.verdicts(audit.id)
    with st.container(border=True):
        st.subheader("2 · Bring the verdicts", anchor=False)
        reviewers = sorted({item.reviewer for item in standing})
        done = len({item.row for item in standing})
        named = f" by {', '.join(map(plain, reviewers))}" if reviewers else ""
        st.progress(done / max(plan.checks, 1), f"{count(done)} of {count(plan.checks)} rows have a verdict{named}")
        upload, enter = st.tabs(["Upload", "Enter here"])
        with upload:
            _upload(case, audit, plan)
        with enter:
            _enter(case, audit, plan)


def _upload(case: TrustCase, audit: AuditRecord, plan: AuditPlan) -> None:
    # After a save the uploader starts anew: what was kept is in the workspace now.
    turn = st.session_state.get("trust_upload_turn", 0)
    given = st.file_uploader(
        "The filled list",
        type=["csv", "xlsx", "parquet"],
        key=f"trust_upload_{turn}",
        help="Columns row and verdict are needed; reviewer and note are kept. Lines without a verdict are skipped.",
    )
    if given is None:
        return
    try:
        reading = read_verdicts(table_cached.given_frame(given), plan)
    except SpuError as problem:
        st.error(plain(problem), icon=":material/error:")
        return
    st.caption(f"{count(len(reading.verdicts))} verdicts read, {count(reading.empty)} lines without one.")
    if st.button("Keep these verdicts", type="primary", key="trust_keep", disabled=not reading.verdicts):
        kept = keep_verdicts(case.page.workspace, audit, reading)
        st.session_state["trust_upload_turn"] = turn + 1
        st.toast(f"{count(kept)} verdicts kept.")
        st.rerun()


def _enter(case: TrustCase, audit: AuditRecord, plan: AuditPlan) -> None:
    reviewer = st.text_input("Your name", "reviewer", key="trust_reviewer", max_chars=60)
    listed = _short_list(case, plan)
    filled = filled_list(listed, case.page.workspace.audits.verdicts(audit.id), reviewer)
    editable = ["verdict", "note"]
    shown = [name for name in filled.columns if name not in ("row", "reviewer", *editable)]
    edited = edit_table(
        filled[["row", *editable, *shown]],
        editable,
        column_config={
            "verdict": st.column_config.SelectboxColumn("verdict", options=["", *VERDICTS], width=110),
            "note": st.column_config.TextColumn("note", max_chars=200, width=140),
        },
        key=f"trust_editor_{audit.id}_{reviewer}",
    )
    entered = edited_lines(filled, edited, editable)
    many = f"Keep {count(len(entered))} verdict{'s' * (len(entered) != 1)}"
    label = "Nothing entered yet" if entered.empty else many
    if st.button(label, icon=":material/save:", key="trust_keep_entered", disabled=entered.empty):
        reading = read_verdicts(entered.assign(reviewer=reviewer), plan)
        kept = keep_verdicts(case.page.workspace, audit, reading)
        st.toast(f"{count(kept)} verdicts kept.")
        st.rerun()


def _short_list(case: TrustCase, plan: AuditPlan) -> pd.DataFrame:
    features = list(case.table.features[:SHOWN_COLUMNS])
    return review_list(case.table, plan, features).drop(columns=["audit", "stratum", "inclusion_probability"])
