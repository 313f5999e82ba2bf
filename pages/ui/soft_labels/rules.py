"""The saved rules: switch, edit, reorder, duplicate, remove; how they are combined; undo and redo."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from pages.ui.shared.show import meaning
from pages.ui.shared.text import plain
from pages.ui.soft_labels.rows import editable
from pages.ui.soft_labels.state import Book, Desk
from spu_core.labels import COMBINERS
from spu_core.rules import Constant, RuleSet

MOST_SHOWN = 25
EDIT = "Edit"
# What can be done to a rule: in the words of the history, and as a change of the set.
ACTIONS: dict[str, tuple[str, Callable[[RuleSet, str, int], RuleSet]]] = {
    EDIT: ("edited", lambda rules, rule_id, place: rules),
    "Duplicate": ("duplicated", lambda rules, rule_id, place: rules.duplicate(rule_id)),
    "Move up": ("moved up", lambda rules, rule_id, place: rules.move(rule_id, place - 1)),
    "Move down": ("moved down", lambda rules, rule_id, place: rules.move(rule_id, place + 1)),
    "Remove": ("removed", lambda rules, rule_id, place: rules.remove(rule_id)),
}


def show_rules(book: Book, desk: Desk, columns: list[str]) -> None:
    """The list of rules with everything that can be done to one."""
    with st.container(border=True, height="stretch"):
        with st.container(horizontal=True, vertical_alignment="center", wrap=False):
            st.subheader(f"Rules ({len(book.rules)})", anchor=False)
            _undo_and_redo(book)
        if not len(book.rules):
            st.caption("None yet. Choose a range or some values above, say how sure you are, and add the rule.")
        hidden = len(book.rules) - MOST_SHOWN
        everything = hidden > 0 and st.toggle(f"Show {hidden} more", key="soft_all_rules")
        for place in range(len(book.rules) if everything else min(len(book.rules), MOST_SHOWN)):
            _show_rule(book, desk, columns, place)
        if len(book.rules):
            _choose_combiner(book)


def _undo_and_redo(book: Book) -> None:
    saved, rule_sets = book.page.rules, book.page.workspace.rule_sets
    parent = saved is not None and saved.parent is not None
    later = saved is not None and any(each.parent == saved.number for each in rule_sets.history(saved.id))
    if st.button("", icon=":material/undo:", help="Undo", disabled=not parent, key="soft_undo"):
        book.walk(rule_sets.undo)
    if st.button("", icon=":material/redo:", help="Redo", disabled=not later, key="soft_redo"):
        book.walk(rule_sets.redo)


def _show_rule(book: Book, desk: Desk, columns: list[str], place: int) -> None:
    rule = book.rules.rules[place]
    key = f"soft_{book.number}_{place}"
    line = st.container(horizontal=True, vertical_alignment="center", wrap=False)
    problem = book.problems.get(rule.id)
    on = line.toggle("On", value=rule.on, key=f"{key}_on", label_visibility="collapsed", help="Use this rule")
    words = line.container(gap=None)
    belief = f" :orange-badge[{rule.belief.words}]" if isinstance(rule.belief, Constant) else ""
    words.markdown(f"**{plain(rule.name)}**{belief}", help=plain(rule.note) or None)
    words.caption(plain(rule.text if not belief else rule.when.words if rule.when else "on every row"))
    if problem:
        words.caption(f":red[:material/error: {plain(problem)}]")
    action = line.menu_button("", list(ACTIONS), icon=":material/more_vert:", key=f"{key}_menu", type="tertiary")
    if on != rule.on:
        book.change(lambda rules: rules.switch(rule.id, on), f"switched {rule.name!r} {'on' if on else 'off'}")
    if action == EDIT:
        desk.start(editable(book, rule, columns))
        st.rerun()
    elif action is not None:
        done, change = ACTIONS[action]
        book.change(lambda rules: change(rules, rule.id, place), f"{done} {rule.name!r}")


def _choose_combiner(book: Book) -> None:
    names = list(COMBINERS)
    chosen, floor = book.rules.combine, book.rules.floor
    st.divider()
    how, least = st.columns([3, 2])
    combine = how.selectbox(
        "Where several rules fire",
        names,
        index=names.index(chosen),
        format_func=lambda name: COMBINERS[name].title,
        key=f"soft_{book.number}_combine",
        help="\n\n".join(f"**{each.title}** (`{each.name}`). {each.words}" for each in COMBINERS.values()),
    )
    lowest = least.number_input(
        "Where none fires",
        0.0,
        1.0,
        value=floor,
        step=0.01,
        format="%g",
        key=f"soft_{book.number}_floor",
        help=f"The floor: the soft label of rows that no rule suspects. {meaning('soft label')}",
    )
    st.caption(COMBINERS[chosen].words)
    if (combine, lowest) != (chosen, floor):
        book.change(lambda rules: rules.combined(combine, lowest), f"combined by {combine}, floor {lowest:g}")
