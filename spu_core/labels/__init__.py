"""Soft labels from rules and labels: explanations, previews, suggested beliefs, and checks of S."""

from spu_core.labels.belief_suggestions import (
    BeliefSuggestion,
    RuleLift,
    rank_rules,
    ranked,
    suggest_belief,
    suggest_beliefs,
)
from spu_core.labels.check_ratio_labels import CheckRatioLabels, check_ratio_labels
from spu_core.labels.check_record_labels import CheckRecordLabels, check_record_labels
from spu_core.labels.preview import PreviewBase, RulePreview, preview_base
from spu_core.labels.soft_label_audit import SoftLabelAudit, audit_soft_labels, leave_one_rule_out
from spu_core.labels.soft_labels import Contribution, Explanation, SoftLabels, assign_soft_labels, soft_labels_for
from spu_core.rules.combine import COMBINERS, Combiner

__all__ = [
    "COMBINERS",
    "BeliefSuggestion",
    "CheckRatioLabels",
    "CheckRecordLabels",
    "Combiner",
    "Contribution",
    "Explanation",
    "PreviewBase",
    "RuleLift",
    "RulePreview",
    "SoftLabelAudit",
    "SoftLabels",
    "assign_soft_labels",
    "audit_soft_labels",
    "check_ratio_labels",
    "check_record_labels",
    "leave_one_rule_out",
    "preview_base",
    "rank_rules",
    "ranked",
    "soft_labels_for",
    "suggest_belief",
    "suggest_beliefs",
]
