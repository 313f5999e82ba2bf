"""How large an experiment runs and where it finds its data."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from spu_core.checks import check_choice
from spu_core.errors import SpuError
from spu_core.experiments.result import Provenance
from spu_core.versions import library_versions

SCALES = ("smoke", "full")
OnProgress = Callable[[float, str], None]
"""Called with the share that is done, from 0 to 1, and words for what comes next."""


@dataclass(frozen=True, kw_only=True)
class ExperimentSettings:
    """`seeds` None takes the experiment's own number; `scale` is "full" as stored or "smoke" in seconds;
    `data` is a folder of data files, None looks at SPU_DATA and then asks OpenML.

    >>> ExperimentSettings(scale="smoke").count_of_seeds(smoke=2, full=10)
    2
    >>> ExperimentSettings(seeds=0)
    Traceback (most recent call last):
    spu_core.errors.SpuError: seeds must be at least 1, got 0.
    """

    seeds: int | None = None
    scale: str = "full"
    data: Path | None = None
    threads: int = 1

    def __post_init__(self) -> None:
        check_choice(self.scale, SCALES, "scale")
        if self.seeds is not None and self.seeds < 1:
            raise SpuError(f"seeds must be at least 1, got {self.seeds}.")
        if self.threads < 1:
            raise SpuError(f"threads must be at least 1, got {self.threads}.")

    @property
    def is_smoke(self) -> bool:
        return self.scale == "smoke"

    def count_of_seeds(self, *, smoke: int, full: int) -> int:
        """The caller's number of seeds, or the experiment's own at this scale."""
        return self.seeds or (smoke if self.is_smoke else full)


def quiet(share: float, words: str) -> None:
    """An `OnProgress` that says nothing."""


def provenance(settings: ExperimentSettings, seconds: float, **more: Any) -> Provenance:
    """Where figures made now come from; `more` are sizes that the experiment chose, such as its seeds."""
    # The folder is a fact about one computer, not about the figures.
    chosen = {name: value for name, value in asdict(settings).items() if name != "data"}
    today = datetime.now(UTC).date().isoformat()
    return Provenance(commit_of_program(), library_versions(), {**chosen, **more}, round(seconds, 1), today)


def commit_of_program() -> str:
    """The commit of a checkout, marked where the engine has changes; of an installed program its version."""
    folder = Path(__file__).resolve().parent.parent
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None or _git(folder, "ls-files", "--error-unmatch", __file__) is None:
        return f"version {library_versions()['spu-studio']}"
    # Storing one result must not mark the next one: results do not decide figures.
    unchanged = _git(folder, "diff", "--quiet", "HEAD", "--", ".", ":(exclude)experiments/results")
    return commit + ("" if unchanged is not None else " with changes")


def _git(folder: Path, *arguments: str) -> str | None:
    """What git answers, or None where it refuses or is not installed."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
