"""Score a new file in the browser: a small one at once, others by a job that goes on when the tab is closed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import Any, TypeAlias

import streamlit as st

from pages.ui import cached
from pages.ui.data_bring import FILE_TYPES
from pages.ui.export_folder import score_folder
from pages.ui.export_scored import show_scored
from pages.ui.shell import Page, choose_in_address, told_in_words
from pages.ui.text import count, plain
from spu_core.engines import cancel, jobs_now
from spu_core.engines.jobs import score as scoring
from spu_core.export import Bundle
from spu_core.workspace import JobRecord, JobStatus, RunRecord

AtOnce: TypeAlias = Callable[[Any, str], scoring.ScoredFile]

FLAG_BY = {"threshold": "the stored threshold", "share": "the stored share"}
FEW, MANY = 6, 300
POLL_SECONDS = 1.0
SHOWN_EARLIER = 20


def score_new_file(page: Page, bundle: Bundle, key: str, at_once: AtOnce, run: RunRecord | None = None) -> None:
    """Ask for a file and score it: `at_once`, or, where the bundle is a stored run, in the background if need be.

    What is scored in the background stays beside the run.
    """
    asks, says = st.columns([3, 2], gap="medium")
    with asks:
        uploaded = st.file_uploader(
            "New rows as CSV, TSV, Parquet or Excel, also gzipped", type=FILE_TYPES, key=f"{key}_rows"
        )
        _say_columns(bundle)
    with says:
        flag_by = st.radio(
            "Flag by",
            list(FLAG_BY),
            format_func=FLAG_BY.__getitem__,
            horizontal=True,
            key=f"{key}_flag_by",
            help="The threshold flags a row for what it is. The share fills a review queue of known size, whatever the "
            "level of the scores.",
        )
        st.caption(":material/info: Rows that the model was trained on look better here than they are.")
    with told_in_words(page.title):
        if uploaded is None and run is not None:
            score_folder(page, run.id, flag_by, key)
        if uploaded is None:
            _show_earlier(page, None if run is None else run.id, key)
        elif run is None or scoring.scores_at_once(run, uploaded):
            show_scored(at_once(uploaded, flag_by), PurePath(uploaded.name).stem, key)
        else:
            asked = f"{uploaded.file_id} {flag_by} {run.id} {bundle.point}"
            _score_in_background(page, run.id, uploaded, asked, flag_by)
            _watch(page, run.id, key)


def _score_in_background(page: Page, run: str, uploaded: Any, asked: str, flag_by: str) -> None:
    """Start the job of an upload once; its id goes into the address, so that a refresh comes back to it."""
    if st.session_state.get("export_scoring_asked") == asked:
        return
    uploaded.seek(0)
    with st.spinner("Copying the file …"):
        job = scoring.start_scoring(page.workspace, run, uploaded, uploaded.name, flag_by)
    st.session_state["export_scoring_asked"] = asked
    choose_in_address(scoring=job.id)


def _show_earlier(page: Page, run: str | None, key: str) -> None:
    """Without a file: the job of the address, or one of the files that this run has scored before."""
    if run is None:
        return
    if _job(page, run) is not None:
        _watch(page, run, key)
        return
    known = scoring.scored_before(page.workspace, run)[:SHOWN_EARLIER]
    names = {record.id: f"{record.name} · {record.made:%Y-%m-%d %H:%M} UTC" for record in known}
    if not known:
        return
    chosen = st.selectbox(
        "Or a file that was scored before",
        list(names),
        index=None,
        format_func=names.__getitem__,
        placeholder="Choose a result",
        key=f"{key}_earlier_{run}",
    )
    if chosen is not None:
        show_scored(cached.stored_scores(page.workspace, chosen), PurePath(names[chosen]).stem.split(",")[0], key)


def _job(page: Page, run: str) -> JobRecord | None:
    """The scoring job that the address names, if it is one of this run."""
    wanted = st.query_params.get("scoring")
    if wanted is None:
        return None
    found = (job for job in jobs_now(page.workspace) if job.id == wanted and job.kind == "score")
    return next((job for job in found if job.parameters.get("run") == run), None)


def _watch(page: Page, run: str, key: str) -> None:
    job = _job(page, run)
    if job is None:
        return
    if job.status is JobStatus.FINISHED:
        scored = cached.stored_scores(page.workspace, str(job.result["export"]))
        _offer_closing("These rows are kept with the model.", key)
        show_scored(scored, PurePath(job.title).stem, key)
    elif job.status.is_over:
        st.error(plain(job.error), icon=":material/error:")
        _offer_closing("", key)
    else:
        st.fragment(_show_progress, run_every=POLL_SECONDS)(page, run, key)


def _show_progress(page: Page, run: str, key: str) -> None:
    with told_in_words(page.title):
        job = _job(page, run)
        if job is None or job.status.is_over:
            st.rerun()  # the whole page: the result takes the place of the bar
            return
        with st.container(border=True, key=f"{key}_scoring"):
            rows = job.detail.get("rows")
            many = "" if rows is None else f", {count(rows)} rows"
            words = "waiting for its turn" if job.status is JobStatus.WAITING else f"{job.message}{many}"
            st.progress(job.share, text=f"**{plain(job.title)}**: {plain(words)}")
            with st.container(horizontal=True, vertical_alignment="center"):
                if st.button("Cancel", icon=":material/cancel:", key=f"{key}_scoring_cancel"):
                    cancel(page.workspace, job.id)
                    st.rerun()
                st.caption("You can go on with other work, close this tab, and come back.")


def _offer_closing(words: str, key: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        if words:
            st.caption(f":material/inventory_2: {words}", width="content")
        if st.button("Close", icon=":material/close:", key=f"{key}_scoring_close", type="tertiary"):
            choose_in_address(scoring=None)
            st.rerun()


def _say_columns(bundle: Bundle) -> None:
    """The columns that a file must have: some of them in sight, all of them one hover away."""
    names = [plain(name) for name in bundle.columns]
    few = ", ".join(names[:FEW]) + (f" and {count(len(names) - FEW)} more" if len(names) > FEW else "")
    words = f":material/view_column: Reads {few or 'no column'}. Order is free, other columns are ignored."
    st.caption(words, help=", ".join(names[:MANY]) if len(names) > FEW else None)
