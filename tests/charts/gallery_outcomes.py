"""The charts of check outcomes on small data."""

from __future__ import annotations

import numpy as np

from spu_core import charts
from spu_core.trust.outcomes.ratios import Checks, label_delay, outcome_ratios, ratios_over_time

RNG = np.random.default_rng(7)
ARMS = np.repeat(["Gradient boosting", "<b>Old</b> model", "random"], [300, 300, 120])
CHANCES = {"Gradient boosting": [0.3, 0.62], "<b>Old</b> model": [0.5, 0.47], "random": [0.88, 0.115]}
LUCK = RNG.random(ARMS.size)
WORDS = np.array(["pass", "fail", "admit"])
OUTCOME = [str(WORDS[(luck > np.cumsum(CHANCES[arm])).sum()]) for arm, luck in zip(ARMS, LUCK, strict=True)]
DAYS = np.datetime64("2026-03-02") + RNG.integers(0, 42, ARMS.size)
CHECKS = Checks.read({"user": np.arange(ARMS.size), "arm": ARMS, "outcome": OUTCOME, "day": DAYS})
RATIOS = outcome_ratios(CHECKS)
OVER_TIME = ratios_over_time(CHECKS)
START = np.datetime64("2026-06-30") - RNG.integers(1, 90, 500)
DONE = START + 1 + RNG.poisson(12, 500)
DELAY = label_delay(START, np.where(np.datetime64("2026-06-30") >= DONE, DONE, np.datetime64("NaT")), "2026-06-30")

OUTCOME_EXAMPLES = {
    "outcome_ratio": lambda theme: charts.outcome_ratio_chart(RATIOS, theme=theme),
    "outcome_pass_ratio": lambda theme: charts.outcome_ratio_chart(RATIOS, which="pass_", theme=theme),
    "outcome_time": lambda theme: charts.outcome_time_chart(OVER_TIME, theme=theme),
    "label_delay": lambda theme: charts.label_delay_chart(DELAY, theme=theme),
    "no_outcomes": lambda theme: charts.outcome_ratio_chart((), theme=theme),
}
