"""The server of the dashboard: `app.py` and its pages, with response headers that block other sites and origins.

Text that a user typed cannot forge a line of the log. All modules of the pages are imported before the first visit.
`pages/ui/launch.py` starts the server. It does not start where others could open the dashboard without a login.
"""

import gc
import logging
import pkgutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import streamlit as st
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pages import ui
from pages.ui.shared.login import ClosedError, server_has_login
from pages.ui.shared.shell import report_failure
from spu_core.errors import traceback_for_log

# Streamlit styles its elements inline, and charts compile their code; nothing may come from or go to another origin.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; frame-ancestors 'none'; "
    "object-src 'none'; base-uri 'self'; form-action 'self'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
# Streamlit's metrics show the names of cached functions, and the dashboard does not use them.
CLOSED = "/_stcore/metrics"


class Guarded:
    """Middleware that adds the headers to every response and closes the address of Streamlit's metrics."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name for name, _ in message["headers"]}
                added = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *(pair for pair in added if pair[0] not in known)]
            await send(message)

        if scope["type"] == "http" and scope["path"].endswith(CLOSED):
            await PlainTextResponse("Not found", 404)(scope, receive, send_guarded)
        else:
            await self.app(scope, receive, send_guarded)


def record_for_log(*values: Any, **options: Any) -> logging.LogRecord:
    """A log record with its text made safe, because a traceback may quote what a user typed."""
    record = logging.LogRecord(*values, **options)
    if record.exc_info and record.exc_info[1] is not None:
        record.exc_text = traceback_for_log(record.exc_info[1])
    return record


class FrozenModules:
    """Exempts loaded modules from garbage collection; a callback of the collector.

    Streamlit runs a full collection after every script run. Most of its time goes to objects of modules, which stay.
    """

    def __init__(self) -> None:
        self.modules = 0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        """After a full collection: freeze what is left, if modules were loaded since the last time."""
        if phase == "stop" and info["generation"] == 2 and len(sys.modules) > self.modules:
            self.modules = len(sys.modules)
            gc.freeze()


@asynccontextmanager
async def prepared(app: st.App) -> AsyncIterator[None]:
    """Before the first visit: import what all pages need, so that no visitor waits for it, and freeze it."""
    for package in pkgutil.iter_modules(ui.__path__, f"{ui.__name__}."):
        if package.ispkg:
            for module in pkgutil.iter_modules(import_module(package.name).__path__, f"{package.name}."):
                import_module(module.name)
    gc.callbacks.append(FrozenModules())
    gc.collect()
    yield


logging.setLogRecordFactory(record_for_log)
try:
    server_has_login()
except ClosedError as problem:
    sys.exit(str(problem))

app = st.App(
    Path(__file__).parents[2] / "app.py",
    lifespan=prepared,
    middleware=[Middleware(Guarded)],
    on_script_error=report_failure,
)
