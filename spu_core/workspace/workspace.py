"""A workspace: a folder that stores datasets, rule sets, runs, jobs and check outcomes."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from spu_core.workspace import catalogue as catalogues
from spu_core.workspace import storage_errors
from spu_core.workspace.audits import Audits, Feedbacks, Outcomes, Queues, Reviews
from spu_core.workspace.catalogue import Catalogue, back_up, backups
from spu_core.workspace.datasets import Converted, Datasets, Derived, RuleSets
from spu_core.workspace.disk import Disk, locked
from spu_core.workspace.file_store import DeletionPlan, FileStore, delete, plan_deletion
from spu_core.workspace.home import Home, make_private_folder
from spu_core.workspace.jobs import Jobs, Uploads
from spu_core.workspace.records import Clock, new_id, utc_now
from spu_core.workspace.runs import Exports, Lineage, Runs, Thresholds

log = logging.getLogger("spu_studio")
CATALOGUE = "catalogue.sqlite"
_FOLDERS = ("files", "tmp", "backups", "logs", "locks")


class Workspace:
    """An open workspace folder; any number of processes may have it open at once.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, Workspace.open(folder) as workspace:
    ...     first = workspace.rule_sets.create("fraud", "{}")
    ...     second = workspace.rule_sets.save(first, '{"rules": []}')
    ...     workspace.rule_sets.undo(second).text
    '{}'
    """

    def __init__(self, folder: Path, home: Home, *, disk: Disk, clock: Clock, read_only: bool = False) -> None:
        self.folder = folder
        self.home = home
        self.clock = clock
        self.catalogue = Catalogue(folder / CATALOGUE, disk, read_only=read_only)
        self.files = FileStore(self.catalogue, clock)
        self.rule_sets = RuleSets(self.catalogue, clock)
        self.runs = Runs(self.files)
        self.thresholds = Thresholds(self.catalogue, clock)
        self.exports = Exports(self.files)
        self.outcomes = Outcomes(self.catalogue, clock)
        self.queues = Queues(self.catalogue, clock)
        self.feedbacks = Feedbacks(self.catalogue, clock)
        self.audits = Audits(self.catalogue, clock)
        self.reviews = Reviews(self.catalogue, clock)
        self.jobs = Jobs(self.catalogue, clock)
        self.converted = Converted(folder, self.jobs)
        self.datasets = Datasets(self.files, home, self.converted)
        self.uploads = Uploads(folder / "uploads", self.jobs)
        self.derived = Derived(self.files)

    @classmethod
    def open(cls, folder: str | Path | None = None, *, disk: Disk | None = None, clock: Clock = utc_now) -> Self:
        """The workspace in `folder`, by default that of `SPU_HOME`; created where there is none.

        Each opening makes a backup of the catalogue and removes deleted and unfinished files. A workspace that cannot
        be written is opened for reading (`is_read_only`).
        """
        home = Home.default() if folder is None else Home.at(folder)
        return cls._start(home.folder, home, disk or Disk(), clock)

    @classmethod
    def exists(cls, folder: str | Path | None = None) -> bool:
        """Whether there is a workspace in `folder`, by default that of `SPU_HOME`."""
        home = Home.default() if folder is None else Home.at(folder)
        return (home.folder / CATALOGUE).is_file()

    @classmethod
    def open_for(cls, issuer: str, subject: str, home: Home | None = None) -> Self:
        """The workspace of a logged-in person, inside the home of the server."""
        home = home or Home.default()
        return cls._start(home.user_folder(issuer, subject), home, Disk(), utc_now)

    @classmethod
    def join(cls, home: Home, place: str) -> Self:
        """An existing workspace, opened by a worker: no backup, no sweep, nothing created."""
        folder = home.folder_at(place)
        path = folder / CATALOGUE
        if not path.is_file():
            raise storage_errors.unknown("workspace", place)
        # The lock ensures that no other process has created the file but not yet filled it.
        with storage_errors.readable_errors(folder), locked(folder / "open.lock", shared=True):
            catalogues.prepare(path, Disk())
        return cls(folder, home, disk=Disk(), clock=utc_now)

    @classmethod
    def _start(cls, folder: Path, home: Home, disk: Disk, clock: Clock) -> Self:
        try:
            return cls._start_to_write(folder, home, disk, clock)
        except storage_errors.CannotWriteError:
            if not (folder / CATALOGUE).is_file():
                raise
        catalogues.refuse_unreadable(folder / CATALOGUE)
        return cls(folder, home, disk=disk, clock=clock, read_only=True)

    @classmethod
    def _start_to_write(cls, folder: Path, home: Home, disk: Disk, clock: Clock) -> Self:
        for path in (home.folder, folder, *(folder / name for name in _FOLDERS)):
            make_private_folder(path)
        workspace = cls(folder, home, disk=disk, clock=clock)
        with storage_errors.readable_errors(folder), locked(folder / "open.lock"):
            refuse_orphaned_files(folder)
            catalogues.prepare(folder / CATALOGUE, disk)
            workspace._give_id()
            try:
                workspace.files.sweep()
                workspace.remove_leftovers()
                back_up(workspace.catalogue)
            except storage_errors.CannotWriteError as problem:
                log.warning("No new backup was made: %s", problem)
        return workspace

    @cached_property
    def id(self) -> str:
        """The random id of this workspace: the first part of every cache key."""
        row = self.catalogue.row("SELECT id FROM workspace")
        if row is None:
            raise storage_errors.damaged_catalogue(self.folder, "it has lost its id")
        return str(row["id"])

    @property
    def is_read_only(self) -> bool:
        """Whether it was opened for reading only, because its folder could not be written."""
        return self.catalogue.read_only

    @property
    def place(self) -> str:
        """The path of this workspace relative to its home."""
        return self.home.place_of(self.folder)

    @property
    def size(self) -> int:
        """Bytes of the stored files."""
        row = self.catalogue.row("SELECT coalesce(sum(size), 0) AS size FROM files")
        return 0 if row is None else int(row["size"])

    def lineage(self, run: str) -> Lineage:
        """The origin of a run: dataset, rule-set version, candidate and versions."""
        record = self.runs.get(run)
        rules = None
        if record.rule_set is not None:
            rules = self.rule_sets.get(record.rule_set, record.rule_set_version)
        return Lineage(record, self.datasets.get(record.dataset), rules.name if rules else None)

    def plan_deletion(self, kind: str, token: str) -> DeletionPlan:
        """What would be deleted together with this object; nothing is changed."""
        return plan_deletion(self.catalogue, kind, token)

    def delete(self, plan: DeletionPlan) -> None:
        """Delete what a plan lists: rows now, files at once if no save is running, else at the next sweep."""
        delete(self.catalogue, plan)
        self.files.sweep()
        self.remove_leftovers()

    def remove_leftovers(self) -> None:
        """Remove logs and locks of deleted jobs, old uploads, and data derived from deleted datasets."""
        self.jobs.remove_leftovers()
        self.uploads.remove_leftovers()
        self.derived.remove_leftovers()
        self.converted.remove_leftovers()

    def close(self) -> None:
        self.catalogue.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _give_id(self) -> None:
        if self.catalogue.row("SELECT id FROM workspace") is None:
            with self.catalogue.transaction() as rows:
                rows.execute("INSERT INTO workspace (id, made) VALUES (?, ?)", (new_id(), self.clock().isoformat()))


def refuse_orphaned_files(folder: Path) -> None:
    """Refuse a folder with stored files but without a catalogue: it must be repaired, not started anew."""
    path = folder / CATALOGUE
    gone = not path.exists() or path.stat().st_size == 0
    if gone and (backups(folder) or any((folder / "files").glob("*"))):
        raise storage_errors.missing_catalogue(folder)


# One query, because the dashboard asks for the progress on every rerun.
_PROGRESS = """
SELECT runs.id AS run, runs.rule_set, runs.rule_set_version,
  EXISTS (SELECT 1 FROM exports WHERE exports.run = runs.id) AS is_exported,
  EXISTS (SELECT 1 FROM outcomes WHERE outcomes.dataset = datasets.id) AS has_outcomes,
  (
    SELECT thresholds.run FROM thresholds JOIN runs AS chosen ON chosen.id = thresholds.run
    WHERE chosen.dataset = datasets.id AND json_extract(thresholds.detail, '$.is_champion') = 1
      AND json_extract(thresholds.detail, '$.undone') IS NULL
    ORDER BY thresholds.seq DESC LIMIT 1
  ) AS champion
FROM datasets LEFT JOIN runs ON runs.dataset = datasets.id
WHERE datasets.id = ?
"""


@dataclass(frozen=True, slots=True)
class DatasetProgress:
    """Work done on a dataset: the rule set versions of its runs, the exported runs, the champion."""

    trained_on: frozenset[tuple[str | None, int | None]] = frozenset()
    exported: frozenset[str] = frozenset()
    champion: str | None = None
    has_outcomes: bool = False


def progress_of(workspace: Workspace, dataset: str) -> DatasetProgress:
    """The progress of a dataset; empty for an unknown one."""
    rows = workspace.catalogue.rows(_PROGRESS, dataset)
    if not rows:
        return DatasetProgress()
    runs = [row for row in rows if row["run"] is not None]
    return DatasetProgress(
        trained_on=frozenset((row["rule_set"], row["rule_set_version"]) for row in runs),
        exported=frozenset(row["run"] for row in runs if row["is_exported"]),
        champion=rows[0]["champion"],
        has_outcomes=bool(rows[0]["has_outcomes"]),
    )
