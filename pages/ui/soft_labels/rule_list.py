"""The saved rules: the list with its actions, how rules are combined, earlier rule sets, versions, and files."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import streamlit as st

from pages.ui.shared.cached import parse_rules
from pages.ui.shared.shell import choose_in_address, confirm_deletion
from pages.ui.shared.show import meaning, show_table
from pages.ui.shared.text import count, plain
from pages.ui.soft_labels.editor import editable
from pages.ui.soft_labels.editor_state import EditorState, OpenRuleSet, rule_problems
from spu_core.errors import SpuError
from spu_core.labels import COMBINERS
from spu_core.rules import Constant, ReadyMade, Rule, RuleSet
from spu_core.rules.draft import add_rules, condition_text
from spu_core.tables import Role
from spu_core.workspace import RuleSetVersion

MOST_SHOWN = 25
EDIT = "Edit"
# Actions on a rule: the note in the history, and the change of the rule set.
ACTIONS: dict[str, tuple[str, Callable[[RuleSet, str, int], RuleSet]]] = {
    EDIT: ("edited", lambda rules, rule_id, place: rules),
    "Duplicate": ("duplicated", lambda rules, rule_id, place: rules.duplicate(rule_id)),
    "Move up": ("moved up", lambda rules, rule_id, place: rules.move(rule_id, place - 1)),
    "Move down": ("moved down", lambda rules, rule_id, place: rules.move(rule_id, place + 1)),
    "Remove": ("removed", lambda rules, rule_id, place: rules.remove(rule_id)),
}


def show_rules(opened: OpenRuleSet, editor: EditorState, columns: list[str]) -> None:
    """The list of rules with the actions on each rule."""
    with st.container(border=True, height="stretch"):
        with st.container(horizontal=True, vertical_alignment="center", wrap=False):
            st.subheader(f"Rules ({len(opened.rules)})", anchor=False)
            _undo_and_redo(opened)
        if opened.is_of_another_dataset:
            st.caption(":material/content_copy: Rules of another data set. The first change makes a copy for this one.")
        if not len(opened.rules):
            st.caption("No rules yet. Select a range or some values above, set a degree of belief, and add the rule.")
        hidden = len(opened.rules) - MOST_SHOWN
        everything = hidden > 0 and st.toggle(f"Show {hidden} more", key="soft_all_rules")
        for place in range(len(opened.rules) if everything else min(len(opened.rules), MOST_SHOWN)):
            _show_rule(opened, editor, columns, place)
        if len(opened.rules):
            _choose_combiner(opened)


def _undo_and_redo(opened: OpenRuleSet) -> None:
    saved, rule_sets = opened.page.rules, opened.workspace.rule_sets
    is_own = saved is not None and not opened.is_of_another_dataset
    parent = is_own and saved is not None and saved.parent is not None
    later = is_own and saved is not None and any(each.parent == saved.number for each in rule_sets.history(saved.id))
    if st.button("", icon=":material/undo:", help="Undo", disabled=not parent, key="soft_undo"):
        opened.undo_or_redo(rule_sets.undo)
    if st.button("", icon=":material/redo:", help="Redo", disabled=not later, key="soft_redo"):
        opened.undo_or_redo(rule_sets.redo)


def _show_rule(opened: OpenRuleSet, editor: EditorState, columns: list[str], place: int) -> None:
    rule = opened.rules.rules[place]
    key = f"soft_{opened.number}_{place}"
    line = st.container(horizontal=True, vertical_alignment="center", wrap=False)
    problem = opened.problems.get(rule.id)
    on = line.toggle("On", value=rule.on, key=f"{key}_on", label_visibility="collapsed", help="Use this rule")
    words = line.container(gap=None)
    belief = f" :orange-badge[{rule.belief.text}]" if isinstance(rule.belief, Constant) else ""
    words.markdown(f"**{plain(rule.name)}**{belief}", help=plain(rule.note) or None)
    said = "on every row" if rule.when is None else condition_text(rule.when)
    if not belief or rule.name != said:  # an automatic name says it already
        words.caption(plain(rule.text if not belief else said))
    if problem:
        words.caption(f":red[:material/error: {plain(problem)}]")
    action = line.menu_button("", list(ACTIONS), icon=":material/more_vert:", key=f"{key}_menu", type="tertiary")
    if on != rule.on:
        opened.change(lambda rules: rules.switch(rule.id, on), f"switched {rule.name!r} {'on' if on else 'off'}")
    if action == EDIT:
        editor.start(editable(opened, rule, columns))
        st.rerun()
    elif action is not None:
        done, change = ACTIONS[action]
        opened.change(lambda rules: change(rules, rule.id, place), f"{done} {rule.name!r}")


def _choose_combiner(opened: OpenRuleSet) -> None:
    names = list(COMBINERS)
    chosen, floor = opened.rules.combine, opened.rules.floor
    st.divider()
    how, least = st.columns([3, 2])
    combine = how.selectbox(
        "Where several rules fire",
        names,
        index=names.index(chosen),
        format_func=lambda name: COMBINERS[name].title,
        key=f"soft_{opened.number}_combine",
        help="\n\n".join(f"**{each.title}** (`{each.name}`). {each.description}" for each in COMBINERS.values()),
    )
    lowest = least.number_input(
        "Where none fires",
        0.0,
        1.0,
        value=floor,
        step=0.01,
        format="%g",
        key=f"soft_{opened.number}_floor",
        help=f"The floor: the soft label of rows that no rule suspects. {meaning('soft label')}",
    )
    st.caption(COMBINERS[chosen].description)
    if (combine, lowest) != (chosen, floor):
        opened.change(lambda rules: rules.combined(combine, lowest), f"combined by {combine}, floor {lowest:g}")


def choose_rule_set(opened: OpenRuleSet) -> None:
    """Before the first rule: offer a column of soft labels or an earlier rule set to start from."""
    if opened.page.rules is not None:
        return
    ready = [name for name, role in opened.dataset.roles.items() if role == Role.SOFT_LABEL]
    known = opened.workspace.rule_sets.list()
    fits = {token: found for token, found in _rules_that_fit(opened, known).items() if found[1]}
    if not ready and not fits:
        return
    with st.container(border=True):
        st.markdown("**Start from an existing rule set or column**, or make the first rule below.")
        for name in ready:
            if st.button(f"Use the soft labels in column {plain(name)}", key=f"soft_ready_{name}"):
                rules = RuleSet((Rule(f"Values of {name}"[:200], ReadyMade(name)),))
                opened.save(rules, "used a column of soft labels")
                st.rerun()
        if fits:
            _copy_earlier(opened, known, fits)


def _copy_earlier(
    opened: OpenRuleSet, known: tuple[RuleSetVersion, ...], fits: dict[str, tuple[float, int, int]]
) -> None:
    """Copy the rules of another dataset, so that changes here leave that dataset alone."""
    by_fit = sorted((version for version in known if version.id in fits), key=lambda each: -fits[each.id][0])
    names = {each.id: f"{each.name}, version {each.number} · {_fit_text(*fits[each.id])}" for each in by_fit}
    which, take = st.columns([3, 1], vertical_alignment="bottom")
    chosen = which.selectbox("Earlier rule sets", list(names), format_func=names.__getitem__, key="soft_earlier")
    if take.button("Copy these rules", key="soft_use", width="stretch"):
        rule_sets = opened.workspace.rule_sets
        copy = rule_sets.copy(rule_sets.get(chosen), opened.dataset.name, opened.dataset.id)
        choose_in_address(rules=copy.id)
        st.rerun()


def _rules_that_fit(opened: OpenRuleSet, known: tuple[RuleSetVersion, ...]) -> dict[str, tuple[float, int, int]]:
    """Rule set id → the share of its rules that fit this dataset, how many they are, and the number of its rules."""
    found = {}
    for version in known:
        try:
            rules = parse_rules(version.text)
        except SpuError:  # a damaged text; opening that rule set shows the error
            continue
        fitting = len(rules) - len(rule_problems(opened.workspace, opened.dataset, rules))
        found[version.id] = (fitting / max(len(rules), 1), fitting, len(rules))
    return found


def _fit_text(_: float, fitting: int, rules: int) -> str:
    return f"{count(fitting)} of {count(rules)} rule{'s' * (rules != 1)} fit{'s' * (rules == 1)}"


def show_versions(opened: OpenRuleSet) -> None:
    """Saved versions on the left, files on the right."""
    left, right = st.columns([3, 2], gap="small")
    with left, st.container(border=True, height="stretch"):
        _show_history(opened)
    with right, st.container(border=True, height="stretch"):
        _download_file(opened)
        _import_file(opened)


def _show_history(opened: OpenRuleSet) -> None:
    st.subheader("Saved versions", anchor=False)
    saved = opened.page.rules
    if saved is None:
        st.caption("No versions yet. Every change is kept as a version.")
        return
    history = opened.workspace.rule_sets.history(saved.id)
    lines = [(each.number, each.note or "made", each.made, each.is_current) for each in reversed(history)]
    shown = pd.DataFrame(lines, columns=["version", "what changed", "saved", "current"])
    columns = {
        "what changed": st.column_config.TextColumn("what changed", width=200),
        "saved": st.column_config.DatetimeColumn("saved", format="YYYY-MM-DD HH:mm"),
    }
    show_table(shown, hide_index=True, column_config=columns, key="soft_history")
    others = [each.number for each in reversed(history) if not each.is_current]
    if others:
        _go_back(opened, saved, others)
    if st.button("Delete this rule set …", icon=":material/delete:", type="tertiary", key="soft_delete"):
        confirm_deletion(opened.page, "rule set", saved.id, "rules", "draft", "editing")


def _go_back(opened: OpenRuleSet, saved: RuleSetVersion, others: list[int]) -> None:
    which, go = st.columns(2, vertical_alignment="bottom")
    number = which.selectbox("Version", others, key="soft_version")
    if go.button("Restore this version", key="soft_back", width="stretch", icon=":material/history:"):
        old = opened.workspace.rule_sets.get(saved.id, number)
        opened.save(parse_rules(old.text), f"version {number} again")
        st.rerun()
    with st.expander(f"Rules of version {number}"):
        old = opened.workspace.rule_sets.get(saved.id, number)
        st.code(str(parse_rules(old.text)) or "no rules", language=None, wrap_lines=True)


def _download_file(opened: OpenRuleSet) -> None:
    st.subheader("Download", anchor=False)
    st.download_button(
        "Rules as JSON",
        opened.rules.to_json(),
        file_name="rules.json",
        mime="application/json",
        icon=":material/download:",
        width="stretch",
        key="soft_download",
    )


def _import_file(opened: OpenRuleSet) -> None:
    st.subheader("Upload a file", anchor=False)
    uploaded = st.file_uploader("Rules as JSON", type=["json"], key="soft_upload", max_upload_size=4)
    if uploaded is None:
        return
    try:
        imported = RuleSet.from_json(uploaded.getvalue())
    except SpuError as problem:
        st.error(plain(problem), icon=":material/error:")
        return
    st.caption(f"{count(len(imported))} rules:")
    st.code(str(imported) or "no rules", language=None, wrap_lines=True)
    instead, beside = st.columns(2)
    if instead.button("Replace the rules", key="soft_instead", type="primary", width="stretch"):
        opened.save(imported, "uploaded a file")
        st.rerun()
    if beside.button("Add to the rules", key="soft_beside", width="stretch"):
        opened.save(add_rules(opened.rules, imported), "added rules from a file")
        st.rerun()
