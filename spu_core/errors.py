"""The errors of the engine. A message names the object, the requirement, the bad value, and what to do.

SpuError (ValueError)        a problem that the caller can fix
├── TableError               the file or its columns
├── RuleError                a rule cannot be read or applied
├── SoftLabelError           soft labels are not probabilities
├── ScoreError               scores, weights or groups are not valid
├── AssumptionError          numbers that contradict the assumptions of a theorem or an estimate
├── TrainingError            a candidate cannot be trained on this table
├── WorkspaceError           a stored object cannot be found, read or written
│   ├── NewerCatalogueError  the workspace was written by a newer version
│   ├── QueueFullError       too many jobs are waiting
│   └── StaleEditError       another user has saved a newer version
├── EngineError              an executor has failed: a lost worker, a scheduler that does not answer
└── BundleError              an exported model is damaged or cannot be read
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable
from difflib import get_close_matches


class SpuError(ValueError):
    """A problem that the caller can fix. The message explains how, in one or two sentences."""


class TableError(SpuError):
    """The file or its columns cannot be used."""


class RuleError(SpuError):
    """A rule cannot be read or applied."""


class SoftLabelError(SpuError):
    """Soft labels are not probabilities, or they are all 0 or all 1."""


class ScoreError(SpuError):
    """Scores, weights or groups are not valid."""


class AssumptionError(SpuError):
    """Numbers contradict the assumptions of a theorem or an estimate."""


class TrainingError(SpuError):
    """A candidate cannot be trained on this table."""


class WorkspaceError(SpuError):
    """A stored object cannot be found, read or written."""


class EngineError(SpuError):
    """An executor has failed, not the job: a lost worker, a scheduler that does not answer, a busy port."""


class BundleError(SpuError):
    """An exported model is damaged or cannot be read."""


def traceback_for_log(problem: BaseException) -> str:
    """The traceback, indented and without control characters, so that user text cannot look like a log line.

    >>> print(traceback_for_log(ValueError("a\\n2030-01-01 all is well\\x1b[2J")))
      | ValueError: a
      | 2030-01-01 all is well\\x1b[2J
    """
    lines = "".join(traceback.format_exception(problem)).rstrip("\n").split("\n")
    return "\n".join(f"  | {''.join(map(_visible, line))}" for line in lines)


def _visible(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode()


def os_error_reason(problem: OSError) -> str:
    """The reason for an operating-system error, without paths of this machine that a message may contain.

    >>> os_error_reason(OSError(2, "Failed to open local file '/srv/secret'"))
    'No such file or directory'
    """
    return os.strerror(problem.errno) if problem.errno else type(problem).__name__


def nearest_hint(wanted: str, available: Iterable[str]) -> str:
    """A hint for an unknown name: the most similar name, or the names that are available.

    >>> nearest_hint("ages", ["age", "income"])
    "Did you mean 'age'?"
    >>> nearest_hint("zip", ["age", "income"])
    "Available: 'age', 'income'."
    """
    names = sorted(map(str, available))
    near = get_close_matches(wanted, names, n=1)
    if near:
        return f"Did you mean {near[0]!r}?"
    shown = ", ".join(repr(name) for name in names[:8])
    return f"Available: {shown}{', …' if len(names) > 8 else ''}."
