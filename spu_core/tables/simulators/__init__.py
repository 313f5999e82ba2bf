"""Simulated tables with a hidden truth: the anti-cheat game, memory-clinic patients, ad conversions, breast cancer."""

from spu_core.tables.simulators.ads import AdsConfig, simulate_ads
from spu_core.tables.simulators.anti_cheat import (
    AntiCheatConfig,
    AntiCheatSeason,
    AntiCheatWorld,
    simulate_anti_cheat,
)
from spu_core.tables.simulators.anti_cheat_players import Players
from spu_core.tables.simulators.breast_cancer import BreastCancerConfig, simulate_breast_cancer
from spu_core.tables.simulators.medical import MedicalConfig, simulate_medical

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
