"""The columns of a table: which one is the label, proposed roles, roles, types and missing values."""

from __future__ import annotations

from typing import Any, Literal

import pandas as pd
import streamlit as st

from pages.ui.shared.cached import cache_result, column_examples, label_values, load_all_rows, load_table
from pages.ui.shared.shell import Page, choose_in_address
from pages.ui.shared.show import edit_table, show_table
from pages.ui.shared.text import count, plain, row_count, share
from spu_core.errors import SpuError
from spu_core.tables import Role, Table, TableProfile
from spu_core.tables.column_edits import CHOICES, ColumnChange, edit_columns, soft_marks_of
from spu_core.tables.profiles import LabelGuess, guess_labels, proposed_role
from spu_core.tables.roles import names_confirmation
from spu_core.training import ORIGINS
from spu_core.workspace import DatasetRecord, Workspace

MOST_GUESSES = 3
ROLE_HELP = {
    Role.FEATURE: "models may learn from it",
    Role.LABEL: "marks confirmed cases",
    Role.ID: "names a row; no model sees it",
    Role.GROUP: "rows with the same value stay together in one fold",
    Role.TIME: "when a row happened; to test on later rows",
    Role.WEIGHT: "how much a row counts",
    Role.SOFT_LABEL: "a belief from 0 to 1 that you already have",
    Role.TRUTH: "the real class, to evaluate with, never to train on",
    Role.IGNORE: "not used",
}


@cache_result(32)
def label_guesses(workspace: Workspace, dataset: DatasetRecord) -> tuple[LabelGuess, ...]:
    """Columns that may be the label."""
    return guess_labels(load_table(workspace, dataset))


def save_roles(page: Page, changes: dict[str, Role | str], positive_values: tuple[Any, ...] = ()) -> None:
    """Save other roles, and show the page again."""
    assert page.dataset is not None
    whole = load_all_rows(page.workspace, page.dataset).with_roles(changes)
    whole = whole.with_positive_values(*positive_values) if positive_values else whole
    page.workspace.datasets.save_roles(whole, page.dataset)
    st.rerun()


def ask_label(page: Page, table: Table) -> None:
    """The label with its counts, or columns that look like one, each with a button."""
    assert page.dataset is not None
    with st.container(border=True, key="data_label"):
        st.subheader("Which rows are confirmed cases?", anchor=False)
        label = table.column_with(Role.LABEL)
        if label is None:
            _offer_labels(page)
            return
        confirmed = int(table.is_labeled.sum())
        part = share(confirmed / max(len(table), 1))
        st.markdown(
            f":material/check_circle: **{plain(label)}** marks **{row_count(confirmed)}** as confirmed ({part}); "
            f"{row_count(len(table) - confirmed)} are unlabelled."
        )
        if page.dataset.version == 1 and any(found.code == "label_guessed" for found in table.findings):
            _confirm_guess(page, table, label)
        _edit_positive_values(page, table, label)
        _ask_origin(page)


def _offer_labels(page: Page) -> None:
    assert page.dataset is not None
    guesses = label_guesses(page.workspace, page.dataset)[:MOST_GUESSES]
    _offer_columns(page, guesses, "Use it", first="primary")
    if guesses:
        st.caption("Or give another column the role *label* in the table of roles below.")
    else:
        st.info(
            "No column looks like a label. In the table *Column roles* below, give the role *label* to the column that "
            "marks confirmed cases.",
            icon=":material/info:",
        )


def _confirm_guess(page: Page, table: Table, label: str) -> None:
    """A label that was guessed from its name, beside other columns that look like one: one click settles it."""
    assert page.dataset is not None
    found = label_guesses(page.workspace, page.dataset)
    # Yes and no alone is also what many features hold.
    guesses = tuple(each for each in found if each.is_mark or names_confirmation(each.column))[:MOST_GUESSES]
    if not guesses:
        return
    with st.container(horizontal=True, vertical_alignment="center", wrap=False):
        st.markdown(
            f":material/help: **Is this right?** {plain(label)} was chosen by its name, and other columns look like a "
            "label too.",
            width="stretch",
        )
        if st.button(f"Yes, use {plain(label)}", type="primary", key="data_keep_label"):
            save_roles(page, {label: Role.LABEL}, table.positive_values)
    _offer_columns(page, guesses, "Use this instead", replaced=label)


def _offer_columns(
    page: Page,
    guesses: tuple[LabelGuess, ...],
    words: str,
    *,
    first: Literal["primary", "secondary"] = "secondary",
    replaced: str | None = None,
) -> None:
    """A line with a button for each column; the label that is `replaced` becomes a feature."""
    for place, guess in enumerate(guesses):
        with st.container(horizontal=True, vertical_alignment="center", wrap=False):
            st.markdown(plain(guess.text), width="stretch")
            if st.button(words, type="secondary" if place else first, key=f"data_use_label_{place}"):
                earlier: dict[str, Role | str] = {} if replaced is None else {replaced: Role.FEATURE}
                save_roles(page, {**earlier, guess.column: Role.LABEL}, guess.positive_values)


def _edit_positive_values(page: Page, table: Table, label: str) -> None:
    assert page.dataset is not None
    values = label_values(page.workspace, page.dataset)
    known = [value for value in table.positive_values if value in values]
    if not known and table.positive_values:
        st.caption(f"Every row with a value in {plain(label)} counts as a confirmed case.")
        return
    chosen = st.multiselect(
        "Values that mean *confirmed*",
        values,
        default=known,
        key=f"data_positive_{page.dataset.id}_{page.dataset.version}",
    )
    if chosen and set(chosen) != set(known):
        whole = load_all_rows(page.workspace, page.dataset)
        page.workspace.datasets.save_roles(whole.with_positive_values(chosen), page.dataset)
        st.rerun()


def _ask_origin(page: Page) -> None:
    """How the confirmed cases were found; it decides how far they can be trusted to choose a model."""
    assert page.dataset is not None
    chosen = st.radio(
        "How were the confirmed cases found?",
        list(ORIGINS),
        index=list(ORIGINS).index(page.dataset.origin),
        format_func=ORIGINS.__getitem__,
        horizontal=True,
        key=f"data_origin_{page.dataset.id}",
        help="Cases that were found because of a rule look like that rule. They cannot tell whether it helps.",
    )
    if chosen != page.dataset.origin:
        page.workspace.datasets.save_origin(page.dataset.id, chosen)
        st.rerun()


def show_proposals(page: Page, profile: TableProfile) -> None:
    """Roles that the data suggest, each with a button that accepts it."""
    found = [(finding, role) for finding in profile.findings if (role := proposed_role(finding)) is not None]
    roles = {column.name: column.role for column in profile.columns}
    found = [(finding, role) for finding, role in found if roles.get(str(finding.column)) is not role]
    if not found:
        return
    with st.container(border=True, key="data_proposals"):
        st.subheader("Proposed roles", anchor=False)
        for place, (finding, role) in enumerate(found):
            with st.container(horizontal=True, vertical_alignment="center", wrap=False):
                st.markdown(f"**{plain(finding.message)}** {plain(finding.advice)}", width="stretch")
                if st.button(f"Accept: {role.value}", key=f"data_accept_{place}"):
                    save_roles(page, {str(finding.column): role})


def edit_roles(page: Page, table: Table) -> None:
    """The roles of the columns; a change is saved at once."""
    assert page.dataset is not None
    st.subheader("Column roles", anchor=False)
    st.caption(" · ".join(f"**{role.value}**: {words}" for role, words in ROLE_HELP.items()))
    names, now = list(table.roles), [role.value for role in table.roles.values()]
    state = _editor_state(page.dataset.id, now)
    shown = pd.DataFrame(
        {
            "column": names,
            "role": state["start"],
            "type": [table.types[name].value for name in names],
            "examples": list(column_examples(page.workspace, page.dataset)),
        }
    )
    edited = edit_table(
        shown,
        ["role"],
        column_config={
            "role": st.column_config.SelectboxColumn("role", options=[role.value for role in Role], required=True)
        },
        key=f"data_roles_{page.dataset.id}_{state['generation']}",
    )
    wanted = list(edited["role"])
    changes = {name: after for name, before, after in zip(names, now, wanted, strict=True) if before != after}
    if changes:
        state["seen"] = wanted
        save_roles(page, changes)


def _editor_state(dataset: str, now: list[str]) -> dict[str, Any]:
    """What the table of roles began with. It starts anew only where roles were changed elsewhere: it then jumps up."""
    key = f"data_role_editor_{dataset}"
    state = st.session_state.get(key)
    if state is None or now != state["seen"]:
        generation = 0 if state is None else state["generation"] + 1
        state = {"generation": generation, "start": now, "seen": now}
        st.session_state[key] = state
    return state


def edit_types(page: Page, table: Table) -> None:
    """Another type for a column, and values that mean *missing*, with what changes shown before it is saved."""
    assert page.dataset is not None
    with st.expander(
        "Types and missing values", icon=":material/rule_settings:", key="data_types", on_change="rerun"
    ) as box:
        if not box.open:
            return
        where, kind, marks = st.columns([2, 1, 2], vertical_alignment="bottom")
        names = list(table.roles)
        chosen = where.multiselect(
            "Columns", names, key="data_edit_columns", placeholder="All columns with such values",
            help="Empty: the missing marks hold in the whole table.",
        )  # fmt: skip
        types = ["as it is", *(each.value for each in CHOICES)]
        wanted = kind.selectbox("Read as", types, key="data_edit_type", disabled=not chosen)
        soft = soft_marks_of(table)
        offered = list(dict.fromkeys(mark for found in soft.values() for mark in found))
        missing = marks.multiselect(
            "Values that mean missing", offered, key="data_edit_missing", accept_new_options=True, max_selections=20,
            placeholder="Choose or type a value",
        )  # fmt: skip
        if wanted == types[0] and not missing:
            st.caption("Choose a type, or a value such as *unknown* that means that the value is missing.")
            return
        columns = chosen or [name for name in names if table.roles[name] not in (Role.LABEL, Role.TRUTH)]
        try:
            edited, changes = edit_columns(
                table,
                types={} if wanted == types[0] else dict.fromkeys(chosen, wanted),
                missing=dict.fromkeys(columns if missing else [], missing),
            )
        except SpuError as problem:
            st.error(plain(problem), icon=":material/error:")
            return
        _show_changes(page, edited, [each for each in changes if chosen or each.lost])


def _show_changes(page: Page, edited: Table, changes: list[ColumnChange]) -> None:
    assert page.dataset is not None
    if not changes:
        st.caption(":material/block: No column holds these values; nothing would change.")
        return
    lines = [
        (each.column, each.text, ", ".join(f"{cell} → {value or 'missing'}" for cell, value in each.examples))
        for each in changes
    ]
    show_table(pd.DataFrame(lines, columns=["column", "what changes", "examples"]), hide_index=True, key="data_changes")
    if st.button(f"Apply to {count(len(changes))} column{'s' * (len(changes) != 1)}", type="primary", key="data_apply"):
        workspace, dataset = page.workspace, page.dataset
        made = workspace.datasets.save_edited(edited, dataset)
        rules = page.rules
        if made.id != dataset.id and rules is not None and workspace.rule_sets.newest_of(made.id) is None:
            rules = workspace.rule_sets.copy(rules, made.name, made.id)
        choose_in_address(dataset=made.id, rules=None if rules is None else rules.id)
        st.rerun()
    st.caption("Where values change, this makes a new data set; the earlier one and its models stay.")
