"""From a table and its soft labels to data that candidates can be trained and evaluated on, and to folds.

A table in memory is encoded in memory. A table in files is encoded once into a temporary file: of each row only a few
numbers stay in memory (soft label, rule score, label, fold: about 40 bytes), and its columns are read from disk when a
learner asks for them. With the same folds, both give the same scores to the bit.

Rows of a table are dealt to folds evenly: seeded, stratified by (is_labeled, bin of S), groups kept together. That
needs all rows at once. The fold of a row of a folder is a seeded hash of its id, so that the same row lands in the same
fold however the rows are partitioned; the sizes of such folds differ by about √N.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from spu_core.models.features import MatrixFile
from spu_core.models.model import grouped_folds
from spu_core.tables import ColumnType, Role, Table, find_leaks
from spu_core.tables.reading.values import moment_bits
from spu_core.tables.repeats import LARGEST_SET
from spu_core.training.config import Candidate, TrainConfig

HELD_OUT = -1
S_BINS = 5
# Hold-out and folds need different random numbers, or one of them would determine the other.
_HOLD_OUT_STREAM = 1_000_003


@dataclass(frozen=True, eq=False)
class Fold:
    """The rows that a model learns from (`train`) and those it scores (`score`), as flags; no group is in both."""

    number: int
    train: np.ndarray
    score: np.ndarray


@dataclass(frozen=True, eq=False)
class FoldAssignment:
    """The fold of each row; −1 marks rows held out of all folds, at random or because they are the latest.

    >>> split = FoldAssignment(np.array([0, 1, 0, 1, -1]))
    >>> [(fold.number, fold.train.sum(), fold.score.sum()) for fold in split.folds()]
    [(0, np.int64(2), np.int64(2)), (1, np.int64(2), np.int64(2)), (-1, np.int64(4), np.int64(1))]
    """

    fold: np.ndarray
    out_of_time: bool = False
    groups: np.ndarray | None = None

    def __post_init__(self) -> None:
        fold = np.array(self.fold, dtype=np.int64)
        numbers = np.unique(fold[fold >= 0])
        if numbers.size < 2 or fold.min() < HELD_OUT:
            raise TrainingError("A split needs at least two folds, numbered from 0; −1 marks held-out rows.")
        fold.setflags(write=False)
        object.__setattr__(self, "fold", fold)

    @property
    def judged(self) -> np.ndarray:
        """The rows that the leaderboard counts: the latest ones out of time, else all that are in a fold."""
        return self.fold == HELD_OUT if self.out_of_time else self.fold >= 0

    @property
    def held_out(self) -> np.ndarray:
        return self.fold == HELD_OUT

    def folds(self) -> Iterator[Fold]:
        """All folds, and the held-out rows as the last one, so that each row is scored once."""
        inside = self.fold >= 0
        for number in np.unique(self.fold[inside]).tolist():
            yield Fold(number, inside & (self.fold != number), self.fold == number)
        if not inside.all():
            yield Fold(HELD_OUT, self._before(inside), ~inside)

    def _before(self, inside: np.ndarray) -> np.ndarray:
        """Rows to learn from for the held-out ones: none of a group that is among them."""
        if self.groups is None:
            return inside
        train = inside & ~np.isin(self.groups, self.groups[~inside])
        if not train.any():
            raise TrainingError(
                "Every group has rows in the held-out part, so no row is left to learn from; "
                "hold out less, or use another group column."
            )
        return train


def strata_of(soft_label: np.ndarray, is_labeled: np.ndarray) -> np.ndarray:
    """A stratum for each row: labelled; else without belief; else by one of five equally filled bins of S.

    >>> strata_of(np.array([1.0, 0.0, 0.2, 0.9]), np.array([True, False, False, False])).tolist()
    [0, 1, 2, 6]
    """
    believed = soft_label[~is_labeled & (soft_label > 0)]
    inner = np.linspace(0, 1, S_BINS + 1)[1:-1]
    edges = np.quantile(believed, inner) if believed.size else np.zeros(S_BINS - 1)
    stratum = 2 + np.searchsorted(edges, soft_label, side="left")
    stratum[soft_label == 0] = 1
    stratum[is_labeled] = 0
    return stratum


def assign_folds(strata: np.ndarray, groups: np.ndarray | None, folds: int, seed: int) -> np.ndarray:
    """The fold of each row: every stratum is spread evenly, rows of one group stay together."""
    rng = np.random.default_rng(seed)
    if groups is not None:
        return _grouped(strata, groups, folds, rng)
    if strata.size < folds:
        raise TrainingError(f"{folds} folds need at least {folds} rows, but there are {strata.size}.")
    shuffled = rng.permutation(strata.size)
    by_stratum = shuffled[np.argsort(strata[shuffled], kind="stable")]
    fold = np.empty(strata.size, dtype=np.int64)
    # Dealing continues from stratum to stratum, so that the sizes of folds differ by one row at most.
    fold[by_stratum] = np.arange(strata.size) % folds
    return fold


def latest_rows(times: np.ndarray, share: float) -> np.ndarray:
    """Flags for (about) the latest `share` of rows; rows of the same moment are on the same side."""
    values = pd.Series(times)
    if values.isna().any():
        row = int(values.isna().to_numpy().argmax())
        raise TrainingError(f"The time column is missing in row {row}; fill or remove such rows to split by time.")
    rank = values.rank(method="min").to_numpy()
    late = rank > (1.0 - share) * len(values)
    if not late.any() or late.all():
        raise TrainingError(
            f"The time column cannot set the latest {share:.0%} of rows apart: too many rows share one moment. "
            "Use a finer time column, or random folds."
        )
    return late


def _grouped(strata: np.ndarray, groups: np.ndarray, folds: int, rng: np.random.Generator) -> np.ndarray:
    code = check_groups(groups, strata.size)
    count = int(code.max()) + 1
    if count < folds:
        raise TrainingError(
            f"{folds} folds need at least {folds} groups, but the group column has {count}; use fewer folds."
        )
    return grouped_folds(strata, code, folds, rng)


def split_rows(
    strata: np.ndarray, config: TrainConfig, *, groups: np.ndarray | None = None, times: np.ndarray | None = None
) -> FoldAssignment:
    """The split a config asks for."""
    held_out = np.zeros(strata.size, dtype=bool)
    if config.out_of_time:
        assert times is not None
        held_out = latest_rows(times, config.out_of_time)
    elif config.hold_out:
        held_out = _random_part(strata, groups, config)
    fold = np.full(strata.size, HELD_OUT)
    inside = ~held_out
    inner = None if groups is None else groups[inside]
    fold[inside] = assign_folds(strata[inside], inner, config.folds, config.seed)
    return FoldAssignment(fold, bool(config.out_of_time), groups)


def _random_part(strata: np.ndarray, groups: np.ndarray | None, config: TrainConfig) -> np.ndarray:
    """A stratified share of the rows: some of twenty fine folds, of as many groups if there are fewer."""
    fine = 20 if groups is None else min(20, int(np.unique(groups).size))
    # Another stream than that of the folds, so that hold-out and folds are not the same shuffle.
    fold = assign_folds(strata, groups, min(fine, strata.size), config.seed + 1_000_003)
    return fold < max(1, round(config.hold_out * (int(fold.max()) + 1)))


def hash_rows(row_id: Any, seed: int = 0) -> np.ndarray:
    """A well-mixed 64-bit number for each id; 5, 5.0 and nothing else are the same id, as are equal texts.

    >>> bool((hash_rows([1, 2, 3]) == hash_rows(np.array([1.0, 2.0, 3.0]))).all())
    True
    >>> hash_rows(["a", "b"])[1] == hash_rows(["b"])[0]
    np.True_
    """
    stream = np.uint64(0x9E3779B97F4A7C15 * (2 * seed + 1) % 2**64)
    return _mixed(_plain_keys(row_id) + stream)


def hash_folds(row_id: Any, config: TrainConfig) -> np.ndarray:
    """The fold of each row, 0 … folds − 1, or −1 where the config holds it out; give groups in place of ids to keep
    them together.

    >>> hash_folds(range(8), TrainConfig(folds=2)).tolist() == [
    ...     int(hash_folds([row], TrainConfig(folds=2))[0]) for row in range(8)
    ... ]
    True
    """
    fold = (hash_rows(row_id, config.seed) % np.uint64(config.folds)).astype(np.int64)
    if config.hold_out:
        share = hash_rows(row_id, config.seed + _HOLD_OUT_STREAM) / 2.0**64
        fold[share < config.hold_out] = HELD_OUT
    return fold


def _plain_keys(row_id: Any) -> np.ndarray:
    """64 bits that depend on the value of an id only, never on its dtype or its neighbours."""
    values = pd.Series(row_id) if not isinstance(row_id, pd.Series) else row_id
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype(values.cat.categories.dtype)
    _refuse_missing(values)
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        return moment_bits(values).view(np.uint64)
    if pd.api.types.is_numeric_dtype(values.dtype):
        return _number_keys(values.to_numpy())
    texts = values.astype("str").astype(object).to_numpy()
    return pd.util.hash_array(texts, categorize=False)


def _number_keys(numbers: np.ndarray) -> np.ndarray:
    if numbers.dtype.kind in "bui":
        return numbers.astype(np.int64).view(np.uint64)
    numbers = numbers.astype(np.float64) + 0.0
    whole = numbers.astype(np.int64)
    return np.where(whole == numbers, whole, numbers.view(np.int64)).view(np.uint64)


def _refuse_missing(values: pd.Series) -> None:
    missing = values.isna().to_numpy()
    if missing.any():
        raise TrainingError(
            f"The id of a row is missing (first: row {int(missing.argmax())}), so its fold is not known; "
            "fill the id column, or give it another role: rows then go by their number."
        )


def _mixed(key: np.ndarray) -> np.ndarray:
    """The finalizer of splitmix64: every bit of the key moves every bit of the result."""
    with np.errstate(over="ignore"):
        key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))


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
