"""Soft labels from a log of checks, one line per check: they become one more column of the data, and a rule on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import streamlit as st

from pages.ui.shared import table_cached
from pages.ui.shared.shell import choose_in_address
from pages.ui.shared.show import show_chart, show_findings, theme
from pages.ui.shared.text import plain
from pages.ui.soft_labels.files import added
from pages.ui.soft_labels.state import Book
from spu_core.charts import failure_ratio_chart
from spu_core.errors import SpuError
from spu_core.labels import CheckRatioLabels, check_ratio_labels
from spu_core.rules import ReadyMade, Rule, RuleSet
from spu_core.tables import ColumnType, Role, Table
from spu_core.tables.samples import SAMPLES, load_sample_checks

NEEDED = {"user": ("user", "player", "id"), "rule": ("rule",), "outcome": ("outcome", "result"), "day": ("day", "date")}
COLUMN = "check_soft_label"


def ask_log(book: Book, table: Table) -> None:
    """A file of checks, what its columns are, and what comes of it."""
    with st.expander("From a log of checks in a file", icon=":material/receipt_long:"):
        column = table.column_with(Role.ID)
        if column is None:
            st.caption("The log names users, so this table needs a column with the role *id*; set it on the Data page.")
            return
        log = _bring_log(book)
        if log is None:
            return
        named = {what: _pick(what, list(log.columns), words) for what, words in NEEDED.items()}
        columns = {what: log[name] for what, name in named.items() if name is not None}
        if not {"user", "rule", "outcome"} <= set(columns):
            st.caption("A log needs the columns user, rule and outcome; the day is optional.")
            return
        rules = sorted({str(rule) for rule in columns["rule"].dropna().unique()})
        guess = next((place for place, rule in enumerate(rules) if "random" in rule.lower()), 0)
        random_rule = st.selectbox("The rule that picks at random", rules, index=guess, key="soft_log_random")
        repeats = "first" if "day" in columns else "every"
        try:
            result = check_ratio_labels(columns, random_rule=random_rule, users=table.frame[column], repeats=repeats)
        except SpuError as problem:
            st.error(plain(problem), icon=":material/error:")
            return
        _show_result(book, table, result)


def _bring_log(book: Book) -> Any:
    uploaded = st.file_uploader("One line per check: user, rule, outcome, day", key="soft_log_file")
    if uploaded is not None:
        try:
            return table_cached.given_frame(uploaded)
        except SpuError as problem:
            st.error(plain(problem), icon=":material/error:")
            return None
    if book.dataset.name == SAMPLES["anti_cheat"].title and st.toggle(
        "Use the log of the sample", key="soft_log_sample"
    ):
        return load_sample_checks()
    return None


def _pick(what: str, columns: list[str], words: tuple[str, ...]) -> str | None:
    guess = next((place for place, name in enumerate(columns) if any(word in name.lower() for word in words)), None)
    return st.selectbox(f"Column with the {what}", columns, index=guess, key=f"soft_log_{what}")


def _show_result(book: Book, table: Table, result: CheckRatioLabels) -> None:
    show_chart(failure_ratio_chart(result.ratios, theme=theme()), key="soft_log_chart")
    st.caption(plain(result.reading))
    show_findings(result.findings)
    if st.button("Add to the data and as a rule", icon=":material/add:", type="primary", key="soft_log_add"):
        # The rule score, not S: who admitted is a label, and rules must not know labels.
        bigger, column = with_column(table, result.labels.rule_score)
        dataset = book.page.workspace.datasets.save(bigger, book.dataset.name)
        book.save(added(book.rules, RuleSet((Rule("Failed a check of the log", ReadyMade(column)),))), "added a log")
        choose_in_address(dataset=dataset.id)
        st.rerun()
    st.caption("This makes a new dataset with one more column; the old one stays.")


def with_column(table: Table, values: Any) -> tuple[Table, str]:
    """The table with one more column, of soft labels, under a name that is free."""
    name, place = COLUMN, 2
    while name in table.frame.columns:
        name, place = f"{COLUMN}_{place}", place + 1
    role = Role.SOFT_LABEL if table.column_with(Role.SOFT_LABEL) is None else Role.IGNORE
    roles, types = {**table.roles, name: role}, {**table.types, name: ColumnType.NUMBER}
    return replace(table, frame=table.frame.assign(**{name: values}), roles=roles, types=types), name
