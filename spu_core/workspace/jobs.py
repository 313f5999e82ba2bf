"""The job table: parameters, progress and results of jobs. `spu_core.engines` runs the jobs."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spu_core.errors import WorkspaceError
from spu_core.workspace import storage_errors
from spu_core.workspace.catalogue import Catalogue
from spu_core.workspace.disk import is_locked, remove_if_free
from spu_core.workspace.records import Clock, JobRecord, JobStatus, clean_name, to_json

LOG_TAIL = 64_000
# The message of a running job until its function begins.
STARTING = "starting"
_ACTIVE = (JobStatus.WAITING, JobStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a job; late writes of an older attempt are ignored."""

    job: str
    number: int


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs of a workspace."""

    catalogue: Catalogue
    clock: Clock

    def add(self, token: str, kind: str, title: str, parameters: Mapping[str, Any], limits: Mapping[str, Any]) -> None:
        """Add a waiting job."""
        with self.catalogue.transaction() as rows:
            rows.execute(
                "INSERT INTO jobs (id, kind, title, parameters, limits, status, attempt, share, message, detail, "
                "result, error, cancel_requested, worker, heartbeat, made, started, ended) "
                "VALUES (?, ?, ?, ?, ?, 'waiting', 0, 0, '', '{}', '{}', '', 0, '{}', '', ?, '', '')",
                (
                    token,
                    kind,
                    clean_name(title),
                    to_json(parameters, "parameters"),
                    to_json(limits, "limits"),
                    self._now(),
                ),
            )

    def find(self, token: str) -> JobRecord | None:
        row = self.catalogue.row("SELECT * FROM jobs WHERE id = ?", token)
        return None if row is None else JobRecord.from_row(row)

    def get(self, token: str) -> JobRecord:
        found = self.find(token)
        if found is None:
            raise storage_errors.unknown("job", token)
        return found

    def list(self) -> tuple[JobRecord, ...]:
        """All jobs, the newest first."""
        return tuple(JobRecord.from_row(row) for row in self.catalogue.rows("SELECT * FROM jobs ORDER BY seq DESC"))

    def active(self) -> tuple[JobRecord, ...]:
        """Jobs that wait or run, the oldest first."""
        rows = self.catalogue.rows("SELECT * FROM jobs WHERE status IN (?, ?) ORDER BY seq", *_ACTIVE)
        return tuple(JobRecord.from_row(row) for row in rows)

    def begin(self, token: str) -> Attempt | None:
        """Set a waiting job to running; None if it was cancelled, deleted or started by another process."""
        with self.catalogue.transaction() as rows:
            changed = rows.execute(
                "UPDATE jobs SET status = 'running', attempt = attempt + 1, message = ?, "
                "worker = '{}', started = ?, heartbeat = ? WHERE id = ? AND status = 'waiting'",
                (STARTING, self._now(), self._now(), token),
            ).rowcount
        return Attempt(token, self.get(token).attempt) if changed else None

    def set_worker(self, attempt: Attempt, worker: Mapping[str, Any]) -> bool:
        return self._update(attempt, worker=to_json(worker, "worker"), heartbeat=self._now())

    def beat(self, attempt: Attempt) -> bool:
        """Store a heartbeat; False if the job is over, deleted or restarted."""
        return self._update(attempt, heartbeat=self._now())

    def report(self, attempt: Attempt, share: float, message: str, detail: Mapping[str, Any]) -> bool:
        """Store the progress; False if the job is over, deleted or restarted."""
        return self._update(
            attempt,
            share=min(max(float(share), 0.0), 1.0),
            message=str(message)[:500],
            detail=to_json(detail, "detail"),
            heartbeat=self._now(),
        )

    def finish(self, attempt: Attempt, result: Mapping[str, Any]) -> bool:
        return self._update(attempt, status="finished", share=1.0, result=to_json(result, "result"), ended=self._now())

    def end(self, attempt: Attempt, status: JobStatus, error: str) -> bool:
        """Set the job to failed, cancelled or interrupted; the last progress is kept."""
        return self._update(attempt, status=status.value, error=error, ended=self._now())

    def request_cancel(self, token: str) -> JobRecord:
        """Cancel a waiting job at once; a running job is marked, and its worker ends it."""
        with self.catalogue.transaction() as rows:
            rows.execute(
                "UPDATE jobs SET status = 'cancelled', error = 'Cancelled before it started.', ended = ? "
                "WHERE id = ? AND status = 'waiting'",
                (self._now(), token),
            )
            rows.execute("UPDATE jobs SET cancel_requested = 1 WHERE id = ? AND status = 'running'", (token,))
        return self.get(token)

    def wait_again(self, token: str) -> None:
        """Set a job that ended to waiting, for another attempt."""
        job = self.get(token)
        if not job.status.is_over or job.status is JobStatus.FINISHED:
            raise WorkspaceError(
                f"Job {job.title!r} is {job.status}; only a job that failed or was stopped can be restarted."
            )
        with self.catalogue.transaction() as rows:
            rows.execute(
                "UPDATE jobs SET status = 'waiting', share = 0, message = '', detail = '{}', error = '', "
                "cancel_requested = 0, ended = '' WHERE id = ? AND status = ?",
                (token, job.status.value),
            )

    def is_alive(self, token: str) -> bool:
        """Whether a running process holds the lock of this job."""
        return is_locked(self.lock_path(token))

    def mark_dead(self) -> int:
        """Set running jobs without a process to *interrupted*, or *cancelled* where a user asked; returns how many."""
        running = [job for job in self.active() if job.status is JobStatus.RUNNING]
        dead = [job for job in running if not self.is_alive(job.id)]
        sentence = "The worker process ended unexpectedly, perhaps because the machine restarted; start the job again."
        endings = {False: (JobStatus.INTERRUPTED, sentence), True: (JobStatus.CANCELLED, "Cancelled.")}
        return sum(self.end(Attempt(job.id, job.attempt), *endings[job.cancel_requested]) for job in dead)

    def lock_path(self, token: str) -> Path:
        return self.catalogue.folder / "locks" / f"{token}.lock"

    def log_path(self, token: str) -> Path:
        return self.catalogue.folder / "logs" / f"{token}.log"

    def log(self, token: str) -> str:
        """The end of the log of a job, for the maintainer."""
        path = self.log_path(self.get(token).id)
        if not path.exists():
            return ""
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - LOG_TAIL))
            return stream.read().decode("utf-8", "replace")

    def remove_leftovers(self) -> None:
        """Remove free locks, and logs of finished or deleted jobs; logs of failed jobs are kept."""
        rows = self.catalogue.rows("SELECT id FROM jobs WHERE status != 'finished'")
        unfinished = {row["id"] for row in rows}
        with storage_errors.in_words(self.catalogue.folder):
            for path in (self.catalogue.folder / "logs").glob("*.log"):
                if path.stem not in unfinished and not self.is_alive(path.stem):
                    path.unlink(missing_ok=True)
            for path in (self.catalogue.folder / "locks").glob("*.lock"):
                remove_if_free(path)

    def _now(self) -> str:
        return self.clock().isoformat()

    def _update(self, attempt: Attempt, **values: Any) -> bool:
        changes = ", ".join(f"{name} = :{name}" for name in values)
        with self.catalogue.transaction() as rows:
            return _update_if_running(rows, changes, {**values, "job": attempt.job, "number": attempt.number})


def _update_if_running(rows: sqlite3.Connection, changes: str, values: Mapping[str, Any]) -> bool:
    done = rows.execute(
        f"UPDATE jobs SET {changes} WHERE id = :job AND attempt = :number AND status = 'running'", values
    )
    return done.rowcount == 1
