"""Small trainings for the pages that come after them."""

from __future__ import annotations

from spu_core.engines import Job, run_in_process
from spu_core.tables.samples import load_sample, load_sample_rules
from spu_core.training import Candidate, TrainConfig, TrainPlan
from spu_core.workspace import Workspace

HOSTILE = "<img src=x onerror=alert(1)> *b* $x$ :red[y] [z](javascript:alert(1))"
QUICK = (
    Candidate("logistic", name=HOSTILE),
    Candidate("labeled_vs_rest", {"learner": "logistic"}, name="linear"),
    Candidate("rule_score"),
)


def bring_sample(workspace: Workspace, name: str = "Breast cancer") -> dict[str, str]:
    """The breast-cancer sample with its rules, as an address names them; another name is another dataset."""
    dataset = workspace.datasets.save(load_sample("breast_cancer", truth=True), name)
    rules = workspace.rule_sets.create("Breast cancer", load_sample_rules("breast_cancer"), dataset=dataset.id)
    return {"dataset": dataset.id, "rules": rules.id}


def train_quickly(
    workspace: Workspace, address: dict[str, str], candidates=QUICK, version: int = 1, **more
) -> list[str]:
    """Ids of runs that take a second or two to make."""
    plan = TrainPlan(TrainConfig(folds=2, threads=1), tuple(candidates))
    parameters = {
        "dataset": address["dataset"],
        "rule_set": address["rules"],
        "rule_set_version": version,
        "plan": plan.to_json(),
        "refine": False,
        **more,
    }
    done = run_in_process(workspace, Job(kind="train", parameters=parameters, title=f"{len(candidates)} candidates"))
    assert done.status == "finished", done.error
    return list(done.result["runs"])
