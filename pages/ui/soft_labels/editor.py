"""The visual rule editor: choose a column, select values in its chart, and set a degree of belief."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.ui.shared.show import meaning, show_chart, theme
from pages.ui.shared.text import count, plain
from pages.ui.soft_labels.cached import column_choices
from pages.ui.soft_labels.condition_rows import RowKeys, as_number, choose, edit_other_rows, read_row, start_values
from pages.ui.soft_labels.editor_state import EditorState, OpenRuleSet
from spu_core.charts import RuleBand, brush_chart, category_chart, selected_levels, selected_range
from spu_core.rules import OPERATORS, ColumnChoices, Compare, Constant, Kind, Not, Rule, RuleSet
from spu_core.rules.draft import (
    AS_IT_IS,
    FLAT,
    LEVELS,
    RAMP_DOWN,
    RAMP_UP,
    RANGE,
    DraftCondition,
    RuleDraft,
    automatic_name,
    moment_of,
    rounded_range,
)
from spu_core.tables import ColumnType, Histogram, Role, Table

HIDDEN = (Role.TRUTH, Role.LABEL, Role.ID, Role.WEIGHT)
SHAPE_WORDS = (
    "**Flat**: the same soft label wherever the rule fires. **Ramp up**: from 0 at the lower end of the range to the "
    "soft label at its upper end. **Ramp down**: the reverse."
)


def rule_columns(table: Table) -> list[str]:
    """The columns that rules may use: not the truth, the label, ids or weights."""
    return [name for name in table.frame.columns if table.roles[name] not in HIDDEN]


def default_column(table: Table, columns: list[str]) -> str:
    """The column to open first: the first numeric one, because it has a histogram."""
    return next((name for name in columns if table.types[name] is ColumnType.NUMBER), columns[0])


@dataclass(frozen=True)
class Cards:
    """The two cards of the editor; figures are added below the chart, buttons above the belief, always in sight."""

    chart: DeltaGenerator
    saving: DeltaGenerator
    belief: DeltaGenerator


def edit_draft(opened: OpenRuleSet, editor: EditorState, columns: list[str]) -> tuple[RuleDraft, Cards]:
    """Draw the editor; returns the draft of its widgets, and the cards, to which the page adds more."""
    left, right = st.columns([3, 2], gap="small")
    beside = right.container(border=True, height="stretch")
    cards = Cards(left.container(border=True, height="stretch"), beside.container(), beside.container())
    first: DraftCondition | None = None
    rest: tuple[DraftCondition, ...] = ()
    with cards.chart:
        if editor.draft.kept_when is not None:
            _show_kept_condition(editor)
        else:
            first = _edit_first_row(opened, editor, columns, cards.belief)
            rest = edit_other_rows(opened, editor, columns)
    with cards.belief:
        draft = _edit_belief(opened, editor, first, rest)
    editor.draft = draft
    return draft, cards


def _show_kept_condition(editor: EditorState) -> None:
    st.subheader("Where?", anchor=False)
    assert editor.draft.kept_when is not None
    st.write(plain(editor.draft.kept_when.text))
    st.caption("This condition is too deeply nested for this editor; it is kept unchanged.")


def _edit_first_row(
    opened: OpenRuleSet, editor: EditorState, columns: list[str], beside: DeltaGenerator
) -> DraftCondition | None:
    """The chart to select values in, and the same values as input fields for keyboard use."""
    head, choice = st.columns([2, 3], vertical_alignment="center")
    head.subheader("Where?", anchor=False)
    if not editor.rows:
        st.caption("This rule fires on every row; add a condition to narrow it.")
        if st.button("Add a condition", icon=":material/add:", key=editor.key("first")):
            editor.add_row(columns[0])
            st.rerun()
        return None
    row = editor.draft.conditions[0]
    with choice:
        column = choose("Column", columns, row.column, editor.key(editor.rows[0], "column"), hidden=True)
    choices = column_choices(opened.workspace, opened.dataset, column)
    keys = RowKeys(editor, editor.rows[0], columns.index(column))
    start_values(keys, row, choices)
    _show_chart(opened, choices, keys)
    with beside:
        return read_row(keys, column, choices, "and")


def _show_chart(opened: OpenRuleSet, choices: ColumnChoices, keys: RowKeys) -> None:
    chart = keys("chart")
    if choices.histogram is not None:
        is_date = choices.kind is Kind.DATE
        bands = bands_of(opened.usable, choices.name)
        figure = brush_chart(choices.histogram, choices.name, rules=bands, dates=is_date, theme=theme())
        take: Callable[..., None] = apply_brush
        mode = "box"
        advice = "Drag across the bars to choose a range; double-click to clear it."
    elif choices.levels:
        chosen = st.session_state[keys("levels")]
        counts = choices.levels, choices.positives, choices.rest
        figure = category_chart(*counts, choices.name, chosen=chosen, theme=theme())
        take, mode = apply_click, "points"
        # A new key with each choice: a click then means this bar only, and the marks follow the list.
        chart = f"{chart}_{'_'.join(str(choices.levels.index(each)) for each in chosen if each in choices.levels)}"
        advice = "Click a bar or its name to choose it; click again to remove it."
    else:
        st.info("This column holds no values.", icon=":material/info:")
        return
    st.caption(f":material/mouse: {advice}{_counted_rows(opened, choices)}")
    show_chart(figure, chart, on_select=lambda: take(st.session_state, chart, keys, choices), selection_mode=mode)


def _counted_rows(opened: OpenRuleSet, choices: ColumnChoices) -> str:
    """Which rows the bars count, where the page uses a sample."""
    if opened.dataset.folder is None:
        return ""
    rows_name = "all" if choices.rows == opened.dataset.n_rows else "the sample's"
    return f" Bars: {rows_name} {count(choices.rows)} rows."


def apply_brush(state: Any, chart: str, keys: Callable[[str], str], choices: ColumnChoices) -> None:
    """The dragged range becomes the range of the row; clearing the brush clears it."""
    assert choices.histogram is not None
    found = selected_range(_selection(state, chart), choices.histogram)
    low, high = None, None
    if found is not None:
        if choices.kind is Kind.DATE:
            low, high = (moment_of(end) for end in found)
        else:
            low, high = rounded_range(*found, _inner_ends(choices.histogram), choices.is_whole)
    state[keys("operator")] = RANGE
    state[keys("low")], state[keys("high")] = as_number(low, choices), as_number(high, choices)


def _inner_ends(histogram: Histogram) -> tuple[float, float]:
    """Slightly inside the ends of the drawn axis: a selection up to the edge includes everything beyond it."""
    edge = histogram.edge
    first, last = float(edge[0]), float(edge[-1])
    if len(edge) > 3:
        width = float(edge[2] - edge[1])
        first, last = max(first, float(edge[1]) - width), min(last, float(edge[-2]) + width)
    margin = 0.01 * (last - first)
    return first + margin, last - margin


def apply_click(state: Any, chart: str, keys: Callable[[str], str], choices: ColumnChoices) -> None:
    """A clicked bar is added to the categories of the row, or removed if it is one of them."""
    clicked = selected_levels(_selection(state, chart), choices.levels)
    before = list(state.get(keys("levels")) or ())
    kept = [level for level in before if level not in clicked]
    state[keys("operator")] = LEVELS
    state[keys("levels")] = [*kept, *(level for level in clicked if level not in before)]


def _selection(state: Any, chart: str) -> Any:
    return (state.get(chart) or {}).get("selection") or {}


def bands_of(rules: RuleSet, column: str) -> list[RuleBand]:
    """The ranges of saved rules along a column, to be drawn behind its bars."""
    return [band for rule in rules.active for band in _bands(rule, column)]


def _bands(rule: Rule, column: str) -> list[RuleBand]:
    belief = rule.belief.value if isinstance(rule.belief, Constant) else None
    if rule.when is None or isinstance(rule.when, Not):
        return []
    parts = rule.when.parts or (rule.when,)
    found = []
    for part in parts:
        span = OPERATORS[part.operator].span if isinstance(part, Compare) and part.column == column else None
        if isinstance(part, Compare) and span is not None:
            low, high = span([_drawn(value) for value in part.values])
            found.append(RuleBand(rule.name, low, high, belief))
    return found


def _drawn(value: Any) -> float:
    if not isinstance(value, str):
        return float(value)
    moment = datetime.fromisoformat(value)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e9


def _edit_belief(
    opened: OpenRuleSet, editor: EditorState, first: DraftCondition | None, rest: tuple[DraftCondition, ...]
) -> RuleDraft:
    draft = replace(editor.draft, conditions=(*((first,) if first else ()), *rest), ends=_ends(opened, first))
    shapes = _shapes(draft)
    st.session_state.setdefault(editor.key("shape"), draft.shape if draft.shape in shapes else FLAT)
    st.session_state.setdefault(editor.key("belief"), float(draft.belief))
    st.session_state.setdefault(editor.key("name"), draft.name)
    if st.session_state[editor.key("shape")] not in shapes:
        st.session_state[editor.key("shape")] = FLAT
    shape = st.segmented_control(
        "Shape", shapes, key=editor.key("shape"), required=True, width="stretch", help=SHAPE_WORDS
    )
    if shape == AS_IT_IS and draft.kept_belief is not None:
        st.caption(f"Belief: {plain(draft.kept_belief.text)}")
        belief = draft.belief
    else:
        label = {RAMP_UP: "Soft label at the upper end", RAMP_DOWN: "Soft label at the lower end"}
        belief = st.slider(
            label.get(str(shape), "Soft label"),
            0.0,
            1.0,
            step=0.01,
            key=editor.key("belief"),
            help=meaning("soft label"),
        )
    draft = replace(draft, shape=shape or FLAT, belief=belief)
    name = st.text_input(
        "Name",
        key=editor.key("name"),
        max_chars=200,
        placeholder=automatic_name(draft),
        help="Name of the rule.",
    )
    return replace(draft, name=name)


def _shapes(draft: RuleDraft) -> list[str]:
    kept = [AS_IT_IS] if draft.kept_belief is not None else []
    ramps = [RAMP_UP, RAMP_DOWN] if draft.ends is not None else []
    return [*kept, FLAT, *ramps]


def _ends(opened: OpenRuleSet, first: DraftCondition | None) -> tuple[float, float] | None:
    """Where a ramp without limits begins and ends; None where the first row is not a range of numbers."""
    if first is None or first.operator != RANGE or first.negated:
        return None
    choices = column_choices(opened.workspace, opened.dataset, first.column)
    if choices.kind is not Kind.NUMBER or choices.histogram is None:
        return None
    return float(choices.histogram.edge[0]), float(choices.histogram.edge[-1])
