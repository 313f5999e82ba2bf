"""A dashboard that really runs, and a browser that really looks at it: for tests and for screenshots."""

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
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHROME_ON_MACOS = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", CHROME_ON_MACOS)
APP = "-m spu_core app --no-browser --workspace {home} --port"
NO_BROWSER = "No Chromium was found: install it (Debian: apt install chromium) or set SPU_BROWSER to its path."
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def find_browser() -> str | None:
    """The path of a Chromium on this machine."""
    return os.environ.get("SPU_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)


@contextmanager
def running_browser(path: str) -> Iterator:
    """A real Chromium, driven by Playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield chromium
        chromium.close()


@dataclass(frozen=True)
class Server:
    """A dashboard of its own: its address, its home and what it printed."""

    url: str
    home: Path
    log: Path


@contextmanager
def running_server(
    home: Path, log: Path, address: tuple[str, int] | None = None, command: str = APP, **environment: str
) -> Iterator[Server]:
    """A dashboard in a process group of its own, on a free port or that of the address; `command` ends in the port."""
    url, port = address or free_address()
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, *(part.format(home=home) for part in command.split()), str(port)],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_until_healthy(url, process, log)
        yield Server(url, home, log)
    finally:
        os.killpg(process.pid, 15)
        process.wait(timeout=20)


def free_address() -> tuple[str, int]:
    """A loopback address with a port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    return f"http://127.0.0.1:{port}", port


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
        self.page.wait_for_selector("[data-testid=stApp][data-test-connection-state=CONNECTED]", timeout=120_000)
        self.page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]", timeout=120_000)
        assert self.page.locator("[data-testid=stException]").count() == 0, self.text
        assert not self.errors, self.errors
        return self

    @property
    def text(self) -> str:
        return str(self.page.inner_text("[data-testid=stApp]"))


def open_tab_in(browser, server: Server, *, width: int = 1280, height: int = 900, dark: bool = False) -> Tab:
    """A tab in a session of its own."""
    scheme = "dark" if dark else "light"
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    context.set_default_timeout(90_000)  # a busy machine is slow, not broken
    return Tab(context.new_page(), server)


def _wait_until_healthy(url: str, process: subprocess.Popen, log: Path, seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(f"the dashboard did not start:\n{log.read_text()}")
