"""Methods beyond the paper: fused, two stages, soft bagging."""

from __future__ import annotations

from spu_core.models.fused import fused
from spu_core.models.method import Method, Need
from spu_core.models.methods.shared import BAG_RATIO, BAGS, FOLDS, SMALL_BAGS, TREES_FIRST
from spu_core.models.settings import THREADS, Setting
from spu_core.models.targets.bagging import soft_bagging
from spu_core.models.targets.two_stage import two_stage

FUSED = Method(
    key="fused",
    title="Fused",
    group="ours",
    words="Labels and rules together: five cross-fitted scores are stacked on the labels, and small trees are "
    "refitted on the posterior. The recommended default; without rules it is a good label-only method.",
    needs=(Need.LABELS,),
    keeps_rule_columns=True,
    source=fused,
    own_settings=(
        FOLDS,
        Setting(
            name="trust_rules",
            default=False,
            help="I am sure of my rules: they keep their weight whatever the labels say; costly if wrong.",
        ),
        Setting(name="rounds", default=80, low=1, high=5_000, log=True, help="Trees of each small booster."),
        THREADS,
    ),
    scores_with_rules=True,
)

OURS = (
    Method(
        key="two_stage",
        title="Two stages",
        group="ours",
        words="First E[S | columns the rules do not read], cross-fitted; then a refit of that with all columns.",
        needs=(Need.SOFT_LABELS,),
        keeps_rule_columns=True,
        learners=TREES_FIRST,
        source=two_stage,
        own_settings=(FOLDS,),
    ),
    Method(
        key="soft_bagging",
        title="Soft bagging",
        group="ours",
        words="Bags of all labelled rows and some unlabelled ones that keep their soft labels, averaged.",
        needs=(Need.LABELS, Need.SOFT_LABELS),
        keeps_rule_columns=False,
        learners=TREES_FIRST,
        source=soft_bagging,
        own_settings=(BAGS, BAG_RATIO),
        learner_defaults=SMALL_BAGS,
    ),
)
