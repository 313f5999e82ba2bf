"""Memory-clinic patients: few are diagnosed with Alzheimer's disease, many more have it.

Who is diagnosed depends on access to a specialist, so the labels are uneven; the staged cognitive impairment of every
patient is known from a short interview and says more or less about the disease (the paper's Section 7.1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from spu_core.checks import check_share
from spu_core.errors import TableError
from spu_core.tables.roles import Role
from spu_core.tables.simulators.common import category, squashed, table_of
from spu_core.tables.table import Table

STAGES = ("normal", "very mild", "mild")
ROLES = {"patient": Role.ID, "diagnosed": Role.LABEL, "alzheimers": Role.TRUTH}


@dataclass(frozen=True, kw_only=True)
class MedicalConfig:
    """Everything that decides the patients; two equal configs give equal data.

    The stage chances are those of (normal, very mild, mild) impairment, with and without the disease.
    """

    patients: int = 5_000
    seed: int = 0
    prevalence: float = 0.15
    diagnosis_near: float = 0.35
    diagnosis_far: float = 0.08
    stages_ill: tuple[float, float, float] = (0.2, 0.3, 0.5)
    stages_well: tuple[float, float, float] = (0.82, 0.12, 0.06)

    def __post_init__(self) -> None:
        for name in ("prevalence", "diagnosis_near", "diagnosis_far"):
            check_share(getattr(self, name), name, TableError, closed=True)
        for name in ("stages_ill", "stages_well"):
            chances = getattr(self, name)
            if len(chances) != 3 or min(chances) < 0 or abs(sum(chances) - 1) > 1e-9:
                raise TableError(f"{name} must hold three chances that add up to 1, got {chances}.")
        if self.patients < 1:
            raise TableError(f"patients must be at least 1, got {self.patients}.")


def simulate_medical(config: MedicalConfig | None = None) -> Table:
    """Patients with stage of impairment, label (diagnosed) and truth (has the disease).

    >>> table = simulate_medical(MedicalConfig(patients=100))
    >>> table.column_with("label"), table.column_with("truth"), len(table)
    ('diagnosed', 'alzheimers', 100)
    """
    config = config or MedicalConfig()
    rng = np.random.default_rng([10, config.seed])
    is_ill = rng.random(config.patients) < config.prevalence
    frame = _features(is_ill * 1.0, rng)
    frame["impairment"] = _stages(config, is_ill, rng)
    near = frame["specialist_km"].to_numpy() < 20
    chance = np.where(near, config.diagnosis_near, config.diagnosis_far)
    frame["diagnosed"] = (is_ill & (rng.random(config.patients) < chance)).astype(int)
    frame["alzheimers"] = is_ill.astype(int)
    return table_of(frame, "mild_cognitive_impairment", ROLES)


def _stages(config: MedicalConfig, is_ill: np.ndarray, rng: np.random.Generator) -> pd.Series:
    ill = category(STAGES, config.stages_ill, is_ill.size, rng)
    return ill.where(is_ill, category(STAGES, config.stages_well, is_ill.size, rng))


def _features(ill: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
    size, noise = ill.size, lambda: rng.standard_normal(ill.size)
    age = np.clip(71 + 4 * ill + 7 * noise(), 50, 98)
    education = np.clip(12 - 0.8 * ill + 3 * noise(), 4, 22)
    return pd.DataFrame(
        {
            "patient": "m" + pd.Series(np.arange(size)).astype("str").str.zfill(6),
            "age": age.round(0).astype(int),
            "sex": category(["female", "male"], [0.55, 0.45], size, rng),
            "education_years": education.round(0).astype(int),
            "apoe4_alleles": rng.binomial(2, 0.14 + 0.18 * ill),
            "family_history": (rng.random(size) < 0.2 + 0.15 * ill).astype(int),
            "recall_words": np.clip(7.2 - 2.0 * ill - 0.03 * (age - 70) + 1.6 * noise(), 0, 10).round(0).astype(int),
            "walking_speed": np.clip(1.15 - 0.12 * ill - 0.008 * (age - 70) + 0.18 * noise(), 0.2, 2).round(2),
            "hippocampus_ml": (6.6 - 0.7 * ill - 0.03 * (age - 70) + 0.6 * noise()).round(2),
            "systolic_pressure": (135 + 2 * ill + 15 * noise()).round(0).astype(int),
            "body_mass_index": np.clip(26 - 0.7 * ill + 3.5 * noise(), 15, 50).round(1),
            "depression_score": rng.poisson(2.5 + 1.0 * ill),
            "missed_appointments": rng.poisson(0.6 + 0.7 * ill),
            "lives_alone": (rng.random(size) < squashed(-0.8 + 0.02 * (age - 70))).astype(int),
            "specialist_km": rng.gamma(2.0, 12.0, size).round(1),
        }
    )
