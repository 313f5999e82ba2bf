"""A running dashboard and a tab in a real browser for the tests that need them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.live import ROOT, Server, Tab, open_tab_in, running_server


@pytest.fixture
def open_app():
    """A page without a browser: `open_app("pages/1_data.py", dataset=…)`."""

    def open_one(page: str, **query: str) -> AppTest:
        app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=600)
        for key, value in query.items():
            app.query_params[key] = value
        return app.switch_page(page).run()

    return open_one


@pytest.fixture
def start_server(tmp_path):
    """Start as many dashboards as a test wants, each with a home of its own unless told otherwise."""
    with ExitStack() as running:
        count = iter(range(1000))

        def start(home: Path | None = None, **environment: str) -> Server:
            number = next(count)
            home = home or tmp_path / f"home{number}"
            return running.enter_context(running_server(home, tmp_path / f"server{number}.log", **environment))

        yield start


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory) -> Iterator[Server]:
    """One dashboard for all tests that bring their own dataset and name it in the address."""
    folder = tmp_path_factory.mktemp("shared")
    with running_server(folder / "home", folder / "server.log", OMP_NUM_THREADS="1") as server:
        yield server


@pytest.fixture
def open_tab(browser) -> Iterator:
    """Open a tab in a new session: `open_tab(server, width=390, dark=True)`."""
    tabs: list[Tab] = []

    def open_one(server: Server, **size) -> Tab:
        tabs.append(open_tab_in(browser, server, **size))
        return tabs[-1]

    yield open_one
    for tab in tabs:
        tab.page.context.close()
