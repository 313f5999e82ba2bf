"""Step 2: record what the checks found, from a file or in a table; corrections stand beside what they correct."""

from __future__ import annotations

import pandas as pd
import streamlit as st
from spu_core.trust.outcomes.outcome_file import OutcomeFile

from pages.ui import table_cached
from pages.ui.editing import edited_lines
from pages.ui.show import meaning
from pages.ui.tables import edit_table, show_table
from pages.ui.text import count, plain
from pages.ui.trust_case import TrustCase
from pages.ui.trust_outcomes_cached import players_behind, queues
from pages.ui.trust_outcomes_flag import today
from spu_core.engines.outcomes_record import queue_table, read_outcome_file, record_outcomes
from spu_core.engines.outcomes_sample import simulated_csv, simulated_outcomes
from spu_core.workspace import QueueRecord

OUTCOMES = ["", "admitted", "failed", "passed"]
MOST_IN_TABLE = 2_000
HISTORY = 200
DETAILS = ("outcome", "day", "source")


def show_record(case: TrustCase) -> None:
    """Choose a queue and say how its checks ended."""
    made = queues(case)
    if not made:
        st.info("There is no queue yet. Make one in step 1, and hand it to those who check.", icon=":material/info:")
        return
    queue = _ask_queue(case, made)
    by_file, by_hand = st.columns([2, 3], gap="medium")
    with by_file, st.container(border=True):
        _record_file(case, queue)
        _offer_game(case, queue)
    with by_hand, st.container(border=True):
        _record_by_hand(case, queue)
    _show_history(case, queue)


def _ask_queue(case: TrustCase, made: tuple[QueueRecord, ...]) -> QueueRecord:
    known = {queue.id: queue for queue in made}
    wanted = st.query_params.get("queue", made[0].id)
    default = wanted if wanted in known else made[0].id
    chosen = st.selectbox(
        "Queue",
        list(known),
        index=list(known).index(default),
        format_func=lambda token: f"{known[token].name} · {known[token].made:%d %b %H:%M}",
        key=f"record_queue_{case.dataset.id}_{default}",
        width=420,
        help=meaning("review queue"),
    )
    if chosen != default:
        st.query_params["queue"] = str(chosen)
    return known[str(chosen)]


def _record_file(case: TrustCase, queue: QueueRecord) -> None:
    st.subheader("From a file", anchor=False)
    st.caption(
        "One line per user with the columns *user* and *outcome* (admitted, failed or skipped, passed), and *day* if "
        "it is known. Lines without an outcome stay open."
    )
    uploaded = st.file_uploader("Outcomes as CSV or Excel", key=f"record_file_{queue.id}")
    if uploaded is None:
        return
    found = read_outcome_file(case.page.workspace, queue.id, table_cached.given_frame(uploaded))
    _say_file(found)
    if found.lines and st.button(
        f"Record {count(len(found.lines))} outcomes", type="primary", icon=":material/save:", key="record_save_file"
    ):
        _keep(case, queue, found, uploaded.name)


def _say_file(found: OutcomeFile) -> None:
    st.markdown(f":material/description: {plain(found.sentence)}")
    if found.unknown:
        shown = ", ".join(plain(name) for name in found.unknown[:20])
        st.warning(
            f"**{count(len(found.unknown))} users are not in this queue and will not be recorded:** {shown}",
            icon=":material/person_off:",
        )


def _keep(case: TrustCase, queue: QueueRecord, found: OutcomeFile, source: str) -> None:
    many = record_outcomes(case.page.workspace, queue.id, found.lines, source=source)
    st.toast(f"{count(many)} new outcomes recorded.", icon=":material/check:")
    st.rerun()


def _offer_game(case: TrustCase, queue: QueueRecord) -> None:
    """The sample has no reviewers, but the game that it was drawn from can answer."""
    players = players_behind(case)
    if players is None or queue.dataset not in case.page.workspace.feedbacks.family(case.dataset.id):
        return
    st.divider()
    st.caption(":material/sports_esports: This is the sample: the simulated game knows how its players react.")
    st.download_button(
        "Outcomes from the game, as CSV",
        lambda: simulated_csv(simulated_outcomes(case.page.workspace, queue.id, players)),
        file_name="outcomes.csv",
        mime="text/csv",
        icon=":material/download:",
        on_click="ignore",
        key=f"record_game_{queue.id}",
    )


def _record_by_hand(case: TrustCase, queue: QueueRecord) -> None:
    st.subheader("By hand", anchor=False)
    table = queue_table(case.page.workspace, queue.id)
    if len(table) > MOST_IN_TABLE:
        st.caption(f"The queue has {count(len(table))} users; record so many from a file.")
        return
    shown = table[["user", "outcome", "day", "arm", "reasons"]]
    edited = edit_table(
        shown,
        ["outcome", "day"],
        height=380,
        column_config={
            "outcome": st.column_config.SelectboxColumn(
                "outcome", options=OUTCOMES, width=120, help="A skipped check counts as failed."
            ),
            "day": st.column_config.TextColumn("day", help="2026-03-31; empty means today.", width=110),
            "reasons": st.column_config.TextColumn("reasons", width="medium"),
        },
        key=f"record_table_{queue.id}_{case.page.workspace.queues.state()}",
    )
    changed = edited_lines(shown, edited, ["outcome", "day"])
    label = (
        "Nothing changed yet" if changed.empty else f"Record {count(len(changed))} change{'s' * (len(changed) != 1)}"
    )
    if st.button(label, icon=":material/save:", key="record_save_table", disabled=changed.empty):
        filled = changed.assign(day=[day or today() for day in changed["day"].fillna("")])
        _keep(case, queue, read_outcome_file(case.page.workspace, queue.id, filled), "table")


def _show_history(case: TrustCase, queue: QueueRecord) -> None:
    records = case.page.workspace.queues.history(queue.id)
    if not records:
        return
    users = {entry.row: entry.user for entry in case.page.workspace.queues.entries(queue.id)}
    with st.expander(f"Everything ever recorded here ({count(len(records))})", icon=":material/history:"):
        st.caption("Nothing is overwritten: of two outcomes of one user the later one counts, and both stay.")
        lines = [
            (f"{each.made:%Y-%m-%d %H:%M}", users[each.row], *(each.detail.get(name, "") for name in DETAILS))
            for each in reversed(records[-HISTORY:])
        ]
        show_table(pd.DataFrame(lines, columns=["recorded", "user", *DETAILS]), hide_index=True)
