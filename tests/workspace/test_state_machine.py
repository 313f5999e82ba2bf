"""A workspace behaves like a few dictionaries that survive being closed, opened, swept and backed up."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from spu_core.errors import WorkspaceError
from spu_core.workspace import StaleEditError, Workspace, collect_garbage, make_backup
from tests.workspace.fakes import FakeTable, draft_of, writes

contents = st.sampled_from([b"a", b"b", b"c", b"dd"])
texts = st.text(st.characters(codec="utf-8"), max_size=8)


class WorkspaceMachine(RuleBasedStateMachine):
    """The model: what each id should hold."""

    datasets = Bundle("datasets")
    rule_sets = Bundle("rule_sets")
    runs = Bundle("runs")

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.workspace = Workspace.open(self.folder.name)
        self.dataset_model: dict[str, tuple[str, bytes]] = {}
        self.rule_model: dict[str, tuple[list[str], list[int | None], int]] = {}
        self.run_model: dict[str, tuple[str, str | None, bytes]] = {}

    def teardown(self):
        self.workspace.close()
        self.folder.cleanup()

    @rule(target=datasets, content=contents, name=st.sampled_from(["x", "y"]))
    def save_dataset(self, content, name):
        saved = self.workspace.datasets.save(FakeTable(content, name))
        assert self.dataset_model.setdefault(saved.id, (name, content)) == (name, content)
        return saved.id

    @rule(target=rule_sets, text=texts)
    def create_rules(self, text):
        saved = self.workspace.rule_sets.create("rules", text)
        self.rule_model[saved.id] = ([text], [None], 1)
        return saved.id

    @rule(token=rule_sets, text=texts)
    def edit_rules(self, token, text):
        if token in self.rule_model:
            versions, parents, current = self.rule_model[token]
            saved = self.workspace.rule_sets.save(self.workspace.rule_sets.get(token), text)
            self.rule_model[token] = ([*versions, text], [*parents, current], len(versions) + 1)
            assert saved.number == len(versions) + 1

    @rule(token=rule_sets, number=st.integers(1, 5))
    def edit_a_version(self, token, number):
        if token in self.rule_model and number <= len(self.rule_model[token][0]):
            edited, current = self.workspace.rule_sets.get(token, number), self.rule_model[token][2]
            if number != current:
                with pytest.raises(StaleEditError):
                    self.workspace.rule_sets.save(edited, "stale")

    @rule(token=rule_sets)
    def undo(self, token):
        if token in self.rule_model:
            versions, parents, current = self.rule_model[token]
            if parents[current - 1] is None:
                with pytest.raises(WorkspaceError):
                    self.workspace.rule_sets.undo(self.workspace.rule_sets.get(token))
            else:
                self.workspace.rule_sets.undo(self.workspace.rule_sets.get(token))
                self.rule_model[token] = (versions, parents, parents[current - 1])

    @rule(target=runs, dataset=datasets, rules=rule_sets, content=contents)
    def save_run(self, dataset, rules, content):
        if dataset not in self.dataset_model or rules not in self.rule_model:
            return "none"
        version = self.workspace.rule_sets.get(rules)
        draft = draft_of(self.workspace.datasets.get(dataset), version)
        saved = self.workspace.runs.save(draft, writes(content))
        self.run_model[saved.id] = (dataset, rules, content)
        return saved.id

    @rule(token=consumes(runs))
    def delete_run(self, token):
        if token in self.run_model:
            self.workspace.delete(self.workspace.plan_deletion("run", token))
            del self.run_model[token]

    @rule(token=consumes(datasets))
    def delete_dataset(self, token):
        if token in self.dataset_model:
            plan = self.workspace.plan_deletion("dataset", token)
            taken = [run for run, (dataset, _, _) in self.run_model.items() if dataset == token]
            assert dict(plan.takes).get("run", 0) == len(taken)
            self.workspace.delete(plan)
            del self.dataset_model[token]
            self.run_model = {run: held for run, held in self.run_model.items() if run not in taken}

    @rule(token=consumes(rule_sets))
    def delete_rules(self, token):
        if token in self.rule_model:
            self.workspace.delete(self.workspace.plan_deletion("rule set", token))
            del self.rule_model[token]
            self.run_model = {run: held for run, held in self.run_model.items() if held[1] != token}

    @rule()
    def close_and_open(self):
        self.workspace.close()
        self.workspace = Workspace.open(self.folder.name)

    @rule()
    def sweep_and_back_up(self):
        assert collect_garbage(self.workspace) == 0
        make_backup(self.workspace)

    @invariant()
    def holds_what_the_dictionaries_hold(self):
        datasets, runs = self.workspace.datasets, self.workspace.runs
        found = {item.id: (item.name, datasets.path(item.id).read_bytes()) for item in datasets.list()}
        assert found == self.dataset_model
        assert {
            item.id: (item.dataset, item.rule_set, runs.path(item.id).read_bytes()) for item in runs.list()
        } == self.run_model
        assert {
            item.id: ([version.text for version in self.workspace.rule_sets.history(item.id)], item.number)
            for item in self.workspace.rule_sets.list()
        } == {token: (held[0], held[2]) for token, held in self.rule_model.items()}

    @invariant()
    def keeps_one_copy_per_content_and_no_other_file(self):
        expected = len({content for _, content in self.dataset_model.values()}) + len(self.run_model)
        assert len(list((Path(self.folder.name) / "files").iterdir())) == expected


TestWorkspace = WorkspaceMachine.TestCase
TestWorkspace.settings = settings(
    max_examples=200 if os.environ.get("SPU_SLOW") else 8,
    stateful_step_count=25,
    suppress_health_check=list(HealthCheck),
)
