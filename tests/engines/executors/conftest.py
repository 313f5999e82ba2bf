"""One cluster of two worker processes for all tests of this folder; a test that takes workers away leaves new ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("distributed")

from spu_core.engines.executors import Cluster, Deadline, open_cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    # A test that waits for ever should say so, not the whole run.
    with open_cluster(workers=2, deadline=Deadline(seconds=300)) as opened:
        yield opened
