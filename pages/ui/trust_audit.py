"""Audit: the analyst can check n rows by hand. Which ones, and what do the verdicts say?"""

from __future__ import annotations

import streamlit as st

from pages.ui.show import explain_words
from pages.ui.text import plain
from pages.ui.trust_audit_plan import show_planner
from pages.ui.trust_audit_result import show_result
from pages.ui.trust_audit_verdicts import show_list, show_verdicts
from pages.ui.trust_case import TrustCase
from spu_core.engines.audit_results import audits_of
from spu_core.trust import AuditPlan
from spu_core.workspace import AuditRecord

NEW = "new"


def show(case: TrustCase) -> None:
    """Plan a new audit, or go on with one that was drawn."""
    audit = _choose(case)
    if audit is None:
        show_planner(case)
    else:
        plan = AuditPlan.from_json(audit.plan)
        st.caption(
            f"Drawn {audit.made:%d %b %Y %H:%M} by the scores of {plain(case.name)} and this S · audit {plan.code} · "
            f"seed {plan.seed} · nothing in it is ever overwritten."
        )
        show_list(case, audit, plan)
        show_verdicts(case, audit, plan)
        show_result(case, audit)
    explain_words("soft label", "threshold", "label")


def _choose(case: TrustCase) -> AuditRecord | None:
    """An audit of this model and this S, or a new one; the address keeps the choice."""
    audits = {audit.id: audit for audit in audits_of(case.page.workspace, case.record, case.rules)}
    _say_others(case, len(audits))
    if not audits:
        return None
    wanted = st.query_params.get("audit", next(iter(audits)))
    options = [*audits, NEW]
    # The key carries the number of audits, so that a new one is chosen as soon as it is drawn.
    chosen = st.selectbox(
        "Audit",
        options,
        index=options.index(wanted) if wanted in options else 0,
        format_func=lambda token: "Plan a new audit" if token == NEW else _title(audits[token]),
        key=f"trust_audit_{case.record.id}_{len(audits)}",
        width=420,
    )
    if chosen != wanted:
        st.query_params["audit"] = str(chosen)
    return audits.get(str(chosen))


def _title(audit: AuditRecord) -> str:
    return f"{audit.name} · {audit.made:%d %b %H:%M}"


def _say_others(case: TrustCase, count: int) -> None:
    others = len(case.page.workspace.audits.list(case.record.id)) - count
    if others:
        st.caption(
            f":material/info: {others} more audit{'s' * (others != 1)} of this model were drawn by other soft labels; "
            "choose those above to see them."
        )
