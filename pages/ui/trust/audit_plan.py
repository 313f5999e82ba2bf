"""The section *Check rows by hand*: plan what to check, review here or elsewhere, and the result for all models."""

from __future__ import annotations

import streamlit as st

from pages.ui.shared.show import explain_words, show_chart, show_table, theme
from pages.ui.shared.text import count, plain, row_count
from pages.ui.trust.audit_files import show_files
from pages.ui.trust.audit_result import show_result
from pages.ui.trust.cached import audit_forecast, audits_of_rows, checked_so_far, draw_rows, open_rows
from pages.ui.trust.evaluated_model import EvaluatedModel, choose_by_address, choose_next
from pages.ui.trust.review_cards import rows_to_review, show_review
from spu_core.charts import forecast_chart
from spu_core.engines.audit_results import save_audit
from spu_core.trust import QUESTIONS, AuditPlan, first_batch
from spu_core.workspace import AuditRecord

STEPS = {"plan": "Plan", "review": "Review", "files": "Files", "result": "Result"}


def show_audit(model: EvaluatedModel) -> None:
    """Plan, review, result; the address keeps the step and the list that is reviewed."""
    audits = audits_of_rows(model)
    if not audits:
        _show_planner(model)
        explain_words("soft label", "label")
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
    explain_words("soft label", "threshold", "label")


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
        show_chart(forecast_chart(found, checks=checks, theme=theme()), "trust_forecast")
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
