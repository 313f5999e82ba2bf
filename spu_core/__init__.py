"""Soft-label positive-unlabelled learning: metrics, rules, models and evaluation without a single true negative."""

from spu_core.errors import SpuError
from spu_core.metrics import (
    ScoreHistogram,
    auc_spu_ceiling,
    auc_spu_interval,
    auc_spu_score,
    compare_auc_spu,
    fpr_spu_score,
    roc_spu,
    roc_spu_ceiling,
    tpr_spu_score,
)
from spu_core.theory import ScarLink, estimate_prior, noisy_monotone_bound

__version__ = "0.1.0"

__all__ = [
    "ScarLink",
    "ScoreHistogram",
    "SpuError",
    "auc_spu_ceiling",
    "auc_spu_interval",
    "auc_spu_score",
    "compare_auc_spu",
    "estimate_prior",
    "fpr_spu_score",
    "noisy_monotone_bound",
    "roc_spu",
    "roc_spu_ceiling",
    "tpr_spu_score",
]
