"""The JSON that is stored or exported, byte for byte: what the files in `json` hold is written today, and read back.

A file there changes only together with a migration. `python -m tests.compatibility.test_stored_json` writes new ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from spu_core.commands.command_io import plain
from spu_core.engines.processes.job_queue import JobQueue, QueueLimits
from spu_core.engines.study import Study
from spu_core.experiments.catalog import Claim, ExperimentResult, Provenance, ResultTable
from spu_core.export import ScoreReport
from spu_core.export.drift import ColumnDrift, DriftReport, ScoreDrift
from spu_core.export.score_report import ColumnCheck
from spu_core.metrics import Interval
from spu_core.rules import Compare, FittedRules, Kind, Ramp, ReadyMade, Rule, RuleSet
from spu_core.rules.beliefs import (
    CheckRatio,
    CheckRecord,
    FrozenConstant,
    FrozenRamp,
    FrozenRatios,
    FrozenReadyMade,
    FrozenRecords,
)
from spu_core.tables import Role, Table, open_folder, read_table
from spu_core.tables.folders import folder_from_survey, survey_to_json
from spu_core.tables.profiles import profile_from_json, profile_to_json
from spu_core.training import Candidate, EarlyStopping, TrainConfig, TrainPlan, Tuning
from spu_core.trust import AuditPlan
from spu_core.trust.audit.plan import Strata
from spu_core.trust.echo import EchoReport
from spu_core.workspace.home import Home
from spu_core.workspace.records import to_json
from tests.export.examples import known

STORED = Path(__file__).parent / "json"
BUNDLES = Path(__file__).parents[1] / "export" / "stored"
INTERVAL = Interval(0.75, 0.68, 0.81, 0.03, 0.9, "few positives")
UNKNOWN = Interval(0.5, 0.0, 1.0, float("nan"))

RULES = RuleSet(
    (
        Rule("Gain → große", 0.5, ~Compare("gain", ">", 0) | Compare("city", "in", ["Bern", "Zürich"]), note="ask Eva"),
        Rule("Age", Ramp(column="age", start=0.1, end=0.9, at_end=0.8, scale="quantile"), Compare("age", "<", 99.5)),
        Rule("Ready", ReadyMade("doubt"), on=False),
        Rule("Ratio", CheckRatio(rule_column="asked", outcome_column="outcome", random_rule="random")),
        Rule("Record", CheckRecord(checks_column="n", passes_column="k", penalty=2.0), Compare("n", "is_missing")),
        Rule("Both", 0, Compare("vip", "=", True) & Compare("signed", "between", ["2024-01-01", "2024-06-30"])),
    )
).combined("strongest", 0.02)
FITTED = FittedRules(
    RuleSet(
        (
            Rule("One", 0.1, Compare("city", "=", "Bern")),
            Rule("Age", Ramp(column="age", start=20, end=60)),
            Rule("Ready", ReadyMade("doubt")),
            Rule("Ratio", CheckRatio(rule_column="asked", outcome_column="outcome", random_rule="random")),
            Rule("Record", CheckRecord(checks_column="n", passes_column="k")),
        )
    ),
    {
        "city": Kind.TEXT,
        **dict.fromkeys(("age", "doubt"), Kind.NUMBER),
        **dict.fromkeys(("asked", "outcome"), Kind.TEXT),
        **dict.fromkeys(("n", "k"), Kind.NUMBER),
    },
    (
        FrozenConstant(0.1),
        FrozenRamp("age", (20.0, 60.0), (0.0, 1.0), above=1.0),
        FrozenReadyMade("doubt"),
        FrozenRatios("asked", "outcome", ("fail", "skip"), {"Überprüfung": 0.25, "random": 0.0}),
        FrozenRecords("n", "k", (0.0, 0.5, 1.0), (0.1, 1e-300, 2)),
    ),
)
PLAN = TrainPlan(
    TrainConfig(
        folds=3,
        hold_out=0.1,
        time_column="Tag",
        early_stopping=EarlyStopping(patience=7),
        review_budget=50,
        threads=2,
    ),
    (
        Candidate("lightgbm", {"rounds": np.int64(50)}, tuning=Tuning(trials=3, ranges={"num_leaves": (4, 64)})),
        Candidate("fused", {"folds": 2}, name="Ä", without_rules=True),
    ),
)
STUDY = Study(
    plan=PLAN,
    rules=RULES,
    roles={"fraud": "label", "id": "id"},
    positive_values=("yes", 1, True, 0.5),
    truth_values=("1",),
    fingerprint="abc",
    refine=False,
)
AUDIT = AuditPlan(
    target="precision",
    level=0.9,
    seed=3,
    threshold=0.5,
    strata=Strata((0.25, 0.5), ((0.1,), (), (0.5,))),
    sizes=(100, 50, 40, 20, 10),
    drawn=(1, 1, 1, 0, 2),
    rows=(7, 3, 99, 12, 1),
    row_stratum=(0, 4, 1, 4, 2),
    population="f" * 32,
    prior=0.1,
)
ECHO = EchoReport("soft", 900, INTERVAL, INTERVAL, INTERVAL, INTERVAL, UNKNOWN, None)
SCORED = ScoreReport(
    rows=3,
    flagged=0,
    threshold=float("inf"),
    training_share=0.02,
    flag_by="share",
    columns=ColumnCheck(("signed",), ()),
    drift=DriftReport(
        rows=3,
        columns=(
            ColumnDrift(
                name="age",
                moved=0.5,
                noise=0.1,
                missing_before=0.0,
                missing_now=0.25,
                unseen=0.0,
                unseen_before=0.0,
                middle_before="30",
                middle_now="40",
            ),
        ),
        score=ScoreDrift(moved=0.1, noise=0.5, middle_before=0.3, middle_now=0.4),
    ),
)
EXPERIMENT = ExperimentResult(
    name="table1",
    title="Table 1 → UCI",
    tables=(ResultTable("auc", "True AUC", ("data", "ours", "n"), (("adult", 0.863, 3), ("bank", None, 4)), "note"),),
    claims=(Claim("Ours is better.", "holds partly", "On 1 of 2 tables."),),
    choices=("Nothing was chosen after the figures were seen, which is a long sentence.", "short"),
    provenance=Provenance("0123456789abcdef", {"numpy": "2.1"}, {"seeds": (1, 2), "quick": True}, 61.5, "2026-01-02"),
    series={"x": np.array([0.5, 1.0]), "nested": {"y": [[1, 2], [3, 4]], "empty": {}, "none": []}},
)
CSV = "claim;amount;city;label\n" + "\n".join(
    f"C{n};{n},5;{'Bern' if n % 3 else 'Zürich'};{n % 5 == 0:d}" for n in range(40)
)


def table() -> Table:
    return read_table(CSV.encode(), name="claims.csv").with_roles({"claim": "id", "label": "label"})


def table_note() -> str:
    """What `Table.to_parquet` writes beside the columns."""
    with TemporaryDirectory() as folder:
        table().to_parquet(f"{folder}/table.parquet")
        note: bytes = pq.read_schema(f"{folder}/table.parquet").metadata[b"spu_table"]
    return note.decode()


def survey() -> str:
    """The description of a folder, with the times of its files left out."""
    with TemporaryDirectory() as folder:
        days = pd.date_range("2024-01-01", periods=20, tz="UTC")
        frame = pd.DataFrame({"day": days, "x": np.arange(20) / 4, "c": ["ä", "b"] * 10, "label": [0, 1] * 10})
        frame.to_parquet(f"{folder}/part.parquet")
        note = json.loads(survey_to_json(open_folder(folder)))
    note["files"] = [["part.parquet", 20, 3000, 7]]
    return json.dumps(note, ensure_ascii=False)


def queue_limits() -> str:
    with TemporaryDirectory() as folder:
        queue = JobQueue(Home.at(folder))
        queue.set_limits(QueueLimits(running=3, waiting=7))
        assert queue.limits == QueueLimits(running=3, waiting=7)
        return queue._limits_path.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Shown:
    """A result of the command line."""

    table: pd.DataFrame
    path: Path
    number: float
    array: np.ndarray


def command_output() -> str:
    frame = pd.DataFrame({"x": [1.5, np.nan], "day": pd.to_datetime(["2024-01-01", "2024-01-02"])})
    shown = Shown(frame, Path("a/b"), float("inf"), np.array([True, False]))
    return json.dumps(plain({"shown": shown, "kind": Kind.TEXT, 3: (1, None)}), ensure_ascii=False, allow_nan=False)


def summary() -> str:
    return to_json(known(BUNDLES / "lightgbm.spu").run.to_dict(), "summary")


SURVEYED_ROLES = dict.fromkeys(("day", "x", "c", "label"), Role.FEATURE)


def again(read: Callable[[str], Any], write: Callable[[Any], str] = lambda value: value.to_json()) -> Any:
    return lambda text: write(read(text))


WRITTEN: dict[str, Callable[[], str]] = {
    "rule_set": RULES.to_json,
    "fitted_rules": FITTED.to_json,
    "config": PLAN.config.to_json,
    "plan": PLAN.to_json,
    "study": STUDY.to_json,
    "audit_plan": AUDIT.to_json,
    "experiment": EXPERIMENT.to_json,
    "echo_report": lambda: to_json(ECHO.to_dict(), "result"),
    "score_report": lambda: to_json(SCORED.to_dict(), "detail"),
    "run_summary": summary,
    "table_note": table_note,
    "profile": lambda: profile_to_json(table().profile()),
    "survey": survey,
    "queue_limits": queue_limits,
    "command_output": command_output,
}
READ: dict[str, Callable[[str], str]] = {
    "rule_set": again(RuleSet.from_json),
    "fitted_rules": again(FittedRules.from_json),
    "config": again(TrainConfig.from_json),
    "plan": again(TrainPlan.from_json),
    "study": again(Study.from_json),
    "audit_plan": again(AuditPlan.from_json),
    "experiment": again(ExperimentResult.from_json),
    "echo_report": again(lambda text: EchoReport.from_dict(json.loads(text)), lambda v: to_json(v.to_dict(), "result")),
    "score_report": again(
        lambda text: ScoreReport.from_dict(json.loads(text)), lambda v: to_json(v.to_dict(), "detail")
    ),
    "profile": again(profile_from_json, profile_to_json),
    "survey": again(
        lambda text: folder_from_survey(
            text, Path("folder"), name="t", roles=SURVEYED_ROLES, positive_values=(), truth_values=()
        ),
        survey_to_json,
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_value_is_written_as_before(name):
    assert WRITTEN[name]() == (STORED / f"{name}.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", READ)
def test_what_is_stored_is_read_and_written_back_to_the_byte(name):
    text = (STORED / f"{name}.json").read_text(encoding="utf-8")

    assert READ[name](text) == text


if __name__ == "__main__":
    STORED.mkdir(exist_ok=True)
    for each, write in WRITTEN.items():
        (STORED / f"{each}.json").write_text(write(), encoding="utf-8")
