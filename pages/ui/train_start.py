"""From the chosen candidates to a job: what it will cost, and the button."""

from __future__ import annotations

import streamlit as st

from pages.ui.shell import Page
from pages.ui.steps import link_to, step_named
from pages.ui.text import count, plain
from pages.ui.train_options import TrainOptions
from spu_core.engines import Job, JobLimits, jobs_now, start_worker
from spu_core.engines.executors import Engine
from spu_core.engines.jobs.train import training_jobs
from spu_core.engines.training_cost import estimate_training, plan_memory, plan_memory_on, refused_on
from spu_core.tables import Role, Table, TableFolder

# How much of the rows one click holds back, in %.
LATEST = 20


def need_something_to_learn(page: Page, table: Table | TableFolder) -> bool:
    """Whether anything is believed about unlabelled rows; a table without beliefs and labels ends the page."""
    has_beliefs = page.rules is not None or table.column_with(Role.SOFT_LABEL) is not None
    if table.is_labeled.all():
        check = "Nothing is left to find. Check which values of the label mean a confirmed positive."
        page.say_empty("Every row is a confirmed positive.", check, "Data")
    if not has_beliefs and not table.is_labeled.any():
        page.need_rules()
    if not has_beliefs:
        with st.container(border=True, horizontal=True, vertical_alignment="center"):
            st.markdown(
                ":material/info: No rules are chosen, so only candidates that learn from labels can be trained."
            )
            link_to(step_named("Soft labels"), "Say what you know", page.query)
    return has_beliefs


def start_training(page: Page, table: Table | TableFolder, options: TrainOptions) -> None:
    """The estimate and the button; the job begins in the background and the page shows it at once."""
    assert page.dataset is not None
    chosen = options.candidates
    _offer_latest_rows(table, options)
    with st.container(border=True, key="train_start_box"):
        cost, start = st.columns([3, 1], vertical_alignment="center")
        with cost:
            _show_cost(table, options)
        job = _job(page, options) if chosen else None
        running = job is not None and _is_running(page, job)
        words = "Already training" if running else f"Train {count(len(chosen))} candidate{'s' * (len(chosen) != 1)}"
        if start.button(
            words,
            type="primary",
            icon=":material/play_arrow:",
            key="train_start",
            disabled=not chosen or running,
            width="stretch",
        ):
            assert job is not None
            start_worker(page.workspace, job)
            st.rerun()


def _offer_latest_rows(table: Table | TableFolder, options: TrainOptions) -> None:
    """Rows that have a time should be judged by the latest of them, as production will be; one click does it."""
    column = table.column_with(Role.TIME)
    if column is None or options.config.out_of_time:
        return
    with st.container(border=True, horizontal=True, vertical_alignment="center", key="train_time_box"):
        st.markdown(
            f":material/schedule: Rows have a time ({plain(column)}), but folds are random, so models learn from rows "
            "that are later than those they are judged on.",
            width="stretch",
        )
        st.button(
            f"Judge on the latest {LATEST}%",
            icon=":material/update:",
            key="train_latest",
            on_click=st.session_state.update,
            args=({"train_out_of_time": LATEST},),
        )


def _show_cost(table: Table | TableFolder, options: TrainOptions) -> None:
    """Time and memory, and whether the training fits into this machine."""
    if not options.candidates:
        st.markdown(":material/info: Choose at least one candidate.")
        return
    size = (len(table), len(table.features) - len(options.left_out), options.candidates, options.config)
    estimate, from_files = estimate_training(*size, refine=options.refine), isinstance(table, TableFolder)
    # What a folder needs of memory, the line below says.
    words = estimate.time_words if from_files else estimate.words
    st.markdown(
        f":material/timer: {options.config.folds} folds: **{words}**. This is an estimate; a busy machine takes longer."
    )
    here = plan_memory(*size, from_files=from_files, refine=options.refine)
    engine = Engine.chosen(options.engine, None)
    way = plan_memory_on(engine, here)
    (st.caption if way.fits else st.warning)(way.words)
    if refused := refused_on(engine, here, options.candidates, options.config):
        st.warning(plain(refused), icon=":material/block:")


def _job(page: Page, options: TrainOptions) -> Job:
    assert page.dataset is not None
    parameters = {
        "dataset": page.dataset.id,
        "rule_set": page.rules.id if page.rules else None,
        "rule_set_version": page.rules.number if page.rules else None,
        "plan": options.plan.to_json(),
        "refine": options.refine,
        "left_out": list(options.left_out),
        "engine": options.engine,
    }
    many = len(options.candidates)
    limits = JobLimits(threads=options.config.threads)
    return Job(kind="train", parameters=parameters, title=f"{many} candidate{'s' * (many != 1)}", limits=limits)


def _is_running(page: Page, job: Job) -> bool:
    """Whether the very same training is under way: a second click must not start it twice."""
    assert page.dataset is not None
    active = [view for view in training_jobs(jobs_now(page.workspace), page.dataset.id) if view.is_active]
    return any(dict(view.job.parameters) == dict(job.parameters) for view in active)
