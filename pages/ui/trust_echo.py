"""Echo and bias: does the model only repeat the rules, and did people look everywhere alike?"""

from __future__ import annotations

import streamlit as st

from pages.ui import trust_cached
from pages.ui.show import meaning, show_chart, theme
from pages.ui.text import count, plain
from pages.ui.trust_case import TrustCase
from spu_core.charts import bias_chart, echo_chart
from spu_core.errors import SpuError
from spu_core.trust import BiasMap


def show(case: TrustCase) -> None:
    """The echo check (on demand, since it trains) and the selection-bias map."""
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
    asked = f"trust_echo_{case.record.id}"
    many = min(case.dataset.n_rows, trust_cached.ECHO_ROWS)
    if not st.session_state.get(asked) and not st.button(
        f"Train twice and compare, on {count(many)} rows", key="trust_echo_go", icon=":material/play_arrow:"
    ):
        return
    st.session_state[asked] = True
    try:
        report = trust_cached.echo(case)
    except SpuError as problem:
        st.info(plain(problem), icon=":material/info:")
        return
    box = st.warning if report.is_echo else st.markdown
    box(plain(report.sentence))
    show_chart(echo_chart(report, theme=theme()), "trust_echo_chart")


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
        st.dataframe(bias.cells, hide_index=True)
        st.caption(
            f"Suspected rows: rule score of at least {bias.at_least:.2f} ({count(bias.rows)} rows, "
            f"{count(bias.labeled)} confirmed). Expected: rows of equal rule score have equal chances. "
            "holm: p-values after looking at all cells."
        )
