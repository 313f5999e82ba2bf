"""A setting described once: forms, command-line help, checks and documentation are all made from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypedDict

from spu_core.errors import TrainingError, nearest_hint


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One number, choice, flag or list of column names a method can be given.

    A number has `low` and `high` (both allowed); `log` says that tuning should move it by factors. `optional`
    settings may be None, which means "chosen from the data" as `help` explains.

    >>> Setting(name="rounds", default=200, low=1, high=10_000, help="Trees to grow.").check(0)
    Traceback (most recent call last):
    spu_core.errors.TrainingError: rounds must be a whole number from 1 to 10000, got 0.
    """

    name: str
    default: Any
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    log: bool = False
    optional: bool = False
    tunable: bool = False
    kind: str = ""

    def __post_init__(self) -> None:
        if not self.kind:
            object.__setattr__(self, "kind", _kind(self))

    @property
    def law(self) -> str:
        """Which values are allowed."""
        words = {
            "flag": "true or false",
            "choice": f"one of {', '.join(map(repr, self.choices))}",
            "columns": "a list of column names",
            "integer": f"a whole number from {self.low} to {self.high}",
            "number": f"a number from {self.low} to {self.high}",
        }[self.kind]
        return f"{words}, or None" if self.optional else words

    def check(self, value: Any) -> Any:
        """The value itself, or an error that says what is allowed."""
        if not ((value is None and self.optional) or self._allows(value)):
            raise TrainingError(f"{self.name} must be {self.law}, got {value!r}.")
        return value

    def _allows(self, value: Any) -> bool:
        if self.kind == "flag":
            return isinstance(value, bool)
        if self.kind == "choice":
            return value in self.choices
        if self.kind == "columns":
            return not isinstance(value, str) and all(isinstance(name, str) for name in value)
        wanted = Integral if self.kind == "integer" else Real
        if isinstance(value, bool) or not isinstance(value, wanted):
            return False
        return self.low <= value <= self.high  # type: ignore[operator]


def setting(shared: Setting | None = None, **fields: Any) -> Any:
    """A setting as a class attribute of a learner, which gets the name of the attribute; `shared` serves several.

    `SoftLearner` collects these attributes, and makes the constructor from them.
    """
    return Setting(name="", **fields) if shared is None else shared


def complete(settings: Iterable[Setting], given: Mapping[str, Any], owner: str) -> dict[str, Any]:
    """Every setting with its given or default value; an unknown name is refused with the nearest known one."""
    known = {each.name: each for each in settings}
    for name in given:
        if name not in known:
            raise TrainingError(f"{owner} has no setting {name!r}. {nearest_hint(name, known)}")
    return {name: each.check(given.get(name, each.default)) for name, each in known.items()}


def _kind(setting: Setting) -> str:
    if setting.choices:
        return "choice"
    if isinstance(setting.default, bool):
        return "flag"
    if isinstance(setting.default, tuple):
        return "columns"
    return "number" if isinstance(setting.default, float) else "integer"


SEED = Setting(
    name="seed",
    default=0,
    low=0,
    high=2**31 - 1,
    help="Start of the random numbers; equal seeds give equal models.",
)
THREADS = Setting(
    name="threads",
    default=2,
    low=1,
    high=256,
    help="Processor threads; a model is equal to the bit only for an equal number.",
)


ROUNDS = Setting(name="rounds", default=200, low=1, high=20_000, log=True, help="Trees to grow.")
LEARNING_RATE = Setting(
    name="learning_rate",
    default=0.05,
    low=1e-4,
    high=1.0,
    log=True,
    tunable=True,
    help="Weight of each tree; smaller needs more rounds.",
)
REG_LAMBDA = Setting(name="reg_lambda", default=1.0, low=0.0, high=1e6, tunable=True, help="Ridge on the leaf values.")
COLSAMPLE_BYTREE = Setting(
    name="colsample_bytree",
    default=1.0,
    low=0.01,
    high=1.0,
    tunable=True,
    help="Share of columns each tree may use.",
)
SUBSAMPLE = Setting(
    name="subsample",
    default=1.0,
    low=0.01,
    high=1.0,
    tunable=True,
    help="Share of rows each tree sees.",
)

# With fewer rows, the threads of a booster wait for each other longer than they work.
ROWS_WORTH_A_THREAD = 10_000


def useful_threads(threads: int, rows: int) -> int:
    """As many threads as asked for, but one where there is too little work to share.

    >>> useful_threads(4, rows=500), useful_threads(4, rows=1_000_000)
    (1, 4)
    """
    return threads if rows >= ROWS_WORTH_A_THREAD else 1


class MethodSettings(TypedDict, total=False):
    """The settings of all methods and learners by name and type, so that editors and type checkers know them.

    A method has only some of them; None means the default of the method.
    """

    bag_ratio: float | None
    bags: int | None
    batch_rows: int | None
    colsample_bytree: float | None
    column_share: float | None
    em_steps: int | None
    first_stride: int | None
    flip: bool | None
    folds: int | None
    hidden: int | None
    keep_rule_columns: bool | None
    learner: str | None
    learning_rate: float | None
    max_bin: int | None
    max_depth: int | None
    max_iterations: int | None
    max_rows: int | None
    min_child_samples: int | None
    min_child_weight: float | None
    min_leaf_rows: int | None
    neighbors: int | None
    num_leaves: int | None
    objective: str | None
    prior: float | None
    propensity_columns: Sequence[str] | None
    reg_lambda: float | None
    ridge: float | None
    rounds: int | None
    seed: int | None
    splits: str | None
    subsample: float | None
    threads: int | None
    threshold: float | None
    trust_rules: bool | None
    weight_decay: float | None
    width: int | None
