"""The methods by key: what each is in words, what it needs, its settings."""

from __future__ import annotations

from spu_core.errors import TrainingError, nearest_hint
from spu_core.models.fused import fused
from spu_core.models.method import Method, Need
from spu_core.models.settings import THREADS, Setting
from spu_core.models.targets import bagging, elkan_noto, plain
from spu_core.models.targets.nnpu import nnpu
from spu_core.models.targets.sar_em import sar_em
from spu_core.models.targets.two_stage import two_stage


def method(key: str) -> Method:
    """The method of this key, or an error that names the nearest one."""
    if key not in METHODS:
        raise TrainingError(f"There is no method {key!r}. {nearest_hint(key, METHODS)}")
    return METHODS[key]


TREES_FIRST = ("lightgbm", "xgboost", "logistic", "neural_net", "extra_trees", "nearest_neighbors")
FOLDS = Setting(name="folds", default=4, low=2, high=20, help="Inner folds: a row's own label never makes its target.")
BAGS = Setting(name="bags", default=20, low=1, high=500, help="Bags to average.")
BAG_RATIO = Setting(
    name="bag_ratio",
    default=1.0,
    low=0.1,
    high=100.0,
    log=True,
    tunable=True,
    help="Unlabelled rows per labelled one in a bag.",
)
SMALL_BAGS = (("rounds", 60), ("num_leaves", 8))


def _soft(learner: str, title: str, words: str) -> Method:
    """The paper's method with one of the learners."""
    return Method(
        key=learner,
        title=title,
        group="soft label",
        words=words,
        needs=(Need.SOFT_LABELS,),
        keeps_rule_columns=False,
        learners=(learner,),
        target=plain.soft_label,
    )


_ALL = (
    Method(
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
    ),
    _soft(
        "lightgbm",
        "Soft labels, LightGBM",
        "The paper's method: boosted trees learn S by soft cross-entropy, without the columns the rules read.",
    ),
    _soft("xgboost", "Soft labels, XGBoost", "The paper's method with XGBoost's trees."),
    _soft("neural_net", "Soft labels, neural network", "The paper's method with a three-layer neural network."),
    _soft(
        "logistic",
        "Soft labels, logistic regression",
        "The paper's method with a linear score: smooth and readable.",
    ),
    _soft(
        "nearest_neighbors",
        "Soft labels, nearest neighbours",
        "The mean soft label of the most similar rows; nothing is assumed about its shape.",
    ),
    _soft("extra_trees", "Soft labels, extra trees", "The mean soft label in the leaves of a forest."),
    _soft(
        "cnn",
        "Soft labels, convolutional network",
        "The paper's method for pixel columns; needs the extra vision.",
    ),
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
        source=bagging.soft_bagging,
        own_settings=(BAGS, BAG_RATIO),
        learner_defaults=SMALL_BAGS,
    ),
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
        source=bagging.bagging_pu,
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
                help="Share of positives among all rows; None estimates it from held-out scores (an upper estimate).",
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

METHODS: dict[str, Method] = {entry.key: entry for entry in _ALL}
