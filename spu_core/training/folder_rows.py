"""From a folder of files to rows that can be trained on: encoded once into a file, with what is believed of each row.

Of each row only a few numbers stay in memory (soft label, rule score, label, fold: about 40 bytes); its columns are
read from disk whenever a learner asks for them. Everything else is the training of tables in memory, and with the same
folds it gives the same scores to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from spu_core.checks import check_countable, check_flags, check_groups, check_sample_weight
from spu_core.errors import TrainingError, nearest_hint
from spu_core.labels import SoftLabels
from spu_core.models import Encoder, EncoderStatistics, Evidence, Features, FittedEncoder
from spu_core.models.matrix_file import MatrixFile
from spu_core.tables import ColumnType, Role, TableFolder
from spu_core.training.config import TrainConfig
from spu_core.training.folds import HELD_OUT, Split, latest_rows
from spu_core.training.hash_folds import hash_folds
from spu_core.training.rows import (
    TrainingRows,
    check_lengths,
    check_split,
    joined_groups,
    repeat_notes,
    time_notes,
)

Encode: TypeAlias = Callable[[TableFolder], tuple[FittedEncoder, Features]]


def prepare_folder(
    folder: TableFolder,
    soft_labels: SoftLabels,
    config: TrainConfig,
    split: Split | None = None,
    *,
    encode: Encode | None = None,
) -> TrainingRows:
    """The rows of a folder, encoded into a temporary file unless `encode` does it elsewhere.

    Unless a split is given, folds go by a hash of the id.
    """
    check_lengths(folder, soft_labels)
    weight = None if folder.sample_weight is None else check_sample_weight(folder.sample_weight, len(folder))
    soft_label = np.asarray(soft_labels.value, dtype=np.float64)
    check_countable(soft_label, weight)
    groups = _groups(folder, config)
    split = folder_split(folder, config) if split is None else check_split(split, len(folder))
    encoder, features = (encode or encode_to_file)(folder)
    evidence = Evidence(
        features=features,
        soft_label=soft_label,
        is_labeled=np.asarray(soft_labels.is_labeled, dtype=bool),
        rule_score=np.asarray(soft_labels.rule_score, dtype=np.float64),
        truth=folder.truth,
        weight=weight,
        groups=None if groups is None else check_groups(groups, len(folder)),
        rule_columns=tuple(soft_labels.rule_columns),
    )
    checked, notes = _random_checks(folder, config), (*repeat_notes(folder, split), *time_notes(folder, config))
    return TrainingRows(evidence, encoder, split, checked, lambda: folder.fingerprint, notes)


def encode_to_file(folder: TableFolder) -> tuple[FittedEncoder, Features]:
    """The encoder of all rows, and all rows in encoded form."""
    encoder = fit_folder_encoder(folder)
    return encoder, encode_folder(folder, encoder)


def fit_folder_encoder(folder: TableFolder) -> FittedEncoder:
    """The encoder of all rows, from statistics of parts: equal to fitting it on the whole table."""
    names = folder.features
    codes = [name for name in names if folder.types[name] is ColumnType.CATEGORY]
    found = EncoderStatistics(())
    for frame in folder.frames(names) if names else ():
        found = found.merge(EncoderStatistics.of(frame, codes))
    return Encoder().fit_statistics(found)


def encode_folder(folder: TableFolder, encoder: FittedEncoder) -> Features:
    """All rows in encoded form, in a temporary file that is removed when nobody needs it any more."""
    matrix = MatrixFile.temporary(len(folder), len(encoder.columns))
    for frame in folder.frames(encoder.names):
        block = encoder.transform(frame).matrix
        matrix.append(block)
    return Features.of(matrix, encoder.columns)


def folder_split(folder: TableFolder, config: TrainConfig) -> Split:
    """Folds by a hash: of the group where there are groups, else of the id column, else of the row's number."""
    groups = _groups(folder, config)
    fold = hash_folds(_row_ids(folder) if groups is None else groups, config)
    if config.out_of_time:
        times = folder.times if config.time_column is None else _named(folder, config.time_column, "time_column")
        if times is None:
            raise TrainingError(
                "out_of_time needs to know when each row happened: give a column the role TIME, or set time_column."
            )
        fold[latest_rows(times, config.out_of_time)] = HELD_OUT
    return Split(fold, bool(config.out_of_time), None if groups is None else check_groups(groups, len(folder)))


def _row_ids(folder: TableFolder) -> Any:
    column = folder.column_with(Role.ID)
    if column is None or folder.column(column).has_gaps:
        return np.arange(len(folder))
    return folder.values(column)


def _groups(folder: TableFolder, config: TrainConfig) -> np.ndarray | None:
    """The group of each row; rows that repeat each other are a group. None where there are no groups."""
    groups = folder.groups if config.group_column is None else _named(folder, config.group_column, "group_column")
    if folder.repeats is None:
        return groups
    sets = folder.repeats.code
    return sets if groups is None else joined_groups(check_groups(groups, len(folder)), sets)


def _random_checks(folder: TableFolder, config: TrainConfig) -> np.ndarray | None:
    if config.random_check_column is None:
        return None
    checked = _named(folder, config.random_check_column, "random_check_column")
    return check_flags(checked, len(folder), "random_check_column")


def _named(folder: TableFolder, name: str, setting: str) -> np.ndarray:
    known = folder.column_names
    if name not in known:
        raise TrainingError(f"{setting} is {name!r}, which the table does not have. {nearest_hint(name, known)}")
    if name in folder.features:
        raise TrainingError(
            f"{setting} is {name!r}, which is also a feature; give it the role GROUP, TIME or IGNORE first."
        )
    values: pd.Series = folder.values(name)
    return values.to_numpy()
