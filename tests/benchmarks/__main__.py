"""Print every benchmark, or those named: `python -m tests.benchmarks [metrics rules …]`."""

from __future__ import annotations

import os

# Idle BLAS threads spin and charge their CPU time to whatever is measured next.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import importlib
import sys
from pathlib import Path

from tests.benchmarks.harness import print_table


def main(topics: list[str]) -> None:
    here = Path(__file__).parent
    known = sorted(path.stem.removeprefix("bench_") for path in here.glob("bench_*.py"))
    unknown = sorted(set(topics) - set(known))
    if unknown:
        sys.exit(f"No benchmark named {', '.join(unknown)}. Known: {', '.join(known)}.")
    for topic in topics or known:
        print(f"\n{topic}")
        print_table(importlib.import_module(f"tests.benchmarks.bench_{topic}").rows())


if __name__ == "__main__":
    main(sys.argv[1:])
