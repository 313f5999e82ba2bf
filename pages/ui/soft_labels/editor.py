"""The visual rule editor: find columns and suggested rules, select values in a chart, and set a degree of belief.

Further conditions of a draft are rows of widgets: each a column, a comparison and its values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.ui.shared.cached import cache_result, draw_once, load_table
from pages.ui.shared.show import meaning, show_chart, theme
from pages.ui.shared.text import count, plain
from pages.ui.soft_labels.editor_state import EditorState, OpenRuleSet, column_choices
from spu_core.charts import RuleBand, brush_chart, category_chart, selected_levels, selected_range, separation_chart
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
    draft_of,
    moment_of,
    rounded_range,
)
from spu_core.rules.operators import LIMIT, LIMITS, NOTHING, ONE, SEVERAL, TEXT
from spu_core.rules.suggest import ColumnSeparation, SuggestedRule, rank_columns, suggest_rules
from spu_core.tables import ColumnType, Histogram, Role, Table
from spu_core.workspace import DatasetRecord, Workspace

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
            editor.show_first(place)
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


MOST_SHOWN, IN_A_LINE = 8, 4
BOX_HEIGHT = 410
HOW = (
    "Rows are split into two halves: a rule is searched in one half and tested in the other, with a correction for "
    "the number of rules that were tested. Figures are those of the second half."
)
SEPARATION = (
    "How well this column alone ranks confirmed cases above the rest: 0.5 is chance, 1 is perfect. With a 95% "
    "interval. Near 1, check whether the column was filled only after a case was confirmed."
)
CIRCULAR = (
    ":material/info: These are drafts; change them or leave them. A rule that was made from confirmed cases cannot be "
    "judged by them: models that use it are marked as not independent of the confirmed cases."
)


@cache_result(16, "Looking for confirmed cases …")
def ranked_columns(
    workspace: Workspace, dataset: DatasetRecord, columns: tuple[str, ...]
) -> tuple[ColumnSeparation, ...]:
    """The columns by how well they separate confirmed cases."""
    return rank_columns(load_table(workspace, dataset), columns)


@cache_result(16, "Looking for rules …")
def suggested_rules(
    workspace: Workspace, dataset: DatasetRecord, columns: tuple[str, ...]
) -> tuple[SuggestedRule, ...]:
    """Rules that the data suggest."""
    return suggest_rules(load_table(workspace, dataset), columns)


def best_first(opened: OpenRuleSet, columns: list[str]) -> list[str]:
    """The columns, those that separate confirmed cases best first; others in the order of the table."""
    ranked = [each.column for each in ranked_columns(opened.workspace, opened.dataset, tuple(columns))]
    return [*ranked, *(name for name in columns if name not in ranked)]


def find_confirmed(opened: OpenRuleSet, editor: EditorState, columns: list[str]) -> None:
    """Small charts of the best columns and suggested rules; a button makes a draft of each."""
    ranked = ranked_columns(opened.workspace, opened.dataset, tuple(columns))
    if not ranked:
        return
    # Open until the first draft; the key changes with it, so that it folds.
    is_first = not len(opened.rules) and not editor.draft.is_complete
    title = "Where are the confirmed cases? Best columns and suggested rules"
    key = "soft_find_first" if is_first else "soft_find"
    with st.expander(title, icon=":material/search_insights:", expanded=is_first, key=key, on_change="rerun") as box:
        if not box.open:
            return
        # Lower than the window, so that the editor is in sight once a draft has folded this box.
        with st.container(height=BOX_HEIGHT, border=False):
            rules, best = st.tabs(["Suggested rules", "Best columns"])
            with rules:
                _show_suggestions(opened, editor, columns)
            with best:
                _show_columns(editor, ranked[:MOST_SHOWN])
        st.caption(CIRCULAR)


def _show_suggestions(opened: OpenRuleSet, editor: EditorState, columns: list[str]) -> None:
    found = suggested_rules(opened.workspace, opened.dataset, tuple(columns))
    if not found:
        st.caption("No rule was confirmed in the second half of the rows. Start from one of the best columns.")
        return
    st.caption("Found in one half of the rows and tested in the other.", help=HOW)
    for place, each in enumerate(found):
        with st.container(horizontal=True, vertical_alignment="center", wrap=False):
            st.markdown(f"**{plain(automatic_name(each.draft))}**: {plain(each.text)}.", width="stretch")
            if any(rule.when == each.draft.when for rule in opened.rules):
                st.badge("in your rules", icon=":material/check:", color="gray")
            else:
                _draft_button(editor, each.draft, f"soft_suggested_{place}")


def _show_columns(editor: EditorState, shown: tuple[ColumnSeparation, ...]) -> None:
    for start in range(0, len(shown), IN_A_LINE):
        for place, column in enumerate(st.columns(IN_A_LINE, gap="small")):
            if start + place < len(shown):
                with column, st.container(border=True, height="stretch"):
                    _show_column(editor, shown[start + place], start + place)


def _show_column(editor: EditorState, found: ColumnSeparation, place: int) -> None:
    st.markdown(f"**{plain(found.column)}**")
    st.caption(f"AUC {found.auc:.2f} ({found.low:.2f} to {found.high:.2f})", help=SEPARATION)
    show_chart(separation_chart(found, theme=theme()), key=f"soft_column_{place}")
    if found.draft is None:
        st.caption("No value stands out.")
    else:
        _draft_button(editor, found.draft, f"soft_draft_{place}")


def _draft_button(editor: EditorState, draft: RuleDraft, key: str) -> None:
    if st.button("Draft a rule", icon=":material/edit:", key=key):
        editor.start(draft)
        st.rerun()


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
        figure = draw_once(brush_chart, choices.histogram, choices.name, rules=bands, dates=is_date, theme=theme())
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
