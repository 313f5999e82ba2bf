"""Two people log in at a real provider, bring files of the same name, and see only their own rows."""

from __future__ import annotations

import importlib.util

import pytest

from tests.dashboard.shared.oidc import running_provider
from tests.live import free_address, running_server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("authlib", "httpx")),
        reason="Logging in needs Authlib and httpx: install the extra `auth` (pip install 'spu-studio[auth]').",
    ),
]

READ = "What was read"


def rows_of(person: str, count: int) -> str:
    return "name,amount,fraud\n" + "".join(f"{person}'s row {row},{row},{int(row % 9 == 0)}\n" for row in range(count))


@pytest.fixture
def guarded(tmp_path):
    """A dashboard whose secrets hold `[auth]`."""
    with running_provider("ann", "bob") as provider:
        url, port = free_address()
        (tmp_path / "secrets.toml").write_text(provider.secrets_file(url))
        environment = {"STREAMLIT_SECRETS_FILES": str(tmp_path / "secrets.toml")}
        with running_server(tmp_path / "home", tmp_path / "server.log", (url, port), **environment) as server:
            yield server


def log_in(tab, person: str) -> None:
    tab.page.get_by_role("button", name="Log in").click()
    tab.page.get_by_role("link", name=person).click()
    tab.page.get_by_role("button", name="Log out").wait_for()
    tab.settle()


def test_two_people_with_equal_file_names_see_only_their_own_rows(guarded, open_tab, tmp_path):
    tabs, links = {}, {}
    for person, count in (("ann", 120), ("bob", 340)):
        tab = tabs[person] = open_tab(guarded).open("data?dataset=0123456789abcdef")
        assert "Log in" in tab.text
        assert "has a separate workspace" in tab.text
        assert "Your file" not in tab.text
        log_in(tab, person)
        tab.open("data")
        (tmp_path / person).mkdir()
        (tmp_path / person / "sales.csv").write_text(rows_of(person, count))
        tab.page.set_input_files("input[type=file]", str(tmp_path / person / "sales.csv"))
        tab.page.get_by_role("heading", name=READ).wait_for()
        tab.settle()
        assert str(count) in tab.text
        links[person] = tab.page.url.removeprefix(guarded.url + "/")

    homes = [path for path in (guarded.home / "users").iterdir() if path.is_dir()]
    assert len(homes) == 2
    for person, other in (("ann", "bob"), ("bob", "ann")):
        tab = tabs[person].open(links[person])
        assert READ in tab.text
        refused = tabs[person].open(links[other])
        assert "The dataset of this link is not in your workspace." in refused.text
        assert {"ann": "340", "bob": "120"}[person] not in refused.text
        assert f"{other}'s row" not in refused.page.content()

    tabs["ann"].page.get_by_role("button", name="Log out").click()
    tabs["ann"].page.get_by_role("button", name="Log in").wait_for()
    assert READ not in tabs["ann"].open(links["ann"]).text
