"""The conditions of a draft as rows of widgets: each a column, a comparison and its values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from pages.ui.shared.text import plain
from pages.ui.soft_labels.cached import column_choices
from pages.ui.soft_labels.editor_state import EditorState, OpenRuleSet
from spu_core.rules import OPERATORS, ColumnChoices, Kind, Rule
from spu_core.rules.draft import DraftCondition, RuleDraft, draft_of, moment_of
from spu_core.rules.operators import LIMIT, LIMITS, NOTHING, ONE, SEVERAL, TEXT

SAFE_WHOLE = 2**53 - 1


class RowKeys:
    """Keys of the widgets of one row; they contain the column, because columns have values of different types."""

    def __init__(self, editor: EditorState, row: int, column: int) -> None:
        self._editor, self._row, self._column = editor, row, column

    def __call__(self, what: str) -> str:
        return self._editor.key(self._row, self._column, what)


def edit_other_rows(opened: OpenRuleSet, editor: EditorState, columns: list[str]) -> tuple[DraftCondition, ...]:
    rows = []
    for place, row_id in enumerate(editor.rows):
        if place:
            rows.append(_edit_row(opened, editor, columns, place, row_id))
    if editor.rows and st.button("Another condition", icon=":material/add:", key=editor.key("more"), type="tertiary"):
        editor.add_row(columns[0])
        st.rerun()
    return tuple(rows)


def _edit_row(opened: OpenRuleSet, editor: EditorState, columns: list[str], place: int, row_id: int) -> DraftCondition:
    row = editor.draft.conditions[place]
    with st.container(border=True):
        join, which, chart, away = st.columns([2, 5, 1, 1], vertical_alignment="bottom")
        with join:
            joined = choose("Joined by", ["and", "or"], row.joined, editor.key(row_id, "joined"), hidden=True)
        with which:
            column = choose("Column", columns, row.column, editor.key(row_id, "column"), hidden=True)
        if chart.button("", icon=":material/bar_chart:", key=editor.key(row_id, "chart"), help="Show it on the chart"):
            editor.bring_forward(place)
            st.rerun()
        if away.button("", icon=":material/close:", key=editor.key(row_id, "away"), help="Remove this condition"):
            editor.remove_row(place)
            st.rerun()
        choices = column_choices(opened.workspace, opened.dataset, column)
        keys = RowKeys(editor, row_id, columns.index(column))
        start_values(keys, row, choices)
        return read_row(keys, column, choices, joined)


def start_values(keys: RowKeys, row: DraftCondition, choices: ColumnChoices) -> None:
    """Set the default values of the widgets of a row; values that are already set stay."""
    same = row.column == choices.name
    operators = operators_of(choices)
    operator = row.operator if same and row.operator in operators else operators[0]
    start = {"operator": operator, "negated": row.negated if same else False}
    for value_input in VALUE_INPUTS.values():
        start |= value_input.start(None, choices)
    if same:
        start |= VALUE_INPUTS[OPERATORS[row.operator].shape.name].start(row.value, choices)
    for what, value in start.items():
        st.session_state.setdefault(keys(what), value)


def editable(opened: OpenRuleSet, rule: Rule, columns: list[str]) -> RuleDraft:
    """The draft of a saved rule; a condition that the rows cannot show is kept unchanged."""
    draft, rows = draft_of(rule), []
    for row in draft.conditions:
        if row.column not in columns:
            rows.append(DraftCondition(columns[0], joined=row.joined))
        elif row.operator in operators_of(column_choices(opened.workspace, opened.dataset, row.column)):
            rows.append(row)
        else:
            return replace(draft, conditions=(), kept_when=rule.when)
    return replace(draft, conditions=tuple(rows))


def operators_of(choices: ColumnChoices) -> tuple[str, ...]:
    """The comparisons that a column of this kind offers."""
    return tuple(
        sign
        for sign, operator in OPERATORS.items()
        if operator.question and choices.kind in operator.kinds and VALUE_INPUTS[operator.shape.name].suits(choices)
    )


def read_row(keys: RowKeys, column: str, choices: ColumnChoices, joined: str) -> DraftCondition:
    ask, turn = st.columns([5, 3], vertical_alignment="bottom")
    operators = operators_of(choices)
    operator = ask.selectbox(
        "Condition", operators, format_func=lambda sign: str(OPERATORS[sign].question), key=keys("operator")
    )
    negated = turn.toggle(
        "NOT", key=keys("negated"), help="Negate the condition. The rule never fires on a missing value."
    )
    value = VALUE_INPUTS[OPERATORS[operator].shape.name].ask(keys, choices)
    row = DraftCondition(column, operator, value, negated, joined)
    if row.problem:
        st.error(plain(row.problem), icon=":material/error:")
    return row


def _start_limits(value: Any, choices: ColumnChoices) -> dict[str, Any]:
    low, high = value or (None, None)
    return {"low": as_number(low, choices), "high": as_number(high, choices)}


def _ask_limits(keys: RowKeys, choices: ColumnChoices) -> Any:
    low, high = st.columns(2)
    return _ask_limit(low, "From", keys("low"), choices), _ask_limit(high, "To", keys("high"), choices)


def _ask_levels(keys: RowKeys, choices: ColumnChoices) -> Any:
    # A rule may use categories that are too rare to be listed; they are offered too.
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
    """A limit in the type that its widget needs: a number input does not mix integers and floats."""
    if value is None or isinstance(value, bool) or choices.kind is not Kind.NUMBER:
        return value
    is_whole = choices.is_whole and float(value).is_integer() and abs(value) <= SAFE_WHOLE
    return int(value) if is_whole else float(value)


@dataclass(frozen=True)
class ValueInput:
    """How a row asks for values of one shape: for which columns, with which defaults, by which widgets."""

    suits: Callable[[ColumnChoices], bool]
    start: Callable[[Any, ColumnChoices], dict[str, Any]]
    ask: Callable[[RowKeys, ColumnChoices], Any]


_NUMBER = ValueInput(
    suits=lambda choices: choices.histogram is not None and choices.kind is Kind.NUMBER,
    start=lambda value, choices: {"value": as_number(value, choices)},
    ask=lambda keys, choices: _ask_limit(st, "Value", keys("value"), choices),
)
VALUE_INPUTS = {
    ONE.name: _NUMBER,
    LIMIT.name: _NUMBER,
    LIMITS.name: ValueInput(lambda choices: choices.histogram is not None, _start_limits, _ask_limits),
    SEVERAL.name: ValueInput(
        suits=lambda choices: choices.histogram is None,
        start=lambda value, choices: {"levels": list(value or ())},
        ask=_ask_levels,
    ),
    TEXT.name: ValueInput(
        suits=lambda choices: True,
        start=lambda value, choices: {"text": value or ""},
        ask=lambda keys, choices: st.text_input("Text to look for", key=keys("text"), max_chars=200),
    ),
    NOTHING.name: ValueInput(
        suits=lambda choices: True,
        start=lambda value, choices: {},
        ask=lambda keys, choices: None,
    ),
}


def choose(label: str, options: list[str], current: str, key: str, *, hidden: bool = False) -> str:
    st.session_state.setdefault(key, current if current in options else options[0])
    return st.selectbox(label, options, key=key, label_visibility="collapsed" if hidden else "visible")
