"""How long outcomes take: recent rows have had less time to be confirmed, which can be cut off."""

from __future__ import annotations

import streamlit as st

from pages.ui.shell import choose_in_address
from pages.ui.show import meaning, show_chart, theme
from pages.ui.text import plain
from pages.ui.trust_case import TrustCase
from pages.ui.trust_outcomes_flag import today
from spu_core.charts import label_delay_chart
from spu_core.engines.outcome_learning import confirmation_delay, leave_out_young_rows
from spu_core.engines.outcome_loop import LoopChecks, answer_delay
from spu_core.errors import SpuError


def show_delay(case: TrustCase, found: LoopChecks) -> None:
    """The delay of answers, and that of confirmations where the rows have dates."""
    with st.expander("How long outcomes take", icon=":material/schedule:"):
        st.caption(meaning("label delay"))
        try:
            delay = answer_delay(found, today())
            st.markdown(f"**From asking to the outcome.** {plain(delay.sentence)}")
            show_chart(label_delay_chart(delay, theme=theme()), key="delay_answers")
        except SpuError as problem:
            st.caption(plain(problem))
        _show_confirmations(case)


def _show_confirmations(case: TrustCase) -> None:
    try:
        delay = confirmation_delay(case.page.workspace, case.dataset.id, today())
    except SpuError as problem:
        st.caption(f":material/info: {plain(problem)}")
        return
    st.markdown(f"**From the date of the features to the confirmation.** {plain(delay.sentence)}")
    show_chart(label_delay_chart(delay, theme=theme()), key="delay_labels")
    if delay.is_young.any() and st.button(
        f"Leave out rows younger than {delay.cut_off} days", icon=":material/content_cut:", key="delay_cut"
    ):
        made = leave_out_young_rows(case.page.workspace, case.dataset.id, delay)
        choose_in_address(dataset=made.id)
        st.rerun()
