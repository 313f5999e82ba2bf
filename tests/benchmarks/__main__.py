"""Print every benchmark, or those named: `python -m tests.benchmarks [metrics rules …]`.

Parts of a long one are named behind a colon: `python -m tests.benchmarks dashboard:gestures,start`.
"""

from __future__ import annotations

import os

# Idle BLAS threads spin and charge their CPU time to whatever is measured next.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import importlib
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.benchmarks.harness import print_table


def main(topics: list[str]) -> None:
    here = Path(__file__).parent
    known = sorted(path.stem.removeprefix("bench_") for path in here.glob("bench_*.py"))
    refuse_unknown("benchmark", {topic.partition(":")[0] for topic in topics}, known)
    for topic in topics or known:
        name, _, parts = topic.partition(":")
        module = importlib.import_module(f"tests.benchmarks.bench_{name}")
        chosen = [part for part in parts.split(",") if part]
        refuse_unknown(f"part of {name}", set(chosen), getattr(module, "PARTS", ()))
        print(f"\n{topic}", flush=True)
        print_table(module.rows(*chosen))


def refuse_unknown(what: str, wanted: set[str], known: Iterable[str]) -> None:
    if unknown := sorted(wanted - set(known)):
        sys.exit(f"No {what} named {', '.join(unknown)}. Known: {', '.join(known)}.")


if __name__ == "__main__":
    main(sys.argv[1:])
