"""Metrics on plain arrays. Arguments come in the order (belief, model output).

A function ending in `_score` returns one number; higher is better, except for FPR_SPU. A function ending in `_interval`
returns the same number with a confidence interval (`Interval`).
"""

from spu_core.metrics.auc import (
    auc_spu_ceiling,
    auc_spu_score,
    auc_spu_share_score,
    known_positive_auc_score,
)
from spu_core.metrics.band import RocBand, roc_spu_band
from spu_core.metrics.companions import (
    calibration_gap,
    calibration_to_soft_label,
    soft_log_loss,
)
from spu_core.metrics.external import ExternalScores
from spu_core.metrics.histogram import BoundedAuc, ScoreHistogram
from spu_core.metrics.influence import Influence, Spread, auc_spu_influence, effective_number, spread_of
from spu_core.metrics.intervals import (
    Difference,
    Interval,
    auc_spu_ceiling_interval,
    auc_spu_interval,
    ceiling_gap_interval,
    ceiling_share_interval,
    compare_auc_spu,
    known_positive_auc_interval,
)
from spu_core.metrics.roc import (
    Gains,
    OperatingPoint,
    RocSpu,
    ThinCurve,
    fpr_spu_score,
    gains_spu,
    roc_spu,
    roc_spu_ceiling,
    tpr_spu_score,
)

__all__ = [
    "BoundedAuc",
    "Difference",
    "ExternalScores",
    "Gains",
    "Influence",
    "Interval",
    "OperatingPoint",
    "RocBand",
    "RocSpu",
    "ScoreHistogram",
    "Spread",
    "ThinCurve",
    "auc_spu_ceiling",
    "auc_spu_ceiling_interval",
    "auc_spu_influence",
    "auc_spu_interval",
    "auc_spu_score",
    "auc_spu_share_score",
    "calibration_gap",
    "calibration_to_soft_label",
    "ceiling_gap_interval",
    "ceiling_share_interval",
    "compare_auc_spu",
    "effective_number",
    "fpr_spu_score",
    "gains_spu",
    "known_positive_auc_interval",
    "known_positive_auc_score",
    "roc_spu",
    "roc_spu_band",
    "roc_spu_ceiling",
    "soft_log_loss",
    "spread_of",
    "tpr_spu_score",
]
