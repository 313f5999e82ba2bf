"""Echo and bias: does the model only repeat the rules, and did people look everywhere alike?"""

from __future__ import annotations

import streamlit as st

from pages.ui import trust_cached
from pages.ui.shell import Page, told_in_words
from pages.ui.show import meaning, show_chart, theme
from pages.ui.tables import show_table
from pages.ui.text import count, plain
from pages.ui.trust_case import TrustCase
from spu_core.charts import bias_chart, echo_chart
from spu_core.engines import cancel, jobs_now, start_worker
from spu_core.engines.jobs.echo import echo_job, echo_result, latest_echo
from spu_core.errors import SpuError
from spu_core.trust import BiasMap, EchoReport
from spu_core.trust.echo import refuse_without_rule_columns
from spu_core.workspace import JobStatus

POLL_SECONDS = 1.0


def show(case: TrustCase) -> None:
    """The echo check (on demand, by a job, since it trains) and the selection-bias map."""
    echo, bias = st.columns([2, 3], gap="medium")
    with echo, st.container(border=True):
        _show_echo(case)
    with bias, st.container(border=True):
        _show_bias(case)


def _show_echo(case: TrustCase) -> None:
    st.subheader("Echo check", anchor=False, help="The same model is trained with and without the columns rules read.")
    st.caption(
        "A model that sees the columns of the rules can repeat them and reach a high AUC_SPU without knowing anything. "
        "Beyond: among rows on which the rules say the same, does it still put confirmed positives first? ½ is no."
    )
    try:
        refuse_without_rule_columns(case.table, case.soft_labels)
    except SpuError as problem:
        st.info(plain(problem), icon=":material/info:")
        return
    asked = echo_job(case.record, case.dataset, case.rules)
    job = latest_echo(case.page.workspace, asked)
    if job is not None and not job.status.is_over:
        st.fragment(_watch, run_every=POLL_SECONDS)(case.page, job.id)
        return
    if job is not None and job.status is JobStatus.FINISHED:
        _show_report(echo_result(job))
        return
    if job is not None:
        st.info(f"The last check did not finish. {plain(job.error)}", icon=":material/info:")
    words = f"Train twice and compare, on {count(case.dataset.n_rows)} rows"
    if st.button(words, key="trust_echo_go", icon=":material/play_arrow:"):
        start_worker(case.page.workspace, asked)
        st.rerun()
    st.caption("It runs in the background: you can go on with other work, close this tab, and come back.")


def _watch(page: Page, token: str) -> None:
    with told_in_words(page.title):
        job = next((each for each in jobs_now(page.workspace) if each.id == token), None)
        if job is None or job.status.is_over:
            st.rerun()  # the whole page: the report takes the place of the bar
            return
        st.progress(job.share, text=plain(job.message or "waiting for its turn"))
        if st.button("Cancel", icon=":material/stop_circle:", key="trust_echo_cancel"):
            cancel(page.workspace, job.id)
            st.rerun()


def _show_report(report: EchoReport) -> None:
    box = st.warning if report.is_echo else st.markdown
    box(plain(report.sentence))
    show_chart(echo_chart(report, theme=theme()), "trust_echo_chart")
    st.caption(
        f"Out of fold on {count(report.rows)} rows; the lines are {report.reproduced.level:.0%} intervals. Confirmed "
        "positives must be a fair part of all positives for *beyond* to speak of them."
    )


def _show_bias(case: TrustCase) -> None:
    st.subheader("Selection-bias map", anchor=False, help=meaning("label"))
    st.caption(
        "Among rows that the rules suspect alike, confirmed positives should lie everywhere alike. Where there are "
        "more, somebody looked more closely there, and figures that rest on labels speak about that part."
    )
    try:
        bias = trust_cached.bias(case)
    except SpuError as problem:
        st.info(plain(problem), icon=":material/info:")
        return
    box = st.markdown if bias.biased.empty else st.warning
    box(plain(bias.sentence))
    show_chart(bias_chart(bias, theme=theme()), "trust_bias_chart")
    _show_cells(bias)


def _show_cells(bias: BiasMap) -> None:
    with st.expander("All cells as a table", icon=":material/table:"):
        show_table(bias.cells, hide_index=True)
        st.caption(
            f"Suspected rows: rule score of at least {bias.at_least:.2f} ({count(bias.rows)} rows, "
            f"{count(bias.labeled)} confirmed). Expected: rows of equal rule score have equal chances. "
            "holm: p-values after looking at all cells."
        )
