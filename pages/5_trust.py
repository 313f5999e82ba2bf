"""How reliable the figures of a model are, and how to check them at low cost."""

import streamlit as st

from pages.ui.shared.shell import open_page
from pages.ui.trust.audit import is_reviewing, show_audit
from pages.ui.trust.evaluated_model import choose_by_address, choose_model
from pages.ui.trust.outcome_steps import show_outcomes
from pages.ui.trust.reliability import show_echo_and_bias, show_prior, show_sensitivity, show_what_if

SECTIONS = {
    "audit": ("Check rows by hand", show_audit),
    "outcomes": ("Outcomes", show_outcomes),
    "echo": ("Rules and labels", show_echo_and_bias),
    "sensitivity": ("Wrong rules", show_sensitivity),
    "prior": ("How many cases?", show_prior),
    "what-if": ("What-if map", show_what_if),
}

with open_page("Trust", "How reliable are the figures of a model, and how can you check them at low cost?") as page:
    # A reviewer needs the card, also on a small screen: the choices move below it.
    before, content, after = st.container(), st.container(), st.container()
    choices = before
    if is_reviewing():
        choices = after.expander("Model, soft labels and other checks", icon=":material/tune:")
    with choices:
        model = choose_model(page)
        chosen = choose_by_address("section", {token: title for token, (title, _) in SECTIONS.items()})
    with content:
        SECTIONS[chosen][1](model)
