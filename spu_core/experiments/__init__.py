"""The paper's tables and theorems, reproduced: experiments by name, and the results shipped with the program."""

from spu_core.experiments.registry import EXPERIMENTS, Experiment, ExperimentSettings, experiment, stored_result
from spu_core.experiments.result import Claim, ExperimentResult, Provenance, ResultTable

__all__ = [
    "EXPERIMENTS",
    "Claim",
    "Experiment",
    "ExperimentResult",
    "ExperimentSettings",
    "Provenance",
    "ResultTable",
    "experiment",
    "stored_result",
]
