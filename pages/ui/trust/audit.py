"""The section *Check rows by hand*: plan what to check, review here or elsewhere, and the result for all models."""

from __future__ import annotations

import pandas as pd
import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from pages.ui.shared.cached import draw_once, read_upload
from pages.ui.shared.shell import link_to, step_named
from pages.ui.shared.show import explain_terms, show_chart, show_table, theme
from pages.ui.shared.text import count, figure, plain, row_count, share
from pages.ui.trust.evaluated_model import (
    EvaluatedModel,
    audit_forecast,
    audit_report,
    audits_of_rows,
    checked_so_far,
    choose_by_address,
    choose_next,
    draw_rows,
    newest_audit,
    open_rows,
)
from pages.ui.trust.review_cards import rows_to_review, show_review
from spu_core.charts import audited_models_chart, forecast_chart, strata_chart
from spu_core.engines.audit_results import keep_verdicts, save_audit
from spu_core.errors import SpuError
from spu_core.metrics.intervals import p_value_text
from spu_core.tables.spreadsheet import to_csv
from spu_core.trust import (
    QUESTIONS,
    TARGETS,
    TREATMENTS,
    AuditFigure,
    AuditPlan,
    AuditReport,
    first_batch,
    read_verdicts,
    review_list,
)
from spu_core.trust.audit.verdicts import CONFIG, VerdictFile, label_studio_tasks, read_label_studio
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
                "clear difference" if pair.is_clear else "no clear difference",
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


STEPS = {"plan": "Plan", "review": "Review", "files": "Files", "result": "Result"}


def show_audit(model: EvaluatedModel) -> None:
    """Plan, review, result; the address keeps the step and the list that is reviewed."""
    audits = audits_of_rows(model)
    if not audits:
        _show_planner(model)
        explain_terms("soft label", "label")
        return
    was_reviewing = is_reviewing()
    step = choose_by_address("step", STEPS, _next_step(model, audits[0]))
    if was_reviewing != is_reviewing():
        st.rerun()  # the page has another layout for reviewers
    if step == "plan":
        _show_planner(model)
    elif step == "result":
        show_result(model)
    else:
        audit = _choose(audits)
        plan = AuditPlan.from_json(audit.plan)
        if step == "review":
            show_review(model, audit, plan)
        else:
            show_files(model, audit, plan)
    explain_terms("soft label", "threshold", "label")


def is_reviewing() -> bool:
    """Whether the page is about to show the cards, by the address and the choices so far."""
    asked = st.query_params
    section = st.session_state.get("trust_section", asked.get("section", "audit"))
    step = st.session_state.get("trust_step_next") or st.session_state.get("trust_step") or asked.get("step")
    return bool(section == "audit" and step == "review")


def _next_step(model: EvaluatedModel, newest: AuditRecord) -> str:
    listed = rows_to_review(model, newest, AuditPlan.from_json(newest.plan))
    state = model.workspace.reviews.state(newest.id, listed)
    return "result" if state.done == len(state.rows) else "review"


def _show_planner(model: EvaluatedModel) -> None:
    """What the checks should tell, how many, and what to expect of them; one button draws the rows."""
    settings, chart = st.columns([2, 3], gap="medium")
    with settings, st.container(border=True):
        st.subheader("Check some rows by hand", anchor=False)
        st.caption("Rows that a person checks tell which model is really better. They serve all models.")
        question, rival = _ask_question(model)
        checks = _ask_checks(model)
        found = audit_forecast(model, question, rival)
        st.markdown(f"**{plain(found.sentence(checks))}**")
        done = checked_so_far(model)
        now = checks if done else first_batch(checks)
        _show_batches(done, now, checks)
        place, looks = st.container(), _ask_looks()
        if place.button(f"Draw {row_count(now)}", type="primary", key="trust_draw", icon=":material/casino:"):
            plan = draw_rows(model, now, question, rival, looks)
            audit = save_audit(model.workspace, model.record, plan, model.rules)
            st.query_params["audit"] = audit.id
            choose_next("step", "review")
    with chart, st.container(border=True):
        st.subheader("What the checks will tell", anchor=False)
        show_chart(draw_once(forecast_chart, found, checks=checks, theme=theme()), "trust_forecast")
        with st.expander("As a table", icon=":material/table:"):
            show_table(found.table, hide_index=True)
        st.caption(
            "A forecast from your soft labels and the verdicts so far. If they are wrong, the result is wider or "
            "narrower than this, but still correct."
        )


def _ask_question(model: EvaluatedModel) -> tuple[str, str | None]:
    others = [token for token in model.names if token != model.record.id]
    options = [key for key in QUESTIONS if others or not QUESTIONS[key].needs_rival]
    question = str(
        st.radio(
            "What do you want to know?",
            options,
            format_func=lambda key: QUESTIONS[key].title,
            key="trust_question",
            persist_state="session",
        )
    )
    if not QUESTIONS[question].needs_rival:
        return question, None
    rival = st.selectbox(
        f"Compare {plain(model.name)} with",
        others,
        format_func=model.names.__getitem__,
        key=f"trust_rival_{model.record.id}",
    )
    return question, str(rival)


def _ask_checks(model: EvaluatedModel) -> int:
    most = max(10, open_rows(model))
    # The Compare page asks for a number of checks.
    st.session_state["trust_checks"] = min(max(10, st.session_state.get("trust_checks", 100)), most)
    return int(
        st.number_input(
            "Rows you can check",
            10,
            most,
            step=10,
            key="trust_checks",
            persist_state="session",
            help="Confirmed cases are known already and are never drawn.",
        )
    )


def _ask_looks() -> int:
    with st.expander("More", icon=":material/tune:"):
        return int(
            st.number_input(
                "How often will you look at the result before you stop?",
                1,
                20,
                1,
                key="trust_looks",
                persist_state="session",
                help="If you may stop as soon as the result is clear, state how many times you will look. Intervals "
                "are a little wider, and stay correct at each look.",
            )
        )


def _show_batches(done: int, now: int, checks: int) -> None:
    if done:
        st.caption(f"{row_count(done)} checked so far. The new rows are added to them.")
    elif now < checks:
        st.caption(
            f"Now {count(now)} rows at random; after their review {count(checks - now)} more, where they tell most."
        )


def _choose(audits: tuple[AuditRecord, ...]) -> AuditRecord:
    """The list to review: that of the address, else the newest."""
    known = {audit.id: audit for audit in audits}
    wanted = st.query_params.get("audit", audits[0].id)
    default = wanted if wanted in known else audits[0].id
    if len(audits) == 1:
        return audits[0]
    # The key contains the number of lists, so that a new list is chosen as soon as it is drawn.
    chosen = st.selectbox(
        "Review list",
        list(known),
        index=list(known).index(default),
        format_func=lambda token: f"{known[token].name} · {known[token].made:%d %b %H:%M}",
        key=f"trust_audit_{len(audits)}_{default}",
        width=420,
    )
    if chosen != wanted:
        st.query_params["audit"] = str(chosen)
    return known[str(chosen)]
