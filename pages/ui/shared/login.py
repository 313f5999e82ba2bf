"""Login: one shared workspace without it, a workspace for each person where `[auth]` is configured.

Login fails closed: if it is misconfigured, or if other computers could reach a dashboard without login, every page
shows only a message to the operator.
"""

from __future__ import annotations

import importlib.util
import ipaddress
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import streamlit as st
from streamlit import config
from streamlit.errors import StreamlitSecretNotFoundError

from spu_core.errors import SpuError
from spu_core.workspace import Home, Workspace

FIELDS = ("redirect_uri", "cookie_secret", "client_id", "client_secret", "server_metadata_url")
SHORTEST_SECRET = 16
_HELP = "See “Login” in docs/dashboard.md."


class ClosedError(SpuError):
    """The dashboard shows nothing until its operator has configured the login."""


def login_is_configured() -> bool:
    """Whether people log in here; raises `ClosedError` if they must but cannot."""
    if server_has_login():
        return True
    if not _is_local_request():
        raise ClosedError(
            f"This dashboard is closed: it was reached from another computer, and no login is configured. {_HELP}"
        )
    return False


def server_has_login() -> bool:
    """Whether the server has a login; also asked before it starts to listen."""
    section = _auth_section()
    if section is not None:
        _refuse_incomplete(section)
        return True
    if os.environ.get("SPU_REQUIRE_LOGIN", "").strip().lower() not in ("", "0", "no", "false"):
        raise ClosedError(f"This dashboard is closed: SPU_REQUIRE_LOGIN is set, but no login is configured. {_HELP}")
    address = config.get_option("server.address")
    if not is_loopback(address):
        raise ClosedError(
            f"This dashboard is closed: it listens on {address or 'all addresses'}, where other computers can reach "
            f"it, and no login is configured. {_HELP}"
        )
    return False


def is_loopback(address: str | None) -> bool:
    """Whether an address or host name always refers to this computer.

    >>> [is_loopback(address) for address in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "studio.example", None)]
    [True, True, True, False, False, False]
    """
    if not address:
        return False
    name = address.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
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
        _workspace.clear(home, *person)  # the disk may be writable at the next rerun
    return workspace


def identity() -> tuple[str, str]:
    """Who is logged in: the issuer of the login and the subject that it names."""
    return str(st.user.get("iss", "")), str(st.user.get("sub", ""))


def name_of_this_person() -> str:
    """Who is recorded for a change: the mail address or name of the login, or "you" on a dashboard of one person."""
    if not login_is_configured():
        return "you"
    return str(st.user.get("email") or st.user.get("name") or "a logged-in person")


def _auth_section() -> Mapping[str, Any] | None:
    """The `[auth]` section of the secrets; None where there is none."""
    try:
        secrets = dict(st.secrets)
    except StreamlitSecretNotFoundError as problem:
        # Streamlit raises the same error for a missing file and for an unreadable one.
        there = [path for path in config.get_option("secrets.files") if os.path.lexists(path)]
        if not there and not config.is_manually_set("secrets.files"):
            return None
        what = "cannot be read" if there else "does not exist, although the server is configured to use it"
        raise ClosedError(f"This dashboard is closed: its secrets file {what}. {_HELP}") from problem
    except (OSError, UnicodeDecodeError) as problem:
        raise ClosedError(f"This dashboard is closed: its secrets file cannot be read. {_HELP}") from problem
    if "auth" not in secrets:
        return None
    if not isinstance(secrets["auth"], Mapping):
        raise ClosedError(f"This dashboard is closed: “auth” in its secrets file is not a section. {_HELP}")
    return secrets["auth"]


def _refuse_incomplete(section: Mapping[str, Any]) -> None:
    given = {**section, **(section["default"] if isinstance(section.get("default"), Mapping) else {})}
    missing = [name for name in FIELDS if not isinstance(given.get(name), str) or not given[name].strip()]
    if missing:
        lacks = ", ".join(missing)
        raise ClosedError(f"This dashboard is closed: [auth] in its secrets file lacks {lacks}. {_HELP}")
    if len(given["cookie_secret"]) < SHORTEST_SECRET:
        raise ClosedError(
            f"This dashboard is closed: cookie_secret in its secrets file needs at least {SHORTEST_SECRET} characters, "
            f"best chosen at random. {_HELP}"
        )
    if importlib.util.find_spec("authlib") is None:
        raise ClosedError("This dashboard is closed: login needs Authlib; run pip install 'spu-studio[auth]'.")


def _is_local_request() -> bool:
    """Whether the request was sent to this computer by name, and not through a proxy from another one."""
    headers = st.context.headers
    host = urlsplit(f"//{headers.get('Host', 'localhost')}").hostname
    passed_on = [part.strip() for part in headers.get("X-Forwarded-For", "").split(",") if part.strip()]
    return is_loopback(host) and all(is_loopback(each) for each in passed_on) and "Forwarded" not in headers


def _ask_to_log_in() -> None:
    st.title("Log in", anchor=False)
    st.caption("Each person has a separate workspace.")
    st.button("Log in", on_click=st.login, type="primary", icon=":material/login:")
    st.stop()


@st.cache_resource(max_entries=256, show_spinner=False)
def _workspace(home: str, issuer: str | None, subject: str | None) -> Workspace:
    # The key names the person, so no two people ever share an entry.
    if issuer is None or subject is None:
        return Workspace.open(home)
    return Workspace.open_for(issuer, subject, Home.at(home))
