"""The worker of one job: starts the process that does it, and watches over that process until it is gone.

Two processes per job, because the one that works cannot be trusted to look after itself: a native library may hold
the interpreter, use up the memory or crash. The watcher does no work, so it always answers: it sends the heartbeat,
ends the whole tree on cancel, at the time limit, or when the row of the job is gone, writes how the job ended, and
gives the freed slot to the next who waits.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import psutil

from spu_core.engines.launch import spawn, start_waiting, thread_variables
from spu_core.engines.perform import SMALLER
from spu_core.engines.processes import adopt_orphans, end_descendants, this_process
from spu_core.engines.queue import Queue
from spu_core.errors import WorkspaceError
from spu_core.workspace import Attempt, Home, JobRecord, JobStatus, Workspace
from spu_core.workspace.jobs import STARTING

POLL_SECONDS = 0.1
BEAT_SECONDS = 3.0
START_SECONDS = 120.0
LARGEST_LOG = 20_000_000
# A job that asks its progress often ends by itself within this time after a cancel.
COOPERATION_SECONDS = 0.4
_MEMORY_SIGNALS = {signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS}


def main(arguments: list[str]) -> None:
    home, place, job, number, slot, lock = arguments
    adopt_orphans()
    workspace = Workspace.join(Home.at(home), place)
    attempt = Attempt(job, int(number))
    try:
        if workspace.jobs.set_worker(attempt, {**this_process(), "detached": True}):
            Watch(workspace, attempt, (int(slot), int(lock))).run()
    finally:
        end_descendants(psutil.Process())
        os.close(int(slot))
        os.close(int(lock))
        _start_next(workspace.home)
        workspace.jobs.remove_leftovers()


@dataclass
class Watch:
    """The life of one attempt, seen from outside."""

    workspace: Workspace
    attempt: Attempt
    keep: tuple[int, int]
    _has_begun: bool = False

    def run(self) -> None:
        job = self.workspace.jobs.get(self.attempt.job)
        child, lifeline = self._spawn(job)
        try:
            reason = self._wait(child, float(job.limits["seconds"]))
            if reason is not None:
                end_descendants(psutil.Process())
            self._settle(job, reason, child.wait())
        finally:
            os.close(lifeline)

    def _spawn(self, job: JobRecord) -> tuple[subprocess.Popen[bytes], int]:
        """The working process, and the end of a pipe that tells it whether we live."""
        theirs, ours = os.pipe()
        place = (str(self.workspace.home.folder), self.workspace.place)
        child = spawn(
            "spu_core.engines.task_process",
            (*place, self.attempt.job, str(self.attempt.number), str(theirs)),
            (theirs, *self.keep),
            environment=thread_variables(int(job.limits["threads"])),
        )
        os.close(theirs)
        return child, ours

    def _wait(self, child: subprocess.Popen[bytes], seconds: float) -> JobStatus | None:
        """Until the child ends by itself (None), or there is a reason to end it."""
        beat, last = 0.0, time.monotonic() + START_SECONDS + seconds
        while child.poll() is None:
            # The limit is for the work; loading libraries on a busy machine is not the job's fault.
            if not self._has_begun and self._begins():
                self._has_begun, last = True, time.monotonic() + seconds
            if time.monotonic() > last:
                return JobStatus.FAILED
            if time.monotonic() - beat > BEAT_SECONDS:
                beat = time.monotonic()
                self._beat()
                self._bound_log()
            if self._is_unwanted():
                return None if _ends_within(child, COOPERATION_SECONDS) else JobStatus.CANCELLED
            _ends_within(child, POLL_SECONDS)
        return None

    def _beat(self) -> None:
        try:
            self.workspace.jobs.beat(self.attempt)
        except WorkspaceError as error:
            print(f"No heartbeat: {error}", file=sys.stderr, flush=True)  # a full disk must not end the job

    def _bound_log(self) -> None:
        """A library that warns in a loop must not fill the disk; both processes append, so cutting is safe."""
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
        """Cancelled, deleted, or taken over by another attempt."""
        try:
            job = self.workspace.jobs.find(self.attempt.job)
        except WorkspaceError as error:
            print(f"No catalogue: {error}", file=sys.stderr, flush=True)
            return not self.workspace.catalogue.path.exists()
        return job is None or job.cancel_requested or job.attempt != self.attempt.number

    def _settle(self, job: JobRecord, reason: JobStatus | None, code: int) -> None:
        """Write how it ended, unless the child has done so (a job that is over stays as it is)."""
        if reason is JobStatus.FAILED:
            allowed = f"{float(job.limits['seconds']):g} seconds"
            sentence = f"Stopped after its time limit of {allowed}; allow more time, or make the job smaller."
            self.workspace.jobs.end(self.attempt, JobStatus.FAILED, sentence)
        elif reason is JobStatus.CANCELLED or self._is_unwanted():
            self.workspace.jobs.end(self.attempt, JobStatus.CANCELLED, "Cancelled.")
        elif code == -signal.SIGXCPU:
            allowed = f"{float(job.limits.get('processor_seconds') or 0):g} seconds"
            sentence = f"Stopped after its limit of {allowed} of processor time; allow more, or make the job smaller."
            self.workspace.jobs.end(self.attempt, JobStatus.FAILED, sentence)
        else:
            self.workspace.jobs.end(self.attempt, JobStatus.INTERRUPTED, _death_sentence(code))


def _ends_within(child: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _death_sentence(code: int) -> str:
    if code >= 0:
        return f"The worker ended without a word (exit code {code}); its log may say why. Start the job again."
    name = signal.Signals(-code).name
    if -code in _MEMORY_SIGNALS:
        return f"The worker crashed ({name}), as native code does when it gets no memory; {SMALLER}."
    return f"The worker was killed ({name}), perhaps because the machine ran out of memory; start the job again."


def _start_next(home: Home) -> None:
    queue = Queue(home)
    with queue.alone():
        start_waiting(queue)


if __name__ == "__main__":
    main(sys.argv[1:])
