"""What all learners share: scikit-learn's interface, and a fit on encoded rows with a target in [0, 1]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from hashlib import blake2b
from inspect import Parameter, Signature
from typing import Any, ClassVar, Self, dataclass_transform

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import ThreadpoolController

from spu_core.checks import check_sample_weight
from spu_core.codec import encode
from spu_core.errors import SoftLabelError, TrainingError, nearest_hint
from spu_core.models.encoder import Encoder
from spu_core.models.features import Features, KnownFit
from spu_core.models.model import Blob, FitMonitor, Model, State
from spu_core.models.settings import Setting


@dataclass_transform(kw_only_default=True)
class SoftLearner(ClassifierMixin, BaseEstimator):
    """A classifier whose target may be any belief in [0, 1].

    `fit` takes a table or matrix and y: floats in [0, 1] are soft labels, every other dtype is two classes.
    `fit_rows` is the same for rows that are already encoded; training uses it to share encoding, bins and equal fits.
    `stops_early` says whether the learner grows in rounds that held-out rows can end; the trees of a forest do not
    build on each other, so a forest has no best round. `key` also names the learner in stored models.

    A learner declares its settings once, as class attributes: `rounds: int = setting(default=200, …)`. The constructor,
    forms, command-line help, checks and documentation are made from them.
    """

    key: ClassVar[str]
    title: ClassVar[str]
    settings: ClassVar[tuple[Setting, ...]] = ()
    stops_early: ClassVar[bool] = False

    parts: ClassVar[tuple[Model, ...]] = ()
    refined_soft_label: ClassVar[np.ndarray | None] = None
    rounds_ = None  # type: int | None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = [replace(value, name=name) for name, value in vars(cls).items() if isinstance(value, Setting)]
        for each in own:
            delattr(cls, each.name)
        cls.settings = (*cls.settings, *own)
        cls.__init__ = _constructor(cls.settings)  # type: ignore[method-assign]

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        frame = as_frame(self, X, reset=True)
        target, self.classes_ = as_target(y, len(frame))
        weight = None if sample_weight is None else check_sample_weight(sample_weight, len(frame))
        self.encoder_ = Encoder().fit(frame)
        return self.fit_rows(self.encoder_.transform(frame), target, weight)

    def fit_rows(
        self,
        features: Features,
        target: np.ndarray,
        weight: np.ndarray | None = None,
        monitor: FitMonitor | None = None,
    ) -> Any:
        """Learn from encoded rows and a target in [0, 1]; rows of weight 0 are left out."""
        self.check_settings()
        if weight is not None and not (weight > 0).all():
            if not (weight > 0).any():
                raise TrainingError("Every row has weight 0, so there is nothing to learn from.")
            kept = weight > 0
            features, target, weight = features.take(kept), target[kept], weight[kept]
        target, monitor = np.asarray(target, dtype=np.float64), monitor or FitMonitor()
        self.active_ = features.active
        if not hasattr(self, "classes_"):
            self.classes_ = np.array([0, 1])
        memo, key = features.store.fits, self._fit_key(features, target, weight, monitor)
        if (known := memo.find(key)) is not None:
            self.__dict__.update(known.learnt)
            monitor.repeat(known.losses)
            return self
        monitor, losses = monitor.recorded()
        self._learn(features, target, weight, monitor)
        learnt = {name: value for name, value in vars(self).items() if name.endswith("_") and name != "classes_"}
        memo.keep(key, KnownFit(learnt, tuple(losses), self.size_in_memory()))
        return self

    def score_rows(self, features: Features, rule_score: np.ndarray | None = None) -> np.ndarray:
        """One score in [0, 1] per encoded row."""
        scores = [self._score(block) for block in features.select(self.active_).blocks()]
        return scores[0] if len(scores) == 1 else np.concatenate([np.empty(0), *scores])

    def predict_proba(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        score = self.score_rows(self.encoder_.transform(as_frame(self, X, reset=False)))
        return np.column_stack([1.0 - score, score])

    def predict(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self.classes_[(self.predict_proba(X)[:, 1] > 0.5).astype(int)]

    def size_in_memory(self) -> int | None:
        """About how many bytes the fitted model takes; None for models that may be as large as the table."""
        return None

    def settings_that_matter(self) -> dict[str, Any]:
        """The settings on which the fitted model depends."""
        return {each.name: getattr(self, each.name) for each in self.settings}

    def _fit_key(
        self, features: Features, target: np.ndarray, weight: np.ndarray | None, monitor: FitMonitor
    ) -> bytes | None:
        """The same for equal fits on one matrix; None for a fit that held-out rows may stop."""
        if monitor.stop is not None:
            return None
        text = repr((self.key, sorted(self.settings_that_matter().items()), features.rows is None, weight is None))
        key = blake2b(text.encode(), digest_size=20)
        for values in (features.active, features.rows, target, weight):
            if values is not None:
                key.update(np.ascontiguousarray(values).data)
        return key.digest()

    def check_settings(self) -> None:
        """Refuse a setting whose value is not allowed."""
        for each in self.settings:
            each.check(getattr(self, each.name))

    def describe(self) -> dict[str, Any]:
        """Kind and settings as plain values: the part of a state that every learner has."""
        return {"kind": self.key, "settings": encode({s.name: getattr(self, s.name) for s in self.settings})}

    @classmethod
    def restored(cls, description: Mapping[str, Any]) -> Self:
        """A learner with the stored settings, and with the columns and rounds where the description has them."""
        model = cls(**description["settings"])
        model.classes_ = np.array([0, 1])
        if "active" in description:
            model.active_ = np.array(description["active"], dtype=np.int64)
        model.rounds_ = description.get("rounds")
        return model

    def to_state(self) -> State:
        raise NotImplementedError

    @classmethod
    def from_state(cls, description: Mapping[str, Any], blobs: Mapping[str, Blob]) -> SoftLearner:
        raise NotImplementedError

    def _learn(self, features: Features, target: np.ndarray, weight: np.ndarray | None, monitor: FitMonitor) -> None:
        raise NotImplementedError

    def _score(self, features: Features) -> np.ndarray:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.classifier_tags.multi_class = False
        return tags


def _constructor(settings: tuple[Setting, ...]) -> Any:
    """The `__init__` of a learner with these settings as keyword arguments, which scikit-learn reads from it."""

    def construct(self: SoftLearner, **given: Any) -> None:
        for each in settings:
            setattr(self, each.name, given.pop(each.name, each.default))
        if given:
            name = next(iter(given))
            raise TypeError(f"{type(self).__name__} has no setting {name!r}. {nearest_hint(name, names)}")

    names = [each.name for each in settings]
    parameters = [Parameter(each.name, Parameter.KEYWORD_ONLY, default=each.default) for each in settings]
    own = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    construct.__signature__ = Signature([own, *parameters])  # type: ignore[attr-defined]
    return construct


def one_blas_thread() -> Any:
    """A context in which BLAS uses one thread.

    In matrix products as small as those of a batch or a step, two threads mostly wait for each other: on a busy machine
    a network took 3 to 5 s of both cores instead of 0.3 s of one. A fixed number of threads also gives equal results to
    the bit.
    """
    return _libraries().limit(limits=1, user_api="blas")


@cache
def _libraries() -> Any:
    """The linear algebra libraries in use; finding them takes longer than a small fit."""
    return ThreadpoolController()


def as_frame(estimator: BaseEstimator, X: Any, *, reset: bool) -> pd.DataFrame:
    """X as a table; a matrix gets the column names x0…xn. The order of the columns of a table does not matter."""
    if hasattr(X, "to_pandas"):  # a polars frame or an Arrow table
        X = X.to_pandas()
    if isinstance(X, pd.DataFrame):
        if reset:
            validate_data(estimator, X, skip_check_array=True)
        return X
    matrix = validate_data(estimator, X, reset=reset, dtype="numeric", ensure_all_finite=False)
    names = getattr(estimator, "feature_names_in_", None)
    return pd.DataFrame(matrix, columns=[f"x{place}" for place in range(matrix.shape[1])] if names is None else names)


def as_target(y: Any, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """(target in [0, 1], the two classes): floats in [0, 1] are beliefs, everything else must be two classes."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None; give one soft label or class per row.")
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = _ravel(y)
    if y.ndim != 1 or y.shape[0] != rows:
        raise TrainingError(f"y must hold one value per row ({rows:,}), got shape {y.shape}.")
    if y.dtype.kind == "f":
        return _check_soft(y), np.array([0, 1])
    check_classification_targets(y)
    classes, code = np.unique(y, return_inverse=True)
    if classes.size != 2:
        word = "class" if classes.size == 1 else "classes"
        raise TrainingError(
            f"Only binary classification is supported. The type of the target is multiclass: y holds {classes.size} "
            f"{word}; give two classes, or soft labels as floats in [0, 1]."
        )
    return code.astype(np.float64), classes


def _check_soft(y: np.ndarray) -> np.ndarray:
    if np.isnan(y).any() or np.isinf(y).any():
        raise SoftLabelError("y contains NaN or infinity; every row needs a soft label in [0, 1].")
    bad = np.flatnonzero((y < 0) | (y > 1))
    if bad.size:
        raise SoftLabelError(
            f"Unknown label type: soft labels must lie in [0, 1], but row {bad[0]} holds {y[bad[0]]:g}."
        )
    return y.astype(np.float64)


def _ravel(y: np.ndarray) -> np.ndarray:
    import warnings

    from sklearn.exceptions import DataConversionWarning

    warnings.warn("A column-vector y was passed when a 1d array was expected.", DataConversionWarning, stacklevel=4)
    return y.ravel()
