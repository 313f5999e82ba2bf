"""Views of an encoded matrix: what is asked for is what is copied."""

import tracemalloc

import numpy as np

from spu_core.models import Features


def test_a_few_rows_without_some_columns_do_not_copy_all_rows():
    matrix = np.arange(400_000.0, dtype=np.float32).reshape(20_000, 20)
    view = Features.of(matrix).without(["x0"]).take([0, 19_999])

    tracemalloc.start()
    found = view.matrix
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert found.tolist() == matrix[[0, 19_999], 1:].tolist()
    assert peak < matrix.nbytes / 10
