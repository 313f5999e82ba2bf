"""Soft-label positive-unlabelled learning: metrics, rules, models and evaluation without a single true negative.

Names are loaded when they are first used, so that a worker or a command pays only for what it needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from spu_core.versions import __version__ as __version__

if TYPE_CHECKING:
    from spu_core.errors import SpuError
    from spu_core.export import load_bundle, save_bundle
    from spu_core.labels import (
        SoftLabels,
        assign_soft_labels,
        check_ratio_labels,
        check_record_labels,
        soft_labels_for,
    )
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
    from spu_core.models import METHODS, SoftLabelClassifier
    from spu_core.rules import Rule, RuleSet
    from spu_core.tables import Table, TableFolder, convert_table, open_folder, read_table
    from spu_core.theory import ScarLink, estimate_prior, noisy_monotone_bound
    from spu_core.training import TrainConfig, compare_runs, cross_fit

__all__ = [
    "METHODS",
    "Rule",
    "RuleSet",
    "ScarLink",
    "ScoreHistogram",
    "SoftLabelClassifier",
    "SoftLabels",
    "SpuError",
    "Table",
    "TableFolder",
    "TrainConfig",
    "assign_soft_labels",
    "auc_spu_ceiling",
    "auc_spu_interval",
    "auc_spu_score",
    "check_ratio_labels",
    "check_record_labels",
    "compare_auc_spu",
    "compare_runs",
    "convert_table",
    "cross_fit",
    "estimate_prior",
    "fpr_spu_score",
    "load_bundle",
    "noisy_monotone_bound",
    "open_folder",
    "read_table",
    "roc_spu",
    "roc_spu_ceiling",
    "save_bundle",
    "soft_labels_for",
    "tpr_spu_score",
]

_HOMES = {
    "spu_core.errors": ("SpuError",),
    "spu_core.export": ("load_bundle", "save_bundle"),
    "spu_core.labels": (
        "SoftLabels",
        "assign_soft_labels",
        "check_ratio_labels",
        "check_record_labels",
        "soft_labels_for",
    ),
    "spu_core.metrics": (
        "ScoreHistogram",
        "auc_spu_ceiling",
        "auc_spu_interval",
        "auc_spu_score",
        "compare_auc_spu",
        "fpr_spu_score",
        "roc_spu",
        "roc_spu_ceiling",
        "tpr_spu_score",
    ),
    "spu_core.models": ("METHODS", "SoftLabelClassifier"),
    "spu_core.rules": ("Rule", "RuleSet"),
    "spu_core.tables": ("Table", "TableFolder", "convert_table", "open_folder", "read_table"),
    "spu_core.theory": ("ScarLink", "estimate_prior", "noisy_monotone_bound"),
    "spu_core.training": ("TrainConfig", "compare_runs", "cross_fit"),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'spu_core' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
