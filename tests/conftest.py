"""What all tests share: sizes of simulations, and a folder for the workspace that is never the user's own."""

from __future__ import annotations

import os

import pytest

from tests.live import NO_BROWSER, find_browser, running_browser

# Idle threads that spin fight with the tests for two cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


@pytest.fixture(autouse=True)
def private_home(tmp_path, monkeypatch):
    """Nothing in the tests may touch the workspace of whoever runs them."""
    monkeypatch.setenv("SPU_HOME", str(tmp_path / "spu_home"))


@pytest.fixture(scope="session")
def replicates():
    """The number of simulated data sets: the first in a quick run, the second with SPU_SLOW=1."""
    return lambda quick, full: full if os.environ.get("SPU_SLOW") == "1" else quick


@pytest.fixture(scope="session")
def browser():
    """A real Chromium; without one the test is skipped with a sentence, or fails where SPU_REQUIRE_BROWSER=1."""
    path = find_browser()
    if path is None and os.environ.get("SPU_REQUIRE_BROWSER") == "1":
        pytest.fail(NO_BROWSER)
    if path is None:
        pytest.skip(NO_BROWSER)
    with running_browser(path) as chromium:
        yield chromium
