"""Every chart on small data: the tests draw all of them, and as a script it writes one page per chart.

python -m tests.charts.gallery FOLDER             pages in the light theme
python -m tests.charts.gallery FOLDER --dark      and in the dark one
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from spu_core import charts
from spu_core.charts import DARK, LIGHT, RuleBand, Theme
from spu_core.labels import assign_soft_labels, audit_soft_labels, leave_one_rule_out
from spu_core.metrics import (
    auc_spu_interval,
    calibration_to_soft_label,
    ceiling_share_interval,
    compare_auc_spu,
    gains_spu,
    roc_spu,
    roc_spu_band,
    roc_spu_ceiling,
)
from spu_core.rules import RuleMatrix
from spu_core.rules.suggest import ColumnSeparation
from spu_core.tables import Table
from spu_core.tables.profiles import histogram, profile_table
from spu_core.theory import ScarLink
from spu_core.theory.check_prior import fit_check_prior
from spu_core.theory.check_ratio import fit_check_ratios
from spu_core.training.evaluation import PairedDifference
from tests.charts.gallery_outcomes import OUTCOME_EXAMPLES
from tests.charts.gallery_trust import TRUST_EXAMPLES

ROWS = 4000
NOISE = {"Gradient boosting": 0.55, "Random forest": 0.7, "MLP": 0.72, "Soft logistic": 0.95, "Naive Bayes": 1.9}
CHAMPION = "Gradient boosting"
STACK_WEIGHTS = {"label trees": 0.61, "label linear": 0.47, "rule trees": 0.2, "rule linear": 0.0, "rule score": 0.31}


def rows(size: int = ROWS, seed: int = 0) -> pd.DataFrame:
    """A table whose soft labels and scores make a realistic picture."""
    rng = np.random.default_rng(seed)
    logit = rng.normal(-1.3, 1.6, size)
    frame = pd.DataFrame({"soft_label": 1 / (1 + np.exp(-logit))})
    for name, noise in NOISE.items():
        frame[name] = 1 / (1 + np.exp(-(logit + rng.normal(0, 2.2 * noise, size))))
    frame["is_labeled"] = rng.random(size) < 0.25 * frame["soft_label"]
    frame["days"] = rng.gamma(2.2, 30, size) * (1 + 0.4 * frame["is_labeled"])
    countries, share = ["Germany", "France", "Spain", "Poland", "Italy"], [0.4, 0.3, 0.15, 0.1, 0.05]
    frame["country"] = rng.choice(countries, size, p=share)
    frame["income"] = np.where(rng.random(size) < 0.62, np.nan, rng.lognormal(10, 1, size))
    frame["age"] = np.where(rng.random(size) < 0.07, np.nan, rng.integers(18, 90, size))
    frame["seen"] = pd.Timestamp("2025-01-01") + pd.to_timedelta(rng.integers(0, 400, size), unit="D")
    return frame


def rule_matrix(size: int = ROWS) -> RuleMatrix:
    """Five rules that fire here and there, two of them much on the same rows."""
    rng = np.random.default_rng(1)
    names = ["late payers", "new device", "night transfers", "shared address with a blocked account", "manual tip"]
    fired = rng.random((size, 5)) < [0.2, 0.12, 0.08, 0.04, 0.01]
    fired[:, 2] |= fired[:, 1] & (rng.random(size) < 0.7)
    return RuleMatrix.from_arrays(names, fired * np.array([0.3, 0.5, 0.45, 0.8, 0.95]))


def losses(folds: int = 3, length: int = 120) -> list[list[float]]:
    rng = np.random.default_rng(2)
    rounds = np.arange(length)
    return [
        (0.35 + 0.3 * np.exp(-rounds / 25) + 0.0004 * rounds + rng.normal(0, 0.003, length) + 0.01 * fold).tolist()
        for fold in range(folds)
    ]


DATA = rows()
SOFT = DATA["soft_label"].to_numpy()
LABELED = DATA["is_labeled"].to_numpy()
SCORES = {name: DATA[name].to_numpy() for name in NOISE}
CURVES = {name: roc_spu(SOFT, score) for name, score in SCORES.items()}
CEILING = roc_spu_ceiling(SOFT)
BAND = roc_spu_band(SOFT, SCORES[CHAMPION])
LINK = ScarLink.from_truth(SOFT, np.random.default_rng(4).random(ROWS) < SOFT)
POINT = CURVES[CHAMPION].at_fpr(0.16)
INTERVALS = {name: auc_spu_interval(SOFT, score) for name, score in SCORES.items()}
CONFIRMED = {name: auc_spu_interval(LABELED.astype(float), score) for name, score in SCORES.items()}
SHARES = {name: ceiling_share_interval(SOFT, score) for name, score in SCORES.items()}
GAINS = {name: gains_spu(SOFT, score) for name, score in list(SCORES.items())[:3]}
CALIBRATION = {name: calibration_to_soft_label(SOFT, score) for name, score in list(SCORES.items())[:3]}
DAYS = histogram(DATA["days"].to_numpy(), LABELED)
SEEN = histogram(DATA["seen"].dt.as_unit("ns").astype("int64").to_numpy().astype(float), LABELED)
PROFILE = profile_table(Table.from_frame(DATA[["days", "country", "income", "age", "is_labeled"]]))
MATRIX = rule_matrix()
RULE_LABELED = LABELED & (MATRIX.fired[:, 3] | MATRIX.fired[:, 1] | (np.arange(ROWS) % 2 == 0))
SUMMARY = MATRIX.summary(RULE_LABELED)
AUDIT = audit_soft_labels(assign_soft_labels(MATRIX, RULE_LABELED, floor=0.02))
LEFT_OUT = leave_one_rule_out(MATRIX, RULE_LABELED)
BANDS = [RuleBand("late payers", 180, 269, 0.81), RuleBand("new", None, 12, 0.2)]
COSTS = charts.ReviewCosts(review=5, miss=40, positives=float(SOFT.sum()))
EFFECTS = pd.DataFrame(
    {
        "column": ["days_since_purchase", "income", "country", "age", "a column with a very long name"],
        "importance": [0.082, 0.041, 0.017, 0.004, -0.002],
        "spread": [0.006, 0.004, 0.003, 0.002, 0.002],
    }
)


def _levels(values: pd.Series) -> tuple[list[str], np.ndarray, np.ndarray]:
    counts = pd.crosstab(values, LABELED)
    return list(counts.index), counts[True].to_numpy(), counts[False].to_numpy()


def _pairs() -> list[PairedDifference]:
    names = list(SCORES)
    found = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]][:7]
    differences = [compare_auc_spu(SOFT, SCORES[a], SCORES[b]) for a, b in found]
    return [PairedDifference(a, b, d, min(1.0, 7 * d.p_value)) for (a, b), d in zip(found, differences, strict=True)]


def _ratios():
    rng = np.random.default_rng(3)
    share = {"random": 0.05, "aim": 0.42, "speed": 0.2, "reports by other players": 0.09, "win streak": 0.03}
    rule = np.repeat(list(share), [900, 200, 150, 300, 120])
    failed = rng.random(rule.size) < np.vectorize(share.get)(rule)
    return fit_check_ratios(rule, failed, np.zeros(rule.size, bool), "random")


def _segments():
    parts = {name: (DATA["country"] == name).to_numpy() for name in DATA["country"].unique()}
    found = {name: auc_spu_interval(SOFT[part], SCORES[CHAMPION][part]) for name, part in parts.items()}
    weak = SOFT > 0.25
    return {**found, "S above ¼": auc_spu_interval(SOFT[weak], SCORES[CHAMPION][weak])}


PAIRS, RATIOS, SEGMENTS = _pairs(), _ratios(), _segments()
PRIOR = fit_check_prior([10] * 100 + [5] * 60, [9] * 70 + [1] * 20 + [5] * 10 + [5] * 50 + [0] * 10, penalty=0.003)
COUNTRIES = _levels(DATA["country"])
SEPARATION = ColumnSeparation(
    "days", 0.71, 0.65, 0.77, ("0 to 9", "10 to 30"), np.array([400.0, 200.0]), np.array([4.0, 20.0]), None
)
FALLING = np.array([0.9, 0.8, 0.7, 0.6])
NOISE_SERIES = {"noise": [0.0, 0.1, 1.0, 3.0], "curves": {"uniform": {"ceiling": 0.9, "auc_spu": FALLING.tolist()}}}
LINE_SERIES = {
    "common": {"true_auc": [0.5, 0.7, 0.9], "auc_spu": [0.5, 0.56, 0.62], "spread": [0.01] * 3, "line": [0.5, 0.65]}
}
ORDER_SERIES = {
    "auc_spu": FALLING.tolist(),
    "auc": [0.8, 0.75, 0.79, 0.6],
    "pair": [0.7, 0.8, 0.79, 0.75],
    "best": [0.9, 0.35, 0.82],
}
BOUND_SERIES = {"noise": [0.001, 0.01], "loss": [1e-5, 1e-3], "printed": [8e-6, 8e-4], "sharp": [2e-5, 2e-3]}
GAP_SERIES = {"sizes": [250, 1000, 4000], "learners": {"LightGBM": {"gap": [0.1, 0.04, 0.01], "error": [0.01] * 3}}}
ROC_SERIES = {
    "fpr": [0.0, 0.2, 1.0],
    "optimal": [0.0, 0.7, 1.0],
    "by_spu": [0.0, 0.6, 1.0],
    "optimal_auc": 0.75,
    "by_spu_auc": 0.7,
}
FLOWS = [
    {"from": "All players", "to": "Picked by a rule", "players": 30, "cheaters": 9},
    {"from": "All players", "to": "Never picked", "players": 70, "cheaters": 2},
    {"from": "Picked by a rule", "to": "Permanent restriction: label 1", "players": 30, "cheaters": 9},
]
WINNERS = [
    {"labels": labels, "bias": bias, "target − feature": gap, "winner": winner}
    for labels, bias, gap, winner in [
        (10, 0.0, 0.03, "target"),
        (900, 0.0, -0.02, "feature"),
        (10, 2.0, 0.0, "undecided"),
    ]
]
PRINTED = [
    charts.PrintedFigure("Adult, LightGBM", 0.863, 0.861, 0.002, "soft labels"),
    charts.PrintedFigure("Adult, LightGBM", 0.833, 0.845, None, "baseline"),
]

Example = Callable[[Theme], go.Figure]
SCORED = pd.DataFrame(
    {
        "file": ["may.csv", "<b>june</b>.csv", "july.csv"],
        "flagged_share": [0.02, 0.03, 0.08],
        "training_share": [0.02, 0.02, 0.02],
        "score_low": [0.01, np.nan, 0.02],
        "score_median": [0.1, 0.12, 0.2],
        "score_high": [0.6, np.nan, 0.8],
    }
)

WATERFALL = (("amount = 950", 0.4), ("rule Late claim", 0.31), ("age = 61", -0.04))
EXAMPLES: dict[str, Example] = {
    "roc": lambda theme: charts.roc_chart(CURVES, CEILING, operating_point=POINT, theme=theme),
    "roc_band_perfect": lambda theme: charts.roc_chart(
        dict(list(CURVES.items())[:2]), CEILING, band=BAND, perfect=LINK, theme=theme
    ),
    "roc_low": lambda theme: charts.roc_chart(
        CURVES, CEILING, band=BAND, references=["Naive Bayes"], zoom="low", theme=theme
    ),
    "roc_log": lambda theme: charts.roc_chart(CURVES, CEILING, operating_point=POINT, zoom="log", theme=theme),
    "roc_many": lambda theme: charts.roc_chart(
        {f"Candidate number {i} with a long name": CURVES["MLP"] for i in range(12)}, CEILING, theme=theme
    ),
    "leaderboard": lambda theme: charts.leaderboard_chart(
        {"AUC_SPU": INTERVALS, "AUC on confirmed cases": CONFIRMED}, ceiling=CEILING.auc, theme=theme
    ),
    "share_of_ceiling": lambda theme: charts.share_of_ceiling_chart(SHARES, theme=theme),
    "difference": lambda theme: charts.difference_chart(PAIRS, theme=theme),
    "stack_weights": lambda theme: charts.stack_weights_chart(STACK_WEIGHTS, theme=theme),
    "segment": lambda theme: charts.segment_chart(SEGMENTS, overall=CURVES[CHAMPION].auc, theme=theme),
    "calibration": lambda theme: charts.calibration_chart(CALIBRATION, theme=theme),
    "gains": lambda theme: charts.gains_chart(GAINS, budget=0.1, theme=theme),
    "gains_lift": lambda theme: charts.gains_lift_chart(GAINS, budget=0.1, theme=theme),
    "cost": lambda theme: charts.cost_chart(CURVES[CHAMPION], COSTS, operating_point=POINT, theme=theme),
    "scoring_history": lambda theme: charts.scoring_history_chart(SCORED, theme=theme),
    "no_scoring_history": lambda theme: charts.scoring_history_chart(SCORED.head(0), theme=theme),
    "waterfall": lambda theme: charts.waterfall_chart(
        WATERFALL, start=0.05, end=0.81, rest=0.09, unit="score", theme=theme
    ),
    "score": lambda theme: charts.score_chart(SCORES[CHAMPION], LABELED, threshold=POINT.threshold, theme=theme),
    "feature_effect": lambda theme: charts.feature_effect_chart(EFFECTS, theme=theme),
    "brush": lambda theme: charts.brush_chart(DAYS, "days_since_purchase", rules=BANDS, theme=theme),
    "brush_dates": lambda theme: charts.brush_chart(SEEN, "last seen", dates=True, theme=theme),
    "separation": lambda theme: charts.separation_chart(SEPARATION, theme=theme),
    "category": lambda theme: charts.category_chart(*COUNTRIES, column="country", theme=theme),
    "label_rate": lambda theme: charts.label_rate_chart(DAYS, "days_since_purchase", theme=theme),
    "missing": lambda theme: charts.missing_chart(PROFILE, theme=theme),
    "soft_label": lambda theme: charts.soft_label_chart(AUDIT, theme=theme),
    "overlap": lambda theme: charts.overlap_chart(MATRIX.overlaps(), theme=theme),
    "coverage": lambda theme: charts.coverage_chart(SUMMARY, theme=theme),
    "rule_lift": lambda theme: charts.rule_lift_chart(SUMMARY, theme=theme),
    "leave_one_out": lambda theme: charts.leave_one_out_chart(LEFT_OUT, theme=theme),
    "failure_ratio": lambda theme: charts.failure_ratio_chart(RATIOS, theme=theme),
    "check_prior": lambda theme: charts.check_prior_chart(PRIOR, theme=theme),
    "learning_curve": lambda theme: charts.learning_curve_chart(
        {"LightGBM": losses(), "Neural network": losses(3, 60)}, theme=theme
    ),
    "ceiling_noise": lambda theme: charts.ceiling_noise_chart(NOISE_SERIES, theme=theme),
    "scar_line": lambda theme: charts.scar_line_chart(LINE_SERIES, theme=theme),
    "ordering": lambda theme: charts.ordering_chart(ORDER_SERIES, "convex: η³", theme=theme),
    "noisy_link": lambda theme: charts.noisy_link_chart(BOUND_SERIES, 0.95, theme=theme),
    "convergence": lambda theme: charts.convergence_chart(GAP_SERIES, theme=theme),
    "roc_loss": lambda theme: charts.roc_loss_chart(ROC_SERIES, theme=theme),
    "check_flow": lambda theme: charts.check_flow_chart(FLOWS, theme=theme),
    "winner_map": lambda theme: charts.winner_map_chart(WINNERS, theme=theme),
    "reproduction": lambda theme: charts.reproduction_chart(PRINTED, "true AUC", theme=theme),
    **OUTCOME_EXAMPLES,
    **TRUST_EXAMPLES,
    "nothing": lambda theme: charts.leaderboard_chart({}, theme=theme),
}


def write_pages(folder: Path, theme: Theme = LIGHT) -> list[Path]:
    """One self-contained page per chart."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, example in EXAMPLES.items():
        path = folder / f"{name}-{theme.name}.html"
        example(theme).write_html(path, config={"displayModeBar": False, "responsive": True})
        paths.append(path)
    return paths


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]), DARK if "--dark" in sys.argv else LIGHT)
