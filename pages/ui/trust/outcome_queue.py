"""Make a review queue (step 1), and record the outcomes of its checks from a file or in a table (step 2)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from pages.ui.shared.cached import read_upload
from pages.ui.shared.show import edit_table, edited_lines, meaning, show_table
from pages.ui.shared.text import count, plain, share
from pages.ui.trust.evaluated_model import (
    EvaluatedModel,
    dataset_names,
    disagreements,
    preview_queue,
    queue_population,
    queues,
    simulated_players,
    tables_to_flag,
)
from spu_core.engines.export_files import file_stem
from spu_core.engines.outcome_learning import simulated_csv, simulated_outcomes
from spu_core.engines.outcome_loop import (
    QueueRequest,
    make_disagreement_queue,
    make_queue,
    queue_csv,
    queue_table,
    read_outcome_file,
    record_outcomes,
)
from spu_core.trust.outcomes.arms import detectable_difference
from spu_core.trust.outcomes.ratios import RANDOM
from spu_core.trust.outcomes.review_queue import OutcomeFile, Queue, QueuePlan
from spu_core.workspace import DatasetRecord, QueueRecord

SIDES = {"both": "either way", "model": "the model suspects more", "rules": "the rules suspect more"}


def show_flag(model: EvaluatedModel) -> None:
    """Ask for the budget, show which rows would be checked, make the queue, and offer it as CSV."""
    with st.container(border=True):
        _ask_highest_scores(model)
    with st.container(border=True):
        _ask_disagreement(model)
    _show_queues(model)


def _ask_highest_scores(model: EvaluatedModel) -> None:
    st.subheader("Flag the highest scores", anchor=False)
    asks, says = st.columns([2, 3], gap="medium")
    with asks:
        rows = _ask_population(model)
        runs, plan, again = _ask_plan(model, rows)
    chosen, balance = preview_queue(model, rows, runs, plan, again)
    with says:
        _show_plan(chosen, balance, plan.random_share > 0)
        if st.button("Make this queue", type="primary", icon=":material/playlist_add_check:", key="queue_make"):
            request = QueueRequest(dataset=rows.id, runs=runs, plan=plan, again=again)
            st.query_params["queue"] = make_queue(model.workspace, request).id
            st.rerun()


def _ask_population(model: EvaluatedModel) -> DatasetRecord:
    """The rows of this dataset, or another stored table that the model can score, such as new rows."""
    known = {each.id: each for each in tables_to_flag(model)}
    chosen = st.selectbox(
        "Flag from",
        list(known),
        format_func=lambda token: f"{known[token].name} · {count(known[token].n_rows)} rows",
        key=f"queue_rows_{model.record.id}",
        help="Rows that the model was trained on are ranked by their out-of-fold scores, others by the refitted model. "
        "Upload new rows on the Data page; every table with the columns that this model reads is listed here.",
    )
    return known[str(chosen)]


def _ask_plan(model: EvaluatedModel, rows: DatasetRecord) -> tuple[tuple[str, ...], QueuePlan, bool]:
    default = max(20, min(round(rows.n_rows * _share(model)), 1_000))
    most = max(2, rows.n_rows)
    budget = st.number_input("Checks to spend", 2, most, min(default, most), key=f"queue_budget_{rows.id}")
    names = {token: name for token, name in model.names.items() if token != model.record.id}
    other = st.selectbox(
        "Split with another model",
        [None, *names],
        format_func=lambda token: "no, this model only" if token is None else names[token],
        key=f"queue_other_{model.record.id}",
        help="Rows are split between the two models at random, by their name, so that the comparison is fair.",
    )
    label, words = "Random share", meaning("random holdout")
    chance = st.slider(label, 0, 50, 10, step=5, format="%d%%", key="queue_random", help=words)
    with st.expander("More", icon=":material/tune:"):
        seed = st.number_input("Seed of the split", 0, 10**6, 0, key="queue_seed", help=meaning("arm"))
        again = st.toggle("Rows of earlier queues may be checked again", key="queue_again")
    runs = (model.record.id,) if other is None else (model.record.id, str(other))
    turn = len(queues(model)) + 1
    return runs, QueuePlan(budget=int(budget), random_share=chance / 100, seed=int(seed), turn=turn), again


def _show_plan(chosen: Queue, balance: str, has_chance: bool) -> None:
    lines = [
        {"chosen by": each.arm, "rows to choose from": each.users, "checks": each.checks, "share": 100 * each.chance}
        for each in chosen.plans
    ]
    counted = st.column_config.NumberColumn(format="localized")
    config = {
        "rows to choose from": counted,
        "checks": counted,
        "share": st.column_config.NumberColumn("share checked", format="%.1f%%"),
    }
    show_table(pd.DataFrame(lines), hide_index=True, column_config=config, key="queue_plan")
    if has_chance:
        st.caption(
            ":material/casino: A fixed random part of the rows is never chosen by a model; some of it is checked at "
            "random. The outcomes of random checks describe all rows, with wide intervals. The outcomes of a model's "
            "own checks describe only its highest scores."
        )
    else:
        st.caption(
            ":material/warning: Without random checks, it is not known how often negatives fail a check (Appendix "
            "A.1), and the next model cannot be measured without the influence of this one."
        )
    models = [each for each in chosen.plans if each.arm != RANDOM]
    if len(models) > 1:
        per_arm = min(each.checks for each in models)
        least = detectable_difference(0.02, max(per_arm, 1))
        st.caption(
            f":material/balance: {plain(balance)} With {count(per_arm)} checks each, a confirmed share of 2% against "
            f"{share(0.02 + least)} would show a clear difference in four of five cases; smaller ones mostly not."
        )


def _ask_disagreement(model: EvaluatedModel) -> None:
    st.subheader("Where model and rules disagree", anchor=False)
    st.caption(
        "In these rows either the model or the rules are wrong. These checks do not count in the shares of models."
    )
    found = queue_population(model.workspace, model.dataset, (model.record.id,))
    if found.soft_labels is None:
        st.caption("This model was trained without rules.")
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        side = st.selectbox("Rows where", list(SIDES), format_func=SIDES.__getitem__, key="odd_side", width=260)
        budget = st.number_input("Rows", 2, 500, 20, key="odd_budget", width=160)
        is_made = st.button("Make a queue of these", icon=":material/playlist_add:", key="odd_make")
    table = disagreements(model, int(budget), str(side))
    if table.empty:
        st.caption("No unchecked row matches.")
        return
    if is_made:
        workspace, dataset, run = model.workspace, model.dataset.id, model.record.id
        queue = make_disagreement_queue(workspace, dataset, run, budget=int(budget), side=str(side))
        st.query_params["queue"] = queue.id
        st.rerun()
    percentile = partial(
        st.column_config.NumberColumn, format="%.0f", help="100 is the most suspicious row.", width=100
    )
    show_table(
        table[["user", "model_percentile", "rules_percentile", "reasons"]],
        hide_index=True,
        height=240,
        column_config={
            "user": st.column_config.TextColumn("row"),
            "model_percentile": percentile("model, 0–100"),
            "rules_percentile": percentile("rules, 0–100"),
            "reasons": st.column_config.TextColumn("reasons of both", width="large"),
        },
        key="odd_rows",
    )


def _show_queues(model: EvaluatedModel) -> None:
    made = queues(model)
    if not made:
        return
    st.subheader("Queues", anchor=False)
    for queue in made[:10]:
        with st.container(border=True, horizontal=True, vertical_alignment="center", key=f"queue_{queue.id}"):
            st.markdown(f"**{plain(queue.name)}**", width="content")
            st.caption(_words(model, queue), width="stretch")
            _offer_csv(model, queue, blind=False)
            _offer_csv(model, queue, blind=True)


def _words(model: EvaluatedModel, queue: QueueRecord) -> str:
    entries = model.workspace.queues.entries(queue.id)
    done = len(model.workspace.queues.outcomes(queue.id))
    arms = ", ".join(plain(arm) for arm in dict.fromkeys(entry.arm for entry in entries))
    where = "" if queue.dataset == model.dataset.id else f" from {plain(dataset_names(model).get(queue.dataset, '?'))}"
    return f"{queue.made:%d %b %H:%M} · {count(len(entries))} rows{where} (chosen by {arms}) · {count(done)} outcomes"


def _offer_csv(model: EvaluatedModel, queue: QueueRecord, blind: bool) -> None:
    st.download_button(
        "Blind CSV" if blind else "CSV",
        lambda: queue_csv(model.workspace, queue.id, blind=blind),
        file_name=f"{file_stem(queue.name)}{'-blind' if blind else ''}.csv",
        mime="text/csv",
        icon=":material/visibility_off:" if blind else ":material/download:",
        help="Names only, shuffled, so that reviewers do not know who chose a row."
        if blind
        else "With who chose the row, score and reasons.",
        on_click="ignore",
        key=f"queue_csv_{blind}_{queue.id}",
    )


def _share(model: EvaluatedModel) -> float:
    return 0.02 if model.point is None else max(model.point.flagged_share, 0.001)


def today() -> str:
    """The current day (UTC)."""
    return datetime.now(UTC).date().isoformat()


# The stored word of each outcome, and the word on the page, which files may use too.
OUTCOMES = {"": "", "admitted": "confirmed", "failed": "failed", "passed": "cleared"}
MOST_IN_TABLE = 2_000
HISTORY = 200
DETAILS = ("outcome", "day", "source")


def show_record(model: EvaluatedModel) -> None:
    """Choose a queue and record the outcomes of its checks."""
    made = queues(model)
    if not made:
        st.info("There is no queue yet. Make one in step 1, and give it to the reviewers.", icon=":material/info:")
        return
    queue = _ask_queue(model, made)
    by_file, by_hand = st.columns([2, 3], gap="medium")
    with by_file, st.container(border=True):
        _record_file(model, queue)
        _offer_simulated_outcomes(model, queue)
    with by_hand, st.container(border=True):
        _record_by_hand(model, queue)
    _show_history(model, queue)


def _ask_queue(model: EvaluatedModel, made: tuple[QueueRecord, ...]) -> QueueRecord:
    known = {queue.id: queue for queue in made}
    wanted = st.query_params.get("queue", made[0].id)
    default = wanted if wanted in known else made[0].id
    chosen = st.selectbox(
        "Queue",
        list(known),
        index=list(known).index(default),
        format_func=lambda token: f"{known[token].name} · {known[token].made:%d %b %H:%M}",
        key=f"record_queue_{model.dataset.id}_{default}",
        width=420,
        help=meaning("review queue"),
    )
    if chosen != default:
        st.query_params["queue"] = str(chosen)
    return known[str(chosen)]


def _record_file(model: EvaluatedModel, queue: QueueRecord) -> None:
    st.subheader("From a file", anchor=False)
    st.caption(
        "One line per row with the columns *user* (the name of the row) and *outcome* (confirmed, failed or skipped, "
        "cleared), and *day* if it is known. Lines without an outcome stay open."
    )
    uploaded = st.file_uploader("Outcomes as CSV or Excel", key=f"record_file_{queue.id}")
    if uploaded is None:
        return
    found = read_outcome_file(model.workspace, queue.id, read_upload(uploaded))
    _show_file(found)
    if found.lines and st.button(
        f"Record {count(len(found.lines))} outcomes", type="primary", icon=":material/save:", key="record_save_file"
    ):
        _save(model, queue, found, uploaded.name)


def _show_file(found: OutcomeFile) -> None:
    st.markdown(f":material/description: {plain(found.sentence)}")
    if found.unknown:
        shown = ", ".join(plain(name) for name in found.unknown[:20])
        st.warning(
            f"**{count(len(found.unknown))} names are not in this queue and will not be recorded:** {shown}",
            icon=":material/person_off:",
        )


def _save(model: EvaluatedModel, queue: QueueRecord, found: OutcomeFile, source: str) -> None:
    many = record_outcomes(model.workspace, queue.id, found.lines, source=source)
    st.toast(f"{count(many)} new outcomes recorded.", icon=":material/check:")
    st.rerun()


def _offer_simulated_outcomes(model: EvaluatedModel, queue: QueueRecord) -> None:
    """Outcomes for the sample, from the simulated game that it was drawn from."""
    players = simulated_players(model.workspace, model.dataset)
    if players is None or queue.dataset not in model.workspace.feedbacks.family(model.dataset.id):
        return
    st.divider()
    st.caption(
        ":material/sports_esports: This is the sample: the simulated game can produce the outcomes of its players."
    )
    st.download_button(
        "Outcomes from the game, as CSV",
        lambda: simulated_csv(simulated_outcomes(model.workspace, queue.id, players)),
        file_name="outcomes.csv",
        mime="text/csv",
        icon=":material/download:",
        on_click="ignore",
        key=f"record_game_{queue.id}",
    )


def _record_by_hand(model: EvaluatedModel, queue: QueueRecord) -> None:
    st.subheader("By hand", anchor=False)
    table = queue_table(model.workspace, queue.id)
    if len(table) > MOST_IN_TABLE:
        st.caption(f"The queue has {count(len(table))} rows, too many for a table; record them from a file.")
        return
    shown = table[["user", "outcome", "day", "arm", "reasons"]].assign(outcome=table["outcome"].map(OUTCOMES))
    edited = edit_table(
        shown,
        ["outcome", "day"],
        height=380,
        column_config={
            "outcome": st.column_config.SelectboxColumn(
                "outcome",
                options=list(OUTCOMES.values()),
                width=120,
                help="Confirmed: a case. Cleared: checked, and not a case. A skipped check counts as failed.",
            ),
            "day": st.column_config.TextColumn("day", help="2026-03-31; empty means today.", width=110),
            "user": st.column_config.TextColumn("row"),
            "arm": st.column_config.TextColumn("chosen by"),
            "reasons": st.column_config.TextColumn("reasons", width="medium"),
        },
        key=f"record_table_{queue.id}_{model.workspace.queues.state()}",
    )
    changed = edited_lines(shown, edited, ["outcome", "day"])
    label = (
        "Nothing changed yet" if changed.empty else f"Record {count(len(changed))} change{'s' * (len(changed) != 1)}"
    )
    if st.button(label, icon=":material/save:", key="record_save_table", disabled=changed.empty):
        filled = changed.assign(day=[day or today() for day in changed["day"].fillna("")])
        _save(model, queue, read_outcome_file(model.workspace, queue.id, filled), "table")


def _show_history(model: EvaluatedModel, queue: QueueRecord) -> None:
    records = model.workspace.queues.history(queue.id)
    if not records:
        return
    users = {entry.row: entry.user for entry in model.workspace.queues.entries(queue.id)}
    with st.expander(f"All recorded outcomes ({count(len(records))})", icon=":material/history:"):
        st.caption("Outcomes are never overwritten: both outcomes of a row are kept, and the later one counts.")
        lines = [
            (f"{each.made:%Y-%m-%d %H:%M}", users[each.row], *_details(each.detail))
            for each in reversed(records[-HISTORY:])
        ]
        show_table(pd.DataFrame(lines, columns=["recorded", "row", *DETAILS]), hide_index=True)


def _details(stored: Mapping[str, Any]) -> tuple[str, ...]:
    words = [str(stored.get(name, "")) for name in DETAILS]
    return tuple(OUTCOMES.get(word, word) for word in words)
