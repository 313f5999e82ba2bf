"""One cluster of two worker processes for all tests of this folder; each test leaves it usable."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

pytest.importorskip("distributed")

from spu_core.engines.dask import Cluster, open_cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with open_cluster(workers=2) as opened:
        yield opened


@pytest.fixture
def breakable(cluster) -> Iterator[Cluster]:
    """A cluster of its own for a test that takes workers away; to start them anew may take minutes."""
    if not os.environ.get("SPU_SLOW"):
        pytest.skip("takes workers away and waits for new ones; SPU_SLOW=1 runs it")
    with open_cluster(workers=2) as opened:
        yield opened
