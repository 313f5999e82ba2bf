"""Uploaded files; each is kept for a day, so that it can be read again with other options."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO

from spu_core.workspace import storage_errors
from spu_core.workspace.jobs import Jobs
from spu_core.workspace.records import JobRecord, new_id

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
        with storage_errors.in_words(self.folder):
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
