"""A foreign model is tried, and may score, in a child process with limits: what kills the child does not kill us.

The child contains crashes and endless loops. It is no sandbox: only checked data formats get this far.
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
from typing import TYPE_CHECKING, Any

from spu_core.errors import BundleError, SpuError, words_of_system

if TYPE_CHECKING:
    from spu_core.export.bundle import Bundle
    from spu_core.export.score_report import ScoreReport, Scoring

MEMORY = 8 * 1024**3
SECONDS = 60
SCORING_SECONDS = 600
# How long to wait, in seconds, until one of the children that this process may have at a time has ended.
PATIENCE = 10
_turns = threading.BoundedSemaphore(2)
_MARK = b"\x00spu-trial\x00"


def try_in_child(data: bytes, *, seconds: int = SECONDS, memory: int = MEMORY) -> None:
    """Load the bundle and score its test rows in a child process; raise what went wrong there."""
    _in_child(data, [], seconds, memory)


def score_in_child(
    data: bytes, source: Path, target: Path, scoring: Scoring, *, seconds: int = SCORING_SECONDS, memory: int = MEMORY
) -> ScoreReport:
    """Score a file with a foreign bundle without letting its model into this process.

    Tried rows are no proof for others: a model may have been made to crash on values that the trial does not hold.
    """
    from spu_core.export.score_report import ScoreReport

    asked = {"source": str(source), "target": str(target), "scoring": asdict(scoring)}
    return ScoreReport.from_dict(_in_child(data, [json.dumps(asked)], seconds, memory)["report"])


def _in_child(data: bytes, asked: list[str], seconds: int, memory: int) -> dict[str, Any]:
    """What the child reports of a bundle that it could load, and use as it was asked to."""
    command = [sys.executable, "-m", "spu_core.export.trial", str(seconds), str(memory), *asked]
    try:
        with _turn():
            done = subprocess.run(
                command, input=data, capture_output=True, timeout=2 * seconds, env=_environment(), check=False
            )
    except subprocess.TimeoutExpired:
        raise _refused(f"did not finish within {2 * seconds} seconds") from None
    _, mark, text = done.stdout.rpartition(_MARK)
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


def main() -> None:
    """The child: limits first, then the bundle from standard input, then one line of report."""
    seconds, memory, *asked = sys.argv[1:]
    _set_limits(int(seconds), int(memory))
    _report(_answer(sys.stdin.buffer.read(), asked))


def _answer(data: bytes, asked: list[str]) -> dict[str, Any]:
    """The report of a scoring, nothing where none was asked for, or the sentence that says why it cannot be."""
    try:
        bundle = _load(data)
        return {"report": _score(bundle, **json.loads(asked[0]))} if asked else {}
    except SpuError as problem:
        return {"problem": str(problem)}
    except MemoryError:
        return {"problem": "The bundle's model needs more memory than a bundle may use."}
    except Exception as problem:
        # A library has its own kinds of error; each of them means that the model cannot be used. Their texts may
        # quote paths of this machine, so only their names are told.
        return {"problem": f"The bundle's model cannot be used by its library ({type(problem).__name__})."}


def _load(data: bytes) -> Bundle:
    from spu_core.export.archive import BundleLimits
    from spu_core.export.model_checks import check_loaded
    from spu_core.export.storage import bundle_of, open_members

    bundle = bundle_of(*open_members(data, BundleLimits()))
    check_loaded(bundle.fitted.model)
    return bundle


def _score(bundle: Bundle, source: str, target: str, scoring: dict[str, Any]) -> dict[str, Any]:
    from spu_core.export.score_report import Scoring

    try:
        return bundle.score_file(source, target, Scoring(**scoring)).to_dict()
    except OSError as problem:
        where = "The rows or their scores could not be read or written here"
        raise BundleError(f"{where}: {words_of_system(problem)}.") from None


def _report(found: dict[str, Any]) -> None:
    with os.fdopen(1, "wb", closefd=False) as stream:
        stream.write(_MARK + json.dumps(found).encode())
    # Native libraries may still crash while Python shuts down; the answer is already given.
    os._exit(0)


def _set_limits(seconds: int, memory: int) -> None:
    import resource

    for limit, value in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(limit)
        allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (allowed, hard))


def _environment() -> dict[str, str]:
    """The child finds the same packages; idle threads would only eat address space."""
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


if __name__ == "__main__":
    main()
