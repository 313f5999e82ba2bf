"""The job table: parameters, progress and results of jobs, and the uploaded files that jobs read.

`spu_core.engines` runs the jobs. An upload is kept for a day, so that it can be read again with other options.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

from spu_core.errors import WorkspaceError
from spu_core.workspace import storage_errors
from spu_core.workspace.catalogue import CatalogueStore, insert
from spu_core.workspace.disk import is_locked, remove_if_free
from spu_core.workspace.records import JobRecord, JobStatus, clean_name, new_id, to_json

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
class Jobs(CatalogueStore):
    """The jobs of a workspace."""

    def add(self, token: str, kind: str, title: str, parameters: Mapping[str, Any], limits: Mapping[str, Any]) -> None:
        """Add a waiting job."""
        with self.catalogue.transaction() as rows:
            given = {"parameters": to_json(parameters, "parameters"), "limits": to_json(limits, "limits")}
            empty = dict.fromkeys(("detail", "result", "worker"), "{}")
            empty |= dict.fromkeys(("message", "error", "heartbeat", "started", "ended"), "")
            zero = dict.fromkeys(("attempt", "share", "cancel_requested"), 0)
            made = self._now()
            insert(
                rows,
                "jobs",
                id=token,
                kind=kind,
                title=clean_name(title),
                status="waiting",
                made=made,
                **given,
                **empty,
                **zero,
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
        return self.catalogue.records(JobRecord, "SELECT * FROM jobs WHERE status IN (?, ?) ORDER BY seq", *_ACTIVE)

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

    def requeue(self, token: str) -> None:
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
        with storage_errors.readable_errors(self.catalogue.folder):
            for path in (self.catalogue.folder / "logs").glob("*.log"):
                if path.stem not in unfinished and not self.is_alive(path.stem):
                    path.unlink(missing_ok=True)
            for path in (self.catalogue.folder / "locks").glob("*.lock"):
                remove_if_free(path)

    def _update(self, attempt: Attempt, **values: Any) -> bool:
        changes = ", ".join(f"{name} = :{name}" for name in values)
        with self.catalogue.transaction() as rows:
            return _update_if_running(rows, changes, {**values, "job": attempt.job, "number": attempt.number})


def _update_if_running(rows: sqlite3.Connection, changes: str, values: Mapping[str, Any]) -> bool:
    done = rows.execute(
        f"UPDATE jobs SET {changes} WHERE id = :job AND attempt = :number AND status = 'running'", values
    )
    return done.rowcount == 1


READ = "read"
KEPT = timedelta(days=1)
ARRIVING = timedelta(hours=1)
_TOKEN = re.compile(r"[0-9a-f]{24}")
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Uploads:
    """The uploads of a workspace, under random ids; their names are in the jobs that read them."""

    folder: Path
    jobs: Jobs

    def save(self, stream: IO[bytes]) -> str:
        """Copy a stream, block by block, and return the id of the copy; also removes old uploads."""
        self.remove_leftovers()
        token = new_id()
        draft = self.folder / f"{token}.draft"
        with storage_errors.readable_errors(self.folder):
            self.folder.mkdir(mode=0o700, exist_ok=True)
            try:
                with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as target:
                    shutil.copyfileobj(stream, target, _BLOCK)
                draft.replace(self.folder / token)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
        return token

    def has(self, token: str) -> bool:
        """Whether the upload is still there."""
        return bool(_TOKEN.fullmatch(token)) and (self.folder / token).is_file()

    def path(self, token: str) -> Path:
        """The path of the upload."""
        if not self.has(token):
            raise storage_errors.unknown("upload", token)
        return self.folder / token

    def remove_leftovers(self) -> None:
        """Remove uploads that no job will read again: a day after they were read, or with their dataset."""
        reading = [job for job in self.jobs.list() if "upload" in job.parameters]
        needed = {job.parameters.get("upload") for job in reading if self._needs(job)}
        known = {job.parameters.get("upload") for job in reading}
        for path in self.folder.glob("*"):
            # The job of a new upload is added a moment after the file.
            if path.name not in needed and (path.name in known or self._age(path) > ARRIVING):
                path.unlink(missing_ok=True)

    def _needs(self, job: JobRecord) -> bool:
        if not job.status.is_over:
            return True
        dataset = job.result.get("dataset")
        gone = dataset and self.jobs.catalogue.row("SELECT 1 FROM datasets WHERE id = ?", dataset) is None
        return not gone and job.ended is not None and self.jobs.clock() - job.ended < KEPT

    def _age(self, path: Path) -> timedelta:
        try:
            written = path.stat().st_mtime
        except FileNotFoundError:
            return timedelta(0)
        return timedelta(seconds=self.jobs.clock().timestamp() - written)
