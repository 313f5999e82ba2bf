"""Which columns a model needs: a search in the background, by figures that need no truth."""

from __future__ import annotations

import streamlit as st

from pages.ui.shared.shell import Page, show_errors
from pages.ui.shared.show import meaning, show_table
from pages.ui.shared.text import plain
from pages.ui.train.options import TrainOptions
from spu_core.engines import Job, cancel, jobs_now, start_worker
from spu_core.engines.jobs.retraining_checks import features_result
from spu_core.engines.processes import latest_job
from spu_core.training import FeatureSelection
from spu_core.training.feature_selection import CAVEAT, DIRECTIONS, METRICS
from spu_core.workspace import JobStatus

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
