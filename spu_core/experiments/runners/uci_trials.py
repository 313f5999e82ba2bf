"""The trials on UCI data: target, columns, rules and groups of each, and the random draw of one seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import SpuError, nearest_hint
from spu_core.labels import SoftLabels, assign_soft_labels
from spu_core.metrics import auc_spu_score
from spu_core.models import METHODS, SoftLabelClassifier
from spu_core.rules import AnyOf, Compare, Ramp, Rule, RuleSet
from spu_core.tables import Table

Tables = Mapping[str, pd.DataFrame]


@dataclass(frozen=True, eq=False)
class Trial:
    """A table with a known class and rules about it; `train_share` of the rows (or groups) are for training."""

    title: str
    frame: pd.DataFrame
    truth: np.ndarray
    rules: RuleSet
    groups: np.ndarray | None = None
    train_share: float = 2 / 3

    def sample(self, rows: int, seed: int = 0) -> Trial:
        """About this many rows, picked at random; of whole groups, where there are groups."""
        if rows >= len(self.frame):
            return self
        codes, names = pd.factorize(np.arange(len(self.frame)) if self.groups is None else self.groups)
        count = round(rows / len(self.frame) * len(names))
        picked = np.isin(codes, np.random.default_rng([7, seed]).choice(len(names), count, replace=False))
        groups = None if self.groups is None else self.groups[picked]
        frame = self.frame[picked].reset_index(drop=True)
        return replace(self, frame=frame, truth=self.truth[picked], groups=groups)

    def with_codes(self) -> Trial:
        """The same table with categories written as numbers, in the order of their names."""
        texts = [name for name in self.frame if self.frame[name].dtype.kind not in "iufb"]
        codes = {str(name): self.frame[name].astype("category").cat.codes.astype(float) for name in texts}
        return replace(self, frame=self.frame.assign(**codes))


def make_trial(name: str, tables: Tables) -> Trial:
    """The trial of this name; `tables` holds the data sets by name."""
    if name not in TRIALS:
        raise SpuError(f"There is no trial {name!r}. {nearest_hint(name, TRIALS)}")
    return TRIALS[name](tables)


def adult(tables: Tables) -> Trial:
    """Income above 50K; a capital gain or loss gives a belief of ½."""
    frame = tables["adult"]
    invests = AnyOf((Compare("capital-gain", ">", 0), Compare("capital-loss", ">", 0)))
    truth = frame["income"].eq(">50K").to_numpy()
    return Trial("Adult", frame.drop(columns="income"), truth, RuleSet((Rule("Investor", 0.5, invests),)))


def breast_cancer(tables: Tables) -> Trial:
    """Malignant is positive (scikit-learn codes it 0); the mean of two ramps over the upper half of the ranks."""
    from sklearn.datasets import load_breast_cancer

    frame, target = load_breast_cancer(return_X_y=True, as_frame=True)
    ramps = tuple(
        Rule(f"Large {column}", Ramp(column=column, start=0.5, end=1.0, at_end=0.5, scale="quantile"))
        for column in ("worst radius", "worst texture")
    )
    return Trial("Breast Cancer", frame, target.to_numpy() == 0, RuleSet(ramps, combine="mean_of_fired"))


def breast_cancer_few(tables: Tables) -> Trial:
    """The same with a fifth of the rows for training."""
    return replace(breast_cancer(tables), train_share=0.2)


DIAGNOSES = ("diag_1", "diag_2", "diag_3")
DRUGS = (
    "metformin", "repaglinide", "nateglinide", "chlorpropamide", "glimepiride", "acetohexamide", "glipizide",
    "glyburide", "tolbutamide", "pioglitazone", "rosiglitazone", "acarbose", "miglitol", "troglitazone", "tolazamide",
    "examide", "citoglipton", "insulin", "glyburide-metformin", "glipizide-metformin", "glimepiride-pioglitazone",
    "metformin-rosiglitazone", "metformin-pioglitazone", "change", "diabetesMed",
)  # fmt: skip
TWO_STAYS = RuleSet((Rule("Two stays or more", 0.3, Compare("number_inpatient", ">=", 2)),))
FOUR_COUNTS = RuleSet(
    tuple(
        Rule(f"Many {column}", 0.3, Compare(column, ">=", limit))
        for column, limit in (
            ("num_medications", 25),
            ("number_outpatient", 2),
            ("number_emergency", 2),
            ("number_inpatient", 2),
        )
    ),
    combine="strongest",
)


def diabetes_closest(tables: Tables) -> Trial:
    """Primary diagnosis 250.xx, without the diagnosis columns; two stays in hospital or more → 0.3."""
    frame = tables["diabetes130"]
    truth = frame["diag_1"].str.startswith("250").to_numpy(dtype=bool)
    return _diabetes("Diabetes (primary diagnosis, stays)", frame, truth, DIAGNOSES, TWO_STAYS)


def diabetes_diagnosis(tables: Tables) -> Trial:
    """The same target with the paper's four counts as rules."""
    closest = diabetes_closest(tables)
    return replace(closest, title="Diabetes (primary diagnosis, four counts)", rules=FOUR_COUNTS)


def diabetes_readmitted(tables: Tables) -> Trial:
    """The usual target of this table, readmission, with the paper's four counts as rules."""
    frame = tables["diabetes130"]
    truth = frame["readmitted"].ne("NO").to_numpy(dtype=bool)
    return _diabetes("Diabetes (readmitted, four counts)", frame, truth, ("readmitted",), FOUR_COUNTS)


def diabetes_medicated(tables: Tables) -> Trial:
    """Whether a drug against diabetes is given, without the drug columns, with the paper's four counts as rules."""
    frame = tables["diabetes130"]
    truth = frame["diabetesMed"].eq("Yes").to_numpy(dtype=bool)
    return _diabetes("Diabetes (medication, four counts)", frame, truth, DRUGS, FOUR_COUNTS)


def bank(tables: Tables) -> Trial:
    """Term deposit, without the call's duration, which is known only afterwards; earlier success → 0.6."""
    frame = tables["bank_full"]
    rules = RuleSet(
        (
            Rule("Earlier success", 0.6, Compare("poutcome", "=", "success")),
            Rule("Large balance", 0.2, Compare("balance", ">", 3000)),
        )
    )
    return Trial("Bank", frame.drop(columns=["y", "duration"]), frame["y"].eq("yes").to_numpy(dtype=bool), rules)


def _diabetes(title: str, frame: pd.DataFrame, truth: np.ndarray, dropped: tuple[str, ...], rules: RuleSet) -> Trial:
    features = frame.drop(columns=["encounter_id", "patient_nbr", *dropped])
    return Trial(title, features, truth, rules, groups=frame["patient_nbr"].to_numpy())


TRIALS: dict[str, Callable[[Tables], Trial]] = {
    "adult": adult,
    "bank": bank,
    "breast_cancer": breast_cancer,
    "breast_cancer_few": breast_cancer_few,
    "diabetes_closest": diabetes_closest,
    "diabetes_diagnosis": diabetes_diagnosis,
    "diabetes_medicated": diabetes_medicated,
    "diabetes_readmitted": diabetes_readmitted,
}


CHANCE = "labeling_chance"
LARGEST_CHANCE = 0.5


@dataclass(frozen=True, eq=False)
class Draw:
    """One random draw of a trial: split, labels and soft labels.

    `chance` is u, drawn for test rows as well; labels of test rows are never used."""

    trial: Trial
    train: np.ndarray
    chance: np.ndarray
    soft_labels: SoftLabels
    grouped: bool = False

    @property
    def groups(self) -> np.ndarray | None:
        """Groups of the training rows, for inner folds, where the split keeps groups together."""
        groups = self.trial.groups
        return groups[self.train] if self.grouped and groups is not None else None

    @property
    def test(self) -> np.ndarray:
        return ~self.train


@dataclass(frozen=True, eq=False)
class FittedDraw:
    """A fitted method with the columns that it was trained on."""

    draw: Draw
    model: SoftLabelClassifier
    frame: pd.DataFrame

    def score(self, frame: pd.DataFrame | None = None) -> np.ndarray:
        """Scores of the test rows; `frame` replaces what the model sees of them."""
        test = self.draw.test
        seen = self.frame[test] if frame is None else frame
        return self.model.predict_proba(seen, rule_score=self.draw.soft_labels.rule_score[test])[:, 1]

    def auc(self, frame: pd.DataFrame | None = None) -> float:
        """True AUC on the test rows: AUC_SPU with the truth as soft label."""
        truth = self.draw.trial.truth[self.draw.test].astype(np.float64)
        return auc_spu_score(truth, self.score(frame))


def draw_trial(trial: Trial, seed: int, *, grouped: bool = False) -> Draw:
    """Split at random (whole groups where `grouped`), draw u ~ U[0, ½] for every row, and label by it."""
    rng = np.random.default_rng([1, seed])
    train = _split(trial, rng, grouped)
    chance = rng.uniform(0.0, LARGEST_CHANCE, train.size)
    is_labeled = trial.truth & (rng.random(train.size) < chance)
    return replace(draw_with_labels(trial, train, is_labeled, chance), grouped=grouped)


def draw_with_labels(trial: Trial, train: np.ndarray, is_labeled: np.ndarray, chance: np.ndarray) -> Draw:
    """A draw with given labels; quantiles of ramps are fitted on the training rows."""
    seen = trial.frame[list(rule_columns(trial))]
    table = Table.from_frame(seen[train].assign(labeled=is_labeled[train].astype(int)), roles={"labeled": "label"})
    fitted = trial.rules.fit(table)
    soft_labels = assign_soft_labels(fitted.apply(seen), is_labeled, trial.rules.combine)
    return Draw(trial, train, chance, soft_labels)


def rule_columns(trial: Trial) -> tuple[str, ...]:
    """The columns that the rules read."""
    return tuple(dict.fromkeys(column for rule in trial.rules for column in rule.columns))


def fit_method(
    draw: Draw, method: str, settings: Mapping[str, Any] | None = None, *, chance_in_x: bool = False
) -> FittedDraw:
    """Train one method of the registry on the training rows; rule columns are kept or dropped as the method does."""
    given, train = dict(settings or {}), draw.train
    frame = draw.trial.frame.assign(**{CHANCE: draw.chance}) if chance_in_x else draw.trial.frame
    labels = draw.soft_labels
    model = SoftLabelClassifier(method, **given).fit(
        frame[train],
        labels.value[train],
        is_labeled=labels.is_labeled[train],
        rule_score=labels.rule_score[train],
        truth=draw.trial.truth[train],
        groups=draw.groups,
        rule_columns=rule_columns(draw.trial),
    )
    return FittedDraw(draw, model, frame)


def known_settings(method: str, learner: str | None, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The wanted settings that the method has with this learner, and the learner itself."""
    names = {setting.name for setting in METHODS[method].settings(learner)}
    chosen = {"learner": learner} if learner is not None and "learner" in names else {}
    return {**chosen, **{name: value for name, value in wanted.items() if name in names}}


def _split(trial: Trial, rng: np.random.Generator, grouped: bool) -> np.ndarray:
    if not grouped or trial.groups is None:
        train = np.zeros(len(trial.frame), dtype=bool)
        train[rng.permutation(train.size)[: round(trial.train_share * train.size)]] = True
        return train
    codes, names = pd.factorize(trial.groups)
    picked = rng.permutation(len(names))[: round(trial.train_share * len(names))]
    return np.isin(codes, picked)
