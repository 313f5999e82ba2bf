"""The audit planner: what n checks will be worth before anybody spends them."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pages.ui import trust_cached
from pages.ui.show import show_chart, theme
from pages.ui.tables import show_table
from pages.ui.text import count, figure, plain
from pages.ui.trust_case import TrustCase
from spu_core.charts import outlook_chart
from spu_core.engines.audit_results import save_audit
from spu_core.trust import TARGETS


def show_planner(case: TrustCase) -> None:
    """Target, number of checks, and the interval to expect; one button draws the rows."""
    rows = trust_cached.population(case)
    settings, chart = st.columns([2, 3], gap="medium")
    with settings, st.container(border=True):
        st.subheader("Plan an audit", anchor=False)
        target = _ask_target()
        room = int(rows.is_open.sum())
        checks = int(
            st.number_input(
                "Rows you can check by hand",
                10,
                max(10, room),
                min(200, max(10, room)),
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
        table = trust_cached.outlook(case, target, prior)
        _show_promise(case, checks, target, prior)
        if st.button("Draw these rows", type="primary", key="trust_draw", icon=":material/casino:"):
            plan = trust_cached.draw(case, checks, target, prior, seed)
            audit = save_audit(case.page.workspace, case.record, plan, case.rules)
            st.query_params["audit"] = audit.id
            st.rerun()
    with chart, st.container(border=True):
        st.subheader("What will it be worth?", anchor=False)
        show_chart(
            outlook_chart(table, TARGETS[target].title, checks=checks, theme=theme()),
            "trust_outlook",
        )
        _show_table(table)


def _ask_target() -> str:
    chosen = st.selectbox(
        "What do you want to know best?",
        list(TARGETS),
        format_func=lambda key: plain(TARGETS[key].title),
        key="trust_target",
        persist_state="session",
        help="Checks go where this figure is most in doubt. All others are estimated too, less surely.",
    )
    st.caption(TARGETS[str(chosen)].words)
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
        help="0: as your soft labels say. It only steers which rows are drawn and what is promised; a wrong guess "
        "makes the audit less sure, never wrong.",
    )
    return float(value) or None


def _show_promise(case: TrustCase, checks: int, target: str, prior: float | None) -> None:
    expected, (low, high) = trust_cached.promise(case, checks, target, prior)
    with st.container(horizontal=True, horizontal_alignment="distribute"):
        st.metric(
            "95% bounds to expect",
            f"{low:.2f} – {high:.2f}",
            help="The median of imagined audits of this size, if your soft labels are right on average. Normal theory "
            f"says a standard error of {figure(expected.standard_error)}, which is too good where few positives are "
            "expected.",
            width="content",
        )
        st.metric(
            "As good as plain drawing of",
            f"{count(expected.gain * checks)} rows",
            help="How many rows drawn plainly at random would give the same standard error, under the same beliefs.",
            width="content",
        )


def _show_table(table: pd.DataFrame) -> None:
    with st.expander("As a table", icon=":material/table:"):
        show_table(table, hide_index=True)
    st.caption(
        "A fifth of the checks follows the size of the strata, the rest goes where the figure is in doubt. Where fewer "
        "than five positives are expected in a stratum, limits are exact and therefore wide: finding nothing in few "
        "checks proves little. All of this supposes that soft labels are right on average; the audit itself does not."
    )
