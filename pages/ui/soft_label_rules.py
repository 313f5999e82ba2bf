"""The saved rules: switch, edit, reorder, duplicate, remove; how they are combined; undo and redo."""

from __future__ import annotations

import streamlit as st

from pages.ui.show import meaning
from pages.ui.soft_label_draft import draft_of
from pages.ui.soft_label_state import Book, Desk
from pages.ui.text import plain
from spu_core.labels import COMBINERS
from spu_core.rules import Constant, Rule

MOST_SHOWN = 25
COMBINER_NAMES = {
    "noisy_or": "Independent reasons (noisy-or)",
    "strongest": "The strongest",
    "mean_of_fired": "The mean",
    "first_match": "The first in the list",
    "logit_sum": "Log-odds add up",
}


def show_rules(book: Book, desk: Desk) -> None:
    """The list of rules with everything that can be done to one."""
    with st.container(border=True, height="stretch"):
        title, back, forth = st.columns([4, 1, 1], vertical_alignment="center")
        title.subheader(f"Rules ({len(book.rules)})", anchor=False)
        _undo_and_redo(book, back, forth)
        if not len(book.rules):
            st.caption("None yet. Choose a range or some values above, say how sure you are, and add the rule.")
        hidden = len(book.rules) - MOST_SHOWN
        everything = hidden > 0 and st.toggle(f"Show {hidden} more", key="soft_all_rules")
        for place, rule in enumerate(book.rules.rules[: None if everything else MOST_SHOWN]):
            _show_rule(book, desk, place, rule)
        if len(book.rules):
            _choose_combiner(book)


def _undo_and_redo(book: Book, back: object, forth: object) -> None:
    saved, rule_sets = book.page.rules, book.page.workspace.rule_sets
    parent = saved is not None and saved.parent is not None
    later = saved is not None and any(each.parent == saved.number for each in rule_sets.history(saved.id))
    if back.button("", icon=":material/undo:", help="Undo", disabled=not parent, key="soft_undo"):  # type: ignore[attr-defined]
        book.walk(rule_sets.undo)
    if forth.button("", icon=":material/redo:", help="Redo", disabled=not later, key="soft_redo"):  # type: ignore[attr-defined]
        book.walk(rule_sets.redo)


def _show_rule(book: Book, desk: Desk, place: int, rule: Rule) -> None:
    key = f"soft_{book.number}_{place}"
    switch, words, menu = st.columns([1.2, 6, 1.5], vertical_alignment="center")
    problem = book.problems.get(rule.id)
    on = switch.toggle("On", value=rule.on, key=f"{key}_on", label_visibility="collapsed", help="Use this rule")
    belief = f" :orange-badge[{rule.belief.words}]" if isinstance(rule.belief, Constant) else ""
    words.markdown(f"**{plain(rule.name)}**{belief}", help=plain(rule.note) or None)
    words.caption(plain(rule.text if not belief else rule.when.words if rule.when else "on every row"))
    if problem:
        words.caption(f":red[:material/error: {plain(problem)}]")
    with menu.popover("", icon=":material/more_vert:", key=f"{key}_menu", width="content"):
        _show_menu(book, desk, place, rule, key)
    if on != rule.on:
        note = f"switched {rule.name!r} {'on' if on else 'off'}"
        book.change(lambda rules: rules.switch(rule.id, on), note)


def _show_menu(book: Book, desk: Desk, place: int, rule: Rule, key: str) -> None:
    if st.button("Edit", icon=":material/edit:", key=f"{key}_edit", width="stretch", type="tertiary"):
        desk.start(draft_of(rule))
        st.rerun()
    changes = {
        "Duplicate": (":material/content_copy:", "duplicated", lambda rules: rules.duplicate(rule.id)),
        "Move up": (":material/arrow_upward:", "moved up", lambda rules: rules.move(rule.id, place - 1)),
        "Move down": (":material/arrow_downward:", "moved down", lambda rules: rules.move(rule.id, place + 1)),
        "Remove": (":material/delete:", "removed", lambda rules: rules.remove(rule.id)),
    }
    ends = {"Move up": place == 0, "Move down": place == len(book.rules) - 1}
    for label, (icon, done, change) in changes.items():
        off = ends.get(label, False)
        if st.button(label, icon=icon, key=f"{key}_{done}", width="stretch", type="tertiary", disabled=off):
            book.change(change, f"{done} {rule.name!r}")


def _choose_combiner(book: Book) -> None:
    names = list(COMBINER_NAMES)
    chosen, floor = book.rules.combine, book.rules.floor
    st.divider()
    how, least = st.columns([3, 2])
    combine = how.selectbox(
        "Where several rules fire",
        names,
        index=names.index(chosen),
        format_func=COMBINER_NAMES.__getitem__,
        key=f"soft_{book.number}_combine",
        help="\n\n".join(f"**{COMBINER_NAMES[name]}.** {COMBINERS[name].words}" for name in names),
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
