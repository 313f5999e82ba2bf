"""The charts of trust on small data."""

from __future__ import annotations

import numpy as np
import pandas as pd

from spu_core import charts
from spu_core.labels import assign_soft_labels
from spu_core.metrics import Interval
from spu_core.rules import RuleMatrix
from spu_core.tables import Table
from spu_core.theory import PriorEstimate
from spu_core.trust import (
    EchoReport,
    GammaPair,
    Marker,
    Population,
    RuleInfluence,
    Sensitivity,
    Verdict,
    WhatIf,
    combine_audits,
    compare_priors,
    draw_audit,
    estimate_audit,
    forecast,
    judge_scores,
    plan_audit,
    selection_bias,
)

ROWS = 1500
RNG = np.random.default_rng(5)
SCORE = RNG.random(ROWS)
TRUTH = RNG.random(ROWS) < SCORE**2
POPULATION = Population.of(SCORE, (0.8 * SCORE).round(2), threshold=0.9)
PLAN = plan_audit(POPULATION, 150)
ESTIMATE = estimate_audit(POPULATION, PLAN, [Verdict(r, "positive" if TRUTH[r] else "negative") for r in PLAN.rows])
DRAWN = draw_audit(POPULATION, 150)
OTHER = Population.of(SCORE + RNG.normal(0, 0.4, ROWS), POPULATION.soft_label, threshold=0.9)
REPORT = judge_scores(
    {"Gradient boosting": POPULATION, "Soft logistic": OTHER},
    combine_audits([(DRAWN, [Verdict(r, "positive" if TRUTH[r] else "negative") for r in DRAWN.rows])]),
)
GAMMA = np.array([1.0, 1.5, 2.0, 3.0, 5.0, 10.0])
PAIR = GammaPair(
    "Gradient boosting", "Soft logistic", GAMMA, 0.04 - 0.03 * np.log(GAMMA), 0.04 + 0.03 * np.log(GAMMA), 3.8
)
WHAT_IF = WhatIf(0.28, Interval(0.66, 0.64, 0.68, 0.01), 0.9, 0.2, 0.04, ((1e-4, 0.0), (0.0, 1e-5)))
MARKERS = (Marker("audit", 0.3, 0.6), Marker("BBE (upper estimate)", 0.36))
PRIOR = compare_priors(PriorEstimate(0.3, 0.27, 0.33, 0.25, 0.1, 0.36), 0.2, audit=ESTIMATE.figures["prior"])
SHIFTS = Sensitivity(("Gradient boosting", "Soft logistic"), RNG.normal([0.8, 0.78], 0.01, (50, 2)), 0.5)
INFLUENCE = RuleInfluence(
    pd.DataFrame(
        {
            "rule": ["night transfers", "late payers"],
            "now": [0.8, 0.8],
            "down": [0.78, 0.799],
            "up": [0.81, 0.802],
            "change": [0.02, 0.002],
            "leads_down": ["Soft logistic", "Gradient boosting"],
            "leads_up": ["Gradient boosting", "Gradient boosting"],
            "leads_dropped": ["Soft logistic", "Gradient boosting"],
            "leads_reversed": ["Soft logistic", "Gradient boosting"],
        }
    ),
    "Gradient boosting",
    1.0,
)


def _bias():
    rng = np.random.default_rng(6)
    size = 3000
    frame = pd.DataFrame({"age": rng.normal(40, 12, size), "region": rng.choice(["north", "south"], size)})
    labels = rng.random(size) < np.where(frame["region"] == "north", 0.25, 0.05)
    frame["label"] = labels.astype(int)
    matrix = RuleMatrix.from_arrays(["suspected"], rng.choice([0.2, 0.5, 0.8], (size, 1)))
    return selection_bias(Table.from_frame(frame, roles={"label": "label"}), assign_soft_labels(matrix, labels))


ECHO = EchoReport(
    "lightgbm",
    3000,
    *(Interval(value, value - 0.04, min(value + 0.04, 1.0), 0.02) for value in (0.88, 0.8, 0.96, 0.7, 0.55, 0.61)),
)
BIAS = _bias()

TRUST_EXAMPLES = {
    "what_if": lambda theme: charts.what_if_chart(WHAT_IF, chosen=WHAT_IF.at(0.34, 0.7), markers=MARKERS, theme=theme),
    "what_if_tpr": lambda theme: charts.what_if_chart(WHAT_IF, quantity="tpr", theme=theme),
    "prior": lambda theme: charts.prior_chart(PRIOR, theme=theme),
    "strata": lambda theme: charts.strata_chart(PLAN, theme=theme),
    "forecast": lambda theme: charts.forecast_chart(forecast(POPULATION), checks=100, theme=theme),
    "forecast_pair": lambda theme: charts.forecast_chart(
        forecast(POPULATION, "which_better", rival=OTHER), checks=100, theme=theme
    ),
    "audited_models": lambda theme: charts.audited_models_chart(REPORT, theme=theme),
    "gamma": lambda theme: charts.gamma_chart(PAIR, theme=theme),
    "bias": lambda theme: charts.bias_chart(BIAS, theme=theme),
    "sensitivity": lambda theme: charts.sensitivity_chart(SHIFTS, theme=theme),
    "rule_influence": lambda theme: charts.rule_influence_chart(INFLUENCE, theme=theme),
    "echo": lambda theme: charts.echo_chart(ECHO, theme=theme),
}
