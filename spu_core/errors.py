"""The errors of the engine: each names the thing, the law, the value, and the way out.

SpuError (ValueError)        everything the caller can fix
├── TableError               the file or its columns
├── RuleError                a rule cannot be read or applied
├── SoftLabelError           soft labels are not probabilities
├── ScoreError               scores, weights or groups cannot be ranked or counted
├── AssumptionError          numbers that contradict the theory they are put into
├── TrainingError            a candidate cannot be trained on this table
├── WorkspaceError           something stored cannot be found, read or written
│   ├── NewerCatalogueError  the workspace was written by a newer version
│   ├── QueueFullError       too many jobs wait already
│   └── StaleEditError       somebody saved another version meanwhile
├── EngineError              where the work runs has failed: a lost worker, a silent scheduler
└── BundleError              an exported model cannot be trusted or read
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable
from difflib import get_close_matches


class SpuError(ValueError):
    """Everything the caller can fix; its text is one or two sentences that say how."""


class TableError(SpuError):
    """The file or its columns cannot be used."""


class RuleError(SpuError):
    """A rule cannot be read or applied."""


class SoftLabelError(SpuError):
    """Soft labels are not probabilities, or not enough to count positives and negatives."""


class ScoreError(SpuError):
    """Scores, weights or groups cannot be ranked or counted."""


class AssumptionError(SpuError):
    """Numbers that contradict the theory they are put into."""


class TrainingError(SpuError):
    """A candidate cannot be trained on this table."""


class WorkspaceError(SpuError):
    """Something stored cannot be found, read or written."""


class EngineError(SpuError):
    """The place where work runs has failed, not the work: a lost worker, a silent scheduler, a busy port."""


class BundleError(SpuError):
    """An exported model cannot be trusted or read."""


def traceback_for_log(problem: BaseException) -> str:
    """The traceback, indented and without control characters: no text of a user can pass for a line of the log.

    >>> print(traceback_for_log(ValueError("a\\n2030-01-01 all is well\\x1b[2J")))
      | ValueError: a
      | 2030-01-01 all is well\\x1b[2J
    """
    lines = "".join(traceback.format_exception(problem)).rstrip("\n").split("\n")
    return "\n".join(f"  | {''.join(map(_visible, line))}" for line in lines)


def _visible(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode()


def words_of_system(problem: OSError) -> str:
    """Why the system refused, without the paths of this machine that the text of a library may quote.

    >>> words_of_system(OSError(2, "Failed to open local file '/srv/secret'"))
    'No such file or directory'
    """
    return os.strerror(problem.errno) if problem.errno else type(problem).__name__


def nearest_hint(wanted: str, available: Iterable[str]) -> str:
    """A sentence that points from a mistyped name to the likeliest one.

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
