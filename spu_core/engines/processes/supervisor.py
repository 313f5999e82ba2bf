"""The supervisor of one job: starts the worker process, and watches it until it ends.

Each job has two processes, because the worker cannot supervise itself: a native library may block the interpreter, use
up the memory or crash. The supervisor does no work, so it always responds. It sends the heartbeat, ends the worker with
all its children when the job is cancelled, deleted or reaches its time limit, stores how the job ended, and starts the
next waiting job.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import psutil

from spu_core.engines.processes import USE_LESS_MEMORY
from spu_core.engines.processes.job_queue import JobQueue, spawn, start_waiting, thread_variables
from spu_core.engines.processes.os_processes import adopt_orphans, end_descendants, this_process
from spu_core.errors import WorkspaceError
from spu_core.workspace import Attempt, Home, JobRecord, JobStatus, Workspace
from spu_core.workspace.jobs import STARTING

POLL_SECONDS = 0.1
BEAT_SECONDS = 3.0
START_SECONDS = 120.0
LARGEST_LOG = 20_000_000
# After a cancel, a job that reports its progress often ends by itself within this time.
COOPERATION_SECONDS = 0.4
_MEMORY_SIGNALS = {signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS}


def main(arguments: list[str]) -> None:
    """Supervise one attempt of a job, then start the next waiting job."""
    home, place, job, number, slot, lock = arguments
    adopt_orphans()
    workspace = Workspace.join(Home.at(home), place)
    attempt = Attempt(job, int(number))
    try:
        if workspace.jobs.set_worker(attempt, {**this_process(), "detached": True}):
            Supervisor(workspace, attempt, (int(slot), int(lock))).run()
    finally:
        end_descendants(psutil.Process())
        os.close(int(slot))
        os.close(int(lock))
        _start_next(workspace.home)
        workspace.jobs.remove_leftovers()


@dataclass
class Supervisor:
    """Supervises one attempt; `keep` are the locks of the slot and of the job, which the worker inherits."""

    workspace: Workspace
    attempt: Attempt
    keep: tuple[int, int]
    _has_begun: bool = False

    def run(self) -> None:
        """Start the worker, wait for its end, and store how the job ended."""
        job = self.workspace.jobs.get(self.attempt.job)
        child, pipe = self._spawn(job)
        try:
            reason = self._wait(child, float(job.limits["seconds"]))
            if reason is not None:
                end_descendants(psutil.Process())
            self._settle(job, reason, child.wait())
        finally:
            os.close(pipe)

    def _spawn(self, job: JobRecord) -> tuple[subprocess.Popen[bytes], int]:
        """The worker process, and our end of a pipe that closes when this process ends."""
        theirs, ours = os.pipe()
        place = (str(self.workspace.home.folder), self.workspace.place)
        child = spawn(
            "spu_core.engines.processes.worker",
            (*place, self.attempt.job, str(self.attempt.number), str(theirs)),
            (theirs, *self.keep),
            environment=thread_variables(int(job.limits["threads"])),
        )
        os.close(theirs)
        return child, ours

    def _wait(self, child: subprocess.Popen[bytes], seconds: float) -> JobStatus | None:
        """Wait until the worker ends by itself (None), or must be ended (the status to store)."""
        beat, last = 0.0, time.monotonic() + START_SECONDS + seconds
        while child.poll() is None:
            # The time limit starts with the work, not with loading libraries, which is slow on a busy machine.
            if not self._has_begun and self._begins():
                self._has_begun, last = True, time.monotonic() + seconds
            if time.monotonic() > last:
                return JobStatus.FAILED
            if time.monotonic() - beat > BEAT_SECONDS:
                beat = time.monotonic()
                self._beat()
                self._limit_log()
            if self._is_unwanted():
                return None if _ends_within(child, COOPERATION_SECONDS) else JobStatus.CANCELLED
            _ends_within(child, POLL_SECONDS)
        return None

    def _beat(self) -> None:
        try:
            self.workspace.jobs.beat(self.attempt)
        except WorkspaceError as error:
            print(f"No heartbeat: {error}", file=sys.stderr, flush=True)  # a full disk must not end the job

    def _limit_log(self) -> None:
        """Empty a log that grew too large. Both processes append to it, so this is safe."""
        log = self.workspace.jobs.log_path(self.attempt.job)
        if log.exists() and log.stat().st_size > LARGEST_LOG:
            os.truncate(log, 0)

    def _begins(self) -> bool:
        try:
            job = self.workspace.jobs.find(self.attempt.job)
        except WorkspaceError:
            return False
        return job is not None and job.message != STARTING

    def _is_unwanted(self) -> bool:
        """Whether the job was cancelled, deleted, or started again as another attempt."""
        try:
            job = self.workspace.jobs.find(self.attempt.job)
        except WorkspaceError as error:
            print(f"No catalogue: {error}", file=sys.stderr, flush=True)
            return not self.workspace.catalogue.path.exists()
        return job is None or job.cancel_requested or job.attempt != self.attempt.number

    def _settle(self, job: JobRecord, reason: JobStatus | None, code: int) -> None:
        """Store how the job ended. A job that the worker has already ended is not changed."""
        if reason is JobStatus.FAILED:
            allowed = f"{float(job.limits['seconds']):g} seconds"
            message = f"Stopped after its time limit of {allowed}; allow more time, or make the job smaller."
            self.workspace.jobs.end(self.attempt, JobStatus.FAILED, message)
        elif reason is JobStatus.CANCELLED or self._is_unwanted():
            self.workspace.jobs.end(self.attempt, JobStatus.CANCELLED, "Cancelled.")
        elif code == -signal.SIGXCPU:
            allowed = f"{float(job.limits.get('processor_seconds') or 0):g} seconds"
            message = f"Stopped after its limit of {allowed} of processor time; allow more, or make the job smaller."
            self.workspace.jobs.end(self.attempt, JobStatus.FAILED, message)
        else:
            self.workspace.jobs.end(self.attempt, JobStatus.INTERRUPTED, _crash_message(code))


def _ends_within(child: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _crash_message(code: int) -> str:
    if code >= 0:
        return f"The worker ended without a message (exit code {code}); its log may say why. Start the job again."
    name = signal.Signals(-code).name
    if -code in _MEMORY_SIGNALS:
        return f"The worker crashed ({name}), as native code does when it gets no memory; {USE_LESS_MEMORY}."
    return f"The worker was killed ({name}), perhaps because the machine ran out of memory; start the job again."


def _start_next(home: Home) -> None:
    queue = JobQueue(home)
    with queue.locked():
        start_waiting(queue)


if __name__ == "__main__":
    main(sys.argv[1:])
