"""Small tables that look like Adult and Diabetes, for runs in seconds on a computer without the data."""

from __future__ import annotations

import numpy as np
import pandas as pd

from spu_core.experiments.runners.uci import DRUGS, DataSet


def small_adult(rows: int = 1500) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age, study = rng.integers(18, 70, rows), rng.integers(6, 17, rows)
    married = rng.random(rows) < 0.5
    rich = rng.random(rows) < 1 / (1 + np.exp(5.5 - 0.25 * study - 0.03 * age - 1.2 * married))
    return pd.DataFrame(
        {
            "age": age,
            "education-num": study,
            "marital-status": np.where(married, "Married-civ-spouse", "Never-married"),
            "hours-per-week": rng.integers(20, 60, rows),
            "capital-gain": np.where(rng.random(rows) < 0.05 + 0.25 * rich, 5000, 0),
            "capital-loss": np.where(rng.random(rows) < 0.05, 1500, 0),
            "income": np.where(rich, ">50K", "<=50K"),
        }
    )


def small_diabetes(rows: int = 1500) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    counts = ("num_medications", "number_outpatient", "number_emergency", "number_inpatient")
    is_primary = rng.random(rows) < 0.3
    return pd.DataFrame(
        {
            "encounter_id": np.arange(rows),
            "patient_nbr": rng.integers(0, rows // 2, rows),
            "time_in_hospital": rng.integers(1, 14, rows) + 2 * is_primary,
            **{name: rng.poisson(20 if name == "num_medications" else 0.8 + 0.5 * is_primary) for name in counts},
            "diag_1": np.where(is_primary, "250.83", "414"),
            "diag_2": "401",
            "diag_3": "?",
            **{name: np.where(rng.random(rows) < 0.3, "Yes", "No") for name in DRUGS},
            "readmitted": rng.choice(["NO", "<30", ">30"], rows),
        }
    )


def load_small(name, folder=None):
    made = {"adult": small_adult, "diabetes130": small_diabetes}
    return DataSet(name, made[name](), f"small {name}")
