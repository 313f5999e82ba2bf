"""Prior: what every source says about the share of positives, and why they may differ."""

from __future__ import annotations

import streamlit as st

from pages.ui.shared.show import show_chart, theme
from pages.ui.shared.text import plain
from pages.ui.trust import trust_cached
from pages.ui.trust.case import TrustCase
from spu_core.charts import prior_chart
from spu_core.errors import SpuError
from spu_core.trust import PriorReport, compare_priors

TITLES = {"BBE": "From confirmed cases, BBE", "Elkan–Noto": "The same, Elkan–Noto", "E[S]": "Your rules"}
WORDS = {
    "BBE": "Best bin estimation: where only positives are scored so high, how many unlabelled rows are there for each "
    "labelled one? That is an upper estimate, far too high where positives and negatives look alike. The lower end is "
    "the share of confirmed cases.",
    "Elkan–Noto": "Up to the share of labelled rows over the mean score of labelled rows. It needs calibrated scores "
    "and is too high where positives and negatives look alike.",
    "E[S]": "The mean soft label, E[S]: how many positives your rules expect.",
    "Audit": "Checked by hand with known chances: the only one that rests on no assumption about labels.",
    "Truth": "From the truth column of this dataset.",
}


def show(case: TrustCase) -> None:
    """The ranges up to BBE and Elkan–Noto, E[S], and the audit or the truth where there is one."""
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
                st.metric(plain(title), source.text, help=WORDS[source.name], width="content")
        _say(report)
        show_chart(prior_chart(report, theme=theme()), "trust_prior_chart")
    st.caption(
        "The thick lines are ranges, no confidence intervals: the true share can lie anywhere in them. The line of an "
        "audit is its 95% bounds. BBE and Elkan–Noto assume that confirmed cases are a random sample of all positives. "
        "Where easy cases were confirmed first, both are too low; the selection-bias map of Echo and bias shows where."
    )


def _say(report: PriorReport) -> None:
    box = st.success if report.agrees else st.warning
    icon = ":material/check_circle:" if report.agrees else ":material/warning:"
    box("  \n".join(plain(sentence) for sentence in report.sentences), icon=icon)
