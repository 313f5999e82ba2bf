"""Run a small version of an experiment in the background, and compare it with the stored figures."""

from __future__ import annotations

import streamlit as st

from pages.ui.paper.results import MARKS, show_figures, show_result_table
from pages.ui.shared.cached import cache_result
from pages.ui.shared.shell import Page, show_errors
from pages.ui.shared.text import plain
from spu_core.engines import Job, JobLimits, cancel, jobs_now, start_worker
from spu_core.experiments import Experiment, ExperimentResult
from spu_core.experiments.catalog import KIND, result_of
from spu_core.experiments.result import compare_figures, compare_verdicts
from spu_core.workspace import JobRecord, JobStatus, Workspace

POLL_SECONDS = 1.0
WHOLE = "all"


def offer_rerun(page: Page, chosen: Experiment, stored: ExperimentResult | None) -> None:
    """A button that runs a small version, or the command for an experiment that needs other data or hours."""
    st.subheader("Check it yourself", anchor=False)
    st.markdown(f"On the command line, at full size: `spu paper {chosen.name} --run`")
    if not chosen.live:
        st.caption(plain(_needs(chosen)))
        return
    job = _job(chosen)
    mine = [each for each in jobs_now(page.workspace) if _is_same(each, job)]
    active = bool(mine) and not mine[0].status.is_over
    if st.button(
        "Running …" if active else "Run it here",
        icon=":material/play_arrow:",
        type="primary",
        disabled=active,
        key="paper_run",
        help="A small version, in the background: it has fewer rows and seeds than the stored run, so larger errors.",
    ):
        start_worker(page.workspace, job)
        st.rerun()
    if mine:
        st.fragment(_show_job, run_every=POLL_SECONDS if active else None)(page, mine[0].id, stored, active)


def _needs(chosen: Experiment) -> str:
    parts = []
    data = [need for need in chosen.needs if need != "vision"]
    if data:
        parts.append(
            f"It needs the data {', '.join(data)}: from a folder (--data or SPU_DATA), or downloaded from OpenML "
            "on a connected machine"
        )
    if "vision" in chosen.needs:
        parts.append("and torch: pip install 'spu-studio[vision]'")
    return f"{', '.join(parts)}. It takes about {chosen.typical_minutes:.0f} minutes, too long for a page."


def _job(chosen: Experiment) -> Job:
    parameters = {"experiment": chosen.name, "scale": "smoke"}
    title = chosen.title
    if chosen.parts:
        part = st.selectbox(
            "Which part",
            [WHOLE, *chosen.parts],
            format_func=lambda name: "All of them" if name == WHOLE else chosen.parts[name],
            key="paper_part",
        )
        if part in chosen.parts:
            parameters["part"], title = part, chosen.parts[part]
    return Job(kind=KIND, parameters=parameters, title=title[:80], limits=JobLimits(threads=1, seconds=1800))


def _is_same(record: JobRecord, job: Job) -> bool:
    return record.kind == job.kind and dict(record.parameters) == dict(job.parameters)


def _show_job(page: Page, token: str, stored: ExperimentResult | None, was_active: bool) -> None:
    with show_errors(page.title):
        job = next((each for each in jobs_now(page.workspace) if each.id == token), None)
        if job is None:
            return
        if was_active and job.status.is_over:
            st.rerun()  # the whole page: the button and the refresh interval of this fragment change
        if not job.status.is_over:
            _show_progress(page, job)
        elif job.status is JobStatus.FINISHED:
            fresh = _rerun_result(page.workspace, job.id, dict(job.result))
            _show_fresh(job, fresh, stored)
        else:
            st.error(plain(job.error or "The run ended without a result."), icon=":material/error:")


@cache_result(8)
def _rerun_result(workspace: Workspace, job: str, _result: dict[str, object]) -> ExperimentResult:
    return result_of(_result)


def _show_progress(page: Page, job: JobRecord) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(job.share, text=plain(job.message or "waiting for its turn"))
        if st.button("Cancel", icon=":material/stop_circle:", key="paper_cancel"):
            cancel(page.workspace, job.id)
            st.rerun()


def _show_fresh(job: JobRecord, fresh: ExperimentResult, stored: ExperimentResult | None) -> None:
    with st.container(border=True, key="paper_fresh"):
        st.markdown(
            f":material/check_circle: **Run here** on {job.made:%d %b, %H:%M}, in {fresh.provenance.seconds:.0f} s. "
            "It is smaller than the stored run, so its figures vary more."
        )
        if stored is not None:
            for claim, before, now in compare_verdicts(stored, fresh).rows:
                was = MARKS.get(str(before), "no verdict")
                st.markdown(f"{plain(claim)}  \nstored {was} now {MARKS[str(now)]}")
            show_result_table(
                compare_figures(stored, fresh), f"paper_compared_{job.id}", f"{fresh.name}-stored-and-now.csv"
            )
        show_figures(fresh, key=f"paper_fresh_{job.id}")
