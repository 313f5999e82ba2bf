"""From a table and its soft labels to data that candidates can be trained and evaluated on.

A table in memory is encoded in memory. A table in files is encoded once into a temporary file: of each row only a few
numbers stay in memory (soft label, rule score, label, fold: about 40 bytes), and its columns are read from disk when a
learner asks for them. With the same folds, both give the same scores to the bit.
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
from spu_core.tables import ColumnType, Role, Table, find_leaks
from spu_core.tables.repeats import LARGEST_SET
from spu_core.training.candidate import Candidate
from spu_core.training.config import TrainConfig
from spu_core.training.folds import HELD_OUT, FoldAssignment, hash_folds, latest_rows, split_rows, strata_of

# Of a table in files, so many rows are searched for leaks.
LEAK_ROWS = 50_000

Encode: TypeAlias = Callable[[Table], tuple[FittedEncoder, Features]]


@dataclass(frozen=True, eq=False)
class PreparedData:
    """All rows of a table, encoded once (X only), with their folds.

    `fingerprint` is called when a run is stored: it reads every cell, and training need not wait for it. `leak` says
    which column gives the labels away, where one does. `notes` are sentences about the rows and their split that belong
    under every comparison.
    """

    rows: TrainingRows
    encoder: FittedEncoder
    split: FoldAssignment
    randomly_checked: np.ndarray | None
    fingerprint: Callable[[], str]
    notes: tuple[str, ...] = ()
    leak: str | None = None

    def rows_for(self, candidate: Candidate) -> TrainingRows:
        """The rows as the candidate may see them: with or without what the rules say."""
        return self._rows_without_rules if candidate.without_rules else self.rows

    @cached_property
    def _rows_without_rules(self) -> TrainingRows:
        labels = self.rows.is_labeled
        return replace(self.rows, soft_label=labels.astype(np.float64), rule_score=np.zeros(labels.size))


def prepare_rows(
    table: Table,
    soft_labels: SoftLabels,
    config: TrainConfig,
    split: FoldAssignment | None = None,
    *,
    encode: Encode | None = None,
) -> PreparedData:
    """Check that table, soft labels and config fit together, encode the features and make the split.

    `encode` encodes the features elsewhere; by default in memory, or into a temporary file if the table is in files.
    """
    weight = _checked_weight(table, soft_labels)
    groups = group_codes(table, config)
    split = make_split(table, soft_labels, config) if split is None else _check_split(split, len(table))
    encoder, features = (encode or (encode_in_memory if table.in_memory else encode_to_file))(table)
    rows = TrainingRows(
        features=features,
        soft_label=np.asarray(soft_labels.value, dtype=np.float64),
        is_labeled=np.asarray(soft_labels.is_labeled, dtype=bool),
        rule_score=np.asarray(soft_labels.rule_score, dtype=np.float64),
        truth=table.truth,
        weight=weight,
        groups=groups,
        rule_columns=tuple(soft_labels.rule_columns),
    )
    notes = (*_repeat_notes(table, split), *_time_notes(table, config))
    checks = _random_checks(table, config)
    return PreparedData(rows, encoder, split, checks, lambda: table.fingerprint, notes, _leak_note(table))


def make_split(table: Table, soft_labels: SoftLabels, config: TrainConfig) -> FoldAssignment:
    """The folds that `cross_fit` will use: stratified in memory, by a hash of the row in files."""
    if not table.in_memory:
        return hashed_split(table, config)
    strata = strata_of(
        np.asarray(soft_labels.of_analyst, dtype=np.float64), np.asarray(soft_labels.is_labeled, dtype=bool)
    )
    times = _times(table, config) if config.out_of_time or config.time_column else None
    return split_rows(strata, config, groups=group_codes(table, config), times=times)


def hashed_split(table: Table, config: TrainConfig) -> FoldAssignment:
    """Folds by a hash: of the group where there are groups, else of the id column, else of the row's number."""
    groups = _groups(table, config)
    fold = hash_folds(_row_ids(table) if groups is None else groups, config)
    if config.out_of_time:
        fold[latest_rows(_times(table, config), config.out_of_time)] = HELD_OUT
    return FoldAssignment(fold, bool(config.out_of_time), None if groups is None else check_groups(groups, len(table)))


def group_codes(table: Table, config: TrainConfig) -> np.ndarray | None:
    """A number for the group of each row; None where there are no groups. Rows that repeat each other are a group."""
    groups = _groups(table, config)
    return None if groups is None else check_groups(groups, len(table))


def fit_encoder(table: Table) -> FittedEncoder:
    """The encoder of all rows, from statistics of parts: equal to fitting it on the whole table."""
    names = table.features
    codes = [name for name in names if table.types[name] is ColumnType.CATEGORY]
    found = EncoderStatistics(())
    for frame in table.frames(names) if names else ():
        found = found.merge(EncoderStatistics.of(frame, codes))
    return Encoder().fit_statistics(found)


def encode_to_file(table: Table) -> tuple[FittedEncoder, Features]:
    """The encoder of all rows, and the encoded rows in a temporary file, which is removed with the last reference."""
    encoder = fit_encoder(table)
    matrix = MatrixFile.temporary(len(table), len(encoder.columns))
    for frame in table.frames(encoder.names):
        matrix.append(encoder.transform(frame).matrix)
    return encoder, Features.of(matrix, encoder.columns)


def encode_in_memory(table: Table) -> tuple[FittedEncoder, Features]:
    """The encoder of all rows, and the encoded rows."""
    names = table.features
    codes = tuple(name for name in names if table.types[name] is ColumnType.CATEGORY)
    frame: pd.DataFrame = table.frame[list(names)]
    encoder = Encoder(categories=codes).fit(frame)
    return encoder, encoder.transform(frame)


def _checked_weight(table: Table, soft_labels: SoftLabels) -> np.ndarray | None:
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


def _groups(table: Table, config: TrainConfig) -> np.ndarray | None:
    """The group of each row as it is written. Rows that repeat each other are a group."""
    groups = table.groups if config.group_column is None else _column(table, config.group_column, "group_column")
    if table.repeats is None:
        return groups
    copies = table.repeats.code
    return copies if groups is None else _joined(check_groups(groups, len(table)), copies)


def _row_ids(table: Table) -> Any:
    column = table.column_with(Role.ID)
    if column is None or table.store.stand_ins[column].hasnans:
        return np.arange(len(table))
    return table.values(column)


def _times(table: Table, config: TrainConfig) -> np.ndarray:
    times = table.times if config.time_column is None else _column(table, config.time_column, "time_column")
    if times is None:
        raise TrainingError(
            "out_of_time needs to know when each row happened: give a column the role TIME, or set time_column."
        )
    return times


def _random_checks(table: Table, config: TrainConfig) -> np.ndarray | None:
    setting, name = "random_check_column", config.random_check_column
    return None if name is None else check_flags(_column(table, name, setting), len(table), setting)


def _column(table: Table, name: str, setting: str) -> np.ndarray:
    """The column that a setting of the config names."""
    if name not in table.roles:
        known = table.column_names
        raise TrainingError(f"{setting} is {name!r}, which the table does not have. {nearest_hint(name, known)}")
    if name in table.features:
        raise TrainingError(
            f"{setting} is {name!r}, which is also a feature; give it the role GROUP, TIME or IGNORE first."
        )
    return table.values(name).to_numpy()


def _time_notes(table: Table, config: TrainConfig) -> tuple[str, ...]:
    """A note where rows have a time, but models are not judged on the latest ones."""
    column = config.time_column or table.column_with(Role.TIME)
    if column is None or config.out_of_time:
        return ()
    return (
        f"Rows have a time ({column!r}), but folds are random: models learn from rows that are later than those they "
        "are evaluated on. Evaluate on the latest rows (out_of_time) to see how well they rank new rows.",
    )


def _leak_note(table: Table) -> str | None:
    """Which column gives the labels away, or has decided who could be confirmed; in files a sample is searched."""
    sample = table.explored(LEAK_ROWS)
    label = sample.column_with(Role.LABEL)
    found = [leak for leak in find_leaks(sample) if leak.answer == label]
    if not found:
        return None
    leak = next((each for each in found if each.kind != "shared"), found[0])
    why = "may not be typical" if leak.kind == "shared" else "cannot judge models that learn from it"
    return f"{leak.as_finding().message} So confirmed cases {why}."


def _repeat_notes(table: Table, split: FoldAssignment) -> tuple[str, ...]:
    """What repeated rows mean for the figures."""
    if table.repeats is None:
        return ()
    copies, nearly = table.repeats.code, "nearly " if table.repeats.is_near else ""
    repeated = f"{table.repeats.repeated:,} of {len(table):,} rows {nearly}repeat an earlier row"
    homes = np.unique(np.column_stack([copies, split.fold]), axis=0)
    if len(homes) == np.unique(copies).size:
        return (f"{repeated}. Rows that repeat each other are in one fold and count as one group.",)
    return (f"{repeated}, and some of them are in another fold: figures are too good. Remove the copies.",)
