"""What to train and how: the config, candidates (a method with its settings), plans, and a shortlist for a table.

Equal configs give equal scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from numbers import Integral
from types import MappingProxyType
from typing import Any

from spu_core.checks import check_choice, check_kind, check_number, check_share
from spu_core.codec import JsonFields, decode, dump_json, encode, parse_json
from spu_core.errors import TrainingError
from spu_core.models import METHODS, Method, Need, method
from spu_core.tables import Table

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
class TrainConfig(JsonFields):
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
        The rules decided which rows were checked, so confirmed cases follow the rules.
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

    json_form = "The training config", TrainingError, {}

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


OBJECTIVES = ("auc_spu", "known_positive_auc")
SCHEMA = ("schema", 1)


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Search the settings of a candidate inside every training part, so that no row is judged by a model that was
    chosen on it.

    `ranges` narrows or adds settings, e.g. `{"num_leaves": (4, 64)}`. `seconds` bounds each search; a search that
    it cut is marked, since it cannot be repeated to the bit.
    """

    trials: int = 20
    folds: int = 3
    seconds: float | None = None
    objective: str = "auc_spu"
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_whole(self.trials, "tuning.trials", 1)
        check_whole(self.folds, "tuning.folds", 2)
        check_choice(self.objective, OBJECTIVES, "tuning.objective", TrainingError)
        if self.seconds is not None and check_number(self.seconds, "tuning.seconds", TrainingError) <= 0:
            raise TrainingError(f"tuning.seconds must be above 0 or None, got {self.seconds!r}.")
        object.__setattr__(self, "ranges", MappingProxyType(_check_ranges(self.ranges)))

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only mapping cannot be pickled for a worker process; plain fields can.
        return decode, (Tuning, encode(self), "tuning", TrainingError)

    def __hash__(self) -> int:
        return hash((self.trials, self.folds, self.seconds, self.objective, tuple(sorted(self.ranges.items()))))


@dataclass(frozen=True)
class Candidate(JsonFields):
    """A method of `METHODS` with the settings that differ from its defaults.

    Parameters
    ----------
    method : str
        Key of the method.
    settings : mapping
        Settings that differ from the defaults of the method.
    name : str
        Name in the leaderboard; made from the method if not given.
    tuning : Tuning, optional
        How to search for better settings; by default there is no search.
    without_rules : bool, default False
        Hide the rules from the candidate: the soft label of an unlabelled row is 0. The same candidate with and without
        rules shows best what the rules are worth.

    Raises
    ------
    TrainingError
        If there is no such method, or a setting is not allowed.

    Examples
    --------
    >>> Candidate("lightgbm", {"rounds": 50})
    Candidate(method='lightgbm', settings={'rounds': 50}, name='lightgbm')
    >>> Candidate("lightgbn")
    Traceback (most recent call last):
    spu_core.errors.TrainingError: There is no method 'lightgbn'. Did you mean 'lightgbm'?
    """

    json_form = "The candidate", TrainingError, {}

    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    tuning: Tuning | None = None
    without_rules: bool = False

    def __post_init__(self) -> None:
        chosen = method(self.method)
        if not isinstance(self.settings, Mapping):
            raise TrainingError(f"settings of {self.method!r} must be named values, got {self.settings!r}.")
        chosen.complete(self.settings)
        if not isinstance(self.name, str):
            raise TrainingError(f"The name of a candidate must be text, got {self.name!r}.")
        if not isinstance(self.without_rules, bool):
            raise TrainingError(f"without_rules must be true or false, got {self.without_rules!r}.")
        frozen = {name: tuple(value) if isinstance(value, list) else value for name, value in self.settings.items()}
        object.__setattr__(self, "settings", MappingProxyType(frozen))
        object.__setattr__(self, "name", self.name.strip() or self._own_name())

    def __repr__(self) -> str:
        more = f", tuning={self.tuning!r}" if self.tuning else ""
        more += ", without_rules=True" if self.without_rules else ""
        return f"Candidate(method={self.method!r}, settings={dict(self.settings)!r}, name={self.name!r}{more})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Candidate.from_dict, (self.to_dict(),)

    def __hash__(self) -> int:
        return hash((self.method, self.name, tuple(sorted(self.settings)), self.tuning, self.without_rules))

    @property
    def entry(self) -> Method:
        """What the registry says about the method."""
        return method(self.method)

    def _own_name(self) -> str:
        own = self.method + (" tuned" if self.tuning else "")
        return own + (" without rules" if self.without_rules else "")


@dataclass(frozen=True)
class TrainPlan:
    """A config with its candidates: what the command line reads and the dashboard exports.

    >>> plan = TrainPlan(TrainConfig(), (Candidate("lightgbm"),))
    >>> TrainPlan.from_json(plan.to_json()) == plan
    True
    """

    config: TrainConfig
    candidates: tuple[Candidate, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "candidates", with_distinct_names(self.candidates))

    def to_json(self) -> str:
        return dump_json({**dict([SCHEMA]), **encode(self)}, indent=2)

    @classmethod
    def from_json(cls, text: str | bytes) -> TrainPlan:
        """The plan a JSON text describes; nothing in it is ever run as code."""
        what = "The training plan"
        found = parse_json(text, what, TrainingError)
        found = {"config": {}, **found} if isinstance(found, dict) else found
        return decode(cls, found, what, TrainingError, schema=SCHEMA)


def with_distinct_names(candidates: Iterable[Candidate | str]) -> tuple[Candidate, ...]:
    """Candidates with different names: the second of two equal names gets a number."""
    listed = [Candidate(entry) if isinstance(entry, str) else entry for entry in _need_some(candidates)]
    taken: set[str] = set()
    apart = []
    for candidate in listed:
        name, number = candidate.name, 2
        while name in taken:
            name, number = f"{candidate.name} {number}", number + 1
        taken.add(name)
        apart.append(candidate if name == candidate.name else replace(candidate, name=name))
    return tuple(apart)


def _need_some(candidates: Iterable[Candidate | str]) -> Sequence[Candidate | str]:
    check_kind(
        candidates, Iterable, "The candidates must be keys of METHODS", 'use ["fused", "lightgbm"]', TrainingError
    )
    listed = [candidates] if isinstance(candidates, str | Candidate) else list(candidates)
    for entry in listed:
        if not isinstance(entry, str | Candidate):
            raise TrainingError(f"A candidate must be a Candidate or the key of a method, got {entry!r}.")
    if not listed:
        raise TrainingError("There is no candidate to train; name at least one method.")
    return listed


def _check_ranges(ranges: Any) -> dict[str, tuple[float, float]]:
    if not isinstance(ranges, Mapping):
        raise TrainingError(f"tuning.ranges must map settings to (low, high), got {ranges!r}.")
    checked = {}
    for name, bounds in ranges.items():
        if isinstance(bounds, str) or not isinstance(bounds, Sequence) or len(bounds) != 2:
            raise TrainingError(f"tuning.ranges of {name!r} must be (low, high), got {bounds!r}.")
        low, high = (check_number(bound, f"tuning.ranges of {name!r}", TrainingError) for bound in bounds)
        if low > high:
            raise TrainingError(f"tuning.ranges of {name!r} must rise from low to high, got {bounds!r}.")
        checked[str(name)] = (bounds[0], bounds[1])
    return checked


# The recommended default, the paper's method, and baselines to compare both with.
SHORTLIST = ("fused", "lightgbm", "labeled_vs_rest", "elkan_noto", "rule_score")


def with_twins(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """The candidates, and after each `fused` the same without rules, which shows what the rules add.

    >>> [candidate.name for candidate in with_twins([Candidate("fused"), Candidate("lightgbm")])]
    ['fused', 'fused without rules', 'lightgbm']
    """
    listed = list(candidates)
    blind = [(each.method, dict(each.settings)) for each in listed if each.without_rules]
    found = []
    for each in listed:
        found.append(each)
        if each.method == "fused" and not each.without_rules and ("fused", dict(each.settings)) not in blind:
            found.append(replace(each, name=f"{each.name} without rules", without_rules=True))
    return tuple(found)


_LACKING = {
    Need.LABELS: "It learns from confirmed cases, and this table has none: choose the label column on the data.",
    Need.SOFT_LABELS: "It learns from soft labels, and there are none yet: define rules first.",
    Need.RULE_SCORE: "It uses what the rules say of each row, and there are no rules yet.",
    Need.TRUTH: "It learns from the truth, and this table has no column with that role.",
}


def why_not(key: str, table: Table, *, has_beliefs: bool) -> str | None:
    """Why a method cannot be trained on this table; None where it can.

    `has_beliefs` says whether rules, or a column of soft labels, say anything about the unlabelled rows.

    >>> import pandas as pd
    >>> table = Table.from_frame(pd.DataFrame({"age": [30, 40], "label": [1, 0]}))
    >>> why_not("labeled_vs_rest", table, has_beliefs=False)
    >>> why_not("rule_score", table, has_beliefs=False)
    'It uses what the rules say of each row, and there are no rules yet.'
    """
    given = {
        Need.LABELS: bool(table.is_labeled.any()),
        Need.SOFT_LABELS: has_beliefs,
        Need.RULE_SCORE: has_beliefs,
        Need.TRUTH: table.truth is not None,
        Need.PRIOR: True,  # it is estimated where nobody gives one
    }
    lacking = next((need for need in method(key).needs if not given[need]), None)
    if lacking is not None:
        return _LACKING[lacking]
    if key == "cnn" and find_spec("torch") is None:
        return "It needs PyTorch, which is not installed here: pip install 'spu-studio[vision]'."
    return None


def methods_by_group() -> dict[str, tuple[str, ...]]:
    """All methods by group, those of SHORTLIST first.

    >>> methods_by_group()["ours"]
    ('fused', 'two_stage', 'soft_bagging')
    """
    ranked = sorted(METHODS, key=lambda key: SHORTLIST.index(key) if key in SHORTLIST else len(SHORTLIST))
    groups = dict.fromkeys(METHODS[key].group for key in ranked)
    return {group: tuple(key for key in ranked if METHODS[key].group == group) for group in groups}
