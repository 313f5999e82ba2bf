"""What is set in this process while workers of ours run on this computer, and given back when the last of them ends.

Dask writes variables for its workers into the environment of whoever starts them (`OMP_NUM_THREADS=1` among them), and
its settings belong to the whole process. Neither may outlive our workers: what the caller starts later is not theirs.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import ExitStack, contextmanager
from typing import Any

FORK_SERVER = "forkserver"

_SETTINGS: dict[str, Any] = {
    # Boosters on all cores may keep a worker from answering for a while; it is not lost for that.
    "distributed.comm.timeouts.tcp": "300s",
    "distributed.comm.timeouts.connect": "120s",
    # A worker that takes longer to come back would be given up for good: 15 seconds are too few on a busy machine.
    "distributed.deploy.lost-worker-timeout": "1h",
    # With Dask's own value the C library gives the memory of every array back to the kernel, and asks for it again.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
    # Nobody looks at the samples that workers take of themselves a hundred times a second.
    "distributed.worker.profile.enabled": False,
    # Waiting threads of several workers would take the cores from each other; libraries read this when they load.
    "distributed.nanny.pre-spawn-environ.OMP_WAIT_POLICY": "PASSIVE",
}
if FORK_SERVER in multiprocessing.get_all_start_methods():  # not on Windows
    _SETTINGS["distributed.worker.multiprocessing-method"] = FORK_SERVER

# What Dask sets beside the variables of its settings.
_VARIABLES = ("PYTHONHASHSEED", "__DASK_PARENT_PID")

_lock = threading.Lock()
_users = 0
_held = ExitStack()


@contextmanager
def settings_for_workers() -> Iterator[None]:
    """The first who comes takes the settings, the last who goes gives them back, in whichever order they go."""
    global _users
    with _lock:
        if not _users:
            _held.enter_context(_set_here())
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                _held.close()


@contextmanager
def _set_here() -> Iterator[None]:
    import dask
    import distributed  # noqa: F401  (its defaults must be there first: ours would be all that is left of them)

    with dask.config.set(_SETTINGS), ExitStack() as kept:
        variables = dask.config.get("distributed.nanny.pre-spawn-environ")
        kept.enter_context(_kept(os.environ, (*variables, *_VARIABLES)))
        kept.enter_context(_without_file_that_is_none(vars(sys.modules["__main__"])))
        yield


@contextmanager
def _kept(places: MutableMapping[str, Any], names: tuple[str, ...]) -> Iterator[None]:
    """Afterwards these names have the values that they have now, or none."""
    before: Mapping[str, Any] = {name: places[name] for name in names if name in places}
    try:
        yield
    finally:
        for name in names:
            places.pop(name, None)
        places.update(before)


@contextmanager
def _without_file_that_is_none(main: MutableMapping[str, Any]) -> Iterator[None]:
    """Workers import the script of the caller by its name; one that came through a pipe is called `<stdin>`."""
    with _kept(main, ("__file__",)):
        if main.get("__file__") == "<stdin>":
            del main["__file__"]
        yield
