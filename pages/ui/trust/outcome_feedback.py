"""Step 4: what the outcomes change (labels, failure ratios, rules), the next training, and a comparison with before."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from pages.ui.shared.shell import link_to, show_errors, step_named
from pages.ui.shared.show import meaning, show_figure, show_findings, show_table
from pages.ui.shared.text import count, figure, plain, share
from pages.ui.trust.evaluated_model import (
    EvaluatedModel,
    all_checks,
    own_checks,
    proposed_feedback,
    queues,
    what_changed,
)
from spu_core.engines import jobs_now, start_worker
from spu_core.engines.jobs.train import TrainingView, training_jobs
from spu_core.engines.outcome_learning import WhatChanged, learn_from_outcomes, retraining_job
from spu_core.metrics import Interval
from spu_core.metrics.intervals import p_value_text
from spu_core.trust.outcomes.feedback import Feedback, FeedbackPlan
from spu_core.workspace import DatasetRecord, FeedbackRecord, JobStatus

POLL_SECONDS = 1.0


def show_learn(model: EvaluatedModel) -> None:
    """What the outcomes would change, the button that applies it, and earlier updates."""
    if all_checks(model) is None:
        st.info("No outcome was recorded yet. Record outcomes in step 2 first.", icon=":material/info:")
        return
    rows = _ask_rows(model)
    plan = _ask_plan()
    found = proposed_feedback(model, rows, plan)
    _show_proposal(found)
    _show_ratios(found)
    _show_rules(found)
    show_findings(found.findings)
    if found.table.fingerprint == rows.fingerprint:
        st.caption(":material/check: This dataset already includes all recorded outcomes.")
    elif _is_made(model, found):
        st.caption(":material/check: This dataset already exists; it is listed below.")
    elif st.button("Make the new data and rules", type="primary", icon=":material/school:", key="learn_save"):
        learn_from_outcomes(model.workspace, rows.id, model.rules, plan)
        st.rerun()
    _show_lineage(model, rows)


def _ask_rows(model: EvaluatedModel) -> DatasetRecord:
    """The table to update: this one or another one whose rows were checked."""
    there = {each.id: each for each in model.workspace.datasets.list()}
    checked = [each.dataset for each in queues(model) if each.dataset in there]
    others = [token for token in dict.fromkeys(checked) if own_checks(model, token) is not None]
    own = model.workspace.feedbacks.family(model.dataset.id)
    known = [
        *([model.dataset.id] if own_checks(model, model.dataset.id) is not None else []),
        *(token for token in others if token not in own),
    ]
    if len(known) == 1:
        return there[known[0]]
    chosen = st.selectbox(
        "The rows of",
        known,
        format_func=lambda token: there[token].name,
        key=f"learn_rows_{model.dataset.id}",
        width=420,
        help="Each table is updated from the outcomes of its own rows.",
    )
    return there[str(chosen)]


def _is_made(model: EvaluatedModel, found: Feedback) -> bool:
    there = {record.fingerprint for record in model.workspace.datasets.list()}
    return found.table.fingerprint in there


def _ask_plan() -> FeedbackPlan:
    with st.container(horizontal=True, vertical_alignment="bottom", key="learn_plan"):
        until = st.date_input("Outcomes up to", value=None, key="learn_until", width=200, help=meaning("label delay"))
        holdout = st.toggle(
            "Also use the random share",
            key="learn_holdout",
            help="Off: the labels of randomly chosen rows are not used for training, so that the next model can be "
            "measured on them without bias. Their failures still count in the failure ratios.",
        )
        beliefs = st.toggle(
            "Raise beliefs that are proven too low",
            key="learn_beliefs",
            help="Random checks of the rows of a rule give a lower bound for the share of positives among them. A "
            "fixed belief below it is raised; checks cannot prove that a belief is too high.",
        )
    return FeedbackPlan(until="" if until is None else str(until), use_holdout=holdout, raise_beliefs=beliefs)


def _show_proposal(found: Feedback) -> None:
    summary = found.summary
    cards = st.columns(4, gap="small")
    show_figure(
        cards[0],
        "Confirmed cases",
        count(summary["labelled_after"]),
        f"{count(summary['labelled_before'])} before",
        about="label",
    )
    show_figure(
        cards[1],
        "Kept for measuring",
        count(summary["withheld"]),
        "randomly chosen, unlabelled",
        about="random holdout",
    )
    show_figure(
        cards[2],
        "Mean soft label",
        figure(summary["mean_after"]),
        f"{figure(summary['mean_before'])} before",
        about="mean soft label",
    )
    show_figure(
        cards[3],
        "Ceiling",
        figure(summary["ceiling_after"]),
        f"{figure(summary['ceiling_before'])} before",
        about="ceiling",
    )

    rows = count(summary["changed_rows"])
    st.caption(f":material/edit_note: {count(summary['checks'])} checks change the soft label of {rows} rows.")


def _show_ratios(found: Feedback) -> None:
    table = found.ratios
    if table.empty:
        return
    st.subheader("Failure ratios and soft labels (Appendix A.1)", anchor=False, help=meaning("failure ratio"))
    limits = table[["soft_label_low", "soft_label_high"]].to_numpy()
    shown = pd.DataFrame(
        {
            "rule": table["rule"],
            "checks": [f"{_number(old)} → {_number(new)}" for old, new in _pairs(table, "checks")],
            "failure ratio": [f"{_percent(old)} → {_percent(new)}" for old, new in _pairs(table, "failure_ratio")],
            "soft label": [f"{figure(old)} → {figure(new)}" for old, new in _pairs(table, "soft_label")],
            "95% limits now": [f"{figure(low)} – {figure(high)}" for low, high in limits],
        }
    )
    show_table(shown, hide_index=True, key="learn_ratios")
    st.caption(
        "A model that asks for checks counts as a rule, and each row counts by its latest check. Rows that a "
        "model has checked again no longer count for earlier rules. These were the more suspicious rows, so the ratios "
        "of earlier rules fall; from now on they describe the rows that no model chose."
    )


def _pairs(table: pd.DataFrame, name: str) -> Any:
    return table[[f"{name}_before", name]].to_numpy(dtype=float)


def _number(value: float) -> str:
    return "0" if value != value else count(value)


def _percent(value: float) -> str:
    return "–" if value != value else share(value)


def _show_rules(found: Feedback) -> None:
    for bound in found.bounds:
        icon = ":material/trending_up:" if bound.is_too_low else ":material/rule:"
        st.caption(f"{icon} {plain(bound.sentence)}")
    if found.rules_changed:
        known = set() if found.old_rules is None else set(map(str, found.old_rules))
        for rule in found.rules:
            if str(rule) not in known:
                st.markdown(f":material/add_circle: New rule: {plain(rule)}")
        st.caption("The changed rules become a new version; the old version stays, and undo restores it.")
    else:
        st.caption(
            ":material/rule: The rules stay unchanged: they read the records of checks, so their parameters are fitted "
            "again to the new data."
        )


def _show_lineage(model: EvaluatedModel, rows: DatasetRecord) -> None:
    """Earlier feedback from or to these rows, the newest first, with the next training."""
    family = model.workspace.feedbacks.family(rows.id)
    records = [
        record
        for record in model.workspace.feedbacks.list()
        if (record.source in family or record.target in family) and "checks" in record.detail
    ]
    if not records:
        return
    st.subheader("Earlier updates", anchor=False)
    there = {record.id: record for record in model.workspace.datasets.list()}
    for record in records:
        with st.container(border=True, key=f"learnt_{record.id}"):
            _show_feedback(record, {token: found.name for token, found in there.items()})
            if record.target in there:
                query = {**model.page.query, "dataset": record.target}
                show_next_training(model, record)
                link_to(step_named("Data"), "Open the new data", query)


def _show_feedback(record: FeedbackRecord, names: dict[str, str]) -> None:
    summary = record.detail
    source, target = (plain(names.get(token, "a deleted dataset")) for token in (record.source, record.target))
    st.markdown(f"**{source} → {target}** · {record.made:%d %b %Y, %H:%M}")
    rules = summary.get("rules_after")
    made = len(summary["queues"])
    st.caption(
        f"{count(summary['checks'])} checks of {count(made)} queue{'s' * (made != 1)} · "
        f"{count(summary['confirmed'])} new positives, {count(summary['withheld'])} kept for measuring · rules version "
        f"{rules[1] if rules else '–'} · mean S {share(summary['mean_before'])} → {share(summary['mean_after'])}"
    )


def show_next_training(model: EvaluatedModel, record: FeedbackRecord) -> None:
    """The button, the progress, or the comparison, whichever is next."""
    views = training_jobs(jobs_now(model.workspace), record.target)
    active = [view for view in views if view.is_active]
    runs = model.workspace.runs.list(record.target)
    if active:
        st.fragment(_show_training_progress, run_every=POLL_SECONDS)(model, record)
    elif runs:
        _compare(model, runs[0].id)
    else:
        _show_failure(views)
        label = f"Train {plain(model.record.name)} again on it"
        if st.button(label, icon=":material/play_arrow:", key=f"retrain_{record.id}", type="primary"):
            start_worker(model.workspace, retraining_job(model.workspace, model.record.id, record))
            st.rerun()


def _show_training_progress(model: EvaluatedModel, record: FeedbackRecord) -> None:
    with show_errors("Trust"):
        views = training_jobs(jobs_now(model.workspace), record.target)
        active = [view for view in views if view.is_active]
        if not active:
            st.rerun()
        st.progress(active[0].job.share, text=plain(active[0].job.message or "Waiting for its turn"))


def _show_failure(views: tuple[TrainingView, ...]) -> None:
    if views and views[0].job.status in (JobStatus.FAILED, JobStatus.INTERRUPTED, JobStatus.CANCELLED):
        st.warning(f"The last training did not finish. {plain(views[0].job.error)}", icon=":material/error:")


def _compare(model: EvaluatedModel, new: str) -> None:
    """Compare the new run with the chosen model, or, if that is the new run, with the same candidate trained before."""
    workspace = model.workspace
    target = workspace.runs.get(new).dataset
    family = workspace.feedbacks.family(target)[1:]
    earlier = [run for token in family for run in workspace.runs.list(token)]
    same = [run for run in earlier if run.id == model.record.id] or [
        run for run in earlier if run.name == workspace.runs.get(new).name
    ]
    if not same:
        st.caption(
            ":material/info: No model was trained on these rows before, so the two models have no scores on the same "
            "rows. Open the new data, split the next queue between both models, and compare their checks."
        )
        return
    _show(what_changed(model, same[0].id, new))


def _show(found: WhatChanged) -> None:
    quiet: dict[str, Any] = {"delta_color": "off", "delta_arrow": "off", "border": True}
    cards = st.columns(2, gap="small")
    for card, name, each in ((cards[0], "old", found.by_old), (cards[1], "new", found.by_new)):
        words = f"95%: {each.low:+.4f} to {each.high:+.4f} · {p_value_text(each.p_value)}"
        card.metric(f"AUC_SPU gain by the {name} soft labels", f"{each.estimate:+.4f}", words, **quiet)
    st.caption(
        f":material/compare_arrows: {plain(found.new)} against {plain(found.old)}, out of fold on the same rows, both "
        "by the same soft labels. Each set of soft labels favours the model that was trained on it."
    )
    lines = [
        ("AUC, confirmed against the others", "admission_auc", figure),
        ("AUC, not cleared against cleared", "not_passed_auc", figure),
        ("Confirmed share in the top 5%", "surrender", share),
        ("Cleared share in the top 5%", "pass_", share),
    ]
    if found.holdout_old is None or found.holdout_new is None:
        st.caption("No random check has an outcome, so every figure here may be inflated by feedback.")
        return
    rows = [
        (
            name,
            _interval_text(getattr(found.holdout_old, key), write),
            _interval_text(getattr(found.holdout_new, key), write),
        )
        for name, key, write in lines
    ]
    tops = f"{found.holdout_old.flagged:,} of them in the old top 5%, {found.holdout_new.flagged:,} in the new"
    st.caption(f"On {found.holdout_old.checks:,} random checks, which favour neither model ({tops}; 95% intervals):")
    show_table(pd.DataFrame(rows, columns=["figure", "before", "after"]), hide_index=True)


def _interval_text(found: Interval | None, write: Any) -> str:
    return "–" if found is None else f"{write(found.estimate)} ({write(found.low)} – {write(found.high)})"
