"""Simulated tables with a hidden truth: the anti-cheat game, memory-clinic patients, ad conversions, breast cancer."""

from spu_core.tables.simulators.anti_cheat import (
    AntiCheatConfig,
    AntiCheatSeason,
    AntiCheatWorld,
    Players,
    simulate_anti_cheat,
)
from spu_core.tables.simulators.scenarios import (
    AdsConfig,
    BreastCancerConfig,
    MedicalConfig,
    simulate_ads,
    simulate_breast_cancer,
    simulate_medical,
)

__all__ = [
    "AdsConfig",
    "AntiCheatConfig",
    "AntiCheatSeason",
    "AntiCheatWorld",
    "BreastCancerConfig",
    "MedicalConfig",
    "Players",
    "simulate_ads",
    "simulate_anti_cheat",
    "simulate_breast_cancer",
    "simulate_medical",
]
