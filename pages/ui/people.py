"""Who is here: one home without login, a home for each person where `[auth]` is configured."""

from __future__ import annotations

import streamlit as st
from streamlit.errors import StreamlitSecretNotFoundError

from spu_core.workspace import Home, Workspace


def login_is_configured() -> bool:
    """Whether Streamlit's secrets hold an `[auth]` section."""
    try:
        return "auth" in st.secrets
    except StreamlitSecretNotFoundError:
        return False


def workspace_of_this_person() -> Workspace:
    """The workspace of whoever is logged in, or the only one; asks for a login where one is needed."""
    person: tuple[str | None, str | None] = (None, None)
    if login_is_configured():
        if not st.user.is_logged_in:
            _ask_to_log_in()
        person = identity()
    home = str(Home.default().folder)
    workspace = _workspace(home, *person)
    if workspace.is_read_only:
        _workspace.clear(home, *person)  # perhaps it can be written at the next look
    return workspace


def identity() -> tuple[str, str]:
    """Who is logged in: the issuer of the login and the subject that it names."""
    return str(st.user.get("iss", "")), str(st.user.get("sub", ""))


def _ask_to_log_in() -> None:
    st.title("Log in", anchor=False)
    st.caption("This dashboard keeps the work of each person apart.")
    st.button("Log in", on_click=st.login, type="primary", icon=":material/login:")
    st.stop()


@st.cache_resource(max_entries=256, show_spinner=False)
def _workspace(home: str, issuer: str | None, subject: str | None) -> Workspace:
    # The key names the person, so no two people ever share an entry.
    if issuer is None or subject is None:
        return Workspace.open(home)
    return Workspace.open_for(issuer, subject, Home.at(home))
