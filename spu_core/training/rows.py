"""From a table or folder and its soft labels to data that candidates can be trained and evaluated on.

A table is encoded in memory. A folder is encoded once into a temporary file: of each row only a few numbers stay in
memory (soft label, rule score, label, fold: about 40 bytes), and its columns are read from disk whenever a learner asks
for them. With the same folds, both give the same scores to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from spu_core.checks import check_countable, check_flags, check_groups, check_sample_weight
from spu_core.errors import TrainingError, nearest_hint
from spu_core.labels import SoftLabels
from spu_core.models import Encoder, EncoderStatistics, Features, FittedEncoder, TrainingRows
from spu_core.models.matrix_file import MatrixFile
from spu_core.tables import ColumnType, Role, Table, TableFolder
from spu_core.tables.repeats import LARGEST_SET
from spu_core.training.candidate import Candidate
from spu_core.training.config import TrainConfig
from spu_core.training.folds import HELD_OUT, FoldAssignment, hash_folds, latest_rows, split_rows, strata_of

Encode: TypeAlias = Callable[[TableFolder], tuple[FittedEncoder, Features]]


@dataclass(frozen=True, eq=False)
class PreparedData:
    """All rows of a table, encoded once (X only), with their folds.

    `fingerprint` is called when a run is stored: it reads every cell, and training need not wait for it. `notes` are
    sentences about the rows and their split that belong under every comparison.
    """

    rows: TrainingRows
    encoder: FittedEncoder
    split: FoldAssignment
    randomly_checked: np.ndarray | None
    fingerprint: Callable[[], str]
    notes: tuple[str, ...] = ()

    def rows_for(self, candidate: Candidate) -> TrainingRows:
        """The rows as the candidate may see them: with or without what the rules say."""
        return self._rows_without_rules if candidate.without_rules else self.rows

    @cached_property
    def _rows_without_rules(self) -> TrainingRows:
        labels = self.rows.is_labeled
        return replace(self.rows, soft_label=labels.astype(np.float64), rule_score=np.zeros(labels.size))


def prepare_rows(
    table: Table | TableFolder, soft_labels: SoftLabels, config: TrainConfig, split: FoldAssignment | None = None
) -> PreparedData:
    """Check that table, soft labels and config fit together, encode the features and make the split."""
    if isinstance(table, TableFolder):
        return prepare_folder(table, soft_labels, config, split)
    weight = _checked_weight(table, soft_labels)
    encoder, features = _encode(table)
    rows = _rows(table, soft_labels, features, weight, group_codes(table, config))
    split = make_split(table, soft_labels, config) if split is None else _check_split(split, len(table))
    notes = (*_repeat_notes(table, split), *_time_notes(table, config))
    return PreparedData(rows, encoder, split, _random_checks(table, config), lambda: table.fingerprint, notes)


def prepare_folder(
    folder: TableFolder,
    soft_labels: SoftLabels,
    config: TrainConfig,
    split: FoldAssignment | None = None,
    *,
    encode: Encode | None = None,
) -> PreparedData:
    """The rows of a folder, encoded into a temporary file unless `encode` does it elsewhere.

    Unless a split is given, a hash of the id decides the fold of a row.
    """
    weight = _checked_weight(folder, soft_labels)
    groups = _codes(_folder_groups(folder, config))
    split = folder_split(folder, config) if split is None else _check_split(split, len(folder))
    encoder, features = (encode or encode_to_file)(folder)
    rows = _rows(folder, soft_labels, features, weight, groups)
    notes = (*_repeat_notes(folder, split), *_time_notes(folder, config))
    return PreparedData(rows, encoder, split, _random_checks(folder, config), lambda: folder.fingerprint, notes)


def make_split(table: Table | TableFolder, soft_labels: SoftLabels, config: TrainConfig) -> FoldAssignment:
    """The folds that `cross_fit` will use."""
    if isinstance(table, TableFolder):
        return folder_split(table, config)
    strata = strata_of(
        np.asarray(soft_labels.of_analyst, dtype=np.float64), np.asarray(soft_labels.is_labeled, dtype=bool)
    )
    times = _times(table, config) if config.out_of_time or config.time_column else None
    return split_rows(strata, config, groups=group_codes(table, config), times=times)


def folder_split(folder: TableFolder, config: TrainConfig) -> FoldAssignment:
    """Folds by a hash: of the group where there are groups, else of the id column, else of the row's number."""
    groups = _folder_groups(folder, config)
    fold = hash_folds(_row_ids(folder) if groups is None else groups, config)
    if config.out_of_time:
        fold[latest_rows(_times(folder, config), config.out_of_time)] = HELD_OUT
    return FoldAssignment(fold, bool(config.out_of_time), _codes(groups))


def group_codes(table: Table, config: TrainConfig) -> np.ndarray | None:
    """A number for the group of each row; None where there are no groups. Rows that repeat each other are a group."""
    groups = _column(table, config.group_column, "group_column", table.groups)
    copies = None if table.repeats is None else table.repeats.code
    if groups is None:
        return None if copies is None else check_groups(copies, len(table))
    groups = check_groups(groups, len(table))
    return groups if copies is None else _joined(groups, copies)


def fit_folder_encoder(folder: TableFolder) -> FittedEncoder:
    """The encoder of all rows, from statistics of parts: equal to fitting it on the whole table."""
    names = folder.features
    codes = [name for name in names if folder.types[name] is ColumnType.CATEGORY]
    found = EncoderStatistics(())
    for frame in folder.frames(names) if names else ():
        found = found.merge(EncoderStatistics.of(frame, codes))
    return Encoder().fit_statistics(found)


def encode_to_file(folder: TableFolder) -> tuple[FittedEncoder, Features]:
    """The encoder of all rows, and the encoded rows in a temporary file, which is removed with the last reference."""
    encoder = fit_folder_encoder(folder)
    matrix = MatrixFile.temporary(len(folder), len(encoder.columns))
    for frame in folder.frames(encoder.names):
        matrix.append(encoder.transform(frame).matrix)
    return encoder, Features.of(matrix, encoder.columns)


def _encode(table: Table) -> tuple[FittedEncoder, Features]:
    names = table.features
    codes = tuple(name for name in names if table.types[name] is ColumnType.CATEGORY)
    frame: pd.DataFrame = table.frame[list(names)]
    encoder = Encoder(categories=codes).fit(frame)
    return encoder, encoder.transform(frame)


def _rows(
    table: Table | TableFolder,
    soft_labels: SoftLabels,
    features: Features,
    weight: np.ndarray | None,
    groups: np.ndarray | None,
) -> TrainingRows:
    return TrainingRows(
        features=features,
        soft_label=np.asarray(soft_labels.value, dtype=np.float64),
        is_labeled=np.asarray(soft_labels.is_labeled, dtype=bool),
        rule_score=np.asarray(soft_labels.rule_score, dtype=np.float64),
        truth=table.truth,
        weight=weight,
        groups=groups,
        rule_columns=tuple(soft_labels.rule_columns),
    )


def _checked_weight(table: Table | TableFolder, soft_labels: SoftLabels) -> np.ndarray | None:
    """The row weights, after a check that soft labels and table have the same rows and enough mass to learn from."""
    if len(soft_labels.value) != len(table):
        raise TrainingError(
            f"There are {len(soft_labels.value):,} soft labels, but the table has {len(table):,} rows; "
            "assign the soft labels to this table."
        )
    weight = None if table.sample_weight is None else check_sample_weight(table.sample_weight, len(table))
    check_countable(np.asarray(soft_labels.value, dtype=np.float64), weight)
    return weight


def _check_split(split: FoldAssignment, rows: int) -> FoldAssignment:
    if split.fold.size != rows:
        raise TrainingError(f"The split describes {split.fold.size:,} rows, but the table has {rows:,}.")
    return split


def _joined(groups: np.ndarray, copies: np.ndarray) -> np.ndarray:
    """Groups that share repeated rows become one; where that makes one too large for a fold, groups stay as given."""
    first = int(groups.max()) + 1
    size = first + int(copies.max()) + 1
    links = coo_matrix((np.ones(groups.size, dtype=bool), (groups, first + copies)), shape=(size, size))
    joined = check_groups(connected_components(links, directed=False)[1][groups], groups.size)
    largest = max(LARGEST_SET * groups.size, np.bincount(groups).max())
    return joined if np.bincount(joined).max() <= largest else groups


def _folder_groups(folder: TableFolder, config: TrainConfig) -> np.ndarray | None:
    """The group of each row as it is written, whose hash decides the fold. Rows that repeat each other are a group."""
    groups = (
        folder.groups if config.group_column is None else _column(folder, config.group_column, "group_column", None)
    )
    if folder.repeats is None:
        return groups
    copies = folder.repeats.code
    return copies if groups is None else _joined(check_groups(groups, len(folder)), copies)


def _codes(groups: np.ndarray | None) -> np.ndarray | None:
    return None if groups is None else check_groups(groups, len(groups))


def _row_ids(folder: TableFolder) -> Any:
    column = folder.column_with(Role.ID)
    if column is None or folder.column(column).has_gaps:
        return np.arange(len(folder))
    return folder.values(column)


def _times(table: Table | TableFolder, config: TrainConfig) -> np.ndarray:
    times = table.times if config.time_column is None else _column(table, config.time_column, "time_column", None)
    if times is None:
        raise TrainingError(
            "out_of_time needs to know when each row happened: give a column the role TIME, or set time_column."
        )
    return times


def _random_checks(table: Table | TableFolder, config: TrainConfig) -> np.ndarray | None:
    checked = _column(table, config.random_check_column, "random_check_column", None)
    return None if checked is None else check_flags(checked, len(table), "random_check_column")


def _column(
    table: Table | TableFolder, name: str | None, setting: str, fallback: np.ndarray | None
) -> np.ndarray | None:
    """The column that a setting of the config names; `fallback` where it names none."""
    if name is None:
        return fallback
    known = table.column_names if isinstance(table, TableFolder) else tuple(table.frame.columns)
    if name not in known:
        raise TrainingError(f"{setting} is {name!r}, which the table does not have. {nearest_hint(name, known)}")
    if name in table.features:
        raise TrainingError(
            f"{setting} is {name!r}, which is also a feature; give it the role GROUP, TIME or IGNORE first."
        )
    values: pd.Series = table.values(name) if isinstance(table, TableFolder) else table.frame[name]
    return values.to_numpy()


def _time_notes(table: Table | TableFolder, config: TrainConfig) -> tuple[str, ...]:
    """A note where rows have a time, but models are not judged on the latest ones."""
    column = config.time_column or table.column_with(Role.TIME)
    if column is None or config.out_of_time:
        return ()
    return (
        f"Rows have a time ({column!r}), but folds are random: models learn from rows that are later than those they "
        "are judged on. Judge on the latest rows (out_of_time) to see what they are worth on new ones.",
    )


def _repeat_notes(table: Table | TableFolder, split: FoldAssignment) -> tuple[str, ...]:
    """What repeated rows mean for the figures."""
    if table.repeats is None:
        return ()
    copies, nearly = table.repeats.code, "nearly " if table.repeats.is_near else ""
    repeated = f"{table.repeats.repeated:,} of {len(table):,} rows {nearly}repeat an earlier row"
    homes = np.unique(np.column_stack([copies, split.fold]), axis=0)
    if len(homes) == np.unique(copies).size:
        return (f"{repeated}. Rows that repeat each other are in one fold and count as one group.",)
    return (f"{repeated}, and some of them are in another fold: figures are too good. Remove the copies.",)
