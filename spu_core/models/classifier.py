"""All methods as one scikit-learn classifier."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from spu_core.checks import check_flags, check_groups, check_sample_weight, check_score, check_soft_label
from spu_core.errors import TrainingError, nearest_hint
from spu_core.metrics import auc_spu_score
from spu_core.models.encoder import Encoder
from spu_core.models.fit_inputs import TrainingRows
from spu_core.models.learners.base import as_frame, as_target
from spu_core.models.methods import METHODS, method

# The names that scikit-learn uses, and ours.
ALIASES = {"random_state": "seed", "n_jobs": "threads"}


class SoftLabelClassifier(ClassifierMixin, BaseEstimator):
    """Any method of `METHODS` as a scikit-learn classifier that learns from soft labels.

    Parameters
    ----------
    method : str, default "lightgbm"
        Key of the method, such as "fused", "lightgbm" or "elkan_noto". The default learns from `y` alone; "fused"
        usually ranks better, but also needs `is_labeled`, and its rule score for every row to be scored if it was
        fitted with one, which `cross_val_score` and pipelines do not pass.
    random_state : int, optional
        Another name of the setting `seed`; None means its default.
    n_jobs : int, optional
        Another name of the setting `threads` (−1: all processors); None means its default.
    **settings
        Settings of the method, such as `rounds`; `METHODS[method].settings()` lists them. Unknown names are refused at
        once, values by `fit`.

    Attributes
    ----------
    classes_ : ndarray
        The two classes; [0, 1] for soft labels.
    encoder_ : FittedEncoder
        How columns became numbers.
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
        self, method: str = "lightgbm", *, random_state: int | None = None, n_jobs: int | None = None, **settings: Any
    ) -> None:
        self.method = method
        named = {"random_state": random_state, "n_jobs": n_jobs}
        settings |= {name: value for name, value in named.items() if value is not None}
        self._settings = self._known(settings, settings.get("learner"))

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
            if own != name and (value is None or (defaults is not None and own not in defaults)):
                continue  # None is the default, and a method without threads may be told their number.
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
            Which rows are confirmed positives; for methods that learn from labels.
        rule_score : array-like of float, optional
            What the rules say of each row before labels override it; for methods that read it.
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
        chosen = method(self.method)
        frame = as_frame(self, X, reset=True)
        if soft_label is not None:
            if y is not None:
                raise TrainingError("y and soft_label are the same argument; give y alone.")
            warnings.warn("fit(soft_label=) is now called y; the old name will go.", FutureWarning, stacklevel=2)
            y = soft_label
        target, self.classes_ = as_target(y, len(frame))
        if is_labeled is None and np.asarray(y).dtype.kind != "f":
            is_labeled = target == 1.0
        self.encoder_ = Encoder().fit(frame)
        rows = TrainingRows(
            features=self.encoder_.transform(frame),
            soft_label=target,
            is_labeled=self._labels(is_labeled, len(frame)),
            rule_score=None if rule_score is None else check_soft_label(rule_score, "rule_score"),
            truth=None if truth is None else check_flags(truth, len(frame), "truth"),
            weight=None if sample_weight is None else check_sample_weight(sample_weight, len(frame)),
            groups=None if groups is None else check_groups(groups, len(frame)),
            rule_columns=tuple(rule_columns),
        )
        self.model_ = chosen.fit(rows, self._settings)
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
        given = [f"{name}={value!r}" for name, value in self._settings.items()]
        return f"SoftLabelClassifier({', '.join([repr(self.method), *given])})"[:N_CHAR_MAX]

    @property
    def refined_soft_label_(self) -> np.ndarray:
        """The posterior of the fused method for the training rows: a second S to judge other methods by."""
        check_is_fitted(self)
        posterior = self.model_.refined_soft_label
        if posterior is None:
            raise AttributeError(f"{self.method} has no refined soft label; fit SoftLabelClassifier('fused').")
        return posterior

    def _labels(self, is_labeled: Any, rows: int) -> np.ndarray:
        if is_labeled is not None:
            return check_flags(is_labeled, rows, "is_labeled")
        if "labels" in method(self.method).needs:
            raise TrainingError(
                f"{self.method} learns from labels: pass is_labeled=. "
                "A soft label of 1 is not taken as a label, since a rule may say 1 as well."
            )
        return np.zeros(rows, dtype=bool)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.classifier_tags.multi_class = False
        return tags
