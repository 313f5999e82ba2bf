"""Start a training and follow it: its cost, the button, progress, and the leaderboard as runs finish."""

from __future__ import annotations

from typing import Any

import streamlit as st

from pages.ui.compare.compared_runs import in_recommended_order
from pages.ui.shared import login
from pages.ui.shared.cached import cache_result
from pages.ui.shared.shell import Page, link_to, missing_in_data, show_errors, step_named
from pages.ui.shared.show import in_percent, meaning, share_column, show_chart, show_table, theme
from pages.ui.shared.text import count, plain
from pages.ui.train.options import TrainOptions
from spu_core.charts import learning_curve_chart
from spu_core.engines import Job, JobLimits, cancel, jobs_now, restart, start_worker
from spu_core.engines.executors import Engine
from spu_core.engines.jobs.train import CandidateState, TrainingView, training_jobs
from spu_core.engines.stored_runs import summary_table
from spu_core.engines.training_cost import estimate_training, past_ratios, plan_memory, plan_memory_on, refused_on
from spu_core.tables import Role, Table
from spu_core.training.fit_pool import usable_processes
from spu_core.workspace import JobRecord, JobStatus, RunRecord, Workspace

# The share of latest rows, in %, that the button sets.
LATEST = 20
POLL_SECONDS = 1.0
ICONS = {
    "waiting": ":material/schedule:",
    "running": ":material/autorenew:",
    "finished": ":material/check_circle:",
    "failed": ":material/error:",
    "stopped": ":material/block:",
}
HEADINGS = {
    JobStatus.WAITING: "Waiting for its turn",
    JobStatus.RUNNING: "Training",
    JobStatus.FINISHED: "Trained",
    JobStatus.FAILED: "The training failed",
    JobStatus.CANCELLED: "The training was cancelled",
    JobStatus.INTERRUPTED: "The training was interrupted",
}
REFINING_WORDS = (
    "First, the soft labels are refined with the confirmed cases, to evaluate every candidate by them. Then the "
    "candidates start."
)
CURVE_WORDS = {
    True: "Soft log-loss on rows held out of each fit; a dot marks the lowest value.",
    False: "Soft log-loss of boosted trees on their training rows. It always falls and does not predict the loss on "
    "new rows.",
}


def need_something_to_learn(page: Page, table: Table) -> bool:
    """Whether there are soft labels; a table without soft labels and without labels ends the page."""
    has_beliefs = page.rules is not None or table.column_with(Role.SOFT_LABEL) is not None
    labeled = int(table.is_labeled.sum())
    has_label = table.column_with(Role.LABEL) is not None
    missing = missing_in_data(has_label=has_label, rows=len(table), labeled=labeled)
    # Rules alone are enough to train, so a missing label stops only a page without them.
    if missing is not None and (labeled == len(table) or len(table) == 1 or not has_beliefs):
        page.show_empty(*missing, "Data", "Open Data")
    if not has_beliefs:
        with st.container(border=True, horizontal=True, vertical_alignment="center"):
            st.markdown(
                ":material/info: No rules are chosen, so only candidates that learn from labels can be trained."
            )
            link_to(step_named("Soft labels"), "Define rules", page.query)
    return has_beliefs


def start_training(page: Page, table: Table, options: TrainOptions) -> None:
    """The estimated cost and the button that starts the job in the background."""
    assert page.dataset is not None
    chosen = options.candidates
    with st.container(key="train_start_box"):
        cost, start = st.columns([3, 1], vertical_alignment="center")
        with cost:
            _show_cost(page, table, options)
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


def offer_latest_rows(table: Table, options: TrainOptions) -> None:
    """Where rows have a time, offer to evaluate on the latest of them, as in production."""
    column = table.column_with(Role.TIME)
    if column is None or options.config.out_of_time:
        return
    with st.container(border=True, horizontal=True, vertical_alignment="center", key="train_time_box"):
        st.markdown(
            f":material/schedule: Rows have a time ({plain(column)}), but folds are random, so models are trained on "
            "rows that are later than those they are evaluated on.",
            width="stretch",
        )
        st.button(
            f"Evaluate on the latest {LATEST}%",
            icon=":material/update:",
            key="train_latest",
            on_click=st.session_state.update,
            args=({"train_out_of_time": LATEST},),
        )


@cache_result(32)
def _past_ratios(workspace: Workspace, _jobs: tuple[JobRecord, ...], ended: tuple[str, ...], engine: str) -> Any:
    """How long earlier trainings took against their estimates; `ended` are the ids of the jobs."""
    return past_ratios(workspace, _jobs, engine)


def _show_cost(page: Page, table: Table, options: TrainOptions) -> None:
    """Time and memory, and whether the training fits into this machine."""
    if not options.candidates:
        st.markdown(":material/info: Choose at least one candidate.")
        return
    size = (len(table), len(table.features) - len(options.left_out), options.candidates, options.config)
    processes = usable_processes(options.config.threads)
    ended = tuple(job for job in jobs_now(page.workspace) if job.kind == "train" and job.status.is_over)
    ratios = _past_ratios(page.workspace, ended, tuple(job.id for job in ended), options.engine)
    estimate = estimate_training(*size, refine=options.refine, processes=processes).corrected(ratios)
    from_files = not table.in_memory
    here = plan_memory(*size, from_files=from_files, refine=options.refine)
    engine = Engine.chosen(options.engine, None)
    way = plan_memory_on(engine, here)
    # The sentence about memory says how much a folder needs.
    words = estimate.time_text if from_files else estimate.text
    basis = "estimated from your earlier trainings" if ratios else "estimated; longer on a busy machine"
    memory = way.text if way.fits else None
    st.markdown(f":material/timer: **{words}**, {options.config.folds} folds ({basis})", help=memory)
    if not way.fits or from_files:
        (st.caption if way.fits else st.warning)(way.text)
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
    """Whether the same training is running: a second click must not start it again."""
    assert page.dataset is not None
    active = [view for view in training_jobs(jobs_now(page.workspace), page.dataset.id) if view.is_active]
    return any(dict(view.job.parameters) == dict(job.parameters) for view in active)


def show_training(page: Page) -> None:
    """The trainings of this dataset; updated every second while one of them runs."""
    views = _views(page)
    if not views:
        return
    is_active = any(view.is_active for view in views)
    st.fragment(_show_views, run_every=POLL_SECONDS if is_active else None)(page, is_active)


def _views(page: Page) -> tuple[TrainingView, ...]:
    assert page.dataset is not None
    return training_jobs(jobs_now(page.workspace), page.dataset.id)


def _show_views(page: Page, was_active: bool) -> None:
    with show_errors("Train"):
        views = _views(page)
        active = [view for view in views if view.is_active]
        if was_active and not active:
            st.rerun()  # the whole page: marks, links and the refresh interval of this fragment change
        for view in active or views[:1]:
            _show_view(page, view)
        earlier = [view for view in views if view not in active][0 if active else 1 :]
        if earlier:
            many = f"{len(earlier)} earlier training{'s' * (len(earlier) != 1)}"
            with st.expander(many, icon=":material/history:", key="train_earlier", on_change="rerun") as folded:
                for view in earlier[:10] if folded.open else ():
                    _show_view(page, view)


def _show_view(page: Page, view: TrainingView) -> None:
    with st.container(border=True, key=f"job_{view.job.id}"):
        _show_heading(page, view)
        if view.is_active:
            st.progress(view.job.share, text=_overall(view))
            halves = st.columns(2, gap="medium")
            for place, state in enumerate(view.candidates):
                with halves[place % 2]:
                    _show_candidate(state)
        elif view.job.error and view.job.status is not JobStatus.CANCELLED:
            st.markdown(plain(view.job.error))
        _show_leaderboard(page, view)
        if view.losses:
            with st.expander("Learning curves", icon=":material/show_chart:", expanded=view.is_active):
                st.caption(CURVE_WORDS[view.holds_out])
                chart = learning_curve_chart(view.losses, holds_out=view.holds_out, theme=theme())
                show_chart(chart, key=f"losses_{view.job.id}")
        # The log contains folder names of the server. With login, it is for the operator only.
        if view.job.status in (JobStatus.FAILED, JobStatus.INTERRUPTED) and not login.login_is_configured():
            with st.expander("Log, for debugging", icon=":material/terminal:"):
                st.code(page.workspace.jobs.log(view.job.id) or "The log is empty.", language=None)


def _show_heading(page: Page, view: TrainingView) -> None:
    job = view.job
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        with st.container(horizontal=True, vertical_alignment="center", width="content"):
            st.subheader(HEADINGS[job.status], anchor=False, width="content")
            st.caption(f"{plain(job.title)} · {job.made:%d %b, %H:%M}", width="content")
        if view.is_active:
            if st.button("Cancel", icon=":material/stop_circle:", key=f"cancel_{job.id}"):
                cancel(page.workspace, job.id)
                st.rerun()
        elif view.can_restart:
            help_ = "Finished candidates are kept."
            if st.button("Start again", icon=":material/replay:", key=f"restart_{job.id}", help=help_):
                restart(page.workspace, job.id)
                st.rerun()
        else:
            link_to(step_named("Compare"), "Compare them", page.query)


def _overall(view: TrainingView) -> str:
    if view.is_refining:
        return REFINING_WORDS
    left = view.seconds_left
    time = "" if left is None else f" · about {_duration(left)} left"
    return f"{plain(view.job.message or 'waiting')}{time}"


def _duration(seconds: float) -> str:
    return f"{max(1, round(seconds))} s" if seconds < 90 else f"{round(seconds / 60)} min"


def _show_candidate(state: CandidateState) -> None:
    where = state.text if state.state == "running" and state.text else state.state
    st.progress(state.share, text=f"{ICONS[state.state]} **{plain(state.name)}** · {plain(where)}")


def _show_leaderboard(page: Page, view: TrainingView) -> None:
    """Finished runs as they arrive; below them, failed candidates with their errors."""
    records = _records(page, view)
    # The newest is listed first; while others are being trained, a run keeps the place at which it arrived.
    table = summary_table(records[::-1] if view.is_active else in_recommended_order(page, records))
    failed = [state for state in view.candidates if state.state == "failed"]
    if len(table):
        show_table(
            in_percent(table, "share_of_ceiling").dropna(axis="columns", how="all"),
            hide_index=True,
            key=f"board_{view.job.id}",
            column_config={
                "name": st.column_config.TextColumn("Candidate", pinned=True),
                "auc_spu": st.column_config.NumberColumn("AUC_SPU", format="%.3f", help=meaning("AUC_SPU")),
                "low": st.column_config.NumberColumn("from", format="%.3f", help="Lower end of the 95% interval."),
                "high": st.column_config.NumberColumn("to", format="%.3f", help="Upper end of the 95% interval."),
                "share_of_ceiling": share_column("Of ceiling", meaning("share of ceiling")),
                "known_positive_auc": st.column_config.NumberColumn(
                    "AUC on confirmed cases", format="%.3f", help=meaning("known-positive AUC")
                ),
                "true_auc": st.column_config.NumberColumn("True AUC", format="%.3f", help="Where the truth is known."),
                "seconds": st.column_config.NumberColumn("Seconds", format="%.1f"),
            },
        )
        if not view.is_active:
            st.caption("In the order of the recommendation; *Compare* gives the reasons.")
    for state in failed:
        st.error(f"**{plain(state.name)}**: {plain(state.text)}", icon=":material/error:")


def _records(page: Page, view: TrainingView) -> list[RunRecord]:
    """The runs of this job that have not been deleted."""
    assert page.dataset is not None
    return [record for record in page.workspace.runs.list(page.dataset.id) if record.id in view.runs]
