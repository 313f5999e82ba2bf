"""Review one row at a time: a card, four keys, a note, undo and progress.

The card is a fragment: a verdict runs only this part of the page again. What a reviewer has answered, skipped or opened
is in the workspace, so a refresh shows the same card again.
"""

from __future__ import annotations

import pandas as pd
import streamlit as st

from pages.ui.shared.shell import show_errors
from pages.ui.shared.show import LONGEST_TEXT, show_table
from pages.ui.shared.text import count, plain, row_count
from pages.ui.trust.evaluated_model import EvaluatedModel, choose_next
from spu_core.errors import SpuError
from spu_core.trust import AuditPlan
from spu_core.trust.audit.verdicts import card_of, reviewer_agreement
from spu_core.workspace import AuditRecord, ReviewState

# verdict → (title, key, icon)
ANSWERS = {
    "positive": ("Positive", "P", ":material/check:"),
    "negative": ("Negative", "N", ":material/close:"),
    "unsure": ("Unsure", "U", ":material/question_mark:"),
}
LONGEST_NAME = 60
LAST, PROBLEM = "review_last", "review_problem"


def rows_to_review(model: EvaluatedModel, audit: AuditRecord, plan: AuditPlan) -> tuple[int, ...]:
    """The rows of a list without those that were checked for another list of the same table."""
    others = (each for each in model.workspace.audits.of_dataset(audit.dataset) if each.id != audit.id)
    done = {item.row for each in others for item in model.workspace.audits.verdicts(each.id)}
    return tuple(row for row in plan.rows if row not in done)


def show_review(model: EvaluatedModel, audit: AuditRecord, plan: AuditPlan) -> None:
    """The card of the next row, for the reviewer whose name is in the address."""
    st.fragment(_show_review)(model, audit, plan)


def _show_review(model: EvaluatedModel, audit: AuditRecord, plan: AuditPlan) -> None:
    listed = rows_to_review(model, audit, plan)
    with show_errors(model.page.title):
        reviewer = st.query_params.get("reviewer", "").strip()[:LONGEST_NAME]
        if not reviewer:
            _ask_name("Enter your name to start the review")
            st.caption("Several people can review the same list at once, each under a different name.")
            return
        row = model.workspace.reviews.open_next(audit.id, reviewer, listed)
        state = model.workspace.reviews.state(audit.id, listed)
        _show_progress(state, reviewer)
        if problem := st.session_state.pop(PROBLEM, ""):
            st.warning(plain(problem), icon=":material/info:")
        if row is None:
            _show_end(model, audit, state, reviewer)
        else:
            _show_card(model, audit, row, reviewer)
        with st.container(horizontal=True, vertical_alignment="center", key="review_last_line"):
            _show_last(model, audit, reviewer)
            _ask_settings(model, audit, plan)
        _show_agreement(model, audit)


def _ask_name(label: str) -> None:
    """The name is in the address, so that a refresh keeps it; the field then disappears, and keys reach the buttons."""
    st.text_input(
        label, key="review_name", max_chars=LONGEST_NAME, width=320, placeholder="for example Ann", on_change=_set_name
    )


def _set_name() -> None:
    name = str(st.session_state.get("review_name", "")).strip()
    if name:
        st.query_params["reviewer"] = name
        st.session_state.pop(LAST, None)


def _ask_settings(model: EvaluatedModel, audit: AuditRecord, plan: AuditPlan) -> None:
    """Which columns a card shows first, and how many rows get two verdicts; stored with the audit."""
    before = model.workspace.reviews.settings(audit.id)
    with st.popover("Settings", icon=":material/tune:"):
        _ask_name("Review under another name")
        first, others = card_of(model.table, plan.rows[0], before.columns)
        columns = st.multiselect(
            "Columns to show first", [*first, *others], default=list(first), key=f"review_columns_{audit.id}"
        )
        twice = st.number_input(
            "Rows to be reviewed by two people",
            0,
            plan.checks,
            min(before.twice, plan.checks),
            key=f"review_twice_{audit.id}",
            help="The first rows of the list, which is in random order. They show how well reviewers agree.",
        )
        if st.button("Save settings", key="review_save", icon=":material/save:"):
            model.workspace.reviews.set(audit.id, twice=int(twice), columns=columns)
            st.rerun(scope="fragment")


def _show_progress(state: ReviewState, reviewer: str) -> None:
    total, done = len(state.rows), state.done
    words = f"{count(done)} of {row_count(total)} checked · {count(state.given_by(reviewer))} by {plain(reviewer)}"
    if state.second:
        words += f" · {count(state.second)} need a second reviewer"
    st.progress(done / max(total, 1), words)


def _show_last(model: EvaluatedModel, audit: AuditRecord, reviewer: str) -> None:
    """What was done last, with undo; the reasons of the rules appear only here, after the verdict."""
    last = st.session_state.get(LAST)
    st.button(
        "Undo",
        key="review_undo",
        icon=":material/undo:",
        shortcut="Z",
        type="tertiary",
        on_click=_undo,
        args=(model, audit, reviewer),
        help="Take back your last verdict and see its row again.",
    )
    if last is None or last[0] != audit.id:
        return
    row, what = last[1:]
    st.caption(f"Row {count(row + 1)}: {what}.", width="content")
    if what in ANSWERS and model.soft_labels.matrix is not None:
        with st.popover("What the rules say", type="tertiary"):
            st.write(plain(model.soft_labels.explain(row).text))


def _show_card(model: EvaluatedModel, audit: AuditRecord, row: int, reviewer: str) -> None:
    first, others = card_of(model.table, row, model.workspace.reviews.settings(audit.id).columns)
    with st.container(border=True, key="review_card"):
        st.caption(f"Row {count(row + 1)} of the table")
        with st.container(horizontal=True, gap="medium"):
            for name, text in first.items():
                with st.container(width=150, gap=None):
                    st.caption(plain(name))
                    st.markdown(f"#### {plain(_cut(text)) or '–'}")
        note = f"review_note_{audit.id}_{row}"
        with st.container(horizontal=True, key="review_answers"):
            for verdict, (title, key, icon) in ANSWERS.items():
                st.button(
                    title,
                    key=f"review_{verdict}",
                    icon=icon,
                    shortcut=key,
                    width=150,
                    on_click=_answer,
                    args=(model, audit, row, reviewer, verdict, note),
                )
            st.button(
                "Skip",
                key="review_skip",
                icon=":material/skip_next:",
                shortcut="S",
                type="tertiary",
                on_click=_skip,
                args=(model, audit, row, reviewer),
                help="Leave this row to others. You see it again after all other rows.",
            )
        st.text_input("Note (optional)", key=note, max_chars=500, placeholder="Saved together with the verdict")
        if others:
            with st.expander(f"{count(len(others))} more columns", icon=":material/table_rows:"):
                cells = pd.DataFrame(others.items(), columns=["column", "value"])
                show_table(cells, hide_index=True, key=f"review_cells_{row}")


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"


def _show_end(model: EvaluatedModel, audit: AuditRecord, state: ReviewState, reviewer: str) -> None:
    holders = state.holders(reviewer)
    if state.done == len(state.rows):
        st.success("All rows are checked.", icon=":material/check_circle:")
    elif holders:
        st.info("Only rows that other reviewers have open are left.", icon=":material/hourglass_top:")
        for name in holders:
            st.button(
                f"Take over the open row of {plain(name)}",
                key=f"review_take_{name}",
                icon=":material/move_up:",
                on_click=_take_over,
                args=(model, audit, name),
                help="Only if this reviewer does not continue: their verdict on this row will not be stored.",
            )
    else:
        st.success(
            f"You have checked all rows that you can. {row_count(state.second)} must be reviewed by a second person.",
            icon=":material/check_circle:",
        )
    if st.button("Show the result", type="primary", icon=":material/query_stats:", key="review_result"):
        choose_next("step", "result")


def _show_agreement(model: EvaluatedModel, audit: AuditRecord) -> None:
    for pair in reviewer_agreement(model.workspace.audits.verdicts(audit.id)):
        st.caption(f":material/group: {plain(pair.sentence)}")


def _answer(model: EvaluatedModel, audit: AuditRecord, row: int, reviewer: str, verdict: str, note: str) -> None:
    try:
        model.workspace.reviews.answer(audit.id, row, reviewer, verdict, st.session_state.get(note, ""))
    except SpuError as problem:
        st.session_state[PROBLEM] = str(problem)
    else:
        st.session_state[LAST] = (audit.id, row, verdict)


def _skip(model: EvaluatedModel, audit: AuditRecord, row: int, reviewer: str) -> None:
    try:
        model.workspace.reviews.skip(audit.id, row, reviewer)
    except SpuError as problem:
        st.session_state[PROBLEM] = str(problem)
    else:
        st.session_state[LAST] = (audit.id, row, "skipped")


def _undo(model: EvaluatedModel, audit: AuditRecord, reviewer: str) -> None:
    row = model.workspace.reviews.undo(audit.id, reviewer)
    if row is None:
        st.session_state[PROBLEM] = "You have no verdict to take back."
    else:
        st.session_state[LAST] = (audit.id, row, "verdict taken back")


def _take_over(model: EvaluatedModel, audit: AuditRecord, holder: str) -> None:
    model.workspace.reviews.take_over(audit.id, holder)
