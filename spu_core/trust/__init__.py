"""Checks of how reliable a result is; they need trained models, audited rows or outcomes of checks."""

from __future__ import annotations

from spu_core.trust.assumptions import AssumptionReport, PriorReport, check_assumptions, compare_priors
from spu_core.trust.audit.checked import AuditReport, CheckedRows, combine_audits, judge_runs, judge_scores
from spu_core.trust.audit.estimate import AuditEstimate, AuditFigure, estimate_audit
from spu_core.trust.audit.outlook import Outlook, outlook, outlook_table
from spu_core.trust.audit.plan import AuditPlan, plan_audit
from spu_core.trust.audit.population import TARGETS, Population
from spu_core.trust.audit.questions import QUESTIONS, Forecast, draw_audit, first_batch, forecast
from spu_core.trust.audit.verdicts import TREATMENTS, Verdict, read_verdicts, review_list
from spu_core.trust.bias import BiasMap, selection_bias
from spu_core.trust.echo import EchoReport, beyond_rules, echo_check
from spu_core.trust.outcomes.arms import (
    ArmComparison,
    HoldoutReport,
    SplitBalance,
    assign_arms,
    compare_arms,
    detectable_difference,
    measure_on_holdout,
    split_balance,
)
from spu_core.trust.outcomes.feedback import (
    BeliefBound,
    Feedback,
    FeedbackPlan,
    RowChecks,
    belief_bounds,
    feed_back,
    history_leaks,
)
from spu_core.trust.outcomes.ratios import (
    ArmRatios,
    Checks,
    LabelDelay,
    clustered_ratio,
    label_delay,
    outcome_ratios,
    ratio_table,
    ratios_over_time,
)
from spu_core.trust.outcomes.review_queue import (
    Disagreement,
    OutcomeFile,
    OutcomeLine,
    Queue,
    QueuePlan,
    disagreement,
    fill_queue,
    read_outcomes,
)
from spu_core.trust.sensitivity import (
    GammaBounds,
    GammaPair,
    RuleInfluence,
    Sensitivity,
    belief_sensitivity,
    gamma_bounds,
    rule_influence,
    shifted_labels,
    tipping_by_rule,
)
from spu_core.trust.what_if import Implied, Marker, WhatIf

__all__ = [
    "QUESTIONS",
    "TARGETS",
    "TREATMENTS",
    "ArmComparison",
    "ArmRatios",
    "AssumptionReport",
    "AuditEstimate",
    "AuditFigure",
    "AuditPlan",
    "AuditReport",
    "BeliefBound",
    "BiasMap",
    "CheckedRows",
    "Checks",
    "Disagreement",
    "EchoReport",
    "Feedback",
    "FeedbackPlan",
    "Forecast",
    "GammaBounds",
    "GammaPair",
    "HoldoutReport",
    "Implied",
    "LabelDelay",
    "Marker",
    "OutcomeFile",
    "OutcomeLine",
    "Outlook",
    "Population",
    "PriorReport",
    "Queue",
    "QueuePlan",
    "RowChecks",
    "RuleInfluence",
    "Sensitivity",
    "SplitBalance",
    "Verdict",
    "WhatIf",
    "assign_arms",
    "belief_bounds",
    "belief_sensitivity",
    "beyond_rules",
    "check_assumptions",
    "clustered_ratio",
    "combine_audits",
    "compare_arms",
    "compare_priors",
    "detectable_difference",
    "disagreement",
    "draw_audit",
    "echo_check",
    "estimate_audit",
    "feed_back",
    "fill_queue",
    "first_batch",
    "forecast",
    "gamma_bounds",
    "history_leaks",
    "judge_runs",
    "judge_scores",
    "label_delay",
    "measure_on_holdout",
    "outcome_ratios",
    "outlook",
    "outlook_table",
    "plan_audit",
    "ratio_table",
    "ratios_over_time",
    "read_outcomes",
    "read_verdicts",
    "review_list",
    "rule_influence",
    "selection_bias",
    "shifted_labels",
    "split_balance",
    "tipping_by_rule",
]
