"""The sections of the Trust page: each a file of its own with one function, `show(case)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec

import streamlit as st

from pages.ui.trust.case import TrustCase

SECTIONS = {
    "what-if": ("What if", "trust_what_if"),
    "prior": ("Prior", "trust_prior"),
    "audit": ("Audit", "trust_audit"),
    "sensitivity": ("Sensitivity", "trust_sensitivity"),
    "echo": ("Echo and bias", "trust_echo"),
    "outcomes": ("Check outcomes", "trust_outcomes"),
}


def choose_section() -> Callable[[TrustCase], None]:
    """Ask which section; the address keeps it. Only the chosen one is loaded and run."""
    there = [token for token, (_, module) in SECTIONS.items() if find_spec(f"pages.ui.{module}") is not None]
    chosen = choose_by_address("section", {token: SECTIONS[token][0] for token in there})
    show: Callable[[TrustCase], None] = import_module(f"pages.ui.{SECTIONS[chosen][1]}").show
    return show


def choose_by_address(name: str, titles: Mapping[str, str]) -> str:
    """A choice in one row, kept in the address under `name`, so that a refresh or a shared link comes back to it."""
    options = list(titles)
    wanted = st.query_params.get(name, options[0])
    chosen = st.segmented_control(
        name,
        options,
        default=wanted if wanted in options else options[0],
        required=True,
        format_func=titles.__getitem__,
        key=f"trust_{name}",
        label_visibility="collapsed",
    )
    if chosen != wanted:
        st.query_params[name] = str(chosen)
    return str(chosen)
