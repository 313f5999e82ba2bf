"""How candidates are trained and evaluated: folds, columns, early stopping, tuning, the latest rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import streamlit as st

from pages.ui.shared.show import meaning
from spu_core.engines.executors import engine_words
from spu_core.tables import Role, Table
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
    words = engine_words()
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
