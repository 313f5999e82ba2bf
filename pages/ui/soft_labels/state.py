"""What the Soft labels page holds between two runs: the saved rule set it works on, and the draft on the desk.

The workspace holds facts, the session holds the draft; the draft is also written into the address, so that a refresh
brings it back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import streamlit as st

from pages.ui.shared import cached
from pages.ui.shared.shell import Page, choose_in_address
from pages.ui.soft_labels.draft import Draft, DraftCondition, automatic_name, draft_of
from spu_core.errors import SpuError
from spu_core.rules import RuleSet
from spu_core.workspace import DatasetRecord, RuleSetVersion

LONGEST_IN_ADDRESS = 1_500


@dataclass(frozen=True)
class Book:
    """The saved rules of the open page, and how to save changed ones."""

    page: Page
    dataset: DatasetRecord
    rules: RuleSet
    problems: dict[str, str]
    seen: int | None

    @property
    def usable(self) -> RuleSet:
        """The rules without those that do not fit this table; all figures come from these."""
        rules = self.rules
        for rule_id in self.problems:
            rules = rules.switch(rule_id, on=False)
        return rules

    @property
    def text(self) -> str:
        """The usable rules as the key of every cached figure."""
        return self.usable.to_json()

    @property
    def number(self) -> int:
        """The number of the saved version; 0 before the first."""
        return 0 if self.page.rules is None else self.page.rules.number

    def save(self, rules: RuleSet, note: str) -> None:
        """A new version, refused if somebody saved another one that this page has not shown yet."""
        workspace, saved = self.page.workspace, self.page.rules
        if saved is None:
            made = workspace.rule_sets.create(self.dataset.name, rules.to_json(), note)
            choose_in_address(rules=made.id)
        else:
            made = workspace.rule_sets.save(self._on_screen(saved), rules.to_json(), note)
        remember_version(made.id, made.number)

    def change(self, change: Callable[[RuleSet], RuleSet], note: str) -> None:
        """Save what `change` makes of the rules, and show it."""
        self.save(change(self.rules), note)
        st.rerun()

    def walk(self, step: Callable[[RuleSetVersion], RuleSetVersion]) -> None:
        """Undo or redo."""
        assert self.page.rules is not None
        moved = step(self._on_screen(self.page.rules))
        remember_version(moved.id, moved.number)
        st.rerun()

    def _on_screen(self, saved: RuleSetVersion) -> RuleSetVersion:
        """The version that was on the screen when the analyst acted, not the one just read."""
        return saved if self.seen is None else replace(saved, number=self.seen)


def open_book(page: Page, dataset: DatasetRecord) -> Book:
    """The rules of the page's address; none yet is an empty set."""
    if page.rules is None:
        return Book(page, dataset, RuleSet(), {}, None)
    rules = RuleSet.from_json(page.rules.text)
    problems = cached.rule_problems(page.workspace, dataset, page.rules.text)
    seen = st.session_state.get("soft_seen", {}).get(page.rules.id)
    remember_version(page.rules.id, page.rules.number)
    return Book(page, dataset, rules, problems, seen)


def remember_version(rule_set: str, number: int) -> None:
    """The analyst has this version on the screen."""
    st.session_state["soft_seen"] = {rule_set: number}


@dataclass
class Desk:
    """The draft that the widgets show; a new generation gives all of them new keys, so that they start afresh."""

    dataset: str
    generation: int
    draft: Draft
    rows: list[int]

    def key(self, *parts: object) -> str:
        """The key of a widget of this draft."""
        return "_".join(map(str, ("rule", self.generation, *parts)))

    def start(self, draft: Draft) -> None:
        """Put another draft on the desk."""
        self.generation += 1
        self.draft = draft
        self.rows = list(range(len(draft.conditions)))

    def clear(self) -> None:
        """An empty draft on the column that was open."""
        first = self.draft.conditions[:1]
        self.start(Draft(conditions=tuple(DraftCondition(row.column) for row in first)))

    def add_row(self, column: str) -> None:
        self.rows.append(max(self.rows, default=-1) + 1)
        self.draft = replace(self.draft, conditions=(*self.draft.conditions, DraftCondition(column)))

    def remove_row(self, place: int) -> None:
        del self.rows[place]
        kept = [row for at, row in enumerate(self.draft.conditions) if at != place]
        self.draft = replace(self.draft, conditions=tuple(kept))

    def bring_forward(self, place: int) -> None:
        """Show another row on the chart; the order of rows joined by *and* does not matter."""
        rows = list(self.draft.conditions)
        first, other = rows[0], rows[place]
        rows[0], rows[place] = replace(other, joined=first.joined), replace(first, joined=other.joined)
        self.start(replace(self.draft, conditions=tuple(rows)))


def open_desk(dataset: DatasetRecord, columns: list[str], first: str, rules: RuleSet) -> Desk:
    """The desk of this dataset: as it was left, from the address after a refresh, or with an empty draft."""
    desk = st.session_state.get("soft_desk")
    if desk is None or desk.dataset != dataset.id:
        draft = _draft_in_address(rules) if desk is None else None
        known = draft is not None and all(row.column in columns for row in draft.conditions)
        desk = Desk(dataset.id, 0 if desk is None else desk.generation + 1, Draft(), [])
        desk.start(draft if known and draft is not None else Draft(conditions=(DraftCondition(first),)))
        st.session_state["soft_desk"] = desk
    return desk


def keep_in_address(draft: Draft) -> None:
    """Write the draft into the address, so that a refresh brings it back."""
    text = " ".join(RuleSet((draft.rule(),)).to_json().split()) if draft.is_complete else ""
    fits = 0 < len(text) <= LONGEST_IN_ADDRESS
    wanted = {"draft": text if fits else None, "editing": draft.editing if fits else None}
    if any(st.query_params.get(key) != value for key, value in wanted.items()):
        choose_in_address(**wanted)


def _draft_in_address(rules: RuleSet) -> Draft | None:
    text, editing = st.query_params.get("draft"), st.query_params.get("editing")
    if not text:
        return None
    try:
        rule = RuleSet.from_json(text).rules[0]
    except (SpuError, IndexError):
        # A mangled link costs the draft, nothing else.
        choose_in_address(draft=None, editing=None)
        return None
    draft = draft_of(rule)
    name = "" if draft.name == automatic_name(draft) else draft.name
    return replace(draft, editing=editing if editing in {rule.id for rule in rules} else None, name=name)
