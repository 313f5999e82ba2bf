# Public names: `__init__.py` loads each when it is first used, and type checkers read this file.
from .adapters import Adapter as Adapter
from .adapters import bench_adapters as bench_adapters
from .adapters import numbers as numbers
from .advice import MethodAdvice as MethodAdvice
from .advice import advise_method as advise_method
from .cells import Cell as Cell
from .cells import TableSpec as TableSpec
from .cells import load_specs as load_specs
from .runner import BenchPlan as BenchPlan
from .runner import read_results as read_results
from .runner import run_bench as run_bench
