"""Soft-label positive-unlabelled learning: metrics, rules, models and evaluation without true negatives.

Names are imported when they are first used, so that `import spu_core` is fast.
"""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from spu_core.errors import SpuError
    from spu_core.export import Bundle, load_bundle, save_bundle
    from spu_core.labels import (
        SoftLabels,
        assign_soft_labels,
        check_ratio_labels,
        check_record_labels,
        soft_labels_for,
    )
    from spu_core.metrics import (
        Difference,
        Interval,
        RocSpu,
        ScoreHistogram,
        auc_spu_ceiling,
        auc_spu_interval,
        auc_spu_score,
        compare_auc_spu,
        fpr_spu_score,
        known_positive_auc_interval,
        known_positive_auc_score,
        roc_spu,
        roc_spu_band,
        roc_spu_ceiling,
        tpr_spu_score,
    )
    from spu_core.models import METHODS, SoftLabelClassifier
    from spu_core.rules import (
        AllOf,
        AnyOf,
        Compare,
        FittedRules,
        Not,
        Ramp,
        ReadyMade,
        Rule,
        RuleMatrix,
        RuleSet,
    )
    from spu_core.tables import Table, TableFolder, convert_table, open_folder, read_table
    from spu_core.tables.samples import load_sample, load_sample_rules, sample_names
    from spu_core.theory import ScarLink, estimate_prior, noisy_monotone_bound
    from spu_core.training import Candidate, Comparison, Run, TrainConfig, compare_runs, cross_fit
    from spu_core.trust import echo_check, estimate_audit, plan_audit, selection_bias

__version__ = "0.2.0"

# Module → its public names. `tests/test_architecture.py` compares it with the imports above.
_HOMES = {
    "errors": "SpuError",
    "export": "Bundle load_bundle save_bundle",
    "labels": "SoftLabels assign_soft_labels check_ratio_labels check_record_labels soft_labels_for",
    "metrics": "Difference Interval RocSpu ScoreHistogram auc_spu_ceiling auc_spu_interval auc_spu_score "
    "compare_auc_spu fpr_spu_score known_positive_auc_interval known_positive_auc_score roc_spu roc_spu_band "
    "roc_spu_ceiling tpr_spu_score",
    "models": "METHODS SoftLabelClassifier",
    "rules": "AllOf AnyOf Compare FittedRules Not Ramp ReadyMade Rule RuleMatrix RuleSet",
    "tables": "Table TableFolder convert_table open_folder read_table",
    "tables.samples": "load_sample load_sample_rules sample_names",
    "theory": "ScarLink estimate_prior noisy_monotone_bound",
    "training": "Candidate Comparison Run TrainConfig compare_runs cross_fit",
    "trust": "echo_check estimate_audit plan_audit selection_bias",
}
_HOME_OF = {name: f"spu_core.{module}" for module, names in _HOMES.items() for name in names.split()}

# Constants first, then classes, then functions.
__all__ = sorted(_HOME_OF, key=lambda name: (not name.isupper(), name[0].islower(), name))


def __getattr__(name: str) -> _typing.Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'spu_core' has no attribute {name!r}")
    return getattr(_importlib.import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
