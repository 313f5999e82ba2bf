"""What the rules do, why a row has its S, and what deserves a second look."""

from __future__ import annotations

from functools import partial

import streamlit as st

from pages.ui import cached, soft_label_cached
from pages.ui.shell import choose_in_address
from pages.ui.show import meaning, show_chart, show_findings, theme
from pages.ui.soft_label_preview import prior_in_address
from pages.ui.soft_label_state import Book
from pages.ui.tables import show_table
from pages.ui.text import count, figure, plain, share
from spu_core.charts import coverage_chart, leave_one_out_chart, overlap_chart, rule_lift_chart, soft_label_chart
from spu_core.errors import TableError
from spu_core.tables import Role, Table

SHARES = ("coverage", "overlap", "conflict", "redundancy")


def show_analysis(book: Book) -> None:
    """Coverage, lift, overlap and leave-one-out of the rules that are on."""
    if not len(book.usable.active):
        st.info("No rule is switched on, so there is nothing to compare.", icon=":material/info:")
        return
    analysis = cached.rule_analysis(book.page.workspace, book.dataset, book.text)
    show_findings(analysis.findings)
    left, right = st.columns(2, gap="small")
    with left, st.container(border=True, height="stretch"):
        st.subheader("How many rows", anchor=False)
        show_chart(coverage_chart(analysis.summary, theme=theme()), key="soft_coverage")
    with right, st.container(border=True, height="stretch"):
        st.subheader("Lift among known positives", anchor=False, help=meaning("lift"))
        show_chart(rule_lift_chart(analysis.summary, theme=theme()), key="soft_lift")
    left, right = st.columns(2, gap="small")
    with left, st.container(border=True, height="stretch"):
        st.subheader("Which rules fire together", anchor=False)
        if len(analysis.overlap) > 1:
            show_chart(overlap_chart(analysis.overlap, theme=theme()), key="soft_overlap")
        else:
            st.caption("One rule is in use, so none fires beside it.")
    with right, st.container(border=True, height="stretch"):
        _show_leave_one_out(analysis)
    with st.expander("All figures", icon=":material/table:"):
        percent = {name: st.column_config.ProgressColumn(name, min_value=0, max_value=1) for name in SHARES}
        show_table(analysis.summary, column_config=percent, key="soft_summary")


def _show_leave_one_out(analysis: cached.RuleAnalysis) -> None:
    st.subheader("Without each rule", anchor=False)
    choices = {"ceiling_change": "Ceiling", "mean_change": "Mean soft label"}
    change = st.segmented_control(
        "Change of", list(choices), format_func=choices.__getitem__, default="ceiling_change", required=True,
        key="soft_change",
    )  # fmt: skip
    chart = leave_one_out_chart(analysis.without, change=change or "ceiling_change", theme=theme())
    show_chart(chart, key="soft_without")


def show_why(book: Book, table: Table) -> None:
    """One row's S, taken apart."""
    labels = cached.soft_labels(book.page.workspace, book.dataset, book.text)
    row = _choose_row(table, soft_label_cached.telling_row(book.page.workspace, book.dataset, book.text))
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


def show_audit(book: Book) -> None:
    """The distribution of S, beside the assumed share of positives, with whatever deserves a second look."""
    given = prior_in_address()
    _ask_prior(book, given)
    audit = cached.soft_label_audit(book.page.workspace, book.dataset, book.text, given)
    columns = st.columns(4)
    columns[0].metric("Mean soft label", figure(audit.mean), border=True, help=meaning("mean soft label"))
    columns[1].metric("Ceiling", figure(audit.ceiling), border=True, help=meaning("ceiling"))
    columns[2].metric("Between 0 and 1", share(audit.share_between), border=True)
    columns[3].metric("At the floor", share(audit.share_at_floor), border=True)
    if audit.findings:
        show_findings(audit.findings)
    else:
        st.success("Nothing about these soft labels needs a second look.", icon=":material/check_circle:")
    with st.container(border=True):
        log_rows = st.toggle("Rows on a log scale", key="soft_log", value=audit.share_at_floor > 0.9)
        show_chart(soft_label_chart(audit, log_rows=log_rows, theme=theme()), key="soft_audit")


def _ask_prior(book: Book, given: float | None) -> None:
    key = f"soft_prior_{given}"
    typed, guess = st.columns([3, 1], vertical_alignment="bottom")
    typed.number_input(
        "Share of positives among all rows, if you know or assume it (in %)",
        0.0,
        100.0,
        value=None if given is None else 100 * given,
        step=0.5,
        format="%g",
        placeholder="not known",
        key=key,
        on_change=lambda: _keep_prior(st.session_state[key]),
        help="E[S] should be near it. The rule editor also uses it to say what the labels suggest for a rule.",
    )
    if guess.button("Estimate it", icon=":material/query_stats:", width="stretch", key="soft_estimate", help=ESTIMATE):
        found = cached.class_prior(book.page.workspace, book.dataset)
        _keep_prior(float(f"{100 * found.prior:.3g}"))
        limits = f"{share(found.low)} to {share(found.high)}"
        st.session_state["soft_estimated"] = f"Estimated: {share(found.prior)} (sampling noise {limits}). It errs high."
        st.rerun()
    if given is not None and "soft_estimated" in st.session_state:
        st.caption(st.session_state["soft_estimated"])


def _keep_prior(percent: float | None) -> None:
    st.session_state.pop("soft_estimated", None)
    choose_in_address(prior=None if not percent or percent >= 100 else f"{percent / 100:.6g}")


ESTIMATE = (
    "Trains a small model of confirmed positives against the rest, and reads the share of positives off its scores. It "
    "assumes that confirmed positives are a random sample of all positives, and takes some seconds."
)
