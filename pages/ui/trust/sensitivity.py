"""Sensitivity: would another model win if beliefs were different or a rule wrong, and which rule matters most?"""

from __future__ import annotations

import streamlit as st

from pages.ui.shared.show import meaning, show_chart, theme
from pages.ui.shared.text import plain
from pages.ui.trust import trust_cached
from pages.ui.trust.case import TrustCase
from spu_core.charts import rule_influence_chart, sensitivity_chart

SPREADS = {0.25: "quite sure", 0.5: "somewhat unsure", 1.0: "very unsure"}
EXAMPLES = {0.25: "0.44 to 0.56", 0.5: "0.38 to 0.62", 1.0: "0.27 to 0.73"}


def show(case: TrustCase) -> None:
    """Bands of AUC_SPU under uncertain beliefs, and each rule shifted alone."""
    spread = st.select_slider(
        "How unsure are you of your beliefs?",
        list(SPREADS),
        value=0.5,
        format_func=lambda value: SPREADS[value],
        key="trust_spread",
        help="The standard deviation of the shift on the log-odds scale. "
        + "; ".join(f"{SPREADS[s]}: a belief of 0.5 becomes {EXAMPLES[s]} in two of three draws" for s in SPREADS),
    )
    if case.soft_labels.matrix is None:
        st.info(
            "These soft labels came ready-made, so there are no beliefs to shift; make them by rules.",
            icon=":material/info:",
        )
        return
    bands, influence = trust_cached.sensitivity(case, float(spread or 0.5))
    draws, rules = st.columns(2, gap="medium")
    with draws, st.container(border=True):
        st.subheader("Stays best?", anchor=False, help=meaning("AUC_SPU"))
        st.markdown(plain(bands.sentence))
        show_chart(sensitivity_chart(bands, theme=theme()), "trust_sensitivity_chart")
    with rules, st.container(border=True):
        st.subheader(
            "Which rule matters most?",
            anchor=False,
            help="Each rule alone is shifted down and up, left out, and reversed.",
        )
        st.markdown(plain(influence.sentence))
        show_chart(rule_influence_chart(influence, theme=theme()), "trust_rule_chart")
    st.caption(
        "Stored scores are judged by changed soft labels; no model is trained again. A reversed rule believes in the "
        "rows on which it does not fire. `retrained_sensitivity` in Python also trains on the changed labels, which "
        "takes as long as that many trainings."
    )
