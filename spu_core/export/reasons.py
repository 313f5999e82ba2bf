"""Why a row was scored high: contributions of columns, by the booster itself or by putting in a usual value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spu_core.export.decode import decode
from spu_core.export.parts import active_columns, reads_rule_score
from spu_core.export.profile import Profile
from spu_core.models import Features, Model
from spu_core.models.learners import SoftLightGBM, SoftXGBoost
from spu_core.models.model import ScaledModel


@dataclass(frozen=True, eq=False)
class Contributions:
    """Rows × columns: what each column adds to the score. `unit` is log-odds for boosters, else the score itself.

    The last column of `value` is the rule score where `has_rules`.
    """

    places: np.ndarray
    value: np.ndarray
    unit: str
    has_rules: bool = False


def contributions(model: Model, features: Features, rule_score: np.ndarray | None, profile: Profile) -> Contributions:
    """What each column adds, for a few rows: this costs far more than a score."""
    inner = model.part if isinstance(model, ScaledModel) else model
    if isinstance(inner, SoftLightGBM | SoftXGBoost):
        return Contributions(inner.active_, inner.contributions(features)[:, :-1], "log-odds")
    return _by_occlusion(model, features, rule_score, profile)


def top_reasons(found: Contributions, features: Features, most: int) -> list[tuple[str, ...]]:
    """For each row the columns that raise its score most, with their values, e.g. `amount = 950 (+1.2)`."""
    order = np.argsort(-found.value, axis=1, kind="stable")[:, :most]
    matrix, columns = _rows_of(features), features.store.columns
    return [
        tuple(_words(found, row, int(at), matrix, columns) for at in order[row] if found.value[row, at] > 0)
        for row in range(len(order))
    ]


def _rows_of(features: Features) -> np.ndarray:
    """The rows of a view with all encoded columns."""
    matrix = np.asarray(features.store.matrix)
    return matrix if features.rows is None else matrix[features.rows]


def _words(found: Contributions, row: int, at: int, matrix: np.ndarray, columns: Any) -> str:
    gain = f"(+{found.value[row, at]:.2g})"
    if found.has_rules and at == found.places.size:
        return f"the rules {gain}"
    column = columns[found.places[at]]
    return f"{column.name} = {decode(column, float(matrix[row, found.places[at]]))} {gain}"


def _by_occlusion(model: Model, features: Features, rule_score: np.ndarray | None, profile: Profile) -> Contributions:
    """How far the score falls when a column is given its usual value: the median, or the most frequent level."""
    matrix, columns = _rows_of(features), features.store.columns
    base = model.score_rows(Features.of(matrix, columns), rule_score)
    places, gains = active_columns(model), []
    for place in places:
        changed = matrix.copy()
        changed[:, place] = _usual(profile, int(place))
        gains.append(base - model.score_rows(Features.of(changed, columns), rule_score))
    with_rules = reads_rule_score(model) and rule_score is not None
    if with_rules:
        silent = np.zeros_like(base)
        gains.append(base - model.score_rows(Features.of(matrix, columns), silent))
    value = np.column_stack(gains) if gains else np.zeros((base.size, 0))
    return Contributions(places, value, "score", with_rules)


def _usual(profile: Profile, place: int) -> float:
    column = profile.columns[place]
    if column.quantiles:
        return column.quantiles[len(column.quantiles) // 2]
    return float(np.argmax(column.shares)) if column.shares else np.nan
