"""The rows a method learns from: encoded features with everything that is believed or known about them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spu_core.errors import TrainingError
from spu_core.metrics import soft_log_loss
from spu_core.models.features import Features
from spu_core.models.watch import Loss


@dataclass(frozen=True, eq=False)
class Evidence:
    """Training rows. Only `rule_score` may become a feature: `soft_label` is 1 in labelled rows, which leaks the label.

    `rule_columns` are the columns that rules read; a method keeps or drops them. `truth` is for the oracle alone.
    """

    features: Features
    soft_label: np.ndarray
    is_labeled: np.ndarray
    rule_score: np.ndarray | None = None
    truth: np.ndarray | None = None
    weight: np.ndarray | None = None
    groups: np.ndarray | None = None
    rule_columns: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.features)

    def take(self, rows: Any) -> Evidence:
        """Only these rows (a mask or increasing positions), in every part."""
        own = {
            name: getattr(self, name)
            for name in ("soft_label", "is_labeled", "rule_score", "truth", "weight", "groups")
        }
        picked: dict[str, Any] = {name: None if values is None else values[rows] for name, values in own.items()}
        return replace(self, features=self.features.take(rows), **picked)

    def without_rule_columns(self) -> Evidence:
        """The same rows with the rule columns out of sight."""
        return replace(self, features=self.features.without(self.rule_columns)) if self.rule_columns else self

    @property
    def labeled_share(self) -> float:
        """ρ, the weighted share of labelled rows."""
        return float(np.average(self.is_labeled, weights=self.weight))

    def need_labels(self, method: str) -> None:
        """Labels on some rows and not on all."""
        count = int(self.is_labeled.sum())
        if count == 0:
            raise TrainingError(
                f"{method} learns from confirmed positives, but no row is labelled; "
                "mark some, or use a soft-label method."
            )
        if count == len(self):
            raise TrainingError(
                f"{method} needs unlabelled rows beside the labelled ones, but all {count:,} rows are labelled."
            )


@dataclass(frozen=True, eq=False)
class StopRule:
    """Stop early by these held-out rows: when `loss` has not improved for `patience` rounds."""

    rows: Evidence
    patience: int = 20
    loss: Loss = soft_log_loss


def inner_folds(is_labeled: np.ndarray, groups: np.ndarray | None, folds: int, seed: int) -> np.ndarray:
    """The fold of each row, stratified by the label flag; rows of one group stay together.

    >>> inner_folds(np.array([True, True, False, False]), None, 2, 0).tolist()
    [0, 1, 0, 1]
    """
    folds = int(min(folds, is_labeled.size))
    if groups is not None:
        return _grouped_folds(is_labeled, groups, folds, seed)
    rng = np.random.default_rng(seed)
    fold = np.empty(is_labeled.size, dtype=np.int64)
    start = 0
    for flag in (True, False):
        rows = rng.permutation(np.flatnonzero(is_labeled == flag))
        # The second stratum starts where the first ended, so that folds differ by one row at most.
        fold[rows] = (start + np.arange(rows.size)) % folds
        start += rows.size
    return fold


def _grouped_folds(is_labeled: np.ndarray, groups: np.ndarray, folds: int, seed: int) -> np.ndarray:
    """Groups in random order, those with most labels first, each to the fold with fewest labels, then fewest rows.

    Groups without labels follow, each to the fold with fewest rows: by labels, one fold would get all of them.
    """
    names, code = np.unique(groups, return_inverse=True)
    if names.size < folds:
        if names.size < 2:
            raise TrainingError(
                "All rows belong to one group, so no inner split can keep groups together; use another group column."
            )
        folds = names.size
    labels, rows = np.bincount(code, is_labeled), np.bincount(code)
    order = np.random.default_rng(seed).permutation(names.size)
    order = order[np.argsort(-labels[order], kind="stable")]
    load = np.zeros((folds, 2))
    home = np.empty(names.size, dtype=np.int64)
    for group in order:
        home[group] = np.lexsort((load[:, 1], load[:, 0]))[0] if labels[group] else load[:, 1].argmin()
        load[home[group]] += labels[group], rows[group]
    return home[code]
