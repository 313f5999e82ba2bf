"""Cached calls about check outcomes; keys name the workspace, the dataset and how much was recorded so far."""

from __future__ import annotations

from dataclasses import astuple

import pandas as pd
import streamlit as st
from spu_core.trust.outcomes.feedback import Feedback, FeedbackPlan
from spu_core.trust.outcomes.review_queue import Queue, QueuePlan, fill_queue

from pages.ui.trust_case import TrustCase
from spu_core.engines.outcomes import Population
from spu_core.engines.outcomes_learn import WhatChanged, propose_feedback
from spu_core.engines.outcomes_learn import what_changed as changed_between
from spu_core.engines.outcomes_loop import loop_queues
from spu_core.engines.outcomes_loop import populations as populations_of
from spu_core.engines.outcomes_record import LoopChecks, checks_in_loop, checks_of
from spu_core.engines.outcomes_sample import sample_players
from spu_core.errors import SpuError
from spu_core.tables.simulators.anti_cheat_players import Players
from spu_core.workspace import DatasetRecord, QueueRecord, RuleSetVersion, Workspace


def populations(case: TrustCase) -> tuple[DatasetRecord, ...]:
    """The stored tables from which the model of the case can flag, the one at hand first."""
    known = tuple((each.id, each.version) for each in case.page.workspace.datasets.list())
    return _populations(case.key, known, case)


def queues(case: TrustCase) -> tuple[QueueRecord, ...]:
    """All queues of the loop, the newest first."""
    return loop_queues(case.page.workspace, case.dataset.id)


def dataset_names(case: TrustCase) -> dict[str, str]:
    """The names of all stored tables by their ids."""
    return {each.id: each.name for each in case.page.workspace.datasets.list()}


def population(case: TrustCase, runs: tuple[str, ...], rows: DatasetRecord) -> Population:
    """The rows that may be checked, scored by these runs."""
    return _population(case.key[0], rows.id, rows.version, runs, case.page.workspace)


def preview(
    case: TrustCase, runs: tuple[str, ...], rows: DatasetRecord, plan: QueuePlan, again: bool
) -> tuple[Queue, str]:
    """Whom this plan would check, and whether the split of the users looks random."""
    key: tuple[str | int, ...] = (case.key[0], rows.id, rows.version, case.page.workspace.queues.state(), *runs)
    return _preview(key, (*astuple(plan), again), case, (runs, rows, plan, again))


def disagreements(case: TrustCase, budget: int, side: str) -> pd.DataFrame:
    """The rows where the model and the rules disagree most, with the reasons of both."""
    key = (*case.key, case.page.workspace.queues.state(), budget, side)
    return _disagreements(key, case)


def checks(case: TrustCase) -> LoopChecks | None:
    """All finished checks that models of this dataset asked for, from whichever table; None before the first."""
    return _checks(case.key[0], case.dataset.id, True, case.page.workspace.queues.state(), case.page.workspace)


def own_checks(case: TrustCase, dataset: str) -> LoopChecks | None:
    """The finished checks of the rows of one dataset; None before the first."""
    return _checks(case.key[0], dataset, False, case.page.workspace.queues.state(), case.page.workspace)


def proposal(case: TrustCase, rows: DatasetRecord, plan: FeedbackPlan) -> Feedback:
    """What the outcomes of the rows of a dataset would change in it."""
    rules = "" if case.rules is None else case.rules.sha256
    key = (case.key[0], rows.id, rows.version, rules, case.page.workspace.queues.state())
    return _proposal(key, plan, case.rules, case.page.workspace)


def what_changed(case: TrustCase, old: str, new: str) -> WhatChanged:
    """Two runs side by side, before and after outcomes were fed back."""
    workspace = case.page.workspace
    return _what_changed(case.key[0], old, new, workspace.queues.state(), workspace)


def players_behind(case: TrustCase) -> Players | None:
    """The simulated players where the dataset is the anti-cheat sample."""
    folder, dataset, version, *_ = case.key
    return _players(folder, dataset, version, case)


@st.cache_resource(max_entries=16, show_spinner=False)
def _populations(
    key: tuple[str | int, ...], known: tuple[tuple[str, int], ...], _case: TrustCase
) -> tuple[DatasetRecord, ...]:
    return populations_of(_case.page.workspace, _case.dataset.id, _case.record.id)


@st.cache_resource(max_entries=4, show_spinner="Scoring the users …")
def _population(folder: str, dataset: str, version: int, runs: tuple[str, ...], _workspace: Workspace) -> Population:
    return Population.of(_workspace, dataset, runs)


@st.cache_resource(max_entries=16, show_spinner="Filling the queue …")
def _preview(
    key: tuple[str | int, ...],
    settings: tuple[float, ...],
    _case: TrustCase,
    _asked: tuple[tuple[str, ...], DatasetRecord, QueuePlan, bool],
) -> tuple[Queue, str]:
    runs, rows, plan, again = _asked
    found = population(_case, runs, rows)
    is_open = found.is_open(_case.page.workspace, again)
    return fill_queue(found.users, found.scores, plan, is_open=is_open), found.balance(plan).sentence


@st.cache_resource(max_entries=16, show_spinner="Looking for disagreements …")
def _disagreements(key: tuple[str | int, ...], _case: TrustCase) -> pd.DataFrame:
    found = population(_case, (_case.record.id,), _case.dataset)
    return found.explained(found.disagreement(_case.page.workspace, int(key[-2]), str(key[-1])))


@st.cache_resource(max_entries=8, show_spinner="Counting outcomes …")
def _checks(folder: str, dataset: str, everywhere: bool, state: str, _workspace: Workspace) -> LoopChecks | None:
    try:
        return checks_in_loop(_workspace, dataset) if everywhere else checks_of(_workspace, dataset)
    except SpuError:
        return None


@st.cache_resource(max_entries=8, show_spinner="Working out what the outcomes change …")
def _proposal(
    key: tuple[str | int, ...], plan: FeedbackPlan, _rules: RuleSetVersion | None, _workspace: Workspace
) -> Feedback:
    return propose_feedback(_workspace, str(key[1]), _rules, plan)


@st.cache_resource(max_entries=8, show_spinner="Comparing before and after …")
def _what_changed(folder: str, old: str, new: str, state: str, _workspace: Workspace) -> WhatChanged:
    return changed_between(_workspace, old, new)


@st.cache_resource(max_entries=4, show_spinner=False)
def _players(folder: str, dataset: str, version: int, _case: TrustCase) -> Players | None:
    return sample_players(_case.table)
