"""The review list of an audit, its verdicts (uploaded or entered), and the estimates from them."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pages.ui.shared.cached import read_upload
from pages.ui.shared.show import edit_table, edited_lines, show_chart, show_table, theme
from pages.ui.shared.text import count, figure, plain
from pages.ui.trust.cached import estimate_audit
from pages.ui.trust.evaluated_model import EvaluatedModel
from spu_core.charts import audit_chart, strata_chart
from spu_core.engines.audit_results import AuditResult, filled_list, keep_verdicts
from spu_core.errors import SpuError
from spu_core.tables.spreadsheet import to_csv
from spu_core.trust import TARGETS, TREATMENTS, AuditPlan, read_verdicts, review_list
from spu_core.workspace import VERDICTS, AuditRecord

LABELS = {"mean": "Mean verdict", "agreed": "Only agreed rows", "worst_case": "Worst case"}
METHODS = {"assisted": "Model-assisted", "horvitz_thompson": "Horvitz–Thompson"}
SHOWN_COLUMNS = 8


def show_result(model: EvaluatedModel, audit: AuditRecord) -> None:
    """Estimates as soon as every stratum has two verdicts."""
    with st.container(border=True):
        st.subheader("3 · Results", anchor=False)
        if not model.workspace.audits.verdicts(audit.id):
            st.markdown("No verdicts yet. Estimates appear with the first verdicts.")
            return
        treatment, method = _ask_how()
        try:
            result = estimate_audit(model, audit, treatment, method)
        except SpuError as problem:
            st.info(plain(problem), icon=":material/hourglass_top:")
            return
        _show_figures(result)
        _show_assumptions(result)
        _show_strata(result)


def _ask_how() -> tuple[str, str]:
    left, right = st.columns(2)
    treatment = left.segmented_control(
        "Where reviewers disagree",
        list(TREATMENTS),
        default="mean",
        required=True,
        format_func=LABELS.__getitem__,
        key="trust_treatment",
        help=" ".join(TREATMENTS.values()),
    )
    method = right.segmented_control(
        "Estimate",
        list(METHODS),
        default="assisted",
        required=True,
        format_func=METHODS.__getitem__,
        key="trust_method",
        help="Horvitz–Thompson weights each verdict by one over its probability of being drawn. Model-assisted also "
        "uses what the plan expected of the rows that were not drawn, and corrects it by the verdicts.",
    )
    return str(treatment), str(method)


def _show_figures(result: AuditResult) -> None:
    estimate = result.estimate
    st.markdown(f"**{plain(estimate.sentence)}**")
    st.caption(plain(estimate.agreement.sentence))
    if estimate.missing:
        st.caption(
            f":material/info: {count(estimate.missing)} drawn rows do not count yet; the estimate assumes that they "
            "are like the checked rows of their stratum."
        )
    show_chart(audit_chart(estimate, truth=result.truth, theme=theme()), "trust_audit_chart")
    with st.container(horizontal=True, horizontal_alignment="distribute"):
        for each in estimate.figures.values():
            st.metric(
                plain(each.title),
                figure(each.estimate),
                f"{figure(each.low)} – {figure(each.high)}",
                delta_color="off",
                delta_arrow="off",
                help=f"{TARGETS[each.key].description} Below: {each.level:.0%} bounds.",
                width="content",
            )
    if result.truth:
        st.caption("Rings: the truth column of this dataset, which a real audit would not have.")


def _show_assumptions(result: AuditResult) -> None:
    st.subheader("The paper's assumptions on these rows", anchor=False)
    for sentence in result.assumptions.sentences:
        st.markdown(f"- {plain(sentence)}")
    if not result.assumptions.dependence.empty:
        with st.expander("Assumption 2 in numbers", icon=":material/table:"):
            show_table(result.assumptions.dependence.sort_values("holm"), hide_index=True)
            st.caption(
                "Correlation of S with the ranked score or column within a true class, weighted by the sampling "
                "probabilities. holm: p-values corrected for the number of lines. Text columns are ranked by the "
                "frequency of each category."
            )


def _show_strata(result: AuditResult) -> None:
    with st.expander("Strata", icon=":material/table:"):
        show_table(result.estimate.strata, hide_index=True)
        st.caption(
            "is_exact: fewer than five positives or negatives are expected among the checks of this stratum, so its "
            "limits are exact (Clopper–Pearson) and the bounds of figures that depend on it are conservative."
        )


def show_list(model: EvaluatedModel, audit: AuditRecord, plan: AuditPlan) -> None:
    """Where the checks go, and the list to download."""
    with st.container(border=True):
        st.subheader("1 · Check these rows", anchor=False)
        st.markdown(
            f"{count(plan.checks)} rows in random order, without score and soft label, which could influence a "
            "reviewer. Each row has its stratum and the probability with which it was drawn."
        )
        st.download_button(
            "Download the review list",
            to_csv(review_list(model.table, plan)),
            f"audit-{plan.code}.csv",
            "text/csv",
            icon=":material/download:",
            type="primary",
            key="trust_download",
            help="CSV, safe to open in a spreadsheet. Fill in verdict (positive, negative, unsure) and reviewer.",
        )
        with st.expander("Where the checks go", icon=":material/bar_chart:"):
            show_chart(strata_chart(plan, theme=theme()), "trust_strata")


def show_verdicts(model: EvaluatedModel, audit: AuditRecord, plan: AuditPlan) -> None:
    """Upload the filled list, or enter verdicts here."""
    standing = model.workspace.audits.verdicts(audit.id)
    with st.container(border=True):
        st.subheader("2 · Add the verdicts", anchor=False)
        reviewers = sorted({item.reviewer for item in standing})
        done = len({item.row for item in standing})
        named = f" by {', '.join(map(plain, reviewers))}" if reviewers else ""
        st.progress(done / max(plan.checks, 1), f"{count(done)} of {count(plan.checks)} rows have a verdict{named}")
        upload, enter = st.tabs(["Upload", "Enter here"])
        with upload:
            _upload(model, audit, plan)
        with enter:
            _enter(model, audit, plan)


def _upload(model: EvaluatedModel, audit: AuditRecord, plan: AuditPlan) -> None:
    # After a save the uploader gets a new key and is empty; the verdicts are in the workspace.
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
        reading = read_verdicts(read_upload(given), plan)
    except SpuError as problem:
        st.error(plain(problem), icon=":material/error:")
        return
    st.caption(f"{count(len(reading.verdicts))} verdicts read, {count(reading.empty)} lines without one.")
    if st.button("Save these verdicts", type="primary", key="trust_keep", disabled=not reading.verdicts):
        kept = keep_verdicts(model.workspace, audit, reading)
        st.session_state["trust_upload_turn"] = turn + 1
        st.toast(f"{count(kept)} verdicts saved.")
        st.rerun()


def _enter(model: EvaluatedModel, audit: AuditRecord, plan: AuditPlan) -> None:
    reviewer = st.text_input("Your name", "reviewer", key="trust_reviewer", max_chars=60)
    listed = _short_list(model, plan)
    filled = filled_list(listed, model.workspace.audits.verdicts(audit.id), reviewer)
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
    many = f"Save {count(len(entered))} verdict{'s' * (len(entered) != 1)}"
    label = "Nothing entered yet" if entered.empty else many
    if st.button(label, icon=":material/save:", key="trust_keep_entered", disabled=entered.empty):
        reading = read_verdicts(entered.assign(reviewer=reviewer), plan)
        kept = keep_verdicts(model.workspace, audit, reading)
        st.toast(f"{count(kept)} verdicts saved.")
        st.rerun()


def _short_list(model: EvaluatedModel, plan: AuditPlan) -> pd.DataFrame:
    features = list(model.table.features[:SHOWN_COLUMNS])
    return review_list(model.table, plan, features).drop(columns=["audit", "stratum", "inclusion_probability"])
