"""The child process in which a bundle from elsewhere is loaded: `bundle_storage` starts it.

It sets its own limits, reads the bundle from standard input and answers with one line of JSON.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from typing import Any

from spu_core.errors import BundleError, SpuError, os_error_reason
from spu_core.export.archive import BundleLimits
from spu_core.export.bundle import Bundle
from spu_core.export.bundle_storage import MARK, bundle_of, open_members
from spu_core.export.score_report import Scoring


def main() -> None:
    """Set the limits, load the bundle, score where asked to, and report."""
    seconds, memory, *asked = sys.argv[1:]
    _set_limits(int(seconds), int(memory))
    _report(_answer(sys.stdin.buffer.read(), asked))


def _answer(data: bytes, asked: list[str]) -> dict[str, Any]:
    """The report of the scoring, if one was asked for; or the problem as a sentence."""
    try:
        bundle = _load(data)
        return {"report": _score(bundle, **json.loads(asked[0]))} if asked else {}
    except SpuError as problem:
        return {"problem": str(problem)}
    except MemoryError:
        return {"problem": "The bundle's model needs more memory than a bundle may use."}
    except Exception as problem:
        # Any error of a library means that the model cannot be used. Its text may contain paths of this computer, so
        # only its name is reported.
        return {"problem": f"The bundle's model cannot be used by its library ({type(problem).__name__})."}


def _load(data: bytes) -> Bundle:
    return bundle_of(*open_members(data, BundleLimits()), is_foreign=True)


def _score(bundle: Bundle, source: str, target: str, scoring: dict[str, Any]) -> dict[str, Any]:
    try:
        return bundle.score_file(source, target, Scoring(**scoring)).to_dict()
    except OSError as problem:
        where = "The rows or their scores could not be read or written here"
        raise BundleError(f"{where}: {os_error_reason(problem)}.") from None


def _report(found: dict[str, Any]) -> None:
    with os.fdopen(1, "wb", closefd=False) as stream:
        stream.write(MARK + json.dumps(found).encode())
    # Exit at once: a native library could still crash while Python shuts down.
    os._exit(0)


def _set_limits(seconds: int, memory: int) -> None:
    for limit, value in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_CORE, 0)):
        _, hard = resource.getrlimit(limit)
        allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (allowed, hard))


if __name__ == "__main__":
    main()
