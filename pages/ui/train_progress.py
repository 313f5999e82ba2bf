"""Trainings under way and over: bars that move, the leaderboard filling up, errors as rows, start and stop."""

from __future__ import annotations

import streamlit as st

from pages.ui import people
from pages.ui.compare_tables import in_percent, share_column
from pages.ui.shell import Page, told_in_words
from pages.ui.show import meaning, show_chart, theme
from pages.ui.steps import link_to, step_named
from pages.ui.tables import show_table
from pages.ui.text import plain
from spu_core.charts import learning_curve_chart
from spu_core.engines import CandidateState, TrainingView, cancel, jobs_now, restart, summary_table, training_jobs
from spu_core.workspace import JobStatus, RunRecord

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
CURVE_WORDS = {
    True: "Soft log-loss on rows that are held out of each fit; a dot marks the lowest.",
    False: "Soft log-loss of boosted trees on the rows they learn from: it always falls, and says nothing of new rows.",
}


def show_training(page: Page) -> None:
    """The trainings of this dataset; the page looks again every second while one of them is under way."""
    views = _views(page)
    if not views:
        return
    is_active = any(view.is_active for view in views)
    st.fragment(_show_views, run_every=POLL_SECONDS if is_active else None)(page, is_active)


def _views(page: Page) -> tuple[TrainingView, ...]:
    assert page.dataset is not None
    return training_jobs(jobs_now(page.workspace), page.dataset.id)


def _show_views(page: Page, was_active: bool) -> None:
    with told_in_words("Train"):
        views = _views(page)
        active = [view for view in views if view.is_active]
        if was_active and not active:
            st.rerun()  # the whole page: marks, links and this fragment's clock change
        for view in active or views[:1]:
            _show_view(page, view)
        earlier = [view for view in views if view not in active][0 if active else 1 :]
        if earlier:
            many = f"{len(earlier)} earlier training{'s' * (len(earlier) != 1)}"
            with st.expander(many, icon=":material/history:"):
                for view in earlier[:10]:
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
        elif view.job.error:
            st.markdown(plain(view.job.error))
        _show_leaderboard(page, view)
        if view.losses:
            with st.expander("Learning curves", icon=":material/show_chart:", expanded=view.is_active):
                st.caption(CURVE_WORDS[view.holds_out])
                chart = learning_curve_chart(view.losses, holds_out=view.holds_out, theme=theme())
                show_chart(chart, key=f"losses_{view.job.id}")
        # The log names folders of the server: where people log in, it is for the operator only.
        if view.job.status in (JobStatus.FAILED, JobStatus.INTERRUPTED) and not people.login_is_configured():
            with st.expander("The log, for whoever mends it", icon=":material/terminal:"):
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
            help_ = "What was finished before is kept."
            if st.button("Start again", icon=":material/replay:", key=f"restart_{job.id}", help=help_):
                restart(page.workspace, job.id)
                st.rerun()
        else:
            link_to(step_named("Compare"), "Compare them", page.query)


def _overall(view: TrainingView) -> str:
    left = view.seconds_left
    time = "" if left is None else f" · about {_duration(left)} left"
    return f"{plain(view.job.message or 'waiting')}{time}"


def _duration(seconds: float) -> str:
    return f"{max(1, round(seconds))} s" if seconds < 90 else f"{round(seconds / 60)} min"


def _show_candidate(state: CandidateState) -> None:
    where = state.words if state.state == "running" and state.words else state.state
    st.progress(state.share, text=f"{ICONS[state.state]} **{plain(state.name)}** · {plain(where)}")


def _show_leaderboard(page: Page, view: TrainingView) -> None:
    """Finished runs as they arrive; what failed is a row too, with the engine's sentence."""
    records = _records(page, view)
    table = summary_table(records)
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
                    "Known-positive AUC", format="%.3f", help=meaning("known-positive AUC")
                ),
                "true_auc": st.column_config.NumberColumn("True AUC", format="%.3f", help="Where the truth is known."),
                "seconds": st.column_config.NumberColumn("Seconds", format="%.1f"),
            },
        )
    for state in failed:
        st.error(f"**{plain(state.name)}**: {plain(state.words)}", icon=":material/error:")


def _records(page: Page, view: TrainingView) -> list[RunRecord]:
    """The runs of this job that are still there: one may have been deleted since."""
    assert page.dataset is not None
    return [record for record in page.workspace.runs.list(page.dataset.id) if record.id in view.runs]
