"""A dashboard that tells, when asked by a signal, how many bytes it holds: `python -m tests.benchmarks.watched PORT`.

The resident size of a process says little about a session: the C library keeps what Python lets go of, and returns it
while sessions come. So all of Python's objects come from the C library here (`PYTHONMALLOC=malloc`), which knows to the
byte what is in use, after a full collection. Linux with glibc only.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import time
from pathlib import Path

import psutil

COMMAND = "-m tests.benchmarks.watched"
ANSWER, BALLAST = "SPU_WATCHED_ANSWER", "SPU_WATCHED_BALLAST"


class MallInfo(ctypes.Structure):
    """glibc's `struct mallinfo2`."""

    _fields_ = [
        *((name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks")),
        *((name, ctypes.c_size_t) for name in ("uordblks", "fordblks", "keepcost")),
    ]


def held_bytes() -> int:
    """Bytes in use: those of the C library, whose large blocks are counted apart, and those of Arrow's own pool."""
    import pyarrow as pa

    gc.collect()
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = MallInfo
    found = ask()
    return int(found.uordblks + found.hblkhd + pa.total_allocated_bytes())


def environment(home: Path, answer: Path, ballast: int) -> dict[str, str]:
    """What a watched server must be started with; every session of it also carries so many bytes of ballast."""
    return {
        "SPU_HOME": str(home.absolute()),
        "PYTHONMALLOC": "malloc",
        ANSWER: str(answer.absolute()),
        BALLAST: str(ballast),
    }


def ask(process: psutil.Process, answer: Path, seconds: float = 60.0) -> int:
    """What the server that runs in this process holds now."""
    answer.unlink(missing_ok=True)
    process.send_signal(signal.SIGUSR1)
    deadline = time.monotonic() + seconds
    while not answer.exists():
        if time.monotonic() > deadline:
            raise TimeoutError("the server did not tell how much memory it holds")
        time.sleep(0.02)
    return int(answer.read_text())


def _tell(*_: object) -> None:
    answer = Path(os.environ[ANSWER])
    written = answer.with_suffix(".part")
    written.write_text(str(held_bytes()))
    written.replace(answer)


def _load_sessions(ballast: int) -> None:
    """Let every session carry as many bytes as a careless page would keep: the benchmark must notice them."""
    from streamlit.runtime.app_session import AppSession

    begin = AppSession.__init__

    def begin_loaded(self: AppSession, *arguments: object, **options: object) -> None:
        begin(self, *arguments, **options)  # type: ignore[arg-type]
        self.ballast = bytearray(ballast)  # type: ignore[attr-defined]

    AppSession.__init__ = begin_loaded  # type: ignore[method-assign,assignment]


def main(port: str) -> None:
    from streamlit.web.cli import main as streamlit

    signal.signal(signal.SIGUSR1, _tell)
    _load_sessions(int(os.environ[BALLAST]))
    streamlit(["run", "app.py", "--server.headless", "true", "--server.port", port])


if __name__ == "__main__":
    main(sys.argv[1])
