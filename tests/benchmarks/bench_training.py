"""Training benchmarks: cross-fitting against the naive loop, its peak memory against one LightGBM training, the
standard training in two processes against one, and the dashboard from the click to the result.

Wall times need an idle machine with two processors.

What cross-fitting can share is encoding and bins; the trees must be grown all the same. So the ratio rises with the
rounds, and growing the very same trees is the floor that no sharing can go below: it is printed beside.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil

from spu_core.engines.executors import Engine, open_executor
from spu_core.engines.study import Study
from spu_core.labels import SoftLabels
from spu_core.rules import Compare, Rule, RuleSet
from spu_core.tables import Table
from spu_core.tables.samples import load_sample, load_sample_rules
from spu_core.training import SHORTLIST, Candidate, TrainConfig, TrainPlan, cross_fit
from spu_core.workspace import Workspace
from tests.benchmarks.harness import BenchRow, peak_memory_of
from tests.live import NO_BROWSER, WORKER_PATIENCE, find_browser, open_tab_in, running_browser, running_server

ROWS = 100_000 if os.environ.get("SPU_SLOW") == "1" else 40_000
COLUMNS, FOLDS = 30, 5
LEAVES = (4, 8, 12, 16, 24, 31)
STANDARD = (*map(Candidate, SHORTLIST), Candidate("fused", without_rules=True))


def rows(*chosen: str) -> Iterator[BenchRow]:
    for name, measure in PARTS.items():
        if not chosen or name in chosen:
            yield from measure()


def loop_rows() -> Iterator[BenchRow]:
    yield cross_fit_against_the_naive_loop(20)[0]
    yield from cross_fit_against_the_naive_loop(100)


def click_rows() -> Iterator[BenchRow]:
    """The standard training of the anti-cheat sample in a real browser, from the click until its result is shown."""
    path = find_browser()
    if path is None:
        sys.exit(NO_BROWSER)
    waited = []
    with tempfile.TemporaryDirectory() as scratch, running_browser(path) as browser:
        home = Path(scratch) / "home"
        with running_server(home, Path(scratch) / "server.log") as server:
            for turn in range(3):
                with Workspace.open(home) as workspace:
                    dataset = workspace.datasets.save(load_sample("anti_cheat"), f"Anti-cheat {turn}")
                    rules = workspace.rule_sets.create(f"Anti-cheat {turn}", load_sample_rules("anti_cheat"))
                tab = open_tab_in(browser, server).open(f"train?dataset={dataset.id}&rules={rules.id}")
                start = time.monotonic()
                tab.page.get_by_role("button", name="Train 6 candidates").click()
                tab.page.get_by_role("link", name="Compare them").wait_for(timeout=WORKER_PATIENCE)
                waited.append(time.monotonic() - start)
                tab.page.context.close()
    yield BenchRow("anti-cheat sample, click until result", statistics.median(waited), 8.0, "at most", "s")


def process_rows(count: int, goal: float) -> Iterator[BenchRow]:
    """The standard training (six candidates, refined soft labels, refits) on so many rows and 30 columns.

    One and two processes take turns three times; the ratios are those of the medians.
    """
    table, rules = _ruled_world(count)
    study = Study.of(table, rules, TrainPlan(TrainConfig(), STANDARD))
    found: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    for _ in range(3):
        for processes, figures in found.items():
            figures.append(_cost_of(study, table, processes))
    wall, cpu = (_median(found[2], at) / _median(found[1], at) for at in range(2))
    name = f"standard training, {count:,} × 30, two processes / one"
    yield BenchRow(f"{name}: wall time ({_median(found[2], 0):.1f} s)", wall, goal, "at most")
    yield BenchRow(f"{name}: processor time", cpu, 1.15, "at most")


def process_memory_rows() -> Iterator[BenchRow]:
    """The largest memory that one of two processes shares with nobody, over the memory of one fit.

    With fewer rows a fit takes less memory than loading the libraries has left free, so it cannot be measured.
    """
    count = 40_000
    table, rules = _ruled_world(count)
    fit = peak_memory_of(_FIT.format(count=count)) - peak_memory_of(_NO_FIT.format(count=count))
    with _own_memory_of_children() as own:
        _cost_of(Study.of(table, rules, TrainPlan(TrainConfig(), STANDARD)), table, 2)
    name = f"standard training, {count:,} × 30: own memory of a process ({max(own) / 1e6:.0f} MB) / one fit"
    yield BenchRow(name, max(own) / fit, 1.0, "at most")


@contextmanager
def _own_memory_of_children() -> Iterator[list[int]]:
    """Bytes that a child shares with nobody, read ten times a second."""
    found, is_over = [0], threading.Event()

    def watch() -> None:
        while not is_over.wait(0.1):
            for child in psutil.Process().children():
                with suppress(psutil.Error):
                    found.append(child.memory_full_info().uss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        is_over.set()
        watcher.join()


def _cost_of(study: Study, table: Table, processes: int) -> tuple[float, float]:
    """(wall seconds, processor seconds) of one training."""
    wall, cpu = time.monotonic(), _all_processor_seconds()
    with open_executor(Engine(), table, processes) as executor:
        for run, _ in study.run(table, lambda _: None, executor=executor):
            assert run.error is None, run.error
    return time.monotonic() - wall, _all_processor_seconds() - cpu


def _all_processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _median(figures: list[tuple[float, float]], at: int) -> float:
    return statistics.median(each[at] for each in figures)


def _ruled_world(count: int) -> tuple[Table, RuleSet]:
    """A tenth of the rows is positive, a third of these is labelled, and two rules read two of the columns."""
    rng = np.random.default_rng(0)
    truth = rng.random(count) < 0.1
    values = rng.normal(size=(count, COLUMNS)) + truth[:, None] * rng.normal(0, 0.7, COLUMNS)
    frame = pd.DataFrame(values, columns=[f"c{k}" for k in range(COLUMNS)])
    frame["label"] = (truth & (rng.random(count) < 0.33)).astype(int)
    rules = RuleSet(tuple(Rule(f"High {name}", 0.4, Compare(name, ">", 1.0)) for name in ("c0", "c1")))
    return Table.from_frame(frame), rules


def cross_fit_against_the_naive_loop(rounds: int) -> tuple[BenchRow, BenchRow]:
    """Six candidates on five folds, one binned Dataset for all: against a new one for every fit, and against the
    growing of the same trees alone."""
    table, soft_labels = _world(ROWS)
    config = TrainConfig(folds=FOLDS, threads=1)
    candidates = [Candidate("lightgbm", {"rounds": rounds, "num_leaves": leaves}, str(leaves)) for leaves in LEAVES]
    # A first small fit loads the libraries, whose cost belongs to nobody.
    fold = cross_fit(table, soft_labels, [Candidate("lightgbm", {"rounds": 1})], config)[0].fold
    naive, growing = _seconds(lambda: _naive_loop(table, soft_labels, fold, rounds))
    ours, _ = _seconds(lambda: cross_fit(table, soft_labels, candidates, config))
    name = f"cross_fit, 6 candidates × 5 folds, {rounds} rounds"
    return (
        BenchRow(f"{name} / naive loop", ours / naive, 0.6, "at most"),
        BenchRow(f"{name} / growing the same trees", ours / growing, 1.15, "at most"),
    )


def memory_rows() -> Iterator[BenchRow]:
    """Peak memory of cross-fitting two candidates, over that of one plain LightGBM training on the same table."""
    ours = peak_memory_of(_SETUP + _CROSS_FIT)
    plain = peak_memory_of(_SETUP + _ONE_TRAINING)
    yield BenchRow("cross_fit, peak memory / one LightGBM training", ours / plain, 1.5, "at most")


def _world(count: int) -> tuple[Table, SoftLabels]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(count, COLUMNS)), columns=[f"c{k}" for k in range(COLUMNS)])
    belief = np.clip(0.2 + 0.2 * frame["c0"] + 0.2 * rng.normal(size=count), 0, 1).to_numpy()
    table = Table.from_frame(frame, roles=dict.fromkeys(frame.columns, "feature"))
    return table, SoftLabels.from_values(belief, np.zeros(count, dtype=bool))


def _naive_loop(table: Table, soft_labels: SoftLabels, fold: np.ndarray, rounds: int) -> float:
    """What one would write by hand: slice, bin, train and predict for every candidate and fold. Returns the CPU seconds
    spent in growing trees."""
    import lightgbm as lgb

    growing = 0.0
    for leaves in LEAVES:
        score = np.empty(len(table))
        params = {"objective": "cross_entropy", "num_leaves": leaves, "learning_rate": 0.05, "lambda_l2": 1.0}
        params |= {"num_threads": 1, "deterministic": True, "force_row_wise": True, "verbosity": -1}
        for number in range(FOLDS):
            inside = fold != number
            data = lgb.Dataset(table.frame[inside], label=soft_labels.value[inside], params=params).construct()
            seconds, booster = _seconds(lambda data=data, params=params: lgb.train(params, data, rounds))
            growing += seconds
            score[~inside] = booster.predict(table.frame[~inside], num_threads=1)
    return growing


def _seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """(CPU seconds of the call, what it returns)."""
    start = time.process_time()
    found = call()
    return time.process_time() - start, found


_NO_FIT = """
import lightgbm
from spu_core.training import Candidate, TrainConfig, cross_fit
from spu_core.engines.study import soft_labels_of
from tests.benchmarks.bench_training import _ruled_world
table, rules = _ruled_world({count})
soft_labels = soft_labels_of(table, rules.fit(table))
cross_fit(table, soft_labels, ["rule_score"])
"""
_FIT = (
    _NO_FIT
    + """
cross_fit(table, soft_labels, ["fused"])
"""
)
_SETUP = """
import numpy as np, pandas as pd
import lightgbm as lgb, scipy.special, sklearn.base
from spu_core.training import Candidate, TrainConfig, cross_fit
from tests.benchmarks.bench_training import _world
table, soft_labels = _world(500_000)
"""
_CROSS_FIT = """
candidates = [Candidate("lightgbm", {"rounds": 5}), Candidate("lightgbm", {"rounds": 5, "num_leaves": 8})]
cross_fit(table, soft_labels, candidates, TrainConfig(folds=5, threads=1))
"""
_ONE_TRAINING = """
data = lgb.Dataset(table.frame, label=soft_labels.value)
booster = lgb.train({"objective": "cross_entropy", "num_threads": 1, "verbosity": -1}, data, 5)
booster.predict(table.frame, num_threads=1)
"""
PARTS: dict[str, Callable[[], Iterator[BenchRow]]] = {
    "loop": loop_rows,
    "memory": memory_rows,
    "processes-40000": lambda: process_rows(40_000, 0.6),
    "processes-8000": lambda: process_rows(8_000, 0.7),
    "process-memory": process_memory_rows,
    "click": click_rows,
}
