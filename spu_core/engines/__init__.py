"""Run work on a workspace: jobs, the processes that run them, the executors of fits, and what stored runs give.

| module | content |
| --- | --- |
| `jobs` | the kinds of jobs |
| `processes` | queue, supervisor and worker processes |
| `executors` | where fits run: this process, or a Dask cluster |
| `study` | everything that decides a training, as one value |
| `stored_runs`, `export_files` | stored runs: load, compare, import, export |
| `audit_results`, `outcome_loop`, `outcome_learning` | audits, and outcomes of checks |
| `training_cost` | time and memory of a training before it starts |

The supervisor process imports this package, so it imports neither training nor the modules of stored runs.
"""

from spu_core.engines.jobs import JOBS, Job, JobCancelled, JobContext, JobLimits
from spu_core.engines.jobs.self_test import check_jobs
from spu_core.engines.processes import cancel, jobs_now, refresh, restart, run_in_process, start_worker, wait_for
from spu_core.engines.processes.job_queue import JobQueue, QueueLimits

run_here = run_in_process  # its name until version 0.3

__all__ = [
    "JOBS",
    "Job",
    "JobCancelled",
    "JobContext",
    "JobLimits",
    "JobQueue",
    "QueueLimits",
    "cancel",
    "check_jobs",
    "jobs_now",
    "refresh",
    "restart",
    "run_here",
    "run_in_process",
    "start_worker",
    "wait_for",
]
