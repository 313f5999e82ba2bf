"""A dashboard that really runs, and a browser that really looks at it: for tests and for screenshots."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

ROOT = Path(__file__).resolve().parents[1]
CHROME_ON_MACOS = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", CHROME_ON_MACOS)
APP = "-m spu_core app --no-browser --workspace {home} --port"
NO_BROWSER = "No Chromium was found: install it (Debian: apt install chromium) or set SPU_BROWSER to its path."
# Milliseconds. They only end a wait for what never comes; on a busy machine a worker gives way to everything else.
PAGE_PATIENCE, WORKER_PATIENCE = 300_000, 900_000
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
        process.wait(timeout=120)


def free_address() -> tuple[str, int]:
    """A loopback address with a port that nobody uses, and that the system gives to nobody until a server takes it."""
    while True:
        port = 10_000 + secrets.randbelow(20_000)  # systems hand out ports from 32768 on
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return f"http://127.0.0.1:{port}", port


class Runs:
    """What the messages on the wire say about the script: whether the browser still waits for a run to end."""

    def __init__(self, page) -> None:
        self.is_awaited = False
        self.seconds = 0.0  # how long the browser has waited in all
        self._is_asked = False
        self._begun = 0.0
        page.on("websocket", self._listen)

    def expect(self) -> None:
        """Something was asked for, or a document is about to load: nothing is settled before a run has ended."""
        if not self.is_awaited:
            self.is_awaited, self._begun = True, time.perf_counter()

    def _listen(self, socket) -> None:
        socket.on("framesent", self._sent)
        socket.on("framereceived", self._received)

    def _sent(self, frame: bytes | str) -> None:
        message = BackMsg.FromString(frame) if isinstance(frame, bytes) else BackMsg()
        if message.HasField("rerun_script") and not message.rerun_script.is_auto_rerun:
            self._is_asked = True
            self.expect()

    def _received(self, frame: bytes | str) -> None:
        message = ForwardMsg.FromString(frame) if isinstance(frame, bytes) else ForwardMsg()
        kind = message.WhichOneof("type")
        if kind == "new_session":
            self._is_asked = False
        elif kind == "script_finished" and not self._is_asked and self.is_awaited:
            self.is_awaited = message.script_finished == ForwardMsg.FINISHED_EARLY_FOR_RERUN
            self.seconds += 0.0 if self.is_awaited else time.perf_counter() - self._begun


# The browser waits as long as it holds back what widgets say; its own clock keeps the order on a busy machine.
HELD_BACK = "() => new Promise(done => setTimeout(() => requestAnimationFrame(() => setTimeout(done)), 155))"


class Tab:
    """One browser tab with the waits that Streamlit needs; every step checks that nothing broke."""

    def __init__(self, page, server: Server) -> None:
        self.page = page
        self.server = server
        self.errors: list[str] = []
        self.runs = Runs(page)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def open(self, path: str = "") -> Tab:
        self.runs.expect()
        self.page.goto(f"{self.server.url}/{path}")
        return self.settle()

    def reload(self) -> Tab:
        self.runs.expect()
        self.page.reload()
        return self.settle()

    def settle(self, seconds: float = 300.0) -> Tab:
        """Wait until all that was asked for has run and is drawn, and check that neither page nor script failed."""
        self.page.evaluate(HELD_BACK)
        self.page.wait_for_selector("[data-testid=stApp][data-test-connection-state=CONNECTED]", timeout=1000 * seconds)
        deadline = time.monotonic() + seconds
        while self.runs.is_awaited:
            assert time.monotonic() < deadline, f"the script did not end within {seconds:.0f} s:\n{self.text}"
            self.page.wait_for_timeout(20)  # messages arrive meanwhile
        self.page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]", timeout=1000 * seconds)
        self.page.wait_for_selector("[data-testid=stSkeleton]", state="detached", timeout=1000 * seconds)
        assert self.page.locator("[data-testid=stException]").count() == 0, self.text
        assert not self.errors, self.errors
        return self

    def tab_to(self, what: str) -> Tab:
        """Press Tab until the keyboard has reached it: through the page as often as a rerun takes the focus away."""
        self.page.locator(what).first.wait_for()
        stops = self.page.locator("a, button, input, textarea, select, [tabindex]").count()
        for _ in range(3 * stops):
            self.page.keyboard.press("Tab")
            if self.page.evaluate("what => document.activeElement.matches(what)", what):
                return self
        raise AssertionError(f"the keyboard does not reach {what}")

    @property
    def text(self) -> str:
        return str(self.page.inner_text("[data-testid=stApp]"))


def open_tab_in(browser, server: Server, *, width: int = 1280, height: int = 900, dark: bool = False) -> Tab:
    """A tab in a session of its own."""
    scheme = "dark" if dark else "light"
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    context.set_default_timeout(PAGE_PATIENCE)
    return Tab(context.new_page(), server)


def _wait_until_healthy(url: str, process: subprocess.Popen, log: Path, seconds: float = 300.0) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(f"the dashboard did not start:\n{log.read_text()}")
