"""A foreign model is first loaded in a child process with limits: what kills the child does not kill us.

The trial contains crashes and endless loops. It is no sandbox: only checked data formats get this far.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from spu_core.errors import BundleError

MEMORY = 8 * 1024**3
SECONDS = 60
_MARK = b"\x00spu-trial\x00"


def try_in_child(data: bytes, *, seconds: int = SECONDS, memory: int = MEMORY) -> None:
    """Load the bundle and score its test rows in a child process; raise what went wrong there."""
    command = [sys.executable, "-m", "spu_core.export.trial", str(seconds), str(memory)]
    try:
        done = subprocess.run(
            command, input=data, capture_output=True, timeout=2 * seconds, env=_environment(), check=False
        )
    except subprocess.TimeoutExpired:
        raise _refused(f"did not finish loading within {2 * seconds} seconds") from None
    _, mark, report = done.stdout.rpartition(_MARK)
    problem = _problem(report) if mark else None
    if done.returncode == 0 and mark and problem is None:
        return
    if problem is not None:
        raise BundleError(problem)
    raise _refused(_ending(done.returncode))


def main() -> None:
    """The child: limits first, then the bundle from standard input, then one line of report."""
    seconds, memory = int(sys.argv[1]), int(sys.argv[2])
    _set_limits(seconds, memory)
    data = sys.stdin.buffer.read()
    _report(_load(data))


def _load(data: bytes) -> str | None:
    """None, or the sentence that says why the bundle cannot be used."""
    from spu_core.errors import SpuError
    from spu_core.export.archive import BundleLimits
    from spu_core.export.model_checks import check_loaded
    from spu_core.export.storage import bundle_of, open_members

    try:
        check_loaded(bundle_of(*open_members(data, BundleLimits())).fitted.model)
    except SpuError as problem:
        return str(problem)
    except MemoryError:
        return "The bundle's model needs more memory than a bundle may use."
    except Exception as problem:
        # A library has its own kinds of error; each of them means that the model cannot be used. Their texts may
        # quote paths of this machine, so only their names are told.
        return f"The bundle's model cannot be loaded by its library ({type(problem).__name__})."
    return None


def _report(problem: str | None) -> None:
    sys.stdout.flush()
    os.write(1, _MARK + json.dumps({"problem": problem}).encode())
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


def _problem(report: bytes) -> str | None:
    found = json.loads(report)["problem"]
    return None if found is None else str(found)


def _ending(code: int) -> str:
    if code < 0:
        return f"crashed its library (signal {-code})"
    return f"ended its trial with code {code}"


def _refused(what: str) -> BundleError:
    return BundleError(f"The bundle's model {what} in a trial process, so it was refused; ask for another export.")


if __name__ == "__main__":
    main()
