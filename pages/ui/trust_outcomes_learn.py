"""Step 4: what the outcomes change (labels, failure ratios, records, rules), the next training, and what came of it."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st
from spu_core.trust.outcomes.feedback import Feedback, FeedbackPlan

from pages.ui.show import meaning, show_figure, show_findings
from pages.ui.steps import link_to, step_named
from pages.ui.tables import show_table
from pages.ui.text import count, figure, plain, share
from pages.ui.trust_case import TrustCase
from pages.ui.trust_outcomes_cached import checks as recorded_checks
from pages.ui.trust_outcomes_cached import own_checks, proposal, queues
from pages.ui.trust_outcomes_changed import show_next_training
from spu_core.engines.outcomes_learn import learn_from_outcomes
from spu_core.workspace import DatasetRecord, FeedbackRecord


def show_learn(case: TrustCase) -> None:
    """The proposal, the button, and the lineage of what was learnt before."""
    if recorded_checks(case) is None:
        st.info("No outcome was recorded yet, so there is nothing to learn from.", icon=":material/info:")
        return
    rows = _ask_rows(case)
    plan = _ask_plan()
    found = proposal(case, rows, plan)
    _show_proposal(found)
    _show_ratios(found)
    _show_rules(found)
    show_findings(found.findings)
    if found.table.fingerprint == rows.fingerprint:
        st.caption(":material/check: This dataset knows all recorded outcomes already.")
    elif _is_made(case, found):
        st.caption(":material/check: This was made already; it stands below.")
    elif st.button("Make the new data and rules", type="primary", icon=":material/school:", key="learn_save"):
        learn_from_outcomes(case.page.workspace, rows.id, case.rules, plan)
        st.rerun()
    _show_lineage(case, rows)


def _ask_rows(case: TrustCase) -> DatasetRecord:
    """The table that learns: outcomes belong to the rows that were flagged, at hand or in another population."""
    there = {each.id: each for each in case.page.workspace.datasets.list()}
    checked = [each.dataset for each in queues(case) if each.dataset in there]
    others = [token for token in dict.fromkeys(checked) if own_checks(case, token) is not None]
    own = case.page.workspace.feedbacks.family(case.dataset.id)
    known = [
        *([case.dataset.id] if own_checks(case, case.dataset.id) is not None else []),
        *(token for token in others if token not in own),
    ]
    if len(known) == 1:
        return there[known[0]]
    chosen = st.selectbox(
        "The rows of",
        known,
        format_func=lambda token: there[token].name,
        key=f"learn_rows_{case.dataset.id}",
        width=420,
        help="Each table learns from the outcomes of its own rows.",
    )
    return there[str(chosen)]


def _is_made(case: TrustCase, found: Feedback) -> bool:
    there = {record.fingerprint for record in case.page.workspace.datasets.list()}
    return found.table.fingerprint in there


def _ask_plan() -> FeedbackPlan:
    with st.container(horizontal=True, vertical_alignment="bottom", key="learn_plan"):
        until = st.date_input("Outcomes up to", value=None, key="learn_until", width=200, help=meaning("label delay"))
        holdout = st.toggle(
            "Give the random holdout up",
            key="learn_holdout",
            help="Off: users whom chance chose keep their labels to themselves, so that the next model can be measured "
            "on them without bias. Their failures still count in the failure ratios.",
        )
        beliefs = st.toggle(
            "Raise beliefs that are proven too low",
            key="learn_beliefs",
            help="Random checks of the rows of a rule prove a least share of positives among them. A fixed belief "
            "below it is lifted; checks can never prove that a belief is too high.",
        )
    return FeedbackPlan(until="" if until is None else str(until), use_holdout=holdout, raise_beliefs=beliefs)


def _show_proposal(found: Feedback) -> None:
    told = found.summary
    cards = st.columns(4, gap="small")
    show_figure(
        cards[0],
        "Confirmed positives",
        count(told["labelled_after"]),
        f"{count(told['labelled_before'])} before",
        about="label",
    )
    show_figure(
        cards[1],
        "Kept for measuring",
        count(told["withheld"]),
        "by chance, unlabelled",
        about="random holdout",
    )
    show_figure(
        cards[2],
        "Mean soft label",
        figure(told["mean_after"]),
        f"{figure(told['mean_before'])} before",
        about="mean soft label",
    )
    show_figure(
        cards[3],
        "Ceiling",
        figure(told["ceiling_after"]),
        f"{figure(told['ceiling_before'])} before",
        about="ceiling",
    )

    rows = count(told["changed_rows"])
    st.caption(f":material/edit_note: {count(told['checks'])} checks change the soft label of {rows} rows.")


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
        "A model that asks for checks is a rule like the others, and each row counts by its latest check. Whoever a "
        "model has checked again leaves the counts of earlier rules, and these were the more suspicious users: the "
        "ratios of earlier rules fall, and speak from now on of the users whom no model chose."
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
        st.caption("The changed rules become a new version; the old one stays, and undo leads back to it.")
    else:
        st.caption(
            ":material/rule: The rules stay as they are: they read the records of checks, so their numbers are learnt "
            "anew from the new data."
        )


def _show_lineage(case: TrustCase, rows: DatasetRecord) -> None:
    """What was learnt from these rows or led to them, the newest first, with its next training."""
    family = case.page.workspace.feedbacks.family(rows.id)
    records = [
        record
        for record in case.page.workspace.feedbacks.list()
        if (record.source in family or record.target in family) and "checks" in record.detail
    ]
    if not records:
        return
    st.subheader("What was learnt so far", anchor=False)
    there = {record.id: record for record in case.page.workspace.datasets.list()}
    for record in records:
        with st.container(border=True, key=f"learnt_{record.id}"):
            _say_lineage(record, {token: found.name for token, found in there.items()})
            if record.target in there:
                query = {**case.page.query, "dataset": record.target}
                show_next_training(case, record)
                link_to(step_named("Data"), "Open the new data", query)


def _say_lineage(record: FeedbackRecord, names: dict[str, str]) -> None:
    told = record.detail
    source, target = (plain(names.get(token, "a deleted dataset")) for token in (record.source, record.target))
    st.markdown(f"**{source} → {target}** · {record.made:%d %b %Y, %H:%M}")
    rules = told.get("rules_after")
    st.caption(
        f"{count(told['checks'])} checks of {count(len(told['queues']))} queue{'s' * (len(told['queues']) != 1)} · "
        f"{count(told['confirmed'])} new positives, {count(told['withheld'])} kept for measuring · rules version "
        f"{rules[1] if rules else '–'} · mean S {share(told['mean_before'])} → {share(told['mean_after'])}"
    )
