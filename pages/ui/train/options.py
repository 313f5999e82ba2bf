"""How candidates are trained and judged: folds, columns, early stopping, tuning, the latest rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import streamlit as st

from pages.ui.shared.show import meaning
from spu_core.engines.executors import engine_words
from spu_core.engines.training_cost import advised_threads
from spu_core.tables import Role, Table, TableFolder
from spu_core.training import Candidate, EarlyStopping, TrainConfig, TrainPlan, Tuning
from spu_core.training.config import RULE_COLUMNS

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


def choose_options(table: Table | TableFolder, candidates: Sequence[Candidate]) -> TrainOptions:
    """Ask for the options; all of them have defaults and are in one expander."""
    with st.expander("How they are trained and judged", icon=":material/tune:", key="train_options"):
        columns = st.columns(2, gap="large")
        with columns[0]:
            config = _judging(table)
        with columns[1]:
            left_out = _columns(table)
            config = replace(config, rule_columns=_rule_columns(), early_stopping=_early_stopping())
            refine = st.toggle(
                "Judge by refined soft labels too",
                value=True,
                key="train_refine",
                persist_state="session",
                disabled=not table.is_labeled.any(),
                help=meaning("refined S"),
            )
            engine = _engine()
        tuned = _tuning(candidates)
    return TrainOptions(tuned, config, left_out, refine, engine)


def _judging(table: Table | TableFolder) -> TrainConfig:
    folds = st.slider(
        "Folds",
        2,
        10,
        5,
        key="train_folds",
        persist_state="session",
        help="Every row is scored by a model that never saw it: with five folds, five models of four fifths of the "
        "rows each.",
    )
    later = 0.0
    if table.column_with(Role.TIME) is not None:
        later = st.slider(
            "Judge on the latest rows",
            0,
            50,
            0,
            5,
            format="%d%%",
            key="train_out_of_time",
            persist_state="session",
            help="Learn from the earlier rows and judge by the later ones, as production will. Recommended where rows "
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
        help="How many rows people can look at; TPR_SPU is reported there.",
    )
    seed = st.number_input(
        "Seed", 0, 2**31 - 1, 0, key="train_seed", persist_state="session", help="Equal seeds give equal results."
    )
    threads = advised_threads(len(table), len(table.features))
    return TrainConfig(folds=folds, seed=seed, out_of_time=later / 100, review_budget=budget / 100, threads=threads)


def _columns(table: Table | TableFolder) -> tuple[str, ...]:
    left_out = st.multiselect(
        "Columns that models must not see",
        table.features,
        key="train_left_out",
        placeholder=f"None: all {len(table.features)} features",
        help="Rules may still read them. Roles are set on the Data page; this concerns one training only.",
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
        help="A fifth of each training part watches the loss, and growing stops when it no longer falls; learning "
        "curves then show that held-out loss. Costs rows, so on small tables it is off.",
    )
    return EarlyStopping() if wanted else None


def _engine() -> str:
    words = engine_words()
    return st.selectbox(
        "Where to train",
        list(words),
        format_func=words.__getitem__,
        key="train_engine",
        persist_state="session",
        disabled=len(words) == 1,
        help="A table has the same scores to the bit either way. The boosters of a folder are fitted by all workers "
        "together: AUC_SPU within .003, LightGBM and XGBoost only. Who runs this server can name a Dask cluster in "
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
        placeholder="Nobody: defaults are good to begin with",
        help="Settings are searched anew inside every fold, so that no row is judged by a model chosen on it.",
    )
    budget = trials.number_input("Trials each", 2, 500, 20, key="train_trials", disabled=not names)
    limit = seconds.number_input(
        "Seconds each, at most",
        10,
        86_400,
        300,
        key="train_seconds",
        disabled=not names,
        help="A search that the clock ends cannot be repeated to the bit; the run says so.",
    )
    tuning = Tuning(trials=budget, seconds=float(limit))
    return tuple(replace(each, tuning=tuning) if each.name in names else each for each in candidates)


def _is_tunable(candidate: Candidate) -> bool:
    settings = candidate.entry.settings(candidate.settings.get("learner"))
    return any(setting.tunable and setting.name not in candidate.settings for setting in settings)
