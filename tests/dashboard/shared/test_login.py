"""Login fails closed: a broken, incomplete or missing login shows no page, and starts no server for others."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import streamlit as st
from streamlit import config

from pages.ui.shared import login
from pages.ui.shared.login import ClosedError, login_is_configured
from pages.ui.shared.shell import STEPS
from tests.live import ROOT, free_address, running_server

WHOLE = """[auth]
redirect_uri = "http://127.0.0.1:8501/oauth2callback"
cookie_secret = "sixteen characters at least"
client_id = "spu-studio"
client_secret = "a secret"
server_metadata_url = "https://login.example/.well-known/openid-configuration"
"""
# What the secrets file says → what the operator reads.
BROKEN = {
    "one quote too many": (WHOLE.replace('"spu-studio"', '"spu-studio""'), "cannot be read"),
    "cut in the middle": (WHOLE[:90], "cannot be read"),
    "no text": ("\udcff\udcfe", "cannot be read"),
    "a field is missing": (WHOLE.replace("client_id", "klient_id"), "lacks client_id"),
    "a field is empty": (WHOLE.replace('"a secret"', '" "'), "lacks client_secret"),
    "all fields are missing": ("[auth]\n", "lacks redirect_uri, cookie_secret, client_id"),
    "no section": ("auth = true\n", "is not a section"),
    "a guessable secret": (WHOLE.replace("sixteen characters at least", "secret"), "at least 16 characters"),
}
STARTED_BY_HAND = "-m streamlit run app.py --server.headless true --server.port"


@pytest.fixture
def secrets_file(tmp_path, monkeypatch):
    """Let this process use a secrets file with such a text."""
    path, others = tmp_path / "secrets.toml", config.get_option

    def write(text: str):
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        st.secrets._reset()

    monkeypatch.setattr(config, "get_option", lambda key: [str(path)] if key == "secrets.files" else others(key))
    monkeypatch.setattr(config, "is_manually_set", lambda key: key == "secrets.files")
    yield write
    st.secrets._reset()


@pytest.mark.parametrize("case", BROKEN)
def test_a_secrets_file_that_is_there_but_cannot_be_used_closes_the_dashboard(secrets_file, open_app, case):
    text, told = BROKEN[case]
    secrets_file(text)

    with pytest.raises(ClosedError, match=told):
        login_is_configured()
    page = open_app("pages/1_data.py")
    assert not page.exception
    assert "This dashboard is closed" in page.error[0].value
    assert not page.title
    assert not page.get("file_uploader")


def test_a_broken_login_closes_every_page(secrets_file, open_app):
    secrets_file(BROKEN["a field is missing"][0])

    for step in STEPS:
        page = open_app(step.file)
        assert not page.exception
        assert "This dashboard is closed" in page.error[0].value, step.file
        assert not page.title


def test_a_secrets_file_that_was_named_but_is_not_there_closes_the_dashboard(secrets_file):
    with pytest.raises(ClosedError, match="does not exist, although the server is configured to use it"):
        login_is_configured()


def test_a_whole_login_is_used_and_other_secrets_are_none(secrets_file):
    secrets_file(WHOLE)
    assert login_is_configured()
    secrets_file("[maps]\nkey = 'x'\n")
    assert not login_is_configured()


@pytest.mark.parametrize("address", [None, "0.0.0.0", "192.0.2.7", "studio.example", "::"])
def test_an_address_that_others_reach_needs_a_login(secrets_file, monkeypatch, address):
    secrets_file("")
    known = config.get_option
    monkeypatch.setattr(config, "get_option", lambda key: address if key == "server.address" else known(key))

    with pytest.raises(ClosedError, match="where other computers can reach it, and no login"):
        login_is_configured()


def test_a_server_that_must_have_a_login_is_closed_without_one(monkeypatch):
    assert not login_is_configured()
    monkeypatch.setenv("SPU_REQUIRE_LOGIN", "1")

    with pytest.raises(ClosedError, match="SPU_REQUIRE_LOGIN is set, but no login is configured"):
        login_is_configured()


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "studio.example"},
        {"Host": "192.0.2.7:8501"},
        {"X-Forwarded-For": "203.0.113.7"},
        {"Forwarded": "for=x"},
    ],
)
def test_a_proxy_that_brings_others_to_a_server_without_login_is_refused(monkeypatch, headers):
    monkeypatch.setattr(login.st, "context", SimpleNamespace(headers={"Host": "localhost:8501"}))
    assert not login_is_configured()
    monkeypatch.setattr(login.st, "context", SimpleNamespace(headers={"Host": "localhost:8501", **headers}))

    with pytest.raises(ClosedError, match="reached from another computer"):
        login_is_configured()


@pytest.mark.xdist_group("processes")
def test_a_server_that_others_could_open_does_not_start(tmp_path):
    (tmp_path / "secrets.toml").write_text(BROKEN["one quote too many"][0])
    cases: tuple[tuple[list[str], dict[str, str]], ...] = (
        (["--host", "192.0.2.7"], {}),
        ([], {"STREAMLIT_SECRETS_FILES": str(tmp_path / "secrets.toml")}),
    )
    command = [sys.executable, "-m", "spu_core", "app", "--no-browser", "--port", str(free_address()[1])]
    started = [
        subprocess.Popen([*command, *options], cwd=ROOT, env={**os.environ, **each}, stderr=subprocess.PIPE, text=True)
        for options, each in cases
    ]

    sentences = ("listens on 192.0.2.7", "secrets file cannot be read")
    for server, told in zip(started, sentences, strict=True):
        said = server.communicate(timeout=300)[1]
        assert server.returncode == 1
        assert told in said
        assert "Traceback" not in said


@pytest.mark.browser
def test_a_broken_login_shows_no_page_in_a_browser(tmp_path, open_tab):
    """`test_two_users.py` shows what a working login asks."""
    file, home = tmp_path / "secrets.toml", tmp_path / "home"
    file.write_text(BROKEN["a field is missing"][0])
    environment = {"STREAMLIT_SECRETS_FILES": str(file), "SPU_HOME": str(home)}
    with running_server(home, tmp_path / "server.log", command=STARTED_BY_HAND, **environment) as server:
        tab = open_tab(server)
        for path in ("", "data"):
            told = tab.open(path).text
            assert "Only this computer can open this page" not in told
            assert "lacks client_id" in told
            assert tab.page.locator("[data-testid=stFileUploader], [data-testid=stPageLink]").count() == 0
    assert not home.exists()  # nothing was opened for nobody
