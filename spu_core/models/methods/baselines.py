"""Baselines whose target can be read off the rows: labels, S cut in two, the rules alone, the truth."""

from __future__ import annotations

from spu_core.models.method import Method, Need
from spu_core.models.methods.shared import TREES_FIRST
from spu_core.models.settings import Setting
from spu_core.models.targets import plain

BASELINES = (
    Method(
        key="labeled_vs_rest",
        title="Labelled against the rest",
        group="baseline",
        words="Takes every unlabelled row for a negative (the paper's baseline BL0).",
        needs=(Need.LABELS,),
        keeps_rule_columns=True,
        learners=(*TREES_FIRST, "cnn"),
        target=plain.labeled,
    ),
    Method(
        key="soft_as_positive",
        title="Soft label as positive",
        group="baseline",
        words="Takes every row with a soft label above 0 for a positive (the paper's baseline BL1).",
        needs=(Need.SOFT_LABELS,),
        keeps_rule_columns=True,
        learners=(*TREES_FIRST, "cnn"),
        target=plain.any_belief,
    ),
    Method(
        key="soft_as_feature",
        title="Rule score as a feature",
        group="baseline",
        words="Labelled against the rest, with the rule score as one more column (never S: it would leak the label).",
        needs=(Need.LABELS, Need.RULE_SCORE),
        keeps_rule_columns=True,
        learners=TREES_FIRST,
        source=plain.with_rule_score_column,
        scores_with_rules=True,
    ),
    Method(
        key="soft_threshold",
        title="Threshold on the soft label",
        group="baseline",
        words="Takes rows whose soft label reaches a threshold for positives, the others for negatives.",
        needs=(Need.SOFT_LABELS,),
        keeps_rule_columns=False,
        learners=(*TREES_FIRST, "cnn"),
        target=plain.above_threshold,
        own_settings=(
            Setting(
                name="threshold",
                default=0.5,
                low=0.0,
                high=1.0,
                tunable=True,
                help="From this soft label on, a row is positive.",
            ),
        ),
    ),
)

REFERENCES = (
    Method(
        key="rule_score",
        title="The rules alone",
        group="baseline",
        words="No model: the combined rule score itself, before labels override it.",
        needs=(Need.RULE_SCORE,),
        keeps_rule_columns=True,
        source=plain.rule_score_itself,
        scores_with_rules=True,
    ),
    Method(
        key="oracle",
        title="Oracle",
        group="baseline",
        words="Learns from the truth where it is known: what could be reached, never a model to use.",
        needs=(Need.TRUTH,),
        keeps_rule_columns=True,
        learners=(*TREES_FIRST, "cnn"),
        target=plain.truth,
    ),
)
