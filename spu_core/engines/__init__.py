"""Where work runs: in this process, or in a worker process that survives the dashboard.

What needs the training package is loaded on first use: a worker's watcher does without it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from spu_core.engines.check import check_jobs
from spu_core.engines.control import cancel, jobs_now, refresh, restart, start_worker, wait_for
from spu_core.engines.jobs import JOBS, Job, JobCancelled, JobLimits, Task
from spu_core.engines.perform import run_here
from spu_core.engines.queue import Queue, QueueLimits

if TYPE_CHECKING:
    from spu_core.engines.watching import CandidateState, TrainingView, summary_table, training_jobs

__all__ = [
    "JOBS",
    "CandidateState",
    "Job",
    "JobCancelled",
    "JobLimits",
    "Queue",
    "QueueLimits",
    "Task",
    "TrainingView",
    "cancel",
    "check_jobs",
    "jobs_now",
    "refresh",
    "restart",
    "run_here",
    "start_worker",
    "summary_table",
    "training_jobs",
    "wait_for",
]

_LOADED_ON_USE = ("CandidateState", "TrainingView", "summary_table", "training_jobs")


def __getattr__(name: str) -> Any:
    if name in _LOADED_ON_USE:
        return getattr(import_module("spu_core.engines.watching"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
