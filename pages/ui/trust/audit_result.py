"""The estimates from the verdicts of an audit."""

from __future__ import annotations

import streamlit as st

from pages.ui.shared.show import show_chart, show_table, theme
from pages.ui.shared.text import count, figure, plain
from pages.ui.trust.cached import estimate_audit
from pages.ui.trust.evaluated_model import EvaluatedModel
from spu_core.charts import audit_chart
from spu_core.engines.audit_results import AuditResult
from spu_core.errors import SpuError
from spu_core.trust import TARGETS, TREATMENTS
from spu_core.workspace import AuditRecord

LABELS = {"mean": "Mean verdict", "agreed": "Only agreed rows", "worst_case": "Worst case"}
METHODS = {"assisted": "Model-assisted", "horvitz_thompson": "Horvitz–Thompson"}


def show_result(model: EvaluatedModel, audit: AuditRecord) -> None:
    """Estimates as soon as every stratum has two verdicts."""
    with st.container(border=True):
        st.subheader("Result", anchor=False)
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
