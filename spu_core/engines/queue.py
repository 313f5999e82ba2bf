"""The queue of a home: at most N jobs run and M wait, over all of its workspaces and processes.

A running job holds a slot, a lock file which the kernel frees when its worker dies. A waiting job has a ticket, a small
file whose number gives the order. The row in the catalogue decides what a job is; a ticket only says whose turn it is.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from spu_core.errors import WorkspaceError
from spu_core.workspace import Disk, Home
from spu_core.workspace.disk import locked, try_lock
from spu_core.workspace.home import make_private_folder
from spu_core.workspace.records import new_id
from spu_core.workspace.storage_errors import in_words

_TICKET = re.compile(r"(\d{12})-([0-9a-f]{24})")


@dataclass(frozen=True, kw_only=True)
class QueueLimits:
    """At most this many jobs run, and at most this many wait, in one home."""

    running: int = 2
    waiting: int = 20

    def __post_init__(self) -> None:
        for name, least in (("running", 1), ("waiting", 0)):
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= 1000:
                raise WorkspaceError(f"{name} must be a whole number from {least} to 1000, got {value!r}.")


@dataclass(frozen=True, slots=True)
class Ticket:
    """The turn of one waiting job."""

    number: int
    job: str
    place: str


@dataclass(frozen=True, slots=True)
class Queue:
    """Slots and tickets of a home; change them only while holding `alone()`."""

    home: Home

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One process at a time decides who runs and who waits."""
        for folder in (self.home.queue_folder, self.home.slot_folder):
            make_private_folder(folder)
        with in_words(self.home.folder), locked(self.home.queue_folder / "queue.lock"):
            yield

    @property
    def limits(self) -> QueueLimits:
        """The limits that all processes of this home keep."""
        path = self._limits_path
        if not path.exists():
            return QueueLimits()
        try:
            return QueueLimits(**json.loads(path.read_text("utf-8")))
        except (TypeError, ValueError) as error:
            raise WorkspaceError(
                f"{path} must hold {json.dumps(asdict(QueueLimits()))} or other numbers; correct or delete it."
            ) from error

    def set_limits(self, limits: QueueLimits) -> None:
        with self.alone():
            self._publish(json.dumps(asdict(limits)), self._limits_path)

    def tickets(self) -> list[Ticket]:
        """Who waits, in turn."""
        found = ((path, _TICKET.fullmatch(path.name)) for path in sorted(self.home.queue_folder.glob("*-*")))
        return [Ticket(int(match[1]), match[2], path.read_text("utf-8")) for path, match in found if match is not None]

    def put(self, job: str, place: str) -> None:
        """A ticket behind all others; numbers, not times, make the order."""
        last = max((ticket.number for ticket in self.tickets()), default=0)
        self._publish(place, self._path(Ticket(last + 1, job, place)))

    def drop(self, ticket: Ticket) -> None:
        self._path(ticket).unlink(missing_ok=True)

    def free_slot(self) -> int | None:
        """The descriptor that holds a free slot; None where all are taken."""
        for number in range(self.limits.running):
            slot = try_lock(self.home.slot_folder / f"slot-{number}.lock")
            if slot is not None:
                return slot
        return None

    def has_free_slot(self) -> bool:
        slot = self.free_slot()
        if slot is not None:
            os.close(slot)
        return slot is not None

    @property
    def _limits_path(self) -> Path:
        return self.home.queue_folder / "limits.json"

    def _path(self, ticket: Ticket) -> Path:
        return self.home.queue_folder / f"{ticket.number:012d}-{ticket.job}"

    def _publish(self, text: str, target: Path) -> None:
        draft = self.home.queue_folder / f"{new_id()}.draft"
        Disk().publish(lambda path: path.write_text(text, "utf-8"), draft, target)
