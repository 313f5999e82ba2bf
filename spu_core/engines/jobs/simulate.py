"""The job "simulate": a simulated table becomes a dataset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from spu_core.checks import check_choice
from spu_core.codec import decode
from spu_core.engines.jobs import JobContext
from spu_core.errors import WorkspaceError
from spu_core.tables import Table
from spu_core.tables import simulators as simulated


def simulate(context: JobContext) -> dict[str, Any]:
    """`{"simulator": "ads", "settings": {"users": 5000, "seed": 1}, "name": "ads, seed 1"}` → the id of the dataset."""
    kind = check_choice(context.parameters.get("simulator", ""), SIMULATORS, "simulator", WorkspaceError)
    config_type, make = SIMULATORS[kind]
    config: Any = decode(config_type, context.parameters.get("settings", {}), "The simulator", WorkspaceError)
    context.progress(0.1, f"simulating {kind.replace('_', ' ')}")
    table = make(config)
    context.progress(0.9, "saving")
    saved = context.workspace.datasets.save(table, context.parameters.get("name"))
    return {"dataset": saved.id, "rows": saved.n_rows, "columns": saved.n_columns}


def _anti_cheat(config: simulated.AntiCheatConfig) -> Table:
    return simulated.simulate_anti_cheat(config).players


SIMULATORS: dict[str, tuple[type, Callable[[Any], Table]]] = {
    "ads": (simulated.AdsConfig, simulated.simulate_ads),
    "anti_cheat": (simulated.AntiCheatConfig, _anti_cheat),
    "breast_cancer": (simulated.BreastCancerConfig, simulated.simulate_breast_cancer),
    "medical": (simulated.MedicalConfig, simulated.simulate_medical),
}
