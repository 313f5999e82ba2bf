"""The Audit section: choose an audit or plan a new one, and the bounds to expect from a number of checks."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pages.ui.shared.show import explain_words, show_chart, show_table, theme
from pages.ui.shared.text import count, figure, plain
from pages.ui.trust.audit_files import show_files
from pages.ui.trust.audit_result import show_result
from pages.ui.trust.cached import audit_outlook, audit_population, draw_audit, expected_audit
from pages.ui.trust.evaluated_model import EvaluatedModel, choose_by_address
from pages.ui.trust.review_cards import show_review
from spu_core.charts import outlook_chart
from spu_core.engines.audit_results import audits_of, save_audit
from spu_core.trust import TARGETS, AuditPlan
from spu_core.workspace import AuditRecord

NEW = "new"
STEPS = {"review": "Review here", "files": "Review elsewhere", "result": "Result"}


def show_planner(model: EvaluatedModel) -> None:
    """Target, number of checks, and the expected interval; one button draws the rows."""
    rows = audit_population(model)
    settings, chart = st.columns([2, 3], gap="medium")
    with settings, st.container(border=True):
        st.subheader("Plan an audit", anchor=False)
        target = _ask_target()
        most = max(10, int(rows.is_open.sum()))
        # The Compare page asks for a number of checks.
        st.session_state["trust_checks"] = min(max(10, st.session_state.get("trust_checks", 200)), most)
        checks = int(
            st.number_input(
                "Rows you can check by hand",
                10,
                most,
                step=10,
                key="trust_checks",
                persist_state="session",
                help="Confirmed positives are known already and are never drawn.",
            )
        )
        prior = _ask_prior()
        seed = int(
            st.number_input("Seed", 0, 2**31 - 1, 0, key="trust_seed", help="The same seed draws the same rows again.")
        )
        table = audit_outlook(model, target, prior)
        _show_expected(model, checks, target, prior)
        if st.button("Draw these rows", type="primary", key="trust_draw", icon=":material/casino:"):
            plan = draw_audit(model, checks, target, prior, seed)
            audit = save_audit(model.workspace, model.record, plan, model.rules)
            st.query_params["audit"] = audit.id
            st.rerun()
    with chart, st.container(border=True):
        st.subheader("Expected precision", anchor=False)
        show_chart(
            outlook_chart(table, TARGETS[target].title, checks=checks, theme=theme()),
            "trust_outlook",
        )
        _show_outlook(table)


def _ask_target() -> str:
    chosen = st.selectbox(
        "Most important figure",
        list(TARGETS),
        format_func=lambda key: plain(TARGETS[key].title),
        key="trust_target",
        persist_state="session",
        help="Checks go where this figure is most uncertain. All others are estimated too, with wider intervals.",
    )
    st.caption(TARGETS[str(chosen)].description)
    return str(chosen)


def _ask_prior() -> float | None:
    value = st.number_input(
        "Share of positives you expect (optional)",
        0.0,
        0.99,
        0.0,
        step=0.01,
        format="%.3f",
        key="trust_expected",
        persist_state="session",
        help="0: use your soft labels. This only affects which rows are drawn and the expected interval; a wrong guess "
        "makes the audit less precise, not wrong.",
    )
    return float(value) or None


def _show_expected(model: EvaluatedModel, checks: int, target: str, prior: float | None) -> None:
    expected, (low, high) = expected_audit(model, checks, target, prior)
    with st.container(horizontal=True, horizontal_alignment="distribute"):
        st.metric(
            "Expected 95% bounds",
            f"{low:.2f} – {high:.2f}",
            help="The median of simulated audits of this size, if your soft labels are right on average. Normal theory "
            f"gives a standard error of {figure(expected.standard_error)}, which is too small where few positives "
            "are expected.",
            width="content",
        )
        st.metric(
            "Equivalent to a random sample of",
            f"{count(expected.gain * checks)} rows",
            help="The size of a simple random sample with the same standard error, under the same soft labels.",
            width="content",
        )


def _show_outlook(table: pd.DataFrame) -> None:
    with st.expander("As a table", icon=":material/table:"):
        show_table(table, hide_index=True)
    st.caption(
        "A fifth of the checks is allocated by the size of the strata, the rest where the figure is uncertain. Where "
        "fewer than five positives are expected in a stratum, limits are exact and therefore wide. This forecast "
        "assumes that soft labels are right on average; the audit itself does not."
    )


def show_audit(model: EvaluatedModel) -> None:
    """Plan a new audit, or continue with one that was drawn."""
    audit = _choose(model)
    if audit is None:
        show_planner(model)
    else:
        plan = AuditPlan.from_json(audit.plan)
        st.caption(
            f"Drawn {audit.made:%d %b %Y %H:%M} by the scores of {plain(model.name)} and this S · audit {plan.code} · "
            f"seed {plan.seed} · verdicts are never overwritten."
        )
        step = choose_by_address("step", STEPS)
        if step == "review":
            show_review(model, audit, plan)
        elif step == "files":
            show_files(model, audit, plan)
        else:
            show_result(model, audit)
    explain_words("soft label", "threshold", "label")


def _choose(model: EvaluatedModel) -> AuditRecord | None:
    """An audit of this model and these soft labels, or None for a new one; the address keeps the choice."""
    audits = {audit.id: audit for audit in audits_of(model.workspace, model.record, model.rules)}
    _show_others(model, len(audits))
    if not audits:
        return None
    wanted = st.query_params.get("audit", next(iter(audits)))
    options = [*audits, NEW]
    # The key contains the number of audits, so that a new audit is chosen as soon as it is drawn.
    chosen = st.selectbox(
        "Audit",
        options,
        index=options.index(wanted) if wanted in options else 0,
        format_func=lambda token: "Plan a new audit" if token == NEW else _title(audits[token]),
        key=f"trust_audit_{model.record.id}_{len(audits)}",
        width=420,
    )
    if chosen != wanted:
        st.query_params["audit"] = str(chosen)
    return audits.get(str(chosen))


def _title(audit: AuditRecord) -> str:
    return f"{audit.name} · {audit.made:%d %b %H:%M}"


def _show_others(model: EvaluatedModel, count: int) -> None:
    others = len(model.workspace.audits.list(model.record.id)) - count
    if others:
        st.caption(
            f":material/info: {others} more audit{'s' * (others != 1)} of this model used other soft labels; "
            "choose these soft labels above to see them."
        )
