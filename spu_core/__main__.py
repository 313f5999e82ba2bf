"""The `spu` command, also as `python -m spu_core`.

Ctrl-C ends it with one line and exit code 130 at any moment, also before Typer and the engine are imported.
"""

from __future__ import annotations

import os
import signal
from importlib import import_module
from typing import Any, NoReturn


def stop_at_once(*_: Any) -> NoReturn:
    """End on Ctrl-C where nothing has to be cleaned up: before a command begins, and after it has ended."""
    os.write(2, b"Stopped.\n")
    os._exit(130)


def main() -> None:
    """Run the command of the command line."""
    signal.signal(signal.SIGINT, stop_at_once)
    try:
        import_module("spu_core.cli").main()  # not at the top of the file: the signal must be handled before
    finally:
        signal.signal(signal.SIGINT, stop_at_once)


if __name__ == "__main__":
    main()
