"""What all tests share: how they are spread over processes, how Hypothesis searches, and a workspace of their own."""

from __future__ import annotations

import os
import sys

import pytest
from hypothesis import HealthCheck, settings

from tests.live import NO_BROWSER, find_browser, running_browser

# Idle threads that spin fight with the tests for two cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Workers give way to the server; beside other tests they would wait for long.
os.environ.setdefault("SPU_WORKER_NICENESS", "1")

# Many tests start processes of their own; compiled modules spare each of them the compiling.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Neither a deadline nor the check for slow examples: a busy machine is slow, not broken. CI searches the same examples
# each time; whoever runs the tests by hand searches new ones.
settings.register_profile(
    "suite", deadline=None, derandomize="CI" in os.environ, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")


# A page under test replaces the main module and leaves it so; the processes that Dask starts would run it again.
_MAIN = sys.modules["__main__"]


def pytest_runtest_setup():
    sys.modules["__main__"] = _MAIN


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Tests of one file stay in one process, since they share what is costly to make; so do tests of one group."""
    from xdist.scheduler import LoadGroupScheduling

    class ByFileOrGroup(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return super()._split_scope(nodeid).split("::")[0]

    return ByFileOrGroup(config, log) if config.getvalue("dist") == "loadgroup" else None


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
