"""The experiments by name: how large they run, their stored results, and the job that runs them in the background.

Importing this module loads no runner: `Experiment.run` imports the module that does the work.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from spu_core.checks import check_choice
from spu_core.errors import SpuError, WorkspaceError, nearest_hint
from spu_core.experiments.result import Claim, ExperimentResult, Provenance, ResultTable
from spu_core.versions import library_versions

if TYPE_CHECKING:
    from spu_core.engines.jobs import JobContext

KIND = "experiment"
"""The kind of the job that runs an experiment."""
SCALES = ("smoke", "full")
OnProgress = Callable[[float, str], None]
"""Called with the share that is done, from 0 to 1, and the name of the next step."""


@dataclass(frozen=True, kw_only=True)
class ExperimentSettings:
    """How large an experiment runs, and where it finds its data.

    Parameters
    ----------
    seeds : int, optional
        Number of seeds; by default that of the experiment.
    scale : {"full", "smoke"}
        "full" as in the stored results, or "smoke", which takes seconds.
    data : Path, optional
        Folder of data files; by default the folder of SPU_DATA, then OpenML.
    threads : int
        Processor threads.

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
    """An `OnProgress` that does nothing."""


@dataclass(frozen=True)
class Experiment:
    """One experiment. `needs` names data sets and extras; `live` ones are small enough to rerun on a page.

    `module` is a module of `spu_core.experiments.runners` with `run(settings, on_progress)` and `claims(tables)`. The
    claims follow from the tables alone. `parts` are those that can be run alone, with their titles.
    """

    name: str
    title: str
    description: str
    module: str
    needs: tuple[str, ...]
    live: bool
    typical_minutes: float
    parts: Mapping[str, str] = field(default_factory=dict, hash=False)

    def run(
        self, settings: ExperimentSettings | None = None, on_progress: OnProgress = quiet, *, part: str | None = None
    ) -> ExperimentResult:
        """Run the experiment now, or one part of it."""
        settings = settings or ExperimentSettings()
        if part is None:
            return self._runner().run(settings, on_progress)
        if not self.parts:
            raise WorkspaceError(f"Experiment {self.name!r} has no parts; run all of it.")
        check_choice(part, self.parts, "part")
        return self._runner().run(settings, on_progress, parts=[part])

    def claims(self, tables: Mapping[str, ResultTable]) -> tuple[Claim, ...]:
        """The verdicts on the paper's claims that follow from these tables."""
        return self._runner().claims(tables)

    def _runner(self) -> ModuleType:
        # Imported when it is needed: runners load boosters and torch.
        return import_module(f"spu_core.experiments.runners.{self.module}")


_ALL = (
    Experiment(
        "table1",
        "Table 1: UCI data, soft labels against labels only",
        "Diabetes, Adult and Breast Cancer with XGBoost and LightGBM, as the paper did it and honestly.",
        "table1",
        ("diabetes130", "adult"),
        False,
        25.0,
    ),
    Experiment(
        "table2",
        "Table 2: images under generalized SCAR",
        "Fashion-MNIST and CIFAR-10 with a small convolutional network, against BL0 and BL1.",
        "table2",
        ("fashion-mnist", "cifar10", "vision"),
        False,
        110.0,
    ),
    Experiment(
        "table3",
        "Table 3: the anti-cheat game",
        "Check ratios, check records, baseline and oracle in simulated worlds, with the sensitivity of the ordering.",
        "table3",
        (),
        True,
        8.0,
    ),
    Experiment(
        "theorems",
        "Theorems 1 to 5, by simulation",
        "Each theorem as a figure that can be checked, with the caveats that the paper leaves out.",
        "theorems",
        (),
        True,
        2.0,
        {
            "theorem1": "Theorem 1: the ceiling",
            "theorem2": "Theorem 2: a straight line",
            "theorem3": "Theorem 3: the best order",
            "theorem4": "Theorem 4: second-order loss",
            "theorem5": "Theorem 5: more rows",
            "figure2": "Figure 2: check and punishment",
        },
    ),
    Experiment(
        "selection",
        "Model selection without truth",
        "Does choosing by AUC_SPU pick the model with the best true AUC?",
        "model_selection",
        ("diabetes130", "adult", "bank_full"),
        False,
        15.0,
    ),
    Experiment(
        "features",
        "Feature selection without truth",
        "Do columns that are chosen by AUC_SPU keep the true AUC, and is noise left out?",
        "feature_selection",
        ("diabetes130", "adult", "bank_full"),
        False,
        15.0,
    ),
    Experiment(
        "discussion",
        "Discussion 7.2: soft label as target or as feature",
        "Who wins as the number of labels and their bias vary.",
        "discussion",
        ("adult",),
        False,
        10.0,
    ),
)

EXPERIMENTS: dict[str, Experiment] = {each.name: each for each in _ALL}


def experiment(name: str) -> Experiment:
    """The experiment of this name, or an error that names the nearest one."""
    if name not in EXPERIMENTS:
        raise SpuError(f"There is no experiment {name!r}. {nearest_hint(name, EXPERIMENTS)}")
    return EXPERIMENTS[name]


def stored_result(name: str) -> ExperimentResult:
    """The result of a full run that is shipped with the program."""
    file = files("spu_core.experiments") / "results" / f"{experiment(name).name}.json"
    if not file.is_file():
        raise WorkspaceError(f"No result of {name!r} is stored with this version; run it: spu paper {name} --run.")
    return ExperimentResult.from_json(file.read_bytes())


def run_experiment(task: JobContext) -> dict[str, Any]:
    """`{"experiment": "theorems", "part": "theorem4", "scale": "smoke"}` → `{"result": JSON text}`; part is optional.

    Data are found as on the command line, by SPU_DATA; a path never comes from a job.
    """
    chosen = experiment(str(task.parameters.get("experiment", "")))
    settings = ExperimentSettings(scale=str(task.parameters.get("scale", "smoke")), threads=task.threads)
    part = task.parameters.get("part")
    return {"result": chosen.run(settings, task.progress, part=None if part is None else str(part)).to_json()}


def result_of(outcome: dict[str, Any]) -> ExperimentResult:
    """The result of a finished job."""
    text = outcome.get("result")
    if not isinstance(text, str):
        raise WorkspaceError("This job holds no result of an experiment; run the experiment again.")
    return ExperimentResult.from_json(text)


def provenance(settings: ExperimentSettings, seconds: float, **more: Any) -> Provenance:
    """The provenance of results made now; `more` are sizes that the experiment chose, such as its seeds."""
    # The data folder belongs to one computer, so it is left out.
    chosen = {name: value for name, value in asdict(settings).items() if name != "data"}
    today = datetime.now(UTC).date().isoformat()
    return Provenance(commit_of_program(), library_versions(), {**chosen, **more}, round(seconds, 1), today)


def commit_of_program() -> str:
    """The commit of a checkout, with a mark where the engine has changes; the version of an installed program."""
    folder = Path(__file__).resolve().parent.parent
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None or _git(folder, "ls-files", "--error-unmatch", __file__) is None:
        return f"version {library_versions()['spu-studio']}"
    # A stored result does not change the figures, so a new one does not count as a change.
    unchanged = _git(folder, "diff", "--quiet", "HEAD", "--", ".", ":(exclude)experiments/results")
    return commit + ("" if unchanged is not None else " with changes")


def _git(folder: Path, *arguments: str) -> str | None:
    """The output of git, or None where it fails or is not installed."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
