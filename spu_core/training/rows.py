"""From a table and its soft labels to rows that can be trained on and judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from spu_core.checks import check_countable, check_flags, check_groups, check_sample_weight
from spu_core.errors import TrainingError, nearest_hint
from spu_core.labels import SoftLabels
from spu_core.models import Encoder, Evidence, Features, FittedEncoder
from spu_core.tables import ColumnType, Role, Table, TableFolder
from spu_core.tables.leakage import LARGEST_SET
from spu_core.training.config import TrainConfig
from spu_core.training.folds import Split, split_rows, strata_of


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """All rows of a table: encoded once (X only), with everything that is believed or known about them.

    `fingerprint` is asked for when a run is stored: it reads every cell, which training need not wait for. `notes` are
    sentences about the rows and their split that belong under every comparison.
    """

    evidence: Evidence
    encoder: FittedEncoder
    split: Split
    randomly_checked: np.ndarray | None
    fingerprint: Callable[[], str]
    notes: tuple[str, ...] = ()

    @cached_property
    def without_rules(self) -> Evidence:
        """The same rows as if there were no rule: beliefs come from labels alone."""
        labels = self.evidence.is_labeled
        return replace(self.evidence, soft_label=labels.astype(np.float64), rule_score=np.zeros(labels.size))


def prepare_rows(
    table: Table | TableFolder, soft_labels: SoftLabels, config: TrainConfig, split: Split | None = None
) -> TrainingRows:
    """Check that table, soft labels and config fit together, encode the features and make the split."""
    if isinstance(table, TableFolder):
        from spu_core.training.folder_rows import prepare_folder

        return prepare_folder(table, soft_labels, config, split)
    check_lengths(table, soft_labels)
    weight = None if table.sample_weight is None else check_sample_weight(table.sample_weight, len(table))
    soft_label = np.asarray(soft_labels.value, dtype=np.float64)
    is_labeled = np.asarray(soft_labels.is_labeled, dtype=bool)
    check_countable(soft_label, weight)
    encoder, features = _encode(table)
    groups = group_codes(table, config)
    evidence = Evidence(
        features=features,
        soft_label=soft_label,
        is_labeled=is_labeled,
        rule_score=np.asarray(soft_labels.rule_score, dtype=np.float64),
        truth=table.truth,
        weight=weight,
        groups=groups,
        rule_columns=tuple(soft_labels.rule_columns),
    )
    split = make_split(table, soft_labels, config) if split is None else check_split(split, len(table))
    checked, notes = _random_checks(table, config), (*_repeat_notes(table, split), *time_notes(table, config))
    return TrainingRows(evidence, encoder, split, checked, lambda: table.fingerprint, notes)


def make_split(table: Table | TableFolder, soft_labels: SoftLabels, config: TrainConfig) -> Split:
    """The folds that `cross_fit` will use."""
    if isinstance(table, TableFolder):
        from spu_core.training.folder_rows import folder_split

        return folder_split(table, config)
    strata = strata_of(analyst_value(soft_labels), np.asarray(soft_labels.is_labeled, dtype=bool))
    times = _column(table, config.time_column, "time_column", table.times)
    if config.out_of_time and times is None:
        raise TrainingError(
            "out_of_time needs to know when each row happened: give a column the role TIME, or set time_column."
        )
    return split_rows(strata, config, groups=group_codes(table, config), times=times)


def analyst_value(soft_labels: SoftLabels) -> np.ndarray:
    """The analyst's own S: what runs are judged by and folds are stratified by, also where refined S is the target."""
    if not getattr(soft_labels, "is_refined", False):
        return np.asarray(soft_labels.value, dtype=np.float64)
    return np.where(soft_labels.is_labeled, 1.0, soft_labels.rule_score)


def group_codes(table: Table, config: TrainConfig) -> np.ndarray | None:
    """A number for the group of each row; None where there are no groups. Rows that repeat each other are a group."""
    groups = _column(table, config.group_column, "group_column", table.groups)
    sets = None if table.repeats is None else table.repeats.code
    if groups is None:
        return None if sets is None else check_groups(sets, len(table))
    groups = check_groups(groups, len(table))
    return groups if sets is None else _joined(groups, sets)


def _joined(groups: np.ndarray, sets: np.ndarray) -> np.ndarray:
    """Groups that share repeated rows become one; where that makes one too large for a fold, groups stay as given."""
    first = int(groups.max()) + 1
    size = first + int(sets.max()) + 1
    links = coo_matrix((np.ones(groups.size, dtype=bool), (groups, first + sets)), shape=(size, size))
    joined = check_groups(connected_components(links, directed=False)[1][groups], groups.size)
    largest = max(LARGEST_SET * groups.size, np.bincount(groups).max())
    return joined if np.bincount(joined).max() <= largest else groups


def time_notes(table: Table | TableFolder, config: TrainConfig) -> tuple[str, ...]:
    """Says so where rows have a time, but models are not judged on the latest ones."""
    column = config.time_column or table.column_with(Role.TIME)
    if column is None or config.out_of_time:
        return ()
    return (
        f"Rows have a time ({column!r}), but folds are random: models learn from rows that are later than those they "
        "are judged on. Judge on the latest rows (out_of_time) to see what they are worth on new ones.",
    )


def _repeat_notes(table: Table, split: Split) -> tuple[str, ...]:
    """What repeated rows mean for the figures."""
    if table.repeats is None:
        return ()
    sets, repeated = table.repeats.code, f"{table.repeats.repeated:,} of {len(table):,} rows repeat an earlier row"
    homes = np.unique(np.column_stack([sets, split.fold]), axis=0)
    if len(homes) == np.unique(sets).size:
        return (f"{repeated}. Rows that repeat each other are in one fold and count as one group.",)
    return (f"{repeated}, and some of them are in another fold: figures are too good. Remove the copies.",)


def _encode(table: Table) -> tuple[FittedEncoder, Features]:
    names = table.features
    codes = tuple(name for name in names if table.types[name] is ColumnType.CATEGORY)
    frame: pd.DataFrame = table.frame[list(names)]
    encoder = Encoder(categories=codes).fit(frame)
    return encoder, encoder.transform(frame)


def _column(table: Table, name: str | None, setting: str, fallback: np.ndarray | None) -> np.ndarray | None:
    if name is None:
        return fallback
    if name not in table.frame.columns:
        known = list(table.frame.columns)
        raise TrainingError(f"{setting} is {name!r}, which the table does not have. {nearest_hint(name, known)}")
    if name in table.features:
        raise TrainingError(
            f"{setting} is {name!r}, which is also a feature; give it the role GROUP, TIME or IGNORE first."
        )
    values: Any = table.frame[name].to_numpy()
    return values


def _random_checks(table: Table, config: TrainConfig) -> np.ndarray | None:
    checked = _column(table, config.random_check_column, "random_check_column", None)
    return None if checked is None else check_flags(checked, len(table), "random_check_column")


def check_lengths(table: Table | TableFolder, soft_labels: SoftLabels) -> None:
    """One soft label for each row."""
    if len(soft_labels.value) != len(table):
        raise TrainingError(
            f"There are {len(soft_labels.value):,} soft labels, but the table has {len(table):,} rows; "
            "assign the soft labels to this table."
        )


def check_split(split: Split, rows: int) -> Split:
    """A fold for each row."""
    if split.fold.size != rows:
        raise TrainingError(f"The split describes {split.fold.size:,} rows, but the table has {rows:,}.")
    return split
