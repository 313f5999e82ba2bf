"""Rows of native widgets: one condition each, of a column, a comparison and its values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from pages.ui import cached
from pages.ui.soft_label_draft import Draft, DraftCondition, draft_of, moment_of
from pages.ui.soft_label_state import Book, Desk
from spu_core.rules import OPERATORS, ColumnChoices, Kind, Rule
from spu_core.rules.operators import LIMIT, LIMITS, NOTHING, ONE, SEVERAL, TEXT

SAFE_WHOLE = 2**53 - 1


class RowKeys:
    """Keys of the widgets of one row; the column is part of them, since its values are of another kind."""

    def __init__(self, desk: Desk, row: int, column: int) -> None:
        self._desk, self._row, self._column = desk, row, column

    def __call__(self, what: str) -> str:
        return self._desk.key(self._row, self._column, what)


def edit_other_rows(book: Book, desk: Desk, columns: list[str]) -> tuple[DraftCondition, ...]:
    rows = []
    for place, row_id in enumerate(desk.rows):
        if place:
            rows.append(_edit_row(book, desk, columns, place, row_id))
    if desk.rows and st.button("Another condition", icon=":material/add:", key=desk.key("more"), type="tertiary"):
        desk.add_row(columns[0])
        st.rerun()
    return tuple(rows)


def _edit_row(book: Book, desk: Desk, columns: list[str], place: int, row_id: int) -> DraftCondition:
    row = desk.draft.conditions[place]
    with st.container(border=True):
        join, which, chart, away = st.columns([2, 5, 1, 1], vertical_alignment="bottom")
        with join:
            joined = choose("Joined by", ["and", "or"], row.joined, desk.key(row_id, "joined"), hidden=True)
        with which:
            column = choose("Column", columns, row.column, desk.key(row_id, "column"), hidden=True)
        if chart.button("", icon=":material/bar_chart:", key=desk.key(row_id, "chart"), help="Show it on the chart"):
            desk.bring_forward(place)
            st.rerun()
        if away.button("", icon=":material/close:", key=desk.key(row_id, "away"), help="Remove this condition"):
            desk.remove_row(place)
            st.rerun()
        choices = cached.column_choices(book.page.workspace, book.dataset, column)
        keys = RowKeys(desk, row_id, columns.index(column))
        start_values(keys, row, choices)
        return read_row(keys, column, choices, joined)


def start_values(keys: RowKeys, row: DraftCondition, choices: ColumnChoices) -> None:
    """First values of a row's widgets; what the analyst or a brush has set since stays."""
    same = row.column == choices.name
    operators = operators_of(choices)
    operator = row.operator if same and row.operator in operators else operators[0]
    start = {"operator": operator, "negated": row.negated if same else False}
    for asking in ASKING.values():
        start |= asking.start(None, choices)
    if same:
        start |= ASKING[OPERATORS[row.operator].shape.name].start(row.value, choices)
    for what, value in start.items():
        st.session_state.setdefault(keys(what), value)


def editable(book: Book, rule: Rule, columns: list[str]) -> Draft:
    """The draft of a saved rule. Questions that the rows of its columns do not offer are kept as they are."""
    draft, rows = draft_of(rule), []
    for row in draft.conditions:
        if row.column not in columns:
            rows.append(DraftCondition(columns[0], joined=row.joined))
        elif row.operator in operators_of(cached.column_choices(book.page.workspace, book.dataset, row.column)):
            rows.append(row)
        else:
            return replace(draft, conditions=(), kept_when=rule.when)
    return replace(draft, conditions=tuple(rows))


def operators_of(choices: ColumnChoices) -> tuple[str, ...]:
    """What can be asked of a column of this kind."""
    return tuple(
        sign
        for sign, operator in OPERATORS.items()
        if operator.question and choices.kind in operator.kinds and ASKING[operator.shape.name].suits(choices)
    )


def read_row(keys: RowKeys, column: str, choices: ColumnChoices, joined: str) -> DraftCondition:
    ask, turn = st.columns([5, 3], vertical_alignment="bottom")
    operators = operators_of(choices)
    operator = ask.selectbox(
        "Condition", operators, format_func=lambda sign: str(OPERATORS[sign].question), key=keys("operator")
    )
    negated = turn.toggle("NOT", key=keys("negated"), help="Turn the condition round. A missing value never fires.")
    value = ASKING[OPERATORS[operator].shape.name].ask(keys, choices)
    return DraftCondition(column, operator, value, negated, joined)


def _start_limits(value: Any, choices: ColumnChoices) -> dict[str, Any]:
    low, high = value or (None, None)
    return {"low": as_number(low, choices), "high": as_number(high, choices)}


def _ask_limits(keys: RowKeys, choices: ColumnChoices) -> Any:
    low, high = st.columns(2)
    return _ask_limit(low, "From", keys("low"), choices), _ask_limit(high, "To", keys("high"), choices)


def _ask_levels(keys: RowKeys, choices: ColumnChoices) -> Any:
    # A rule may name levels that are too rare to be listed; they must not get lost.
    options = list(dict.fromkeys([*choices.levels, *st.session_state[keys("levels")]]))
    return tuple(st.multiselect("Values", options, format_func=str, key=keys("levels")))


def _ask_limit(place: Any, label: str, key: str, choices: ColumnChoices) -> Any:
    if choices.kind is Kind.DATE:
        assert choices.histogram is not None
        first, last = moment_of(choices.histogram.edge[0]), moment_of(choices.histogram.edge[-1])
        return place.date_input(label, min_value=first, max_value=last, key=key)
    if isinstance(st.session_state.get(key), int) or (choices.is_whole and st.session_state.get(key) is None):
        return place.number_input(label, value=None, step=1, key=key, placeholder="no limit")
    return place.number_input(label, value=None, step=_step(choices), format="%g", key=key, placeholder="no limit")


def _step(choices: ColumnChoices) -> float:
    assert choices.histogram is not None
    width = float(choices.histogram.edge[-1] - choices.histogram.edge[0]) / 100
    return float(f"{width:.0e}") or 1.0


def as_number(value: Any, choices: ColumnChoices) -> Any:
    """A limit in the type that its widget wants: whole numbers and others do not mix there."""
    if value is None or isinstance(value, bool) or choices.kind is not Kind.NUMBER:
        return value
    is_whole = choices.is_whole and float(value).is_integer() and abs(value) <= SAFE_WHOLE
    return int(value) if is_whole else float(value)


@dataclass(frozen=True)
class Asking:
    """How a row asks for values of one shape: of which columns, with which first values, by which widgets."""

    suits: Callable[[ColumnChoices], bool]
    start: Callable[[Any, ColumnChoices], dict[str, Any]]
    ask: Callable[[RowKeys, ColumnChoices], Any]


_NUMBER = Asking(
    suits=lambda choices: choices.histogram is not None and choices.kind is Kind.NUMBER,
    start=lambda value, choices: {"value": as_number(value, choices)},
    ask=lambda keys, choices: _ask_limit(st, "Value", keys("value"), choices),
)
ASKING = {
    ONE.name: _NUMBER,
    LIMIT.name: _NUMBER,
    LIMITS.name: Asking(lambda choices: choices.histogram is not None, _start_limits, _ask_limits),
    SEVERAL.name: Asking(
        suits=lambda choices: choices.histogram is None,
        start=lambda value, choices: {"levels": list(value or ())},
        ask=_ask_levels,
    ),
    TEXT.name: Asking(
        suits=lambda choices: True,
        start=lambda value, choices: {"text": value or ""},
        ask=lambda keys, choices: st.text_input("Text to look for", key=keys("text"), max_chars=200),
    ),
    NOTHING.name: Asking(
        suits=lambda choices: True,
        start=lambda value, choices: {},
        ask=lambda keys, choices: None,
    ),
}


def choose(label: str, options: list[str], current: str, key: str, *, hidden: bool = False) -> str:
    st.session_state.setdefault(key, current if current in options else options[0])
    return st.selectbox(label, options, key=key, label_visibility="collapsed" if hidden else "visible")
