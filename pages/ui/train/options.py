"""What a training runs: candidates as presets and cards, how they are evaluated, and which columns they get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import streamlit as st

from pages.ui.shared.cached import cache_result
from pages.ui.shared.shell import Page, show_errors
from pages.ui.shared.show import BadgeColor, meaning, show_table
from pages.ui.shared.text import plain
from spu_core.bench.advice import advise_method
from spu_core.engines import Job, cancel, jobs_now, start_worker
from spu_core.engines.executors import engine_titles
from spu_core.engines.jobs.retraining_checks import features_result
from spu_core.engines.processes import latest_job
from spu_core.models import METHODS, Method, Setting
from spu_core.tables import Role, Table
from spu_core.training import (
    SHORTLIST,
    Candidate,
    EarlyStopping,
    FeatureSelection,
    TrainConfig,
    TrainPlan,
    Tuning,
    methods_by_group,
    why_not,
    with_twins,
)
from spu_core.training.config import RULE_COLUMNS
from spu_core.training.feature_selection import CAVEAT, DIRECTIONS, METRICS
from spu_core.workspace import JobStatus

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
        rules = "unknown" if has_beliefs else "none"
        st.caption(f":material/lightbulb: {plain(_advice_of_benchmark(confirmed, origin, rules))}")
    _draw_cards(SHORTLIST, reasons, table, has_beliefs)
    with st.expander("More candidates", icon=":material/add_circle:"):
        for group, keys in methods_by_group().items():
            title, words = GROUPS[group]
            others = [key for key in keys if key not in SHORTLIST]
            if others:
                st.markdown(f"**{title}**  \n{words}")
                _draw_cards(others, reasons, table, has_beliefs)
    return tuple(each for key in METHODS for each in _chosen(key, reasons[key], has_beliefs))


@cache_result(64)
def _advice_of_benchmark(confirmed: int, origin: str, rules: str) -> str:
    return advise_method(confirmed, origin=origin, rules=rules).sentence


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
            help=entry.description,
        )
        if entry.key in BADGES:
            words, color = BADGES[entry.key]
            st.badge(words, color=color)
    st.caption(GOOD_FOR.get(entry.key, entry.description))
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


RULE_COLUMN_WORDS = {
    "by method": "Hidden from soft-label methods, shown to baselines",
    "dropped": "Hidden from all",
    "kept": "Shown to all",
}


@dataclass(frozen=True)
class TrainOptions:
    """What will be trained, and how."""

    candidates: tuple[Candidate, ...]
    config: TrainConfig
    left_out: tuple[str, ...]
    refine: bool
    engine: str

    @property
    def plan(self) -> TrainPlan:
        return TrainPlan(self.config, self.candidates)


def choose_options(table: Table, candidates: Sequence[Candidate]) -> TrainOptions:
    """Ask for the options; all have defaults and are in one expander."""
    with st.expander("Training and evaluation options", icon=":material/tune:", key="train_options"):
        columns = st.columns(2, gap="large")
        with columns[0]:
            config = _judging(table)
        with columns[1]:
            left_out = _columns(table)
            config = replace(config, rule_columns=_rule_columns(), early_stopping=_early_stopping())
            refine = st.toggle(
                "Also evaluate by refined soft labels",
                value=True,
                key="train_refine",
                persist_state="session",
                disabled=not table.is_labeled.any(),
                help=meaning("refined S"),
            )
            engine = _engine()
        tuned = _tuning(candidates)
    return TrainOptions(tuned, config, left_out, refine, engine)


def _judging(table: Table) -> TrainConfig:
    folds = st.slider(
        "Folds",
        2,
        10,
        5,
        key="train_folds",
        persist_state="session",
        help="Every row is scored by a model that was not trained on it. Five folds mean five models, each trained on "
        "four fifths of the rows.",
    )
    later = 0.0
    if table.column_with(Role.TIME) is not None:
        later = st.slider(
            "Evaluate on the latest rows",
            0,
            50,
            0,
            5,
            format="%d%%",
            key="train_out_of_time",
            persist_state="session",
            help="Train on the earlier rows and evaluate on the later ones, as in production. Recommended where rows "
            "have a time; 0% uses random folds.",
        )
    budget = st.number_input(
        "Review budget, in % of rows",
        0.01,
        100.0,
        2.0,
        0.5,
        format="%g",
        key="train_budget",
        persist_state="session",
        help="How many rows people can review. TPR_SPU is reported at this share.",
    )
    seed = st.number_input(
        "Seed", 0, 2**31 - 1, 0, key="train_seed", persist_state="session", help="Equal seeds give equal results."
    )
    return TrainConfig(folds=folds, seed=seed, out_of_time=later / 100, review_budget=budget / 100)


def _columns(table: Table) -> tuple[str, ...]:
    left_out = st.multiselect(
        "Columns that models must not see",
        table.features,
        key="train_left_out",
        placeholder=f"None: all {len(table.features)} features",
        help="Rules may still read them. This setting applies to one training; roles are set on the Data page.",
    )
    return tuple(left_out)


def _rule_columns() -> str:
    return st.selectbox(
        "Columns that rules read",
        RULE_COLUMNS,
        format_func=RULE_COLUMN_WORDS.__getitem__,
        key="train_rule_columns",
        help="A model that sees what the rules read can simply repeat the rules, so the paper hides these columns from "
        "soft-label methods.",
    )


def _early_stopping() -> EarlyStopping | None:
    wanted = st.toggle(
        "Stop early",
        key="train_early",
        persist_state="session",
        help="Holds out a fifth of each training part and stops when the loss on it no longer falls. Learning curves "
        "then show that held-out loss. Off for small tables, because it leaves fewer rows to train on.",
    )
    return EarlyStopping() if wanted else None


def _engine() -> str:
    words = engine_titles()
    return st.selectbox(
        "Where to train",
        list(words),
        format_func=words.__getitem__,
        key="train_engine",
        persist_state="session",
        disabled=len(words) == 1,
        help="The scores of a table are identical either way. For a folder, all workers train one LightGBM or XGBoost "
        "model together; its AUC_SPU differs by at most .003. The operator of this server can set a Dask cluster in "
        "SPU_DASK_SCHEDULER.",
    )


def _tuning(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Candidates with a search of their settings where one is wanted."""
    tunable = [each.name for each in candidates if _is_tunable(each)]
    st.divider()
    wanted, trials, seconds = st.columns([2, 1, 1], gap="medium")
    names = wanted.multiselect(
        "Tune the settings of",
        tunable,
        key="train_tuned",
        placeholder="None: the defaults are a good start",
        help="The search is repeated inside every fold, so that no row is evaluated by a model that was chosen on it.",
    )
    budget = trials.number_input("Trials each", 2, 500, 20, key="train_trials", disabled=not names)
    limit = seconds.number_input(
        "Seconds each, at most",
        10,
        86_400,
        300,
        key="train_seconds",
        disabled=not names,
        help="A search that ends at the time limit cannot be reproduced exactly; the run has a note about it.",
    )
    tuning = Tuning(trials=budget, seconds=float(limit))
    return tuple(replace(each, tuning=tuning) if each.name in names else each for each in candidates)


def _is_tunable(candidate: Candidate) -> bool:
    settings = candidate.entry.settings(candidate.settings.get("learner"))
    return any(setting.tunable and setting.name not in candidate.settings for setting in settings)


POLL_SECONDS = 1.0
DIRECTION_WORDS = {"drop": "Drop columns that are not needed", "add": "Add the most useful columns first"}


def choose_features(page: Page, options: TrainOptions) -> None:
    """Choose a candidate and a figure, start the search, and show its result."""
    with st.expander("Which columns are needed?", icon=":material/view_column:", key="train_features"):
        st.caption(
            "Trains one candidate on many sets of columns, on the same folds, and looks for the smallest set that "
            "loses less than 0.005. No true labels are needed."
        )
        # The rules alone learn from no column.
        if all(candidate.method == "rule_score" for candidate in options.candidates):
            st.markdown(":material/info: Choose a candidate that learns from columns.")
            return
        job = _asked(page, options)
        found = latest_job(page.workspace, job)
        if found is not None and not found.status.is_over:
            st.fragment(_show_progress, run_every=POLL_SECONDS)(page, found.id)
            return
        if found is not None and found.status is JobStatus.FINISHED:
            _show_selection(features_result(found))
            return
        if found is not None:
            st.error(plain(found.error or "The search was cancelled."), icon=":material/error:")
        if st.button("Find the columns", icon=":material/search:", key="features_start"):
            start_worker(page.workspace, job)
            st.rerun()


def _asked(page: Page, options: TrainOptions) -> Job:
    assert page.dataset is not None
    who, what, how = st.columns(3, gap="medium")
    by_name = {candidate.name: candidate for candidate in options.candidates if candidate.method != "rule_score"}
    name = who.selectbox("Candidate", list(by_name), key="features_candidate")
    metric = what.selectbox(
        "Decide by", list(METRICS), format_func=METRICS.__getitem__, key="features_metric", help=meaning("AUC_SPU")
    )
    direction = how.selectbox(
        "How", list(DIRECTION_WORDS), format_func=DIRECTION_WORDS.__getitem__, key="features_direction"
    )
    parameters = {
        "dataset": page.dataset.id,
        "rule_set": page.rules.id if page.rules else None,
        "rule_set_version": page.rules.number if page.rules else None,
        "candidate": by_name[name].to_dict(),
        "config": options.config.to_dict(),
        "left_out": list(options.left_out),
        "metric": metric,
        "direction": direction,
    }
    return Job(kind="features", parameters=parameters, title=f"Columns of {name}"[:80])


def _show_progress(page: Page, token: str) -> None:
    with show_errors("Train"):
        job = next((each for each in jobs_now(page.workspace) if each.id == token), None)
        if job is None or job.status.is_over:
            st.rerun()
        st.progress(job.share, text=plain(job.detail.get("words") or job.message or "waiting for its turn"))
        if st.button("Cancel", icon=":material/stop_circle:", key="features_cancel"):
            cancel(page.workspace, token)
            st.rerun()


def _show_selection(found: FeatureSelection) -> None:
    st.markdown(f"**{plain(found.sentence)}**")
    if found.dropped:
        st.markdown(f"Not needed: {plain(', '.join(found.dropped))}")
    st.caption(CAVEAT)
    sets, single = st.tabs(["Sets of columns", DIRECTIONS[found.direction]])
    with sets:
        _show_sets(found, "path", ["columns", "names"])
    with single:
        _show_sets(found, "single", ["column"])


def _show_sets(found: FeatureSelection, part: str, first: list[str]) -> None:
    """The figures of each set, with the change against all columns and its interval for the figure that decides."""
    table, own = found.table(part), found.metric
    figures = [name for name in METRICS if name in table.columns]
    change = {f"{own}_change": "Change", f"{own}_low": "from", f"{own}_high": "to"}
    number = st.column_config.NumberColumn
    show_table(
        table[[*first, *figures, *change]],
        hide_index=True,
        key=f"features_{part}",
        column_config={
            "column": st.column_config.TextColumn("Column", pinned=True),
            "columns": number("Columns"),
            "names": st.column_config.TextColumn("Names"),
            **{name: number(METRICS[name], format="%.3f") for name in figures},
            **{
                name: number(words, format="%+.3f", help="Against all columns, 95% interval.")
                for name, words in change.items()
            },
        },
    )
