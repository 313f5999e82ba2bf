"""The training config: everything that decides how candidates are trained; equal configs give equal scores."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

from spu_core.checks import check_choice, check_share
from spu_core.codec import decode, dump_json, encode, parse_json
from spu_core.errors import TrainingError

RULE_COLUMNS = ("by method", "dropped", "kept")
STOP_ON = ("soft_log_loss", "auc_spu")


@dataclass(frozen=True, kw_only=True)
class EarlyStopping:
    """Stop growing a model by the loss on an inner split of the training rows.

    `share` of the rows of each training part is set aside; the model stops when `on` has not improved there for
    `patience` rounds, and keeps its best round. Methods that fit several models or have no rounds are not stopped.
    """

    on: str = "soft_log_loss"
    share: float = 0.2
    patience: int = 20

    def __post_init__(self) -> None:
        check_choice(self.on, STOP_ON, "early_stopping.on", TrainingError)
        share = check_share(self.share, "early_stopping.share", TrainingError)
        if share > 0.5:
            raise TrainingError(f"early_stopping.share must be at most 0.5, got {share:g}; most rows must train.")
        check_whole(self.patience, "early_stopping.patience", 1)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How candidates are trained and judged.

    Parameters
    ----------
    folds : int, default 5
        Number of folds, at least 2.
    seed : int, default 0
        Start of the random numbers; equal seeds give equal scores to the bit.
    hold_out : float, default 0
        Random share of rows that is kept out of folds and leaderboard.
    out_of_time : float, default 0
        Share of the latest rows: models learn from the earlier rows, and the leaderboard counts only the latest.
    group_column, time_column : str, optional
        Columns that say which rows belong together and when a row happened; by default those with the roles GROUP and
        TIME.
    early_stopping : EarlyStopping, optional
        When to stop growing a model; by default models grow in full.
    rule_columns : {"by method", "dropped", "kept"}
        Whether models learn from the columns that rules read. "by method": soft-label methods do not, baselines do.
    threads : int, default 1
        Processor threads of a fit. Several processes (`n_jobs`) use a machine better.
    review_budget : float or int, default 0.02
        How many rows can be reviewed: a share of them (float) or a count (int).
    level : float, default 0.95
        Level of confidence intervals.
    rules_chose_checks : bool, default False
        The rules decided which rows were checked, so confirmed positives follow the rules.
    beliefs_from_labels : bool, default False
        The beliefs of the rules were taken from labels or checks.
    random_check_column : str, optional
        Column that marks rows which were checked at random; known-positive AUC is then computed on these.

    Raises
    ------
    TrainingError
        If a value is not allowed.

    Examples
    --------
    >>> TrainConfig(folds=1)
    Traceback (most recent call last):
    spu_core.errors.TrainingError: folds must be a whole number of at least 2, got 1.
    >>> TrainConfig.from_json(TrainConfig(seed=7).to_json()).seed
    7
    """

    folds: int = 5
    seed: int = 0
    hold_out: float = 0.0
    out_of_time: float = 0.0
    group_column: str | None = None
    time_column: str | None = None
    early_stopping: EarlyStopping | None = None
    rule_columns: str = "by method"
    threads: int = 1
    review_budget: float = 0.02
    level: float = 0.95
    rules_chose_checks: bool = False
    beliefs_from_labels: bool = False
    random_check_column: str | None = None

    def __post_init__(self) -> None:
        check_whole(self.folds, "folds", 2)
        check_whole(self.seed, "seed", 0)
        check_whole(self.threads, "threads", 1)
        check_choice(self.rule_columns, RULE_COLUMNS, "rule_columns", TrainingError)
        check_share(self.level, "level", TrainingError)
        self._check_parts()
        _check_budget(self.review_budget)
        for name in ("group_column", "time_column", "random_check_column"):
            _check_column(getattr(self, name), name)
        for name in ("rules_chose_checks", "beliefs_from_labels"):
            if not isinstance(getattr(self, name), bool):
                raise TrainingError(f"{name} must be true or false, got {getattr(self, name)!r}.")
        if not (self.early_stopping is None or isinstance(self.early_stopping, EarlyStopping)):
            raise TrainingError(f"early_stopping must be EarlyStopping(…) or None, got {self.early_stopping!r}.")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, each field by its name."""
        return encode(self)

    @classmethod
    def from_dict(cls, fields: Any) -> TrainConfig:
        """The config of plain values; unknown fields are refused."""
        return decode(cls, fields, "The training config", TrainingError)

    def to_json(self) -> str:
        return dump_json(self.to_dict(), indent=2)

    @classmethod
    def from_json(cls, text: str | bytes) -> TrainConfig:
        """The config a JSON text describes; duplicate, unknown and non-finite entries are refused."""
        return cls.from_dict(parse_json(text, "The training config", TrainingError))

    def _check_parts(self) -> None:
        for name in ("hold_out", "out_of_time"):
            share = check_share(getattr(self, name), name, TrainingError, closed=True)
            if share > 0.8:
                raise TrainingError(f"{name} must be at most 0.8, got {share:g}; models need rows to learn from.")
        if self.hold_out and self.out_of_time:
            raise TrainingError("hold_out and out_of_time exclude each other: the latest rows are the held-out ones.")


def check_whole(value: Any, name: str, least: int) -> int:
    """A whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise TrainingError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    return int(value)


def _check_budget(value: Any) -> None:
    is_count = isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1
    is_share = isinstance(value, float) and 0.0 < value <= 1.0
    if not (is_count or is_share):
        raise TrainingError(
            f"review_budget must be a whole number of rows or a share of them in (0, 1], got {value!r}."
        )


def _check_column(value: Any, name: str) -> None:
    if value is not None and (not isinstance(value, str) or not value):
        raise TrainingError(f"{name} must be the name of a column or None, got {value!r}.")
