"""Step 2: record the outcomes of checks, from a file or in a table; a correction keeps what it corrects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from pages.ui.shared.cached import read_upload
from pages.ui.shared.show import edit_table, edited_lines, meaning, show_table
from pages.ui.shared.text import count, plain
from pages.ui.trust.cached import queues, simulated_players
from pages.ui.trust.evaluated_model import EvaluatedModel
from pages.ui.trust.outcome_queue import today
from spu_core.engines.outcome_learning import simulated_csv, simulated_outcomes
from spu_core.engines.outcome_loop import queue_table, read_outcome_file, record_outcomes
from spu_core.trust.outcomes.outcome_file import OutcomeFile
from spu_core.workspace import QueueRecord

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
