"""Time and memory of a training are estimated before it starts, in one process and on a cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from spu_core.engines import Job, run_in_process
from spu_core.engines.executors import Engine
from spu_core.engines.training_cost import (
    ClusterMemoryPlan,
    MemoryPlan,
    estimate_training,
    past_ratios,
    plan_memory,
    plan_memory_on,
)
from spu_core.tables.samples import load_sample, load_sample_rules
from spu_core.training import Candidate, TrainConfig, TrainPlan, Tuning
from spu_core.workspace import Workspace

CHOICE = ([Candidate("lightgbm")], TrainConfig())
THERE = Engine("dask", "tcp://10.0.0.7:8786")


def test_estimates_grow_with_rows_folds_trials_and_candidates():
    def seconds(rows=10_000, folds=5, *candidates):
        chosen = candidates or (Candidate("lightgbm"),)
        return estimate_training(rows, 20, chosen, TrainConfig(folds=folds)).seconds

    assert seconds() < seconds(100_000) < seconds(100_000, 10)
    assert seconds() < seconds(10_000, 5, Candidate("lightgbm", tuning=Tuning()))
    assert seconds() < seconds(10_000, 5, Candidate("lightgbm"), Candidate("fused"))
    everything = [
        Candidate(key) for key in ("fused", "sar_em", "bagging_pu", "nnpu", "rule_score", "nearest_neighbors")
    ]
    found = estimate_training(1_000_000, 30, everything, TrainConfig(out_of_time=0.2))
    assert set(found.by_candidate) == {candidate.name for candidate in everything}
    assert "hours" in found.text or "minutes" in found.text
    assert found.memory > 1e9


def test_a_table_that_fits_trains_in_memory():
    plan = plan_memory(100_000, 30, *CHOICE, free_bytes=16e9)

    assert plan.fits
    assert plan.text.startswith("100,000 rows × 30 columns are trained in memory: about ")
    assert plan.text.endswith("; 16.0 GB are free.")


def test_a_table_that_does_not_fit_is_advised_to_become_a_folder():
    plan = plan_memory(20_000_000, 30, *CHOICE, free_bytes=8e9)

    assert not plan.fits
    assert "but only 8.0 GB are free. Convert the file to a folder (`spu convert`)" in plan.text


def test_a_folder_is_read_in_parts_however_much_memory_is_free():
    plan = plan_memory(20_000_000, 30, *CHOICE, from_files=True, free_bytes=8e9)

    assert plan.fits
    assert "stay in files and are read in parts: about 6.2 GB of memory instead of" in plan.text


def test_what_does_not_fit_even_from_files_points_to_a_cluster():
    for from_files in (True, False):
        plan = plan_memory(1_000_000_000, 30, *CHOICE, from_files=from_files, free_bytes=8e9)

        assert not plan.fits
        assert plan.text.endswith("use fewer rows or columns, or a cluster (`--engine dask`).")


def test_the_free_memory_of_this_machine_is_known():
    assert plan_memory(1_000, 10, *CHOICE).free_bytes > 0


def test_methods_that_read_all_rows_at_once_are_counted_as_such():
    streamed = plan_memory(20_000_000, 30, *CHOICE, from_files=True, free_bytes=8e9)
    at_once = plan_memory(20_000_000, 30, [Candidate("logistic")], TrainConfig(), from_files=True, free_bytes=8e9)

    assert streamed.from_files_bytes + 20_000_000 * 30 * 4 < at_once.from_files_bytes < at_once.in_memory_bytes


def test_the_steps_of_fused_and_of_refined_soft_labels_are_counted_whoever_asks_for_them():
    plain, refined, fused = (
        plan_memory(10_000_000, 10, [Candidate(method)], TrainConfig(), from_files=True, refine=refine, free_bytes=8e9)
        for method, refine in (("lightgbm", False), ("lightgbm", True), ("fused", False))
    )

    assert plain.from_files_bytes + 1e9 < refined.from_files_bytes == fused.from_files_bytes


def test_in_this_process_the_plan_stays_as_it_is():
    assert isinstance(plan_memory_on(Engine("here"), plan_memory(1_000, 10, *CHOICE)), MemoryPlan)


def test_a_folder_is_spread_so_its_workers_hold_its_cells_and_the_caller_the_soft_labels():
    narrow, wide = (
        plan_memory_on(THERE, plan_memory(10**8, columns, *CHOICE, from_files=True)) for columns in (10, 30)
    )

    assert wide.workers_bytes - narrow.workers_bytes >= 20 * 10**8 * 4  # encoded cells have four bytes
    assert wide.caller_bytes == narrow.caller_bytes > 10**8 * 100
    assert "are spread over the workers" in wide.text
    assert "free" not in wide.text  # what other computers have is not known here
    assert wide.fits


def test_a_table_travels_to_every_worker_so_the_workers_of_this_computer_need_it_several_times():
    assert ClusterMemoryPlan(10**6, 30, False, 3e9, 3e9, free_bytes=12e9).fits
    crowded = ClusterMemoryPlan(10**6, 30, False, 3e9, 3e9, free_bytes=10e9)

    assert not crowded.fits
    assert crowded.text.endswith("Only 10.0 GB are free: use fewer rows or columns, or train in one process.")
    assert "travel to every worker: about 3.0 GB on each, and 3.0 GB here" in crowded.text


def test_workers_of_this_computer_share_what_is_free_here():
    assert plan_memory_on(Engine("dask"), plan_memory(1_000, 10, *CHOICE, from_files=True)).text.endswith("are free.")


def test_the_memory_of_a_training_from_files_adds_up():
    """Python and the parts being read, 230 bytes a row, 2 a cell (8 where a learner reads all rows), 130 for fused."""
    size = (3_000_000, 16)
    needed = {
        key: plan_memory(*size, [Candidate(key)], TrainConfig(), free_bytes=8e9).from_files_bytes
        for key in ("lightgbm", "logistic", "fused")
    }

    assert needed["lightgbm"] == 380e6 + 3e6 * (230 + 2 * 16)
    assert needed["logistic"] == 380e6 + 3e6 * (230 + 8 * 16)
    assert needed["fused"] == 380e6 + 3e6 * (230 + 2 * 16 + 130)
    assert plan_memory(*size, *CHOICE, refine=True, free_bytes=8e9).from_files_bytes == needed["fused"]


def test_real_times_of_earlier_trainings_correct_the_estimate(tmp_path):
    """The review's case: one minute was estimated, six were needed, and the next estimate said one minute again."""
    hours = iter(range(1_000))
    clock = lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=60 * next(hours))  # noqa: E731
    with Workspace.open(tmp_path, clock=clock) as workspace:
        dataset = workspace.datasets.save(load_sample("breast_cancer"))
        plan = TrainPlan(TrainConfig(folds=2, threads=1), (Candidate("rule_score"),))
        rules = workspace.rule_sets.create("rules", load_sample_rules("breast_cancer"))
        named = {"dataset": dataset.id, "rule_set": rules.id, "rule_set_version": 1}
        job = Job(kind="train", parameters={**named, "plan": plan.to_json(), "refine": False})
        for _ in range(3):
            assert run_in_process(workspace, job).status == "finished"
        ratios = past_ratios(workspace, workspace.jobs.list(), "here")
        assert past_ratios(workspace, workspace.jobs.list(), "dask") == ()

    assert len(ratios) == 3
    assert min(ratios) > 10
    before = estimate_training(569, 31, plan.candidates, plan.config)
    after = before.corrected(ratios)
    assert before.seconds * before.spread < after.seconds
    assert after.seconds / after.spread < before.seconds * ratios[0] < after.seconds * after.spread
    assert before.corrected([1.0] * 8).spread < before.spread
    assert before.corrected([]) == before
