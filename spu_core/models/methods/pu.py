"""Methods of the PU literature: positives from labels by a label frequency, by bags, by a risk, by a propensity."""

from __future__ import annotations

from spu_core.models.method import Method, Need
from spu_core.models.methods.shared import BAG_RATIO, BAGS, FOLDS, SMALL_BAGS, TREES_FIRST
from spu_core.models.settings import Setting
from spu_core.models.targets import elkan_noto
from spu_core.models.targets.bagging import bagging_pu
from spu_core.models.targets.nnpu import nnpu
from spu_core.models.targets.sar_em import sar_em

PU = (
    Method(
        key="elkan_noto",
        title="Elkan–Noto",
        group="baseline",
        words="P(labelled | x) over the label frequency, which is measured on held-out labelled rows; never above 1.",
        needs=(Need.LABELS,),
        keeps_rule_columns=True,
        learners=TREES_FIRST,
        source=elkan_noto.scaled,
        own_settings=(FOLDS,),
    ),
    Method(
        key="weighted_elkan_noto",
        title="Elkan–Noto, weighted",
        group="baseline",
        words="Unlabelled rows get their chance of being hidden positives as soft label, then one soft fit.",
        needs=(Need.LABELS,),
        keeps_rule_columns=True,
        learners=TREES_FIRST,
        source=elkan_noto.weighted,
        own_settings=(FOLDS,),
    ),
    Method(
        key="bagging_pu",
        title="Bagging PU",
        group="baseline",
        words="Labelled rows against many bootstraps of the unlabelled ones, averaged (Mordelet and Vert).",
        needs=(Need.LABELS,),
        keeps_rule_columns=True,
        learners=TREES_FIRST,
        source=bagging_pu,
        own_settings=(BAGS, BAG_RATIO),
        learner_defaults=SMALL_BAGS,
    ),
    Method(
        key="nnpu",
        title="nnPU",
        group="baseline",
        words="A neural network under the non-negative PU risk (Kiryo and others); needs the class prior.",
        needs=(Need.LABELS, Need.PRIOR),
        keeps_rule_columns=True,
        learners=("nnpu_net",),
        source=nnpu,
        own_settings=(
            Setting(
                name="prior",
                default=None,
                low=1e-6,
                high=1 - 1e-6,
                kind="number",
                optional=True,
                help="Share of positives among all rows; None takes an upper estimate from held-out scores. The risk "
                "uses the share among unlabelled rows that follows from it.",
            ),
        ),
    ),
    Method(
        key="sar_em",
        title="SAR-EM",
        group="baseline",
        words="Labels depend on known columns: class and labelling propensity are learnt in turns (Bekker and others).",
        needs=(Need.LABELS,),
        keeps_rule_columns=True,
        learners=("logistic", "lightgbm", "xgboost", "neural_net", "extra_trees"),
        source=sar_em,
        own_settings=(
            Setting(
                name="propensity_columns",
                default=(),
                help="Columns that decide who gets a label; none named means all.",
            ),
            Setting(name="em_steps", default=50, low=1, high=200, help="Turns of expectation and maximisation."),
        ),
    ),
)
