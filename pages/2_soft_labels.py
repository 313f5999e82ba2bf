"""Say what you know: rules with a degree of belief become a soft label for each row."""

import streamlit as st

from pages.ui import cached
from pages.ui.data_folder import is_sampled, say_sample
from pages.ui.shell import open_page
from pages.ui.show import explain_words
from pages.ui.soft_label_analysis import show_analysis, show_audit, show_why
from pages.ui.soft_label_checks import show_checks
from pages.ui.soft_label_editor import edit_draft, inviting_column, rule_columns
from pages.ui.soft_label_files import choose_rule_set, show_versions
from pages.ui.soft_label_headline import show_headline
from pages.ui.soft_label_preview import save_draft, show_changes, show_preview, warn_of_few_levels
from pages.ui.soft_label_rules import show_rules
from pages.ui.soft_label_state import keep_in_address, open_book, open_desk

PARTS = ("Rules", "Analysis", "Why this S", "Audit", "From checks", "Versions and files")

with open_page("Soft labels", "Drag across a histogram, say how sure you are, and watch the ceiling move.") as page:
    dataset = page.need_dataset()
    table = cached.table(page.workspace, dataset)
    say_sample(dataset, table)
    book = open_book(page, dataset)
    show_headline(book)
    rules, analysis, why, audit, checks, versions = st.tabs(PARTS, key="part", on_change="rerun", bind="query-params")
    if rules.open:
        with rules:
            choose_rule_set(book)
            columns = rule_columns(table)
            desk = open_desk(dataset, columns, inviting_column(table, columns), book.rules)
            draft, cards = edit_draft(book, desk, columns)
            with cards.chart:
                preview = show_changes(book, draft)
            left, right = st.columns([3, 2], gap="small")
            with left:
                show_preview(preview, is_drafted=draft.is_complete, is_sample=is_sampled(dataset, table))
            with right:
                show_rules(book, desk, columns)
            warn_of_few_levels(book)
            with cards.belief:
                save_draft(book, desk, draft, preview)
            keep_in_address(draft)
    if analysis.open:
        with analysis:
            show_analysis(book)
    if why.open:
        with why:
            show_why(book, table)
    if audit.open:
        with audit:
            show_audit(book)
    if checks.open:
        with checks:
            show_checks(book, table)
    if versions.open:
        with versions:
            show_versions(book)
    explain_words("soft label", "mean soft label", "ceiling", "lift", "AUC_SPU")
