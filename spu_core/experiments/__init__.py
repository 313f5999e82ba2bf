"""The paper's tables and theorems, reproduced: the experiments by name, and their stored results.

`runners` holds the code that computes them; it is imported only when an experiment is run.
"""

from spu_core.experiments.catalog import (
    EXPERIMENTS,
    Claim,
    Experiment,
    ExperimentResult,
    ExperimentSettings,
    Provenance,
    ResultTable,
    experiment,
    stored_result,
)

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
