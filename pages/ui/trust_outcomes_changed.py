"""The training after outcomes were fed back: started here, watched here, and compared with the model before."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from pages.ui.shell import told_in_words
from pages.ui.tables import show_table
from pages.ui.text import figure, plain, share
from pages.ui.trust_case import TrustCase
from pages.ui.trust_outcomes_cached import what_changed
from spu_core.engines import jobs_now, start_worker
from spu_core.engines.jobs.train import TrainingView, training_jobs
from spu_core.engines.outcome_learning import WhatChanged, retraining_job
from spu_core.metrics import Interval
from spu_core.metrics.intervals import p_value_words
from spu_core.workspace import FeedbackRecord, JobStatus

POLL_SECONDS = 1.0


def show_next_training(case: TrustCase, record: FeedbackRecord) -> None:
    """The button, the progress, or the comparison, whichever is next."""
    views = training_jobs(jobs_now(case.page.workspace), record.target)
    active = [view for view in views if view.is_active]
    runs = case.page.workspace.runs.list(record.target)
    if active:
        st.fragment(_watch, run_every=POLL_SECONDS)(case, record)
    elif runs:
        _compare(case, runs[0].id)
    else:
        _say_failure(views)
        label = f"Train {plain(case.record.name)} again on it"
        if st.button(label, icon=":material/play_arrow:", key=f"retrain_{record.id}", type="primary"):
            start_worker(case.page.workspace, retraining_job(case.page.workspace, case.record.id, record))
            st.rerun()


def _watch(case: TrustCase, record: FeedbackRecord) -> None:
    with told_in_words("Trust"):
        views = training_jobs(jobs_now(case.page.workspace), record.target)
        active = [view for view in views if view.is_active]
        if not active:
            st.rerun()
        st.progress(active[0].job.share, text=plain(active[0].job.message or "Waiting for its turn"))


def _say_failure(views: tuple[TrainingView, ...]) -> None:
    if views and views[0].job.status in (JobStatus.FAILED, JobStatus.INTERRUPTED, JobStatus.CANCELLED):
        st.warning(f"The last training did not finish. {plain(views[0].job.error)}", icon=":material/error:")


def _compare(case: TrustCase, new: str) -> None:
    """Against the model that was chosen above, or, where that is the new one, against its parent's."""
    workspace = case.page.workspace
    target = workspace.runs.get(new).dataset
    family = workspace.feedbacks.family(target)[1:]
    earlier = [run for token in family for run in workspace.runs.list(token)]
    same = [run for run in earlier if run.id == case.record.id] or [
        run for run in earlier if run.name == workspace.runs.get(new).name
    ]
    if not same:
        st.caption(
            ":material/info: No model was trained on these rows before, so there are no scores of both on the same "
            "rows. Open the new data, split the next queue between both models, and let the checks decide."
        )
        return
    _show(what_changed(case, same[0].id, new))


def _show(found: WhatChanged) -> None:
    quiet: dict[str, Any] = {"delta_color": "off", "delta_arrow": "off", "border": True}
    cards = st.columns(2, gap="small")
    for card, name, each in ((cards[0], "old", found.by_old), (cards[1], "new", found.by_new)):
        words = f"95%: {each.low:+.4f} to {each.high:+.4f} · {p_value_words(each.p_value)}"
        card.metric(f"AUC_SPU gain by the {name} soft labels", f"{each.estimate:+.4f}", words, **quiet)
    st.caption(
        f":material/compare_arrows: {plain(found.new)} against {plain(found.old)}, out of fold on the same rows, each "
        "time both on one S. The new S favours the model that learnt from it, the old S the old one."
    )
    lines = [
        ("AUC, admitted against the others", "admission_auc", figure),
        ("AUC, not passed against passed", "not_passed_auc", figure),
        ("Surrender ratio in the top 5%", "surrender", share),
        ("Pass ratio in the top 5%", "pass_", share),
    ]
    if found.holdout_old is None or found.holdout_new is None:
        st.caption("No random check has an outcome, so there is no figure that feedback cannot flatter.")
        return
    rows = [
        (name, _words(getattr(found.holdout_old, key), write), _words(getattr(found.holdout_new, key), write))
        for name, key, write in lines
    ]
    tops = f"{found.holdout_old.flagged:,} of them in the old top 5%, {found.holdout_new.flagged:,} in the new"
    st.caption(f"On {found.holdout_old.checks:,} random checks, which flatter neither ({tops}; 95% intervals):")
    show_table(pd.DataFrame(rows, columns=["figure", "before", "after"]), hide_index=True)


def _words(found: Interval | None, write: Any) -> str:
    return "–" if found is None else f"{write(found.estimate)} ({write(found.low)} – {write(found.high)})"
