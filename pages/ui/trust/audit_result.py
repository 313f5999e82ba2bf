"""The result of all checked rows of a dataset: figures of every model, differences, and what to do next."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pages.ui.shared.show import show_chart, show_table, theme
from pages.ui.shared.steps import link_to, step_named
from pages.ui.shared.text import count, figure, plain, share
from pages.ui.trust.cached import audit_report, newest_audit
from pages.ui.trust.evaluated_model import EvaluatedModel
from spu_core.charts import audited_models_chart
from spu_core.errors import SpuError
from spu_core.metrics.intervals import p_value_text
from spu_core.trust import TARGETS, TREATMENTS, AuditFigure, AuditReport

LABELS = {"mean": "Mean verdict", "agreed": "Only agreed rows", "worst_case": "Worst case"}
COLUMNS = {"true_auc": figure, "precision": share, "recall": share}


def show_result(model: EvaluatedModel) -> None:
    """Which model is really better by the checked rows, with the figures behind it."""
    try:
        report = audit_report(model, st.session_state.get("trust_treatment") or "mean")
    except SpuError as problem:
        st.info(plain(problem), icon=":material/hourglass_top:")
        return
    with st.container(border=True):
        st.subheader("Which model is better?" if len(report.figures) > 1 else "How good is the model?", anchor=False)
        st.markdown(f"**{plain(report.sentence)}**")
        if report.checked.waiting:
            st.caption(f":material/pending: {count(report.checked.waiting)} drawn rows are not checked yet.")
        for note in report.checked.notes:
            st.caption(f":material/info: {plain(note)}")
        if report.is_enough:
            show_chart(audited_models_chart(report, references=model.references, theme=theme()), "trust_report")
        link_to(step_named("Compare"), "See the recommendation", model.page.query)
    if report.is_enough:
        _show_pairs(report)
        _show_figures(model, report)
        _show_assumptions(model)
    _ask_treatment(report)


def _ask_treatment(report: AuditReport) -> None:
    """How split verdicts count; the choice takes effect with the next run of the page."""
    st.caption(plain(report.checked.agreement.sentence))
    with st.expander("Rows on which reviewers disagree or are unsure", icon=":material/tune:"):
        chosen = st.segmented_control(
            "How they count",
            list(TREATMENTS),
            default="mean",
            required=True,
            format_func=LABELS.__getitem__,
            key="trust_treatment",
        )
        st.caption(TREATMENTS[str(chosen)])


def _show_pairs(report: AuditReport) -> None:
    if not report.pairs:
        return
    with st.container(border=True):
        st.subheader("Models in pairs", anchor=False)
        lines = [
            (
                pair.first,
                pair.second,
                f"{each.estimate:+.3f} ({each.low:+.3f} to {each.high:+.3f})",
                p_value_text(pair.p_holm),
                "clear difference" if pair.can_be_told_apart else "no clear difference",
            )
            for pair in report.pairs
            for each in (pair.difference,)
        ]
        names = ["model", "compared with", "difference of true AUC", "p-value", "conclusion"]
        show_table(pd.DataFrame(lines, columns=names), hide_index=True, key="trust_pairs")
        st.caption("Measured on the same checked rows. p-values are corrected for the number of pairs (Holm).")


def _show_figures(model: EvaluatedModel, report: AuditReport) -> None:
    with st.container(border=True):
        st.subheader("All models", anchor=False)

        def in_order(item: tuple[str, dict[str, AuditFigure]]) -> tuple[bool, float]:
            """The best model first, and references such as the rules alone last."""
            return item[0] in model.references, -item[1]["true_auc"].estimate

        lines = [
            (name, *(_words(found.get(key), write) for key, write in COLUMNS.items()))
            for name, found in sorted(report.figures.items(), key=in_order)
        ]
        titles = [TARGETS[key].title for key in COLUMNS]
        show_table(pd.DataFrame(lines, columns=["model", *titles]), hide_index=True, key="trust_figures")
        level = f"{report.checked.level:.0%}"
        st.caption(
            f"With {level} intervals. Precision and recall at the threshold of each model, or its review budget."
        )
        prior = report.figures.get(model.name, next(iter(report.figures.values())))["prior"]
        st.markdown(f"Share of cases in the table: **{_words(prior, share)}**")


def _words(found: AuditFigure | None, write) -> str:  # type: ignore[no-untyped-def]
    if found is None or found.estimate != found.estimate:
        return "–"
    return f"{write(found.estimate)} ({write(found.low)} – {write(found.high)})"


def _show_assumptions(model: EvaluatedModel) -> None:
    result = newest_audit(model)
    if result is None:
        return
    with st.expander("The paper's assumptions on these rows", icon=":material/science:"):
        for sentence in result.assumptions.sentences:
            st.markdown(f"- {plain(sentence)}")
        if not result.assumptions.dependence.empty:
            show_table(result.assumptions.dependence.sort_values("holm"), hide_index=True)
            st.caption(
                "Correlation of S with the ranked score or column within a true class, weighted by the sampling "
                "probabilities. holm: p-values corrected for the number of lines. Text columns are ranked by the "
                "frequency of each category."
            )
