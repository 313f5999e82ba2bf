"""A running dashboard and a real browser for the tests that need them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).resolve().parents[2]
CHROME_ON_MACOS = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", CHROME_ON_MACOS)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture
def open_app():
    """A page without a browser: `open_app("pages/1_data.py", dataset=…)`."""

    def open_one(page: str, **query: str) -> AppTest:
        app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
        for key, value in query.items():
            app.query_params[key] = value
        return app.switch_page(page).run()

    return open_one


@dataclass(frozen=True)
class Server:
    """A dashboard of its own: its address, its home and what it printed."""

    url: str
    home: Path
    log: Path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_healthy(url: str, process: subprocess.Popen, log: Path, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(f"the dashboard did not start:\n{log.read_text()}")


@pytest.fixture
def start_server(tmp_path):
    """Start as many dashboards as a test wants, each with a home of its own unless told otherwise."""
    running: list[subprocess.Popen] = []

    def start(home: Path | None = None, **environment: str) -> Server:
        home = home or tmp_path / f"home{len(running)}"
        port, log = free_port(), tmp_path / f"server{len(running)}.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "spu_core",
                    "app",
                    "--no-browser",
                    "--port",
                    str(port),
                    "--workspace",
                    str(home),
                ],
                cwd=ROOT,
                env={**os.environ, **environment},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        running.append(process)
        url = f"http://127.0.0.1:{port}"
        wait_until_healthy(url, process, log)
        return Server(url, home, log)

    yield start
    for process in running:
        os.killpg(process.pid, 15)
        process.wait(timeout=20)


@pytest.fixture(scope="session")
def browser():
    """A real Chromium; without one the test is skipped with a sentence, or fails where SPU_REQUIRE_BROWSER=1."""
    path = os.environ.get("SPU_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        words = "No Chromium was found: install it (Debian: apt install chromium) or set SPU_BROWSER to its path."
        if os.environ.get("SPU_REQUIRE_BROWSER") == "1":
            pytest.fail(words)
        pytest.skip(words)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield chromium
        chromium.close()


class Tab:
    """One browser tab with the waits that Streamlit needs; every step checks that nothing broke."""

    def __init__(self, page, server: Server) -> None:
        self.page = page
        self.server = server
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def open(self, path: str = "") -> Tab:
        self.page.goto(f"{self.server.url}/{path}")
        return self.settle()

    def settle(self) -> Tab:
        """Wait until the script has run, and check that neither page nor script failed."""
        self.page.wait_for_timeout(155)
        self.page.wait_for_selector("[data-testid=stApp][data-test-connection-state=CONNECTED]", timeout=30_000)
        self.page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]", timeout=120_000)
        assert self.page.locator("[data-testid=stException]").count() == 0, self.text
        assert not self.errors, self.errors
        return self

    @property
    def text(self) -> str:
        return str(self.page.inner_text("[data-testid=stApp]"))


@pytest.fixture
def open_tab(browser) -> Iterator:
    """Open a tab in a new session: `open_tab(server, width=390, dark=True)`."""
    contexts = []

    def open_one(server: Server, *, width: int = 1280, height: int = 900, dark: bool = False) -> Tab:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        return Tab(context.new_page(), server)

    yield open_one
    for context in contexts:
        context.close()
