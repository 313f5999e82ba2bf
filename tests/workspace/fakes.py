"""Small stand-ins, so that workspace tests need no numeric library."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from spu_core.workspace import RunDraft


@dataclass(frozen=True)
class FakeTable:
    """What the workspace asks of a table, with any bytes as content."""

    content: bytes = b"rows"
    name: str = "table"
    roles: dict = field(default_factory=lambda: {"age": "feature", "label": "label"})
    positive_values: tuple = (1,)
    truth_values: tuple = ()

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    def __len__(self) -> int:
        return 10

    def to_parquet(self, path: Path) -> None:
        Path(path).write_bytes(self.content)


def writes(content: bytes):
    """A writer of these bytes."""
    return lambda path: path.write_bytes(content)


def draft_of(dataset, rules=None, name="run") -> RunDraft:
    return RunDraft(
        name=name,
        dataset=dataset.id,
        candidate={"method": "lightgbm", "settings": {"rounds": 10}},
        rule_set=rules and rules.id,
        rule_set_version=rules and rules.number,
        versions={"spu-studio": "0.1.0"},
    )
