"""The experiments by name, and the results that are shipped with the program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from types import ModuleType

from spu_core.errors import SpuError, WorkspaceError, nearest_hint
from spu_core.experiments.result import Claim, ExperimentResult, ResultTable
from spu_core.experiments.settings import ExperimentSettings, OnProgress, quiet


@dataclass(frozen=True)
class Experiment:
    """One experiment. `needs` names data sets and extras; `live` ones are small enough to rerun on a page.

    Its module holds `run(settings, on_progress)` and `claims(tables)`: claims follow from the figures alone, so that
    words cannot drift from them.
    """

    name: str
    title: str
    words: str
    module: str
    needs: tuple[str, ...]
    live: bool
    typical_minutes: float

    def run(self, settings: ExperimentSettings | None = None, on_progress: OnProgress = quiet) -> ExperimentResult:
        """Run it now."""
        return self._module().run(settings or ExperimentSettings(), on_progress)

    def claims(self, tables: Mapping[str, ResultTable]) -> tuple[Claim, ...]:
        """What these tables say about the paper's claims."""
        return self._module().claims(tables)

    def _module(self) -> ModuleType:
        # Imported when asked for, so that listing experiments loads neither boosters nor torch.
        return import_module(f"spu_core.experiments.{self.module}")


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
    ),
    Experiment(
        "selection",
        "Model selection without truth",
        "Does choosing by AUC_SPU pick the model with the best true AUC?",
        "selection",
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
