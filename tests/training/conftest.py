"""What the tests of training share."""

from __future__ import annotations

import pytest

from spu_core.training import TrainConfig
from tests.training.worlds import make_world


@pytest.fixture(scope="session")
def world():
    return make_world()


@pytest.fixture
def quick():
    """Three folds on one thread: a busy machine must not slow the tests down."""
    return TrainConfig(folds=3, threads=1)
