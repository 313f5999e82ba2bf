"""What fits and which way is taken is said before a training starts."""

from spu_core.training import Candidate, TrainConfig
from spu_core.training.way import training_way

CHOICE = ([Candidate("lightgbm")], TrainConfig())


def test_a_table_that_fits_trains_in_memory():
    way = training_way(100_000, 30, *CHOICE, free_bytes=16e9)

    assert way.fits
    assert way.words.startswith("100,000 rows × 30 columns are trained in memory: about ")
    assert way.words.endswith("; 16.0 GB are free.")


def test_a_table_that_does_not_fit_is_advised_to_become_a_folder():
    way = training_way(20_000_000, 30, *CHOICE, free_bytes=8e9)

    assert not way.fits
    assert "but only 8.0 GB are free. Convert the file to a folder (`spu convert`)" in way.words


def test_a_folder_is_read_in_parts_whatever_is_free():
    way = training_way(20_000_000, 30, *CHOICE, from_files=True, free_bytes=8e9)

    assert way.fits
    assert "stay in files and are read in parts: about 6.2 GB of memory instead of" in way.words


def test_what_fits_neither_way_points_to_a_cluster():
    for from_files in (True, False):
        way = training_way(1_000_000_000, 30, *CHOICE, from_files=from_files, free_bytes=8e9)

        assert not way.fits
        assert way.words.endswith("use fewer rows or columns, or a cluster (`--engine dask`).")


def test_the_way_of_this_machine_is_known():
    assert training_way(1_000, 10, *CHOICE).free_bytes > 0


def test_methods_that_read_all_rows_at_once_are_counted_as_such():
    streamed = training_way(20_000_000, 30, *CHOICE, from_files=True, free_bytes=8e9)
    at_once = training_way(20_000_000, 30, [Candidate("logistic")], TrainConfig(), from_files=True, free_bytes=8e9)

    assert streamed.from_files_bytes + 20_000_000 * 30 * 4 < at_once.from_files_bytes < at_once.in_memory_bytes


def test_the_steps_of_fused_and_of_refined_soft_labels_are_counted_whoever_asks_for_them():
    plain, refined, fused = (
        training_way(10_000_000, 10, [Candidate(method)], TrainConfig(), from_files=True, refine=refine, free_bytes=8e9)
        for method, refine in (("lightgbm", False), ("lightgbm", True), ("fused", False))
    )

    assert plain.from_files_bytes + 1e9 < refined.from_files_bytes == fused.from_files_bytes


def test_the_memory_of_a_training_from_files_adds_up():
    """Python and the parts being read, 230 bytes a row, 2 a cell (8 where a learner reads all rows), 130 for fused."""
    size = (3_000_000, 16)
    needed = {
        key: training_way(*size, [Candidate(key)], TrainConfig(), free_bytes=8e9).from_files_bytes
        for key in ("lightgbm", "logistic", "fused")
    }

    assert needed["lightgbm"] == 380e6 + 3e6 * (230 + 2 * 16)
    assert needed["logistic"] == 380e6 + 3e6 * (230 + 8 * 16)
    assert needed["fused"] == 380e6 + 3e6 * (230 + 2 * 16 + 130)
    assert training_way(*size, *CHOICE, refine=True, free_bytes=8e9).from_files_bytes == needed["fused"]
