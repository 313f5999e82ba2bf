"""Rule sets as a whole: choose an earlier one, walk through saved versions, bring and take a file."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from pages.ui.shared.deletion import confirm_deletion
from pages.ui.shared.shell import choose_in_address
from pages.ui.shared.tables import show_table
from pages.ui.shared.text import count, plain
from pages.ui.soft_labels.state import Book
from spu_core.errors import SpuError
from spu_core.rules import ReadyMade, Rule, RuleSet
from spu_core.tables import Role
from spu_core.workspace import RuleSetVersion


def choose_rule_set(book: Book) -> None:
    """Before the first rule: offer what is there already, a column of soft labels or an earlier rule set."""
    if book.page.rules is not None:
        return
    ready = [name for name, role in book.dataset.roles.items() if role == Role.SOFT_LABEL]
    known = book.page.workspace.rule_sets.list()
    if not ready and not known:
        return
    with st.container(border=True):
        st.markdown("**Start from what is there**, or make the first rule below.")
        for name in ready:
            if st.button(f"Take the soft labels in column {plain(name)}", key=f"soft_ready_{name}"):
                book.save(RuleSet((Rule(f"Values of {name}"[:200], ReadyMade(name)),)), "took a column of soft labels")
                st.rerun()
        if known:
            _choose_earlier(known)


def _choose_earlier(known: tuple[Any, ...]) -> None:
    names = {version.id: f"{version.name}, version {version.number}" for version in known}
    which, take = st.columns([3, 1], vertical_alignment="bottom")
    chosen = which.selectbox("Earlier rule sets", list(names), format_func=names.__getitem__, key="soft_earlier")
    if take.button("Use it", key="soft_use", width="stretch"):
        choose_in_address(rules=chosen)
        st.rerun()


def show_versions(book: Book) -> None:
    """Saved versions on the left, files on the right."""
    left, right = st.columns([3, 2], gap="small")
    with left, st.container(border=True, height="stretch"):
        _show_history(book)
    with right, st.container(border=True, height="stretch"):
        _take_file(book)
        _bring_file(book)


def _show_history(book: Book) -> None:
    st.subheader("Saved versions", anchor=False)
    saved = book.page.rules
    if saved is None:
        st.caption("Every change is kept as a version; there is none yet.")
        return
    history = book.page.workspace.rule_sets.history(saved.id)
    lines = [(each.number, each.note or "made", each.made, each.is_current) for each in reversed(history)]
    shown = pd.DataFrame(lines, columns=["version", "what changed", "saved", "current"])
    when = {"saved": st.column_config.DatetimeColumn("saved", format="YYYY-MM-DD HH:mm")}
    show_table(shown, hide_index=True, column_config=when, key="soft_history")
    others = [each.number for each in reversed(history) if not each.is_current]
    if others:
        _go_back(book, saved, others)
    if st.button("Delete this rule set …", icon=":material/delete:", type="tertiary", key="soft_delete"):
        confirm_deletion(book.page, "rule set", saved.id, "rules", "draft", "editing")


def _go_back(book: Book, saved: RuleSetVersion, others: list[int]) -> None:
    which, go = st.columns([2, 1], vertical_alignment="bottom")
    number = which.selectbox("Version", others, key="soft_version")
    if go.button("Go back to it", key="soft_back", width="stretch", icon=":material/history:"):
        old = book.page.workspace.rule_sets.get(saved.id, number)
        book.save(RuleSet.from_json(old.text), f"version {number} again")
        st.rerun()
    with st.expander(f"What version {number} says"):
        old = book.page.workspace.rule_sets.get(saved.id, number)
        st.code(str(RuleSet.from_json(old.text)) or "no rules", language=None, wrap_lines=True)


def _take_file(book: Book) -> None:
    st.subheader("Take them away", anchor=False)
    st.download_button(
        "Rules as JSON",
        book.rules.to_json(),
        file_name="rules.json",
        mime="application/json",
        icon=":material/download:",
        width="stretch",
        key="soft_download",
    )


def _bring_file(book: Book) -> None:
    st.subheader("Bring a file", anchor=False)
    uploaded = st.file_uploader("Rules as JSON", type=["json"], key="soft_upload", max_upload_size=4)
    if uploaded is None:
        return
    try:
        brought = RuleSet.from_json(uploaded.getvalue())
    except SpuError as problem:
        st.error(plain(problem), icon=":material/error:")
        return
    st.caption(f"{count(len(brought))} rules:")
    st.code(str(brought) or "no rules", language=None, wrap_lines=True)
    instead, beside = st.columns(2)
    if instead.button("Use instead", key="soft_instead", type="primary", width="stretch"):
        book.save(brought, "came from a file")
        st.rerun()
    if beside.button("Add to the rules", key="soft_beside", width="stretch"):
        book.save(added(book.rules, brought), "added rules from a file")
        st.rerun()


def added(rules: RuleSet, more: RuleSet) -> RuleSet:
    """Both sets in one; a name that is taken gets a number."""
    for rule in more:
        name, place = rule.name, 2
        while name in rules.names:
            name, place = f"{rule.name[:190]} ({place})", place + 1
        rules = rules.add(rule.renamed(name))
    return rules
