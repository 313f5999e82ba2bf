"""A benchmark of methods: tables with a known class × ways of labelling × rule sets × methods.

Order of imports: `cells` → `adapters` → `runner` → `report` → `page`; `advice` uses the report of the cells that are
like a table at hand. The truth labels rows and scores test rows; no method but the oracle is given it.
"""

from spu_core.bench.adapters import Adapter, bench_adapters, numbers
from spu_core.bench.advice import MethodAdvice, advise_method
from spu_core.bench.cells import Cell, TableSpec, load_specs
from spu_core.bench.runner import BenchPlan, read_results, run_bench

__all__ = [
    "Adapter",
    "BenchPlan",
    "Cell",
    "MethodAdvice",
    "TableSpec",
    "advise_method",
    "bench_adapters",
    "load_specs",
    "numbers",
    "read_results",
    "run_bench",
]
