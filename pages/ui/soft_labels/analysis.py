"""Analysis of the rules, explanation of the soft label of a row, and audit of the soft labels."""

from __future__ import annotations

from functools import partial

import streamlit as st

from pages.ui.shared.cached import make_soft_labels
from pages.ui.shared.shell import choose_in_address
from pages.ui.shared.show import meaning, show_chart, show_findings, show_table, theme
from pages.ui.shared.text import count, figure, plain, shares
from pages.ui.soft_labels.cached import RuleAnalysis, estimate_prior, rule_analysis, soft_label_audit
from pages.ui.soft_labels.draft_preview import estimate_key, estimated_prior, known_prior, prior_in_address
from pages.ui.soft_labels.editor_state import OpenRuleSet
from spu_core.charts import coverage_chart, leave_one_out_chart, overlap_chart, rule_lift_chart, soft_label_chart
from spu_core.errors import TableError
from spu_core.tables import Role, Table

SHARES = ("coverage", "overlap", "conflict", "redundancy")
ESTIMATE = (
    "Trains a small model of confirmed cases against the rest, and estimates from its scores how many positives "
    "there can be at most. It assumes that confirmed cases are a random sample of all positives, and takes some "
    "seconds. The range is shown; it is not written into the field."
)


def show_analysis(opened: OpenRuleSet) -> None:
    """Coverage, lift, overlap and leave-one-out of the active rules."""
    if not len(opened.usable.active):
        st.info("No rule is active, so there is nothing to compare.", icon=":material/info:")
        return
    analysis = rule_analysis(opened.workspace, opened.dataset, opened.text)
    show_findings(analysis.findings)
    left, right = st.columns(2, gap="small")
    with left, st.container(border=True, height="stretch"):
        st.subheader("How many rows", anchor=False)
        show_chart(coverage_chart(analysis.summary, theme=theme()), key="soft_coverage")
    with right, st.container(border=True, height="stretch"):
        st.subheader("Lift among confirmed cases", anchor=False, help=meaning("lift"))
        show_chart(rule_lift_chart(analysis.summary, theme=theme()), key="soft_lift")
    left, right = st.columns(2, gap="small")
    with left, st.container(border=True, height="stretch"):
        st.subheader("Which rules fire together", anchor=False)
        if len(analysis.overlap) > 1:
            show_chart(overlap_chart(analysis.overlap, theme=theme()), key="soft_overlap")
        else:
            st.caption("Only one rule is active, so there is no overlap.")
    with right, st.container(border=True, height="stretch"):
        _show_leave_one_out(analysis)
    with st.expander("All figures", icon=":material/table:"):
        percent = {name: st.column_config.ProgressColumn(name, min_value=0, max_value=1) for name in SHARES}
        show_table(analysis.summary, column_config=percent, key="soft_summary")


def _show_leave_one_out(analysis: RuleAnalysis) -> None:
    st.subheader("Without each rule", anchor=False)
    choices = {"ceiling_change": "Ceiling", "mean_change": "Mean soft label"}
    change = st.segmented_control(
        "Change of", list(choices), format_func=choices.__getitem__, default="ceiling_change", required=True,
        key="soft_change",
    )  # fmt: skip
    chart = leave_one_out_chart(analysis.without, change=change or "ceiling_change", theme=theme())
    show_chart(chart, key="soft_without")


def show_why(opened: OpenRuleSet, table: Table) -> None:
    """What the rules, the floor and the label contribute to the soft label of one row."""
    labels = make_soft_labels(opened.workspace, opened.dataset, opened.text)
    row = _choose_row(table, labels.first_suspected_row)
    reason = labels.explain(row)
    left, right = st.columns([3, 2], gap="small")
    with left, st.container(border=True, height="stretch"):
        st.metric("Soft label", figure(reason.value), help=meaning("soft label"))
        st.write(plain(reason.text))
        if reason.contributions:
            bar = partial(st.column_config.ProgressColumn, min_value=0, max_value=1, format="%.2f", width=110)
            shares = {
                "fired": st.column_config.CheckboxColumn("fired", width=56),
                "belief": bar("belief"),
                "contribution": bar("share of S"),
            }
            show_table(reason.table(), column_config=shares, key="soft_why")
    with right, st.container(border=True, height="stretch"):
        st.caption("The row")
        values = table.frame.iloc[row].astype(str).rename("value").rename_axis("column")
        show_table(values, height=360, key="soft_row")


def _choose_row(table: Table, first: int) -> int:
    number, name = st.columns(2)
    column = table.column_with(Role.ID)
    wanted = ""
    if column is not None:
        wanted = name.text_input(f"Or its {plain(column)}", key="soft_row_id", max_chars=200)
    row = number.number_input(
        f"Row, from 1 to {count(len(table))}", 1, len(table), value=first + 1, step=1, key="soft_row_number"
    )
    return row_with(table, column, wanted.strip()) if column is not None and wanted.strip() else int(row) - 1


def row_with(table: Table, column: str, wanted: str) -> int:
    """The first row whose id is `wanted`."""
    found = (table.frame[column].astype(str) == wanted).to_numpy().nonzero()[0]
    if not len(found):
        raise TableError(f"No row has {wanted!r} in column {column!r}.")
    return int(found[0])


def show_audit(opened: OpenRuleSet) -> None:
    """The distribution of soft labels beside the assumed share of positives, and findings."""
    _ask_prior(opened)
    audit = soft_label_audit(opened.workspace, opened.dataset, opened.text, known_prior(opened))
    confirmed, suspected, rest = shares([audit.share_confirmed, audit.share_suspected, audit.share_at_floor])
    columns = st.columns(5)
    columns[0].metric("Mean soft label", figure(audit.mean), border=True, help=meaning("mean soft label"))
    columns[1].metric("Ceiling", figure(audit.ceiling), border=True, help=meaning("ceiling"))
    columns[2].metric("Confirmed", confirmed, border=True, help="Rows that are confirmed cases: S = 1.")
    columns[3].metric("Suspected by a rule", suspected, border=True, help="Unconfirmed rows above the floor.")
    columns[4].metric("Neither", rest, border=True, help="Unconfirmed rows that no rule suspects: S is the floor.")
    if audit.findings:
        show_findings(audit.findings)
    else:
        st.success("No problems found in these soft labels.", icon=":material/check_circle:")
    with st.container(border=True):
        log_rows = st.toggle("Rows on a log scale", key="soft_log", value=audit.share_at_floor > 0.9)
        show_chart(soft_label_chart(audit, log_rows=log_rows, theme=theme()), key="soft_audit")


def _ask_prior(opened: OpenRuleSet) -> None:
    given = prior_in_address()
    key = f"soft_prior_{given}"
    # A field with a default value cannot be emptied, so the value is set through the session.
    st.session_state.setdefault(key, None if given is None else _three_digits(100 * given))
    typed, guess = st.columns([3, 1], vertical_alignment="bottom")
    typed.number_input(
        "Share of positives among all rows, if you know or assume it (in %)",
        0.0,
        100.0,
        value=None,
        step=0.5,
        format="%g",
        placeholder="not known",
        key=key,
        on_change=lambda: _keep_prior(st.session_state[key]),
        help="The mean soft label should be near it. The rule editor uses it to suggest beliefs for rules.",
    )
    asked = guess.button(
        "Estimate a range", icon=":material/query_stats:", width="stretch", key="soft_estimate", help=ESTIMATE
    )
    # A place of its own, so that the spinner does not cover the figures below.
    with st.container(key="soft_estimating"):
        if asked:
            with st.spinner("Estimating the share of positives …"):
                st.session_state[estimate_key(opened)] = estimate_prior(opened.workspace, opened.dataset)
            st.rerun()
    found = estimated_prior(opened)
    if found is not None:
        st.caption(f":material/query_stats: {plain(found.sentence)}")
        if found.warning:
            st.caption(f":material/warning: {plain(found.warning)}")


def _keep_prior(percent: float | None) -> None:
    is_share = percent is not None and 0.0 < percent < 100.0
    choose_in_address(prior=f"{_three_digits(percent or 0.0) / 100:.6g}" if is_share else None)


def _three_digits(percent: float) -> float:
    return float(f"{percent:.3g}")
