"""Prior: what every source says about the share of positives, and why they may differ."""

from __future__ import annotations

import streamlit as st

from pages.ui import trust_cached
from pages.ui.show import show_chart, theme
from pages.ui.text import plain, share
from pages.ui.trust_case import TrustCase
from spu_core.charts import prior_chart
from spu_core.errors import SpuError
from spu_core.trust import PriorReport, compare_priors

TITLES = {"BBE": "BBE, upper estimate", "E[S]": "E[S], your rules"}
WORDS = {
    "BBE": "Best bin estimation: where only positives are scored so high, how many unlabelled rows are there for each "
    "labelled one? It errs high where classes overlap, so it is an upper estimate; its band shows sampling noise only.",
    "Elkan–Noto": "The share of labelled rows over the mean score of labelled rows. It needs calibrated scores.",
    "E[S]": "The mean soft label: how many positives your rules believe in.",
    "Audit": "Checked by hand with known chances: the only one that rests on no assumption about labels.",
    "Truth": "From the truth column of this dataset.",
}


def show(case: TrustCase) -> None:
    """BBE, Elkan–Noto, E[S], and the audit or the truth where there is one."""
    try:
        estimate = trust_cached.class_prior(case)
    except SpuError as problem:
        st.info(f"{plain(problem)} An audit can still measure it.", icon=":material/info:")
        return
    audit = trust_cached.newest_result(case)
    report = compare_priors(
        estimate,
        float(case.soft_labels.mean),
        audit=None if audit is None else audit.estimate.figures["prior"],
        truth=trust_cached.truth(case).get("prior"),
    )
    with st.container(border=True):
        with st.container(horizontal=True, horizontal_alignment="distribute"):
            for source in report.sources:
                title = TITLES.get(source.name, source.name)
                st.metric(plain(title), share(source.prior), help=WORDS[source.name], width="content")
        _say(report)
        show_chart(prior_chart(report, theme=theme()), "trust_prior_chart")
    st.caption(
        "The line of BBE is a sampling band, no confidence interval: overlap of the classes is not in it. The "
        "line of an audit is its 95% bounds. BBE and Elkan–Noto assume that confirmed positives are a random part of "
        "all positives. Where people look for the obvious cases first, both miss the others; the selection-bias map of "
        "Echo and bias shows where."
    )


def _say(report: PriorReport) -> None:
    box = st.success if report.agrees else st.warning
    icon = ":material/check_circle:" if report.agrees else ":material/warning:"
    box("  \n".join(plain(sentence) for sentence in report.sentences), icon=icon)
