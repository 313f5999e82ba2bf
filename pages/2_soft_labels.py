"""Define rules with a degree of belief; they become a soft label for each row."""

import streamlit as st

from pages.ui.data.table_view import is_sampled, show_sample_note
from pages.ui.shared.cached import load_table
from pages.ui.shared.shell import open_page, open_renamed_tab
from pages.ui.shared.show import explain_terms
from pages.ui.soft_labels.analysis import (
    show_analysis,
    show_audit,
    show_changes,
    show_headline,
    show_preview,
    show_saving,
    show_why,
    warn_of_rules,
)
from pages.ui.soft_labels.check_wizards import CHECKS, show_checks, shows_checks
from pages.ui.soft_labels.editor import best_first, default_column, edit_draft, find_confirmed, rule_columns
from pages.ui.soft_labels.editor_state import keep_in_address, open_editor, open_rule_set
from pages.ui.soft_labels.rule_list import choose_rule_set, show_rules, show_versions

PARTS = ("Rules", "Analysis", "Explain a row", "Audit", CHECKS, "Versions and files")

with open_page(
    "Soft labels", "Select values in a chart and set a degree of belief. Each row gets a soft label."
) as page:
    dataset = page.need_dataset()
    table = load_table(page.workspace, dataset)
    show_sample_note(dataset, table)
    opened = open_rule_set(page, dataset)
    show_headline(opened)
    open_renamed_tab("part", {"Why this S": "Explain a row"})
    parts = [part for part in PARTS if part != CHECKS or shows_checks(table)]
    tabs = dict(zip(parts, st.tabs(parts, key="part", on_change="rerun", bind="query-params"), strict=True))
    rules, analysis, why, audit, versions = (tabs[part] for part in PARTS if part != CHECKS)
    checks = tabs.get(CHECKS)
    if rules.open:
        with rules:
            choose_rule_set(opened)
            columns = best_first(opened, rule_columns(table))
            editor = open_editor(dataset, columns, default_column(table, columns), opened.rules)
            find_confirmed(opened, editor, columns)
            draft, cards = edit_draft(opened, editor, columns)
            with cards.chart:
                preview = show_changes(opened, draft)
            left, right = st.columns([3, 2], gap="small")
            with left:
                show_preview(preview, is_drafted=draft.is_complete, is_sample=is_sampled(dataset, table))
            with right:
                show_rules(opened, editor, columns)
            warn_of_rules(opened)
            with cards.saving:
                show_saving(opened, editor, draft, preview)
            keep_in_address(draft)
    if analysis.open:
        with analysis:
            show_analysis(opened)
    if why.open:
        with why:
            show_why(opened, table)
    if audit.open:
        with audit:
            show_audit(opened)
    if checks is not None and checks.open:
        with checks:
            show_checks(opened, table)
    if versions.open:
        with versions:
            show_versions(opened)
    explain_terms("soft label", "mean soft label", "ceiling", "lift", "AUC_SPU")
