"""What both boosters share: the settings of growing trees, and how many threads are worth their waiting."""

from __future__ import annotations

from spu_core.models.settings import Setting

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

# Below this many rows the threads of a booster wait for each other longer than they work.
ROWS_WORTH_A_THREAD = 10_000


def useful_threads(threads: int, rows: int) -> int:
    """As many threads as asked for, but one where there is too little work to share.

    >>> useful_threads(4, rows=500), useful_threads(4, rows=1_000_000)
    (1, 4)
    """
    return threads if rows >= ROWS_WORTH_A_THREAD else 1
