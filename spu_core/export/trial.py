"""Load a bundle from elsewhere, or score with it, in a child process with limits on memory and time.

A crash or an endless loop ends the child process only. The child is not a sandbox: only files that passed all other
checks get this far.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from spu_core.errors import BundleError
from spu_core.export.score_report import ScoreReport, Scoring

MEMORY = 8 * 1024**3
SECONDS = 60
SCORING_SECONDS = 600
# This process may have two children at a time; seconds to wait for one of them to end.
PATIENCE = 10
_turns = threading.BoundedSemaphore(2)
MARK = b"\x00spu-trial\x00"


def try_in_child(data: bytes, *, seconds: int = SECONDS, memory: int = MEMORY) -> None:
    """Load the bundle and score its test rows in a child process; raise what went wrong there."""
    _in_child(data, [], seconds, memory)


def score_in_child(
    data: bytes, source: Path, target: Path, scoring: Scoring, *, seconds: int = SCORING_SECONDS, memory: int = MEMORY
) -> ScoreReport:
    """Score a file with a bundle from elsewhere without loading its model in this process.

    `try_in_child` scores only the test rows of the bundle; a model can be made to crash on other values.
    """
    asked = {"source": str(source), "target": str(target), "scoring": asdict(scoring)}
    return ScoreReport.from_dict(_in_child(data, [json.dumps(asked)], seconds, memory)["report"])


def _in_child(data: bytes, asked: list[str], seconds: int, memory: int) -> dict[str, Any]:
    """The report of the child process; an error where it could not load or use the bundle."""
    command = [sys.executable, "-m", "spu_core.export.trial_child", str(seconds), str(memory), *asked]
    try:
        with _turn():
            done = subprocess.run(
                command, input=data, capture_output=True, timeout=2 * seconds, env=_environment(), check=False
            )
    except subprocess.TimeoutExpired:
        raise _refused(f"did not finish within {2 * seconds} seconds") from None
    _, mark, text = done.stdout.rpartition(MARK)
    if done.returncode != 0 or not mark:
        raise _refused(_ending(done.returncode))
    found: dict[str, Any] = json.loads(text)
    if "problem" in found:
        raise BundleError(str(found["problem"]))
    return found


@contextmanager
def _turn() -> Iterator[None]:
    if not _turns.acquire(timeout=PATIENCE):
        raise BundleError("Two models from elsewhere are at work already; try again in a minute.")
    try:
        yield
    finally:
        _turns.release()


def _environment() -> dict[str, str]:
    """The child finds the same packages; it has few threads, since idle ones count towards its memory limit."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path) or os.curdir,
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "2",
    }


def _ending(code: int) -> str:
    if code < 0:
        return f"crashed its library (signal {-code})"
    return f"ended with code {code}"


def _refused(what: str) -> BundleError:
    return BundleError(f"The bundle's model {what} in a process apart, so it was refused; ask for another export.")
