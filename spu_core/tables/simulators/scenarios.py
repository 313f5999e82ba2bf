"""Three simulated tables with a hidden truth: ad conversions, memory-clinic patients and breast cancer.

Ads: purchases of users who refused tracking are not recorded. A conversion is labelled only where tracking is on;
behaviour on the site, such as a filled cart, is the soft evidence (the paper's Section 7.1).

Patients: few are diagnosed with Alzheimer's disease, many more have it. Who is diagnosed depends on access to a
specialist; the stage of impairment is known of every patient from a short interview (the paper's Section 7.1).

Breast Cancer Wisconsin: malignant cases are labelled with chance u ~ U[0, ½], which is itself a column of the table
(the paper's Section 6.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from spu_core.checks import check_share
from spu_core.errors import TableError
from spu_core.tables.roles import Role
from spu_core.tables.table import Table


def table_of(frame: pd.DataFrame, name: str, roles: Mapping[str, Role]) -> Table:
    """A table with these roles; every other column is a feature, and 1 means positive."""
    every = {column: roles.get(column, Role.FEATURE) for column in frame.columns}
    return Table.from_frame(frame, name=name, roles=every, positive_values=[1])


def squashed(values: np.ndarray) -> np.ndarray:
    """Map any number into (0, 1) by the logistic function."""
    return 1.0 / (1.0 + np.exp(-values))


def category(levels: Sequence[str], chances: Sequence[float], size: int, rng: np.random.Generator) -> pd.Series:
    """Independent draws of categories with these probabilities."""
    return pd.Series(np.array(levels, dtype=object)[rng.choice(len(levels), size, p=chances)], dtype="str")


def shares(mean: np.ndarray, concentration: float, rng: np.random.Generator) -> np.ndarray:
    """Beta-distributed shares with these means; a mean of 0 or 1 gives that constant."""
    inside = (mean > 0.0) & (mean < 1.0)
    drawn = mean.astype(np.float64)
    drawn[inside] = rng.beta(mean[inside] * concentration, (1.0 - mean[inside]) * concentration)
    return drawn


ADS_ROLES = {"user": Role.ID, "conversion_seen": Role.LABEL, "converted": Role.TRUTH}


@dataclass(frozen=True, kw_only=True)
class AdsConfig:
    """Parameters of the exposures; equal configs give equal data.

    `conversion_rate` is the mean rate; `tracking_off` is the share of untracked users of phones and of computers;
    `reported` is the chance that a tracked conversion reaches the advertiser.
    """

    users: int = 8_000
    seed: int = 0
    conversion_rate: float = 0.06
    tracking_off_phone: float = 0.75
    tracking_off_computer: float = 0.25
    reported: float = 0.6
    cart_given_conversion: float = 0.8
    cart_otherwise: float = 0.05

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name not in ("users", "seed"):
                check_share(value, name, TableError, closed=True)
        if self.users < 1:
            raise TableError(f"users must be at least 1, got {self.users}.")


def simulate_ads(config: AdsConfig | None = None) -> Table:
    """Exposed users with label (conversion seen) and truth (converted).

    >>> table = simulate_ads(AdsConfig(users=100))
    >>> table.column_with("label"), table.column_with("truth"), len(table)
    ('conversion_seen', 'converted', 100)
    """
    config = config or AdsConfig()
    rng = np.random.default_rng([20, config.seed])
    converts = rng.random(config.users) < config.conversion_rate
    frame = _ad_features(config, converts, rng)
    is_tracked = frame["tracking"].to_numpy() == "tracked"
    frame["conversion_seen"] = (converts & is_tracked & (rng.random(config.users) < config.reported)).astype(int)
    frame["converted"] = converts.astype(int)
    return table_of(frame, "ads_conversion", ADS_ROLES)


def _ad_features(config: AdsConfig, converts: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
    size, buys, noise = converts.size, converts * 1.0, lambda: rng.standard_normal(converts.size)
    device = category(["phone", "computer"], [0.6, 0.4], size, rng)
    off = np.where(device == "phone", config.tracking_off_phone, config.tracking_off_computer)
    cart = np.where(converts, config.cart_given_conversion, config.cart_otherwise)
    interest = 0.8 * buys + noise()
    return pd.DataFrame(
        {
            "user": "u" + pd.Series(np.arange(size)).astype("str").str.zfill(6),
            "device": device,
            "tracking": pd.Series(np.where(rng.random(size) < off, "refused", "tracked"), dtype="str"),
            "campaign": category(["search", "social", "video", "banner"], [0.3, 0.35, 0.15, 0.2], size, rng),
            "hour": rng.integers(0, 24, size),
            "exposures": 1 + rng.poisson(1.5, size),
            "clicks": rng.poisson(np.exp(-1.2 + 0.5 * interest)),
            "dwell_seconds": np.exp(3.0 + 0.5 * interest + 0.6 * buys + 0.5 * noise()).round(0).astype(int),
            "pages_viewed": 1 + rng.poisson(np.exp(0.5 + 0.35 * interest)),
            "cart_added": (rng.random(size) < cart).astype(int),
            "return_visits": rng.poisson(0.3 + 0.9 * buys),
            "past_purchases": rng.poisson(np.exp(-0.6 + 0.9 * buys + 0.4 * noise())),
            "price_shown": np.exp(3.5 + 0.5 * noise()).round(2),
            "discount": category(["no", "small", "large"], [0.6, 0.25, 0.15], size, rng),
            "newsletter": (rng.random(size) < squashed(-1.3 + 0.5 * interest)).astype(int),
        }
    )


STAGES = ("normal", "very mild", "mild")
MEDICAL_ROLES = {"patient": Role.ID, "diagnosed": Role.LABEL, "alzheimers": Role.TRUTH}


@dataclass(frozen=True, kw_only=True)
class MedicalConfig:
    """Parameters of the patients; equal configs give equal data.

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
    frame = _patient_features(is_ill * 1.0, rng)
    frame["impairment"] = _stages(config, is_ill, rng)
    near = frame["specialist_km"].to_numpy() < 20
    chance = np.where(near, config.diagnosis_near, config.diagnosis_far)
    frame["diagnosed"] = (is_ill & (rng.random(config.patients) < chance)).astype(int)
    frame["alzheimers"] = is_ill.astype(int)
    return table_of(frame, "mild_cognitive_impairment", MEDICAL_ROLES)


def _stages(config: MedicalConfig, is_ill: np.ndarray, rng: np.random.Generator) -> pd.Series:
    ill = category(STAGES, config.stages_ill, is_ill.size, rng)
    return ill.where(is_ill, category(STAGES, config.stages_well, is_ill.size, rng))


def _patient_features(ill: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
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


BREAST_CANCER_ROLES = {"labeled": Role.LABEL, "malignant": Role.TRUTH}


@dataclass(frozen=True, kw_only=True)
class BreastCancerConfig:
    """`largest_chance` is the upper end of the uniform labelling chance."""

    seed: int = 0
    largest_chance: float = 0.5

    def __post_init__(self) -> None:
        check_share(self.largest_chance, "largest_chance", TableError, closed=True)


def simulate_breast_cancer(config: BreastCancerConfig | None = None) -> Table:
    """The 569 cases of scikit-learn's data set with simulated labels; the truth is known and kept as such.

    >>> table = simulate_breast_cancer()
    >>> len(table), int(table.truth.sum()), len(table.features)
    (569, 212, 31)
    """
    from sklearn.datasets import load_breast_cancer

    config = config or BreastCancerConfig()
    rng = np.random.default_rng([30, config.seed])
    frame, target = load_breast_cancer(return_X_y=True, as_frame=True)
    frame = frame.rename(columns=lambda name: name.replace(" ", "_"))
    # scikit-learn codes malignant as 0.
    is_malignant = target.to_numpy() == 0
    chance = rng.uniform(0.0, config.largest_chance, len(frame)).round(6)
    labels = pd.DataFrame(
        {
            "label_chance": chance,
            "labeled": (is_malignant & (rng.random(len(frame)) < chance)).astype(int),
            "malignant": is_malignant.astype(int),
        }
    )
    return table_of(pd.concat([frame, labels], axis=1), "breast_cancer", BREAST_CANCER_ROLES)
