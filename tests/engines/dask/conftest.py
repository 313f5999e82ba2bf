"""One cluster of two worker processes for all tests of this folder; a test that takes workers away leaves new ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("distributed")

from spu_core.engines.dask import Cluster, open_cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with open_cluster(workers=2) as opened:
        yield opened
