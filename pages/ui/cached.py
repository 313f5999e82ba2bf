"""Every cached call of the engine that several pages share, by its topic; each module says what its keys are."""

from pages.ui.compare_cached import (
    RunViews,
    SegmentView,
    comparison,
    gains,
    run_band,
    run_calibration,
    run_views,
    segments,
    shuffled,
)
from pages.ui.export_cached import foreign_bundle, scored_by_foreign, scored_file, stored_model, stored_scores
from pages.ui.soft_label_cached import (
    RuleAnalysis,
    check_prior,
    check_ratios,
    class_prior,
    column_choices,
    rule_analysis,
    rule_matrix,
    rule_preview,
    rule_problems,
    soft_label_audit,
    soft_labels,
)
from pages.ui.table_cached import profile, table, whole

__all__ = [
    "RuleAnalysis",
    "RunViews",
    "SegmentView",
    "check_prior",
    "check_ratios",
    "class_prior",
    "column_choices",
    "comparison",
    "foreign_bundle",
    "gains",
    "profile",
    "rule_analysis",
    "rule_matrix",
    "rule_preview",
    "rule_problems",
    "run_band",
    "run_calibration",
    "run_views",
    "scored_by_foreign",
    "scored_file",
    "segments",
    "shuffled",
    "soft_label_audit",
    "soft_labels",
    "stored_model",
    "stored_scores",
    "table",
    "whole",
]
