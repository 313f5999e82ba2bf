"""Findings: what was noticed about a table, as values with a severity and an advice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How much a finding matters: to know, a likely mistake, or a thing that must be settled first."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing noticed: a stable code for programs, a sentence for people, and what to do about it.

    >>> Finding("empty_column", "warning", "Column 'x' has no value.", "Leave it out.", column="x").severity
    <Severity.WARNING: 'warning'>
    """

    code: str
    severity: Severity
    message: str
    advice: str
    column: str | None = None
    lines: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "severity", Severity(self.severity))
        object.__setattr__(self, "lines", tuple(int(line) for line in self.lines))

    def __str__(self) -> str:
        return f"{self.severity.value}: {self.message} {self.advice}".rstrip()


def worst(findings: Iterable[Finding]) -> Severity | None:
    """The highest severity among the findings; None when there is none."""
    order = list(Severity)
    return max((finding.severity for finding in findings), key=order.index, default=None)
