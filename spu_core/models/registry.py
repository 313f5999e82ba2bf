"""The methods by key, in the order in which they are offered.

| where | methods |
|---|---|
| `methods/ours.py` | fused two_stage soft_bagging |
| `methods/soft_labels.py` | lightgbm xgboost neural_net logistic nearest_neighbors extra_trees cnn |
| `methods/baselines.py` | labeled_vs_rest soft_as_positive soft_as_feature soft_threshold rule_score oracle |
| `methods/pu.py` | elkan_noto weighted_elkan_noto bagging_pu nnpu sar_em |

Each entry names its target source (`targets/`, `fused.py`) and the learners (`learners/`) it can be fitted with.
"""

from __future__ import annotations

from spu_core.errors import TrainingError, nearest_hint
from spu_core.models.method import Method
from spu_core.models.methods.baselines import BASELINES, REFERENCES
from spu_core.models.methods.ours import FUSED, OURS
from spu_core.models.methods.pu import PU
from spu_core.models.methods.soft_labels import SOFT_LABELS

METHODS: dict[str, Method] = {entry.key: entry for entry in (FUSED, *SOFT_LABELS, *OURS, *BASELINES, *PU, *REFERENCES)}


def method(key: str) -> Method:
    """The method of this key, or an error that names the nearest one."""
    if key not in METHODS:
        raise TrainingError(f"There is no method {key!r}. {nearest_hint(key, METHODS)}")
    return METHODS[key]
