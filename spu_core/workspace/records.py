"""Records that a workspace returns (frozen rows of the catalogue), and the ids, names, times and JSON in them."""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Any, Self, get_origin, get_type_hints

from spu_core.codec import dump_json, encode
from spu_core.errors import WorkspaceError


class JobStatus(StrEnum):
    """Status of a job; `interrupted` means that its worker process ended unexpectedly."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"

    @property
    def is_over(self) -> bool:
        return self not in (JobStatus.WAITING, JobStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class CatalogueRecord:
    """Fields are columns of the same name. SQLite stores times, mappings and lists as text, and flags as 0 or 1."""

    @classmethod
    def from_row(cls, row: sqlite3.Row) -> Self:
        return cls(**{name: read(row[name]) for name, read in _readers(cls).items()})  # type: ignore[arg-type]


@cache
def _readers(kind: Any) -> dict[str, Callable[[Any], Any]]:
    """How the stored value of each field becomes the value of its type."""
    types = {field.name: get_type_hints(kind)[field.name] for field in fields(kind)}
    return {name: _READERS.get(hint, _READERS.get(get_origin(hint), _same)) for name, hint in types.items()}


def _same(value: Any) -> Any:
    return value


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


_READERS: dict[Any, Callable[[Any], Any]] = {
    datetime: _moment,
    datetime | None: _moment,
    bool: bool,
    JobStatus: JobStatus,
    Mapping: json.loads,
    Sequence: json.loads,
}


@dataclass(frozen=True, slots=True)
class FileRecord(CatalogueRecord):
    """A stored file; its hash and size show whether it has changed since it was saved."""

    id: str
    kind: str
    sha256: str
    size: int
    made: datetime


@dataclass(frozen=True, slots=True)
class DatasetRecord(CatalogueRecord):
    """A stored table; two datasets with the same fingerprint share one file.

    `folder` is the path of a table that stays in a folder of the server; `file` then holds a sample of its rows.
    `origin` says how the confirmed cases were found, in a word of `spu_core.training.ORIGINS`.
    """

    id: str
    name: str
    fingerprint: str
    file: str
    n_rows: int
    n_columns: int
    size: int
    roles: Mapping[str, str]
    positive_values: Sequence[Any]
    truth_values: Sequence[Any]
    version: int
    made: datetime
    folder: str | None = None
    origin: str = "unknown"


@dataclass(frozen=True, slots=True)
class RuleSetVersion(CatalogueRecord):
    """One saved state of a rule set; `parent` is the version that it was edited from."""

    id: str
    name: str
    number: int
    parent: int | None
    is_current: bool
    text: str
    sha256: str
    note: str
    made: datetime
    dataset: str | None = None


@dataclass(frozen=True, slots=True)
class RunRecord(CatalogueRecord):
    """One trained candidate: what it was made from, a summary for lists, and its files."""

    id: str
    name: str
    dataset: str
    dataset_fingerprint: str
    rule_set: str | None
    rule_set_version: int | None
    candidate_id: str | None
    candidate: Mapping[str, Any]
    job: str | None
    file: str
    scores: str | None
    size: int
    config: Mapping[str, Any]
    versions: Mapping[str, str]
    summary: Mapping[str, Any]
    made: datetime

    @property
    def is_trained_here(self) -> bool:
        """Whether a job of this workspace made the run; otherwise it was imported."""
        return self.job is not None


@dataclass(frozen=True, slots=True)
class ThresholdRecord(CatalogueRecord):
    """An operating point of a run: the threshold and the share of rows that it flags."""

    id: str
    run: str
    name: str
    threshold: float
    flagged_share: float
    detail: Mapping[str, Any]
    made: datetime


@dataclass(frozen=True, slots=True)
class ExportRecord(CatalogueRecord):
    """A file that was made from a run for use elsewhere."""

    id: str
    run: str
    name: str
    format: str
    file: str
    size: int
    detail: Mapping[str, Any]
    made: datetime


@dataclass(frozen=True, slots=True)
class OutcomeRecord(CatalogueRecord):
    """The outcome of a check of one row; the last one of a row counts."""

    dataset: str
    row: int
    is_positive: bool
    detail: Mapping[str, Any]
    made: datetime


@dataclass(frozen=True, slots=True)
class JobRecord(CatalogueRecord):
    """A job with its status, progress and result."""

    id: str
    kind: str
    title: str
    parameters: Mapping[str, Any]
    limits: Mapping[str, Any]
    status: JobStatus
    attempt: int
    share: float
    message: str
    detail: Mapping[str, Any]
    result: Mapping[str, Any]
    error: str
    cancel_requested: bool
    worker: Mapping[str, Any]
    heartbeat: datetime | None
    made: datetime
    started: datetime | None
    ended: datetime | None


Clock = Callable[[], datetime]
LONGEST_NAME = 200


def utc_now() -> datetime:
    return datetime.now(UTC)


def new_id() -> str:
    """A random id: it cannot be guessed, and is safe as a file name."""
    return secrets.token_hex(12)


def clean_name(name: object) -> str:
    """A name that fits on one line; names are stored in the catalogue only and never become paths.

    >>> clean_name("  ../../etc/passwd\\n ")
    '../../etc/passwd'
    >>> clean_name("")
    'unnamed'
    """
    text = str(name).encode("utf-8", "replace").decode("utf-8")
    shown = "".join(letter if letter.isprintable() else " " for letter in text[: LONGEST_NAME * 4])
    return " ".join(shown.split())[:LONGEST_NAME].strip() or "unnamed"


def to_json(value: Any, name: str) -> str:
    """JSON text of a plain value; numbers that JSON lacks (NaN, infinity) become null.

    >>> to_json({"auc": float("nan"), "folds": (1, 2)}, "summary")
    '{"auc": null, "folds": [1, 2]}'
    """
    return dump_json(encode(value, name, WorkspaceError))
