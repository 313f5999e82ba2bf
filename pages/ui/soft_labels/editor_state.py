"""The state of the Soft labels page: the saved rule set that is open, the draft in the rule editor, and cached calls.

Saved rules are in the workspace, the draft is in the session. The draft is also written into the address, so that a
refresh brings it back. The text of a rule set is part of the key of a cached call: equal texts give equal results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd
import streamlit as st

from pages.ui.shared.cached import (
    apply_rules,
    cache_result,
    load_full_profile,
    load_table,
    make_soft_labels,
    parse_rules,
)
from pages.ui.shared.shell import Page, choose_in_address
from spu_core.errors import RuleError, SpuError
from spu_core.labels import (
    PreviewBase,
    RuleLift,
    RulePreview,
    SoftLabelAudit,
    audit_soft_labels,
    leave_one_rule_out,
    preview_base,
    rank_rules,
)
from spu_core.labels.belief_suggestions import Prior
from spu_core.rules import CheckRatio, CheckRecord, ColumnChoices, Rule, RuleSet, from_checks
from spu_core.rules import column_choices as choices_of_column
from spu_core.rules.checking import refuse_errors
from spu_core.rules.draft import DraftCondition, RuleDraft, automatic_name, draft_of, with_bars_of_all
from spu_core.rules.matrix import findings_in
from spu_core.tables import Finding
from spu_core.theory.prior import PriorEstimate
from spu_core.training.cross_fitting import estimate_class_prior
from spu_core.workspace import DatasetRecord, RuleSetVersion, Workspace


@dataclass(frozen=True)
class RuleAnalysis:
    """The results that the analysis of rules shows."""

    summary: pd.DataFrame
    overlap: pd.DataFrame
    without: pd.DataFrame
    findings: tuple[Finding, ...]


def rule_problems(workspace: Workspace, dataset: DatasetRecord, rules: RuleSet) -> dict[str, str]:
    """Rules that cannot be applied to this dataset: rule id → reason."""
    # Cached one by one, so that a change of one rule does not check all the others again.
    found = {rule.id: rule_problem(workspace, dataset, rule) for rule in rules}
    return {token: problem for token, problem in found.items() if problem}


@cache_result(512, "Reading the rules …")
def rule_problem(workspace: Workspace, dataset: DatasetRecord, rule: Rule) -> str:
    """Why a rule cannot be applied to this dataset; empty where it can."""
    table, alone = load_table(workspace, dataset), RuleSet((rule.switched(True),))
    try:
        if rule.on:
            alone.fit(table)
        else:
            refuse_errors(alone.check(table))  # fitting the parameters of a rule can take a while
    except RuleError as problem:
        return str(problem)
    return ""


@cache_result(64)
def soft_label_audit(
    workspace: Workspace, dataset: DatasetRecord, text: str, prior: Prior | None = None
) -> SoftLabelAudit:
    """The audit of these soft labels, with the share of positives or its range where it is known."""
    return audit_soft_labels(make_soft_labels(workspace, dataset, text), prior=prior)


@cache_result(32)
def rule_ranking(workspace: Workspace, dataset: DatasetRecord, text: str) -> tuple[RuleLift, ...]:
    """The active rules by their lift among confirmed cases."""
    return rank_rules(apply_rules(workspace, dataset, text), load_table(workspace, dataset).is_labeled)


@cache_result(32, "Comparing the rules …")
def rule_analysis(workspace: Workspace, dataset: DatasetRecord, text: str) -> RuleAnalysis:
    """Coverage, lift, overlap, leave-one-out and findings of the active rules."""
    is_labeled = make_soft_labels(workspace, dataset, text).is_labeled
    matrix, rules = apply_rules(workspace, dataset, text), parse_rules(text)
    summary = matrix.summary(is_labeled)
    without = leave_one_rule_out(matrix, is_labeled, rules.combine, rules.floor)
    return RuleAnalysis(summary, matrix.overlaps(), without, findings_in(summary, matrix))


def column_choices(workspace: Workspace, dataset: DatasetRecord, column: str) -> ColumnChoices:
    """The histogram or the categories of one column; for a folder the histogram of all rows, once a job has made it."""
    profile = load_full_profile(workspace, dataset) if dataset.folder is not None else None
    choices = _column_choices(workspace, dataset, column)
    return choices if profile is None else with_bars_of_all(choices, profile.column(column))


@cache_result(256, "Looking at the column …")
def _column_choices(workspace: Workspace, dataset: DatasetRecord, column: str) -> ColumnChoices:
    return choices_of_column(load_table(workspace, dataset), column)


@cache_result(256)
def rule_preview(
    workspace: Workspace, dataset: DatasetRecord, text: str, draft: Rule | None, prior: Prior | None
) -> RulePreview:
    """The soft labels with an unsaved rule included, in place of the saved rule with the same id if there is one."""
    saved = {rule.id for rule in parse_rules(text)}
    instead_of = draft.id if draft is not None and draft.id in saved else None
    base = _preview_base(workspace, dataset, text, instead_of)
    return base.preview(None if draft is None else draft.switched(True), prior=prior)


@cache_result(6)
def _preview_base(workspace: Workspace, dataset: DatasetRecord, text: str, instead_of: str | None) -> PreviewBase:
    matrix = apply_rules(workspace, dataset, text)
    return preview_base(load_table(workspace, dataset), parse_rules(text), matrix=matrix, instead_of=instead_of)


@cache_result(32, "Counting checks …")
def check_statistics(workspace: Workspace, dataset: DatasetRecord, belief: CheckRatio | CheckRecord) -> Any:
    """How often the checks of each rule fail (Appendix A.1), or the distribution of the chance to pass (A.2)."""
    return from_checks(belief, load_table(workspace, dataset))


@cache_result(32)
def estimate_prior(workspace: Workspace, dataset: DatasetRecord) -> PriorEstimate:
    """A range for the share of positives; trains a small model."""
    return estimate_class_prior(load_table(workspace, dataset))


LONGEST_IN_ADDRESS = 1_500


@dataclass(frozen=True)
class OpenRuleSet:
    """The saved rules of the open page, and how to save changed ones."""

    page: Page
    dataset: DatasetRecord
    rules: RuleSet
    problems: dict[str, str]
    seen: int | None

    @property
    def workspace(self) -> Workspace:
        return self.page.workspace

    @cached_property
    def usable(self) -> RuleSet:
        """The rules that fit this table; all figures come from these."""
        rules = self.rules
        for rule_id in self.problems:
            rules = rules.switch(rule_id, on=False)
        return rules

    @cached_property
    def text(self) -> str:
        """The usable rules as JSON, the key of every cached figure."""
        return self.usable.to_json()

    @property
    def is_of_another_dataset(self) -> bool:
        """Whether the address names rules of another dataset: the first change makes a copy."""
        saved = self.page.rules
        return saved is not None and saved.dataset not in (None, self.dataset.id)

    @property
    def number(self) -> int:
        """The number of the saved version; 0 before the first."""
        return 0 if self.page.rules is None else self.page.rules.number

    def save(self, rules: RuleSet, note: str) -> None:
        """Save a new version; refused if somebody saved another version that this page has not shown yet."""
        saved, rule_sets = self.page.rules, self.workspace.rule_sets
        if saved is None:
            made = rule_sets.create(self.dataset.name, rules.to_json(), note, self.dataset.id)
        elif self.is_of_another_dataset:
            made = rule_sets.save(rule_sets.copy(saved, self.dataset.name, self.dataset.id), rules.to_json(), note)
        else:
            made = rule_sets.save(self._on_screen(saved), rules.to_json(), note)
        choose_in_address(rules=made.id)
        remember_version(made.id, made.number)

    def change(self, change: Callable[[RuleSet], RuleSet], note: str) -> None:
        """Save the rules that `change` returns, and show them."""
        self.save(change(self.rules), note)
        st.rerun()

    def undo_or_redo(self, step: Callable[[RuleSetVersion], RuleSetVersion]) -> None:
        """Open the version before or after the one on the screen."""
        assert self.page.rules is not None
        moved = step(self._on_screen(self.page.rules))
        remember_version(moved.id, moved.number)
        st.rerun()

    def _on_screen(self, saved: RuleSetVersion) -> RuleSetVersion:
        """The version that was on the screen when the analyst acted, not the one just read."""
        return saved if self.seen is None else replace(saved, number=self.seen)


def open_rule_set(page: Page, dataset: DatasetRecord) -> OpenRuleSet:
    """The rule set of the page; an empty one before the first is saved."""
    if page.rules is None:
        return OpenRuleSet(page, dataset, RuleSet(), {}, None)
    rules = parse_rules(page.rules.text)
    problems = rule_problems(page.workspace, dataset, rules)
    seen = st.session_state.get("soft_seen", {}).get(page.rules.id)
    remember_version(page.rules.id, page.rules.number)
    return OpenRuleSet(page, dataset, rules, problems, seen)


def remember_version(rule_set: str, number: int) -> None:
    """Remember which version is on the screen, so that a stale edit is detected."""
    st.session_state["soft_seen"] = {rule_set: number}


@dataclass
class EditorState:
    """The draft in the widgets; a new generation gives all widgets new keys, and so new default values."""

    dataset: str
    generation: int
    draft: RuleDraft
    rows: list[int]

    def key(self, *parts: object) -> str:
        """The key of a widget of this draft."""
        return "_".join(map(str, ("rule", self.generation, *parts)))

    def start(self, draft: RuleDraft) -> None:
        """Show another draft."""
        self.generation += 1
        self.draft = draft
        self.rows = list(range(len(draft.conditions)))

    def clear(self) -> None:
        """Show an empty draft on the same column."""
        first = self.draft.conditions[:1]
        self.start(RuleDraft(conditions=tuple(DraftCondition(row.column) for row in first)))

    def add_row(self, column: str) -> None:
        self.rows.append(max(self.rows, default=-1) + 1)
        self.draft = replace(self.draft, conditions=(*self.draft.conditions, DraftCondition(column)))

    def remove_row(self, place: int) -> None:
        del self.rows[place]
        kept = [row for at, row in enumerate(self.draft.conditions) if at != place]
        self.draft = replace(self.draft, conditions=tuple(kept))

    def show_first(self, place: int) -> None:
        """Show another row on the chart; the order of rows joined by *and* does not matter."""
        rows = list(self.draft.conditions)
        first, other = rows[0], rows[place]
        rows[0], rows[place] = replace(other, joined=first.joined), replace(first, joined=other.joined)
        self.start(replace(self.draft, conditions=tuple(rows)))


def open_editor(dataset: DatasetRecord, columns: list[str], first: str, rules: RuleSet) -> EditorState:
    """The editor of this dataset: from the session, from the address after a refresh, or with an empty draft."""
    editor = st.session_state.get("soft_editor")
    if editor is None or editor.dataset != dataset.id:
        draft = _draft_in_address(rules) if editor is None else None
        known = draft is not None and all(row.column in columns for row in draft.conditions)
        editor = EditorState(dataset.id, 0 if editor is None else editor.generation + 1, RuleDraft(), [])
        editor.start(draft if known and draft is not None else RuleDraft(conditions=(DraftCondition(first),)))
        st.session_state["soft_editor"] = editor
    return editor


def keep_in_address(draft: RuleDraft) -> None:
    """Write the draft into the address, so that a refresh brings it back."""
    text = " ".join(RuleSet((draft.rule(),)).to_json().split()) if draft.is_complete else ""
    fits = 0 < len(text) <= LONGEST_IN_ADDRESS
    wanted = {"draft": text if fits else None, "editing": draft.editing if fits else None}
    if any(st.query_params.get(key) != value for key, value in wanted.items()):
        choose_in_address(**wanted)


def _draft_in_address(rules: RuleSet) -> RuleDraft | None:
    text, editing = st.query_params.get("draft"), st.query_params.get("editing")
    if not text:
        return None
    try:
        rule = RuleSet.from_json(text).rules[0]
    except (SpuError, IndexError):
        # The draft in the address is invalid; the page opens without it.
        choose_in_address(draft=None, editing=None)
        return None
    draft = draft_of(rule)
    name = "" if draft.name == automatic_name(draft) else draft.name
    return replace(draft, editing=editing if editing in {rule.id for rule in rules} else None, name=name)
