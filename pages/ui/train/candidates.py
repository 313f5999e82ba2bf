"""Candidates as presets and as cards, made from the registry of methods: use, requirements and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import streamlit as st

from pages.ui.shared.show import BadgeColor
from pages.ui.shared.text import plain
from spu_core.bench.advice import advise_method
from spu_core.models import METHODS, Method, Setting
from spu_core.tables import Table
from spu_core.training import SHORTLIST, Candidate, methods_by_group, why_not, with_twins

# What a method is good for, in one sentence; its description is in the help of its card.
GOOD_FOR = {
    "fused": "The best default: combines confirmed cases and rules, and corrects rules that the cases contradict.",
    "lightgbm": "When you trust your rules: learns your soft labels with boosted trees.",
    "xgboost": "As LightGBM, with another kind of boosted trees. A second opinion.",
    "neural_net": "Learns your soft labels with a neural network. For many numeric columns.",
    "logistic": "When you must explain the model: a linear score.",
    "nearest_neighbors": "Finds rows that are similar to suspected ones. For small tables.",
    "extra_trees": "Learns your soft labels with a forest. Robust on noisy columns.",
    "cnn": "For images: learns from columns that are pixels.",
    "two_stage": "When rules read important columns: learns without them first, then with all.",
    "soft_bagging": "When confirmed cases are rare: averages many small models.",
    "labeled_vs_rest": "The usual shortcut: treats every unlabelled row as a negative. Shows what it costs.",
    "soft_as_positive": "Treats every suspected row as positive. Shows what ignoring the degree of belief costs.",
    "soft_as_feature": "Confirmed cases only, with the rule score as one more column.",
    "soft_threshold": "Treats rows above a belief as positive and the rest as negative.",
    "elkan_noto": "The classic method for confirmed cases that were found by chance. Uses no rules.",
    "weighted_elkan_noto": "As Elkan–Noto, but weights each unlabelled row by its chance of being a hidden case.",
    "bagging_pu": "Few confirmed cases, no rules: averages many models.",
    "nnpu": "A neural network for confirmed cases without rules. Needs the share of positives.",
    "sar_em": "When confirmed cases were not found by chance and you know which columns decided.",
    "rule_score": "Your rules without a model: the reference that a model should beat.",
    "oracle": "Learns from the truth, for experiments only. Shows what could be reached.",
}
QUICK_ROUNDS = 25


@dataclass(frozen=True)
class Preset:
    """A selection of methods; `settings` are those that differ from the defaults, and `suffix` marks their names."""

    words: str
    methods: tuple[str, ...]
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    suffix: str = ""


PRESETS = {
    "Quick look": Preset(
        "The recommended method with and without your rules, in fewer rounds. A first impression.",
        ("fused",),
        {"fused": {"rounds": QUICK_ROUNDS}},
        ", quick look",
    ),
    "Standard": Preset("The recommended method, the paper's method and baselines.", SHORTLIST),
    "Thorough": Preset(
        "Standard and six more methods. Use it before you decide on a model for production.",
        (*SHORTLIST, "xgboost", "logistic", "two_stage", "soft_bagging", "soft_as_feature", "bagging_pu"),
    ),
}
OWN = "Your own selection."
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


def choose_candidates(table: Table, origin: str, *, has_beliefs: bool) -> tuple[Candidate, ...]:
    """The chosen candidates with their settings, in the order of the registry; `origin` says how cases were found."""
    reasons = {key: why_not(key, table, has_beliefs=has_beliefs) for key in METHODS}
    _choose_preset([key for key, reason in reasons.items() if reason is None])
    if confirmed := int(table.is_labeled.sum()):
        advice = advise_method(confirmed, origin=origin, rules="unknown" if has_beliefs else "none")
        st.caption(f":material/lightbulb: {plain(advice.sentence)}")
    _draw_cards(SHORTLIST, reasons, table, has_beliefs)
    with st.expander("More candidates", icon=":material/add_circle:"):
        for group, keys in methods_by_group().items():
            title, words = GROUPS[group]
            others = [key for key in keys if key not in SHORTLIST]
            if others:
                st.markdown(f"**{title}**  \n{words}")
                _draw_cards(others, reasons, table, has_beliefs)
    return tuple(each for key in METHODS for each in _chosen(key, reasons[key], has_beliefs))


def _choose_preset(usable: Sequence[str]) -> None:
    """Three selections to start from; after a change of the cards none of them is marked."""
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.subheader("Candidates", anchor=False, width="content")
        current = chosen_preset(usable)
        st.session_state["train_preset"] = current
        st.segmented_control(
            "Preset",
            list(PRESETS),
            key="train_preset",
            label_visibility="collapsed",
            on_change=lambda: apply_preset(st.session_state["train_preset"], usable),
        )
    st.caption(f"{PRESETS[current].words} You can change the selection." if current else OWN)


def chosen_preset(usable: Sequence[str]) -> str | None:
    """The preset that the cards show; None after the analyst changed them. New sessions begin with Standard."""
    picked = {key for key in usable if st.session_state.get(_pick(key), key in SHORTLIST)}
    drafts = {key: draft for key in usable if (draft := _drafts(key)) and key in picked}
    return next((name for name in PRESETS if (picked, drafts) == _state_of(PRESETS[name], usable)), None)


def apply_preset(name: str | None, usable: Sequence[str]) -> None:
    """Choose the cards of a preset, and its settings."""
    if name is None:
        return
    picked, drafts = _state_of(PRESETS[name], usable)
    st.session_state.update({_pick(key): key in picked for key in usable})
    st.session_state["train_drafts"] = drafts


def _state_of(preset: Preset, usable: Sequence[str]) -> tuple[set[str], dict[str, dict[str, Any]]]:
    drafts = {
        key: {"name": METHODS[key].title + preset.suffix, "settings": dict(settings)}
        for key, settings in preset.settings.items()
        if key in usable
    }
    return {key for key in preset.methods if key in usable}, drafts


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
    if reason is None:  # as `value=` it would contradict what a preset sets
        st.session_state.setdefault(_pick(entry.key), entry.key in SHORTLIST)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.checkbox(
            f"**{entry.title}**",
            disabled=reason is not None,
            key=_pick(entry.key),
            persist_state="session",
            help=entry.words,
        )
        if entry.key in BADGES:
            words, color = BADGES[entry.key]
            st.badge(words, color=color)
    st.caption(GOOD_FOR.get(entry.key, entry.words))
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
