"""Candidates as cards, made from the registry of methods: description, requirements and settings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import streamlit as st

from pages.ui.shared.show import BadgeColor
from pages.ui.shared.text import plain
from spu_core.models import METHODS, Method, Setting
from spu_core.tables import Table
from spu_core.training import SHORTLIST, Candidate, methods_by_group, why_not, with_twins

GROUPS = {
    "ours": ("Labels and rules together", "Methods of SPU Studio."),
    "soft label": ("The paper's method", "Learns the soft label itself, with different learners."),
    "baseline": ("Baselines", "Methods without soft labels, or without a model."),
}
BADGES: dict[str, tuple[str, BadgeColor]] = {
    "fused": ("recommended", "green"),
    "lightgbm": ("the paper's", "blue"),
    "labeled_vs_rest": ("baseline", "gray"),
    "elkan_noto": ("baseline", "gray"),
    "rule_score": ("no model", "gray"),
}
# The options of the training set these for all candidates.
DECIDED_FOR_ALL = {"seed", "threads"}
CARDS_A_ROW = 3


def choose_candidates(table: Table, *, has_beliefs: bool) -> tuple[Candidate, ...]:
    """The chosen candidates with their settings, in the order of the registry."""
    st.subheader("Candidates", anchor=False)
    st.caption("The recommended method, the paper's method and baselines are selected. You can change the selection.")
    reasons = {key: why_not(key, table, has_beliefs=has_beliefs) for key in METHODS}
    _draw_cards(SHORTLIST, reasons, table, has_beliefs)
    with st.expander("More candidates", icon=":material/add_circle:"):
        for group, keys in methods_by_group().items():
            title, words = GROUPS[group]
            others = [key for key in keys if key not in SHORTLIST]
            if others:
                st.markdown(f"**{title}**  \n{words}")
                _draw_cards(others, reasons, table, has_beliefs)
    return tuple(each for key in METHODS for each in _chosen(key, reasons[key], has_beliefs))


def _draw_cards(keys: Sequence[str], reasons: dict[str, str | None], table: Table, has_beliefs: bool) -> None:
    for row in card_rows(keys):
        for column, key in zip(st.columns(len(row), gap="small"), row, strict=True):
            with column, st.container(border=True, height="stretch", key=f"card_{key}"):
                _draw_card(METHODS[key], reasons[key], table, has_beliefs)


def card_rows(keys: Sequence[str]) -> list[Sequence[str]]:
    """Keys in rows of at most three, as even as possible.

    >>> card_rows("abcde"), card_rows("abcd")
    (['ab', 'cde'], ['ab', 'cd'])
    """
    rows = -(-len(keys) // CARDS_A_ROW)
    ends = [len(keys) * row // rows for row in range(rows + 1)]
    return [keys[start:end] for start, end in pairwise(ends)]


def _draw_card(entry: Method, reason: str | None, table: Table, has_beliefs: bool) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.checkbox(
            f"**{entry.title}**",
            value=entry.key in SHORTLIST and reason is None,
            disabled=reason is not None,
            key=_pick(entry.key),
            persist_state="session",
        )
        if entry.key in BADGES:
            words, color = BADGES[entry.key]
            st.badge(words, color=color)
    st.caption(entry.words)
    if reason is not None:
        st.caption(f":material/block: {plain(reason)}")
        return
    if entry.key == "fused" and has_beliefs and st.session_state.get(_pick("fused")):
        st.caption(":material/difference: Also trained without rules, to see whether your rules help.")
    # A popover, because an expander would stretch the neighbouring cards.
    settings = st.popover(
        "Settings", icon=":material/tune:", type="tertiary", key=f"train_open_{entry.key}", on_change="rerun"
    )
    if settings.open:
        with settings:
            _edit_settings(entry, table)


def _edit_settings(entry: Method, table: Table) -> None:
    """A form made from the registry; only values that differ from a default are kept."""
    drafts = _drafts(entry.key)
    name = st.text_input("Name", value=drafts.get("name", ""), placeholder=entry.title, key=f"train_name_{entry.key}")
    learner = drafts.get("settings", {}).get("learner")
    changed: dict[str, Any] = {}
    for setting in entry.settings(learner):
        if setting.name in DECIDED_FOR_ALL:
            continue
        value = _ask(entry.key, setting, drafts.get("settings", {}).get(setting.name, setting.default), table)
        if value != setting.default:
            changed[setting.name] = value
    new = {"name": name, "settings": changed}
    if new != drafts:
        st.session_state.setdefault("train_drafts", {})[entry.key] = new
        if changed.get("learner") != learner:
            st.rerun()


def _ask(method: str, setting: Setting, value: Any, table: Table) -> Any:
    label, key = setting.name.replace("_", " ").capitalize(), f"train_{method}_{setting.name}"
    if setting.kind == "flag":
        return st.toggle(label, value=value, key=key, help=setting.help)
    if setting.kind == "choice":
        place = setting.choices.index(value)
        return st.selectbox(label, setting.choices, index=place, key=key, help=setting.help)
    if setting.kind == "columns":
        chosen = st.multiselect(label, table.features, default=list(value), key=key, help=setting.help)
        return tuple(chosen)
    ask = partial(
        st.number_input,
        label,
        placeholder="from the data" if setting.optional else None,
        key=key,
        help=f"{setting.help} Allowed: {setting.law}.",
    )
    low, high = setting.low or 0, setting.high or 0
    if setting.kind == "integer":
        found = ask(min_value=int(low), max_value=int(high), value=None if value is None else int(value), step=1)
    else:
        start = None if value is None else float(value)
        found = ask(min_value=float(low), max_value=float(high), value=start, format="%g")
    return setting.default if found is None else found


def _chosen(key: str, reason: str | None, has_beliefs: bool) -> list[Candidate]:
    """The candidate of a card; for fused, also the same candidate without rules."""
    if reason is not None or not st.session_state.get(_pick(key), False):
        return []
    draft = _drafts(key)
    settings, name = draft.get("settings", {}), draft.get("name", "").strip() or METHODS[key].title
    chosen = [Candidate(key, settings, name)]
    return list(with_twins(chosen)) if has_beliefs else chosen


def _drafts(key: str) -> dict[str, Any]:
    found: dict[str, Any] = st.session_state.get("train_drafts", {}).get(key, {})
    return found


def _pick(key: str) -> str:
    return f"train_pick_{key}"
