"""All methods as one scikit-learn classifier, and scorers for it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from inspect import Parameter, Signature
from typing import Any, ClassVar, Unpack, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import make_scorer
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from spu_core.checks import check_flags, check_groups, check_sample_weight, check_score, check_soft_label
from spu_core.errors import TrainingError, nearest_hint
from spu_core.metrics import auc_spu_score, known_positive_auc_score
from spu_core.models.encoder import Encoder
from spu_core.models.learners.base import as_frame, as_target
from spu_core.models.methods import METHODS, method
from spu_core.models.model import TrainingRows
from spu_core.models.settings import MethodSettings


def _known_positive_auc(y: Any, score: Any, *, is_labeled: Any = None, sample_weight: Any = None) -> float:
    """Rows whose y is 1 count as confirmed, unless `is_labeled` says which rows are."""
    return known_positive_auc_score(
        np.asarray(y) == 1 if is_labeled is None else is_labeled, score, sample_weight=sample_weight
    )


auc_spu_scorer = make_scorer(auc_spu_score, response_method="predict_proba")
auc_spu_scorer.__doc__ = """AUC_SPU of a fitted classifier.

Parameters
----------
estimator : classifier
    Any classifier with `predict_proba`; the second column is the score.
X : array-like
    The features.
y_true : array-like of float
    Soft labels in [0, 1], or classes 0 and 1.
sample_weight : array-like of float, optional
    Weight of each row.
"""

known_positive_auc_scorer = make_scorer(_known_positive_auc, response_method="predict_proba")
known_positive_auc_scorer.__doc__ = """AUC of a fitted classifier on confirmed cases.

Parameters
----------
estimator : classifier
    Any classifier with `predict_proba`; the second column is the score.
X : array-like
    The features.
y_true : array-like of float
    Soft labels in [0, 1], or classes 0 and 1. Rows of 1 count as confirmed.
sample_weight : array-like of float, optional
    Weight of each row.
is_labeled : array-like of bool, optional
    The confirmed rows, needed where a rule also gives a soft label of 1. Passed by metadata routing:
    `known_positive_auc_scorer.set_score_request(is_labeled=True)`.
"""


# The names that scikit-learn uses, and ours.
ALIASES = {"random_state": "seed", "n_jobs": "threads"}
# "auto" is the first where it can be used, else the second.
AUTO = ("fused", "lightgbm")


class SoftLabelClassifier(ClassifierMixin, BaseEstimator):
    """Any method of `METHODS` as a scikit-learn classifier that learns from soft labels.

    Parameters
    ----------
    method : str, default "auto"
        Key of the method, such as "fused", "lightgbm" or "elkan_noto". "auto" is the recommended method: "fused", or
        "lightgbm" where no row is confirmed or a setting is given that "fused" does not have. `method_` says which.
    random_state : int, optional
        Another name of the setting `seed`; None means its default.
    n_jobs : int, optional
        Another name of the setting `threads` (−1: all processors); None means its default.
    **settings : MethodSettings
        Settings of the method, such as `rounds`; `METHODS[method].settings()` explains them, and None means the default
        of the method. Unknown names are refused at once, values by `fit`.

    Attributes
    ----------
    classes_ : ndarray
        The two classes; [0, 1] for soft labels.
    encoder_ : FittedEncoder
        How columns became numbers.
    method_ : str
        Key of the method that was fitted.
    model_ : Model
        The fitted model.
    refined_soft_label_ : ndarray
        The posterior of the training rows; for the method "fused" only.

    Raises
    ------
    TrainingError
        If the method has no such setting; by `fit`, if there is no such method, a value is not allowed, or the rows
        lack something that the method needs.

    Examples
    --------
    >>> X, belief = np.arange(60.0).reshape(-1, 1), np.linspace(0, 1, 60)
    >>> model = SoftLabelClassifier("lightgbm", rounds=30).fit(X, belief)
    >>> bool(model.predict_proba(X)[59, 1] > 0.5)
    True
    >>> round(model.score(X, belief), 2)  # AUC_SPU, which cannot reach 1 for beliefs between 0 and 1
    0.83
    >>> SoftLabelClassifier("lightgbm", round=30)
    Traceback (most recent call last):
    spu_core.errors.TrainingError: Method 'lightgbm' has no setting 'round'. Did you mean 'rounds'?
    """

    # Another name of y, so nothing to route.
    __metadata_request__fit: ClassVar[dict[str, str]] = {"soft_label": UNUSED}

    def __init__(
        self,
        method: str = "auto",
        *,
        random_state: int | None = None,
        n_jobs: int | None = None,
        **settings: Unpack[MethodSettings],
    ) -> None:
        self.method = method
        named = {**settings, "random_state": random_state, "n_jobs": n_jobs}
        given = {name: value for name, value in named.items() if value is not None or name not in ALIASES}
        self._settings = self._known(given, settings.get("learner"))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The method and all its settings, given or default, so that a grid search can name them."""
        return {"method": self.method, **(self._defaults(self._settings.get("learner")) or {}), **self._settings}

    def set_params(self, **params: Any) -> SoftLabelClassifier:
        """Change the method or settings; a new method starts from its own defaults, a new learner from those it knows.

        Raises
        ------
        TrainingError
            If the method has no such setting; then nothing is changed.
        """
        chosen = params.pop("method", self.method)
        same = chosen is self.method or (isinstance(chosen, str) and chosen == self.method)
        kept = self._settings if same else {}
        before, self.method = self.method, chosen
        try:
            given = self._known(params, params.get("learner", kept.get("learner")))
        except TrainingError:
            self.method = before
            raise
        if "learner" in given:
            defaults = self._defaults(given["learner"])
            kept = {name: value for name, value in kept.items() if defaults is None or name in defaults}
        self._settings = {**kept, **given}
        return self

    def _defaults(self, learner: Any) -> dict[str, Any] | None:
        """The settings with this learner; None for a method or learner that `fit` will refuse."""
        if isinstance(self.method, str) and self.method == "auto":
            return {each.name: None for key in AUTO for each in METHODS[key].settings()}
        known = METHODS.get(self.method) if isinstance(self.method, str) else None
        if known is None or not (learner is None or (isinstance(learner, str) and learner in known.learners)):
            return None
        return {each.name: each.default for each in known.settings(learner)}

    def _known(self, given: Mapping[str, Any], learner: Any) -> dict[str, Any]:
        """The settings under our names; a name that the method does not have is refused."""
        defaults, known = self._defaults(learner), {}
        for name, value in given.items():
            own = ALIASES.get(name, name)
            if own != name and own in given:
                raise TrainingError(f"{name} and {own} are the same setting; give one of them.")
            if own != name and defaults is not None and own not in defaults:
                continue  # A method without threads may be told their number.
            if defaults is not None and own not in defaults:
                raise TrainingError(f"Method {self.method!r} has no setting {name!r}. {nearest_hint(name, defaults)}")
            all_processors = name == "n_jobs" and isinstance(value, (int, np.integer)) and value == -1
            known[own] = (os.cpu_count() or 1) if all_processors else value
        return known

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        is_labeled: Any = None,
        rule_score: Any = None,
        truth: Any = None,
        groups: Any = None,
        sample_weight: Any = None,
        rule_columns: tuple[str, ...] = (),
        soft_label: Any = None,
    ) -> SoftLabelClassifier:
        """Train the method.

        Parameters
        ----------
        X : DataFrame or array-like of shape (rows, columns)
            The features. Text columns are encoded; missing values are allowed.
        y : array-like of shape (rows,)
            Floats in [0, 1] are soft labels. Any other dtype is two classes, and the greater one is the labelled one.
        is_labeled : array-like of bool, optional
            Which rows are confirmed cases; by default those whose soft label is 1. Pass it if rules say 1, too.
        rule_score : array-like of float, optional
            What the rules say of each row before labels override it; for methods that read it. Without it, "fused"
            learns what the rules say from the soft labels of the rows that are not confirmed.
        truth : array-like of bool, optional
            The real class; for the oracle only.
        groups : array-like, optional
            Rows of one group stay together in inner folds.
        sample_weight : array-like of float, optional
            Weight of each row.
        rule_columns : tuple of str
            The columns that rules read; most soft-label methods do not learn from them.
        soft_label : array-like of shape (rows,), optional
            The former name of `y`; deprecated.

        Returns
        -------
        SoftLabelClassifier
            Itself.
        """
        if self.method != "auto":
            method(self.method)
        frame = as_frame(self, X, reset=True)
        if soft_label is not None:
            if y is not None:
                raise TrainingError("y and soft_label are the same argument; give y alone.")
            warnings.warn("fit(soft_label=) is now called y; the old name will go.", FutureWarning, stacklevel=2)
            y = soft_label
        target, self.classes_ = as_target(y, len(frame))
        labels = target == 1.0 if is_labeled is None else check_flags(is_labeled, len(frame), "is_labeled")
        self.method_ = self._chosen(labels)
        self.encoder_ = Encoder().fit(frame)
        rows = TrainingRows(
            features=self.encoder_.transform(frame),
            soft_label=target,
            is_labeled=labels,
            rule_score=None if rule_score is None else check_soft_label(rule_score, "rule_score"),
            truth=None if truth is None else check_flags(truth, len(frame), "truth"),
            weight=None if sample_weight is None else check_sample_weight(sample_weight, len(frame)),
            groups=None if groups is None else check_groups(groups, len(frame)),
            rule_columns=tuple(rule_columns),
        )
        self.model_ = method(self.method_).fit(rows, self._given())
        return self

    def predict_proba(self, X: Any, *, rule_score: Any = None) -> np.ndarray:
        """Two columns, of which the second is the score; some methods need the `rule_score` of the same rows."""
        check_is_fitted(self)
        features = self.encoder_.transform(as_frame(self, X, reset=False))
        values = None if rule_score is None else check_score(rule_score, len(features), "rule_score")
        score = self.model_.score_rows(features, values)
        return np.column_stack([1.0 - score, score])

    def predict(self, X: Any, *, rule_score: Any = None) -> np.ndarray:
        """The more likely class of each row."""
        check_is_fitted(self)
        return self.classes_[(self.predict_proba(X, rule_score=rule_score)[:, 1] > 0.5).astype(int)]

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, rule_score: Any = None) -> float:
        """AUC_SPU of the scores.

        Parameters
        ----------
        X : DataFrame or array-like of shape (rows, columns)
            The features.
        y : array-like of shape (rows,)
            Soft labels as floats in [0, 1], or the classes that `fit` was given; for these it is the usual AUC.
        sample_weight : array-like of float, optional
            Weight of each row.
        rule_score : array-like of float, optional
            For methods that need it to score rows.

        Returns
        -------
        float
            In [0, 1]; 0.5 for a random score.
        """
        score = self.predict_proba(X, rule_score=rule_score)[:, 1]
        belief = np.asarray(y)
        if belief.dtype.kind != "f":
            belief = (belief == self.classes_[1]).astype(np.float64)
        return auc_spu_score(belief, score, sample_weight=sample_weight)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        defaults = self._defaults(self._settings.get("learner")) or {}
        # A clone has all defaults as settings.
        given = [f"{k}={v!r}" for k, v in self._given().items() if k not in defaults or repr(v) != repr(defaults[k])]
        return f"SoftLabelClassifier({', '.join([repr(self.method), *given])})"[:N_CHAR_MAX]

    @property
    def refined_soft_label_(self) -> np.ndarray:
        """The posterior of the fused method for the training rows: a second S to judge other methods by."""
        check_is_fitted(self)
        posterior = self.model_.refined_soft_label
        if posterior is None:
            raise AttributeError(f"{self.method_} has no refined soft label; fit SoftLabelClassifier('fused').")
        return posterior

    def _given(self) -> dict[str, Any]:
        """The settings that are not left to the method; None leaves them."""
        return {name: value for name, value in self._settings.items() if value is not None}

    def _chosen(self, is_labeled: np.ndarray) -> str:
        """The key of the method, where "auto" depends on the labels and the settings that are given."""
        if self.method != "auto":
            return self.method
        best, otherwise = AUTO
        knows_settings = self._given().keys() <= {each.name for each in METHODS[best].settings()}
        return best if knows_settings and is_labeled.any() and not is_labeled.all() else otherwise

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.classifier_tags.multi_class = False
        return tags


def _signature() -> Signature:
    """All settings by name and type, each once, for completion and help in notebooks."""
    own = Signature.from_callable(SoftLabelClassifier.__init__).parameters.values()
    named = [each for each in own if each.name != "self" and each.kind is not Parameter.VAR_KEYWORD]
    types = get_type_hints(MethodSettings).items()
    settings = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in types
        if name not in ALIASES.values()
    ]
    return Signature([*named, *settings])


SoftLabelClassifier.__signature__ = _signature()
