"""Results as Plotly figures: pure functions, for notebooks and the dashboard alike.

Every chart is a function `…_chart(result, *, theme=LIGHT)`. It changes nothing, contains no table rows, escapes text of
users and has an alternative text: `alt_text(figure)`. Backgrounds are transparent, so a figure fits on any page.
"""

from spu_core.charts.brush_charts import RuleBand, brush_chart, category_chart, selected_levels, selected_range
from spu_core.charts.canvas import alt_text
from spu_core.charts.column_charts import label_rate_chart, missing_chart, soft_label_chart
from spu_core.charts.comparison_charts import (
    difference_chart,
    leaderboard_chart,
    learning_curve_chart,
    segment_chart,
    share_of_ceiling_chart,
    stack_weights_chart,
)
from spu_core.charts.outcome_charts import (
    check_prior_chart,
    failure_ratio_chart,
    label_delay_chart,
    outcome_ratio_chart,
    outcome_time_chart,
)
from spu_core.charts.paper_charts import (
    PrintedFigure,
    check_flow_chart,
    reproduction_chart,
    roc_loss_chart,
    winner_map_chart,
)
from spu_core.charts.roc_charts import clicked_threshold, roc_chart
from spu_core.charts.rule_charts import coverage_chart, leave_one_out_chart, overlap_chart, rule_lift_chart
from spu_core.charts.score_charts import (
    ReviewCosts,
    calibration_chart,
    cost_chart,
    feature_effect_chart,
    gains_chart,
    gains_lift_chart,
    score_chart,
    scoring_history_chart,
    waterfall_chart,
)
from spu_core.charts.theme import DARK, LIGHT, Theme
from spu_core.charts.theorem_charts import (
    ceiling_noise_chart,
    convergence_chart,
    noisy_link_chart,
    ordering_chart,
    scar_line_chart,
)
from spu_core.charts.trust_charts import (
    audit_chart,
    bias_chart,
    echo_chart,
    outlook_chart,
    prior_chart,
    rule_influence_chart,
    sensitivity_chart,
    strata_chart,
)
from spu_core.charts.what_if_charts import what_if_chart

__all__ = [
    "DARK",
    "LIGHT",
    "PrintedFigure",
    "ReviewCosts",
    "RuleBand",
    "Theme",
    "alt_text",
    "audit_chart",
    "bias_chart",
    "brush_chart",
    "calibration_chart",
    "category_chart",
    "ceiling_noise_chart",
    "check_flow_chart",
    "check_prior_chart",
    "clicked_threshold",
    "convergence_chart",
    "cost_chart",
    "coverage_chart",
    "difference_chart",
    "echo_chart",
    "failure_ratio_chart",
    "feature_effect_chart",
    "gains_chart",
    "gains_lift_chart",
    "label_delay_chart",
    "label_rate_chart",
    "leaderboard_chart",
    "learning_curve_chart",
    "leave_one_out_chart",
    "missing_chart",
    "noisy_link_chart",
    "ordering_chart",
    "outcome_ratio_chart",
    "outcome_time_chart",
    "outlook_chart",
    "overlap_chart",
    "prior_chart",
    "reproduction_chart",
    "roc_chart",
    "roc_loss_chart",
    "rule_influence_chart",
    "rule_lift_chart",
    "scar_line_chart",
    "score_chart",
    "scoring_history_chart",
    "segment_chart",
    "selected_levels",
    "selected_range",
    "sensitivity_chart",
    "share_of_ceiling_chart",
    "soft_label_chart",
    "stack_weights_chart",
    "strata_chart",
    "waterfall_chart",
    "what_if_chart",
    "winner_map_chart",
]
