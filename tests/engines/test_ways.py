"""What a training on a cluster takes is said before it starts, of the workers and of the caller."""

from __future__ import annotations

from spu_core.engines.executors import Engine
from spu_core.engines.training_cost import ClusterMemoryPlan, MemoryPlan, plan_memory, plan_memory_on
from spu_core.training import Candidate, TrainConfig

CHOICE = ([Candidate("lightgbm")], TrainConfig())
THERE = Engine("dask", "tcp://10.0.0.7:8786")


def test_in_this_process_it_is_the_way_of_the_training():
    assert isinstance(plan_memory_on(Engine("here"), plan_memory(1_000, 10, *CHOICE)), MemoryPlan)


def test_a_folder_is_spread_so_its_workers_hold_its_cells_and_the_caller_what_is_believed_of_rows():
    narrow, wide = (
        plan_memory_on(THERE, plan_memory(10**8, columns, *CHOICE, from_files=True)) for columns in (10, 30)
    )

    assert wide.workers_bytes - narrow.workers_bytes >= 20 * 10**8 * 4  # encoded cells have four bytes
    assert wide.caller_bytes == narrow.caller_bytes > 10**8 * 100
    assert "are spread over the workers" in wide.words
    assert "free" not in wide.words  # what other computers have is not known here
    assert wide.fits


def test_a_table_travels_to_every_worker_so_the_workers_of_this_computer_need_it_several_times():
    assert ClusterMemoryPlan(10**6, 30, False, 3e9, 3e9, free_bytes=12e9).fits
    crowded = ClusterMemoryPlan(10**6, 30, False, 3e9, 3e9, free_bytes=10e9)

    assert not crowded.fits
    assert crowded.words.endswith("Only 10.0 GB are free: use fewer rows or columns, or train in one process.")
    assert "travel to every worker: about 3.0 GB on each, and 3.0 GB here" in crowded.words


def test_workers_of_this_computer_share_what_is_free_here():
    assert plan_memory_on(Engine("dask"), plan_memory(1_000, 10, *CHOICE, from_files=True)).words.endswith("are free.")
