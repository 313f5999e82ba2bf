"""All methods as one scikit-learn classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from spu_core.checks import check_flags, check_groups, check_sample_weight, check_score, check_soft_label
from spu_core.errors import TrainingError
from spu_core.models.encoder import Encoder
from spu_core.models.fit_inputs import TrainingRows
from spu_core.models.learners.base import as_frame, as_target
from spu_core.models.methods import METHODS, method


class SoftLabelClassifier(ClassifierMixin, BaseEstimator):
    """Any method of `METHODS` as a scikit-learn classifier that learns from soft labels.

    Parameters
    ----------
    method : str, default "lightgbm"
        Key of the method, such as "fused", "lightgbm" or "elkan_noto".
    **settings
        Settings of the method, such as `rounds` or `seed`; `METHODS[method].settings()` lists them. They are checked
        by `fit`.

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
        By `fit`, if there is no such method or setting, or the rows lack something that the method needs.

    Examples
    --------
    >>> X, belief = np.arange(60.0).reshape(-1, 1), np.linspace(0, 1, 60)
    >>> model = SoftLabelClassifier("lightgbm", rounds=30).fit(X, belief)
    >>> bool(model.predict_proba(X)[59, 1] > 0.5)
    True
    >>> SoftLabelClassifier("lightgbm", round=30).fit(X, belief)
    Traceback (most recent call last):
    spu_core.errors.TrainingError: Method 'lightgbm' has no setting 'round'. Did you mean 'rounds'?
    """

    def __init__(self, method: str = "lightgbm", **settings: Any) -> None:
        self.method = method
        self._settings = settings

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The method and all its settings, given or default, so that a grid search can name them."""
        known = METHODS.get(self.method) if isinstance(self.method, str) else None
        learner = self._settings.get("learner")
        # A method or learner that fit will refuse has no defaults.
        valid = learner is None or (isinstance(learner, str) and known is not None and learner in known.learners)
        defaults = {s.name: s.default for s in known.settings(learner)} if known and valid else {}
        return {"method": self.method, **defaults, **self._settings}

    def set_params(self, **params: Any) -> SoftLabelClassifier:
        """Change the method or settings; a new method starts from its own defaults."""
        chosen = params.get("method", self.method)
        if not (chosen is self.method or (isinstance(chosen, str) and chosen == self.method)):
            self.method, self._settings = chosen, {}
        self._settings.update({name: value for name, value in params.items() if name != "method"})
        return self

    def fit(
        self,
        X: Any,
        soft_label: Any,
        *,
        is_labeled: Any = None,
        rule_score: Any = None,
        truth: Any = None,
        groups: Any = None,
        sample_weight: Any = None,
        rule_columns: tuple[str, ...] = (),
    ) -> SoftLabelClassifier:
        """Train the method.

        Parameters
        ----------
        X : DataFrame or array-like of shape (rows, columns)
            The features. Text columns are encoded; missing values are allowed.
        soft_label : array-like of shape (rows,)
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

        Returns
        -------
        SoftLabelClassifier
            Itself.
        """
        chosen = method(self.method)
        frame = as_frame(self, X, reset=True)
        target, self.classes_ = as_target(soft_label, len(frame))
        if is_labeled is None and np.asarray(soft_label).dtype.kind != "f":
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
