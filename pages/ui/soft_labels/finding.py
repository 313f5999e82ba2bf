"""Where the confirmed cases are: columns ranked by how well they separate them, and rules that the data suggest."""

from __future__ import annotations

import streamlit as st

from pages.ui.shared.cached import cache_result, load_table
from pages.ui.shared.show import show_chart, theme
from pages.ui.shared.text import plain
from pages.ui.soft_labels.editor_state import EditorState, OpenRuleSet
from spu_core.charts import separation_chart
from spu_core.rules.draft import RuleDraft, automatic_name
from spu_core.rules.suggest import ColumnSeparation, SuggestedRule, rank_columns, suggest_rules
from spu_core.workspace import DatasetRecord, Workspace

MOST_SHOWN, IN_A_LINE = 8, 4
BOX_HEIGHT = 400
HOW = (
    "Rows are split into two halves: a rule is searched in one half and tested in the other, with a correction for "
    "the number of rules that were tested. Figures are those of the second half."
)
SEPARATION = (
    "How well this column alone ranks confirmed cases above the rest: 0.5 is chance, 1 is perfect. With a 95% "
    "interval. Near 1, check whether the column was filled only after a case was confirmed."
)
CIRCULAR = (
    ":material/info: These are drafts; change them or leave them. A rule that was made from confirmed cases cannot be "
    "judged by them: models that use it are marked as not independent of the confirmed cases."
)


@cache_result(16, "Looking for confirmed cases …")
def ranked_columns(
    workspace: Workspace, dataset: DatasetRecord, columns: tuple[str, ...]
) -> tuple[ColumnSeparation, ...]:
    """The columns by how well they separate confirmed cases."""
    return rank_columns(load_table(workspace, dataset), columns)


@cache_result(16, "Looking for rules …")
def suggested_rules(
    workspace: Workspace, dataset: DatasetRecord, columns: tuple[str, ...]
) -> tuple[SuggestedRule, ...]:
    """Rules that the data suggest."""
    return suggest_rules(load_table(workspace, dataset), columns)


def best_first(opened: OpenRuleSet, columns: list[str]) -> list[str]:
    """The columns, those that separate confirmed cases best first; others in the order of the table."""
    ranked = [each.column for each in ranked_columns(opened.workspace, opened.dataset, tuple(columns))]
    return [*ranked, *(name for name in columns if name not in ranked)]


def find_confirmed(opened: OpenRuleSet, editor: EditorState, columns: list[str]) -> None:
    """Small charts of the best columns and suggested rules; a button makes a draft of each."""
    ranked = ranked_columns(opened.workspace, opened.dataset, tuple(columns))
    if not ranked:
        return
    # Open until the first draft; the key changes with it, so that it folds.
    is_first = not len(opened.rules) and not editor.draft.is_complete
    title = "Where are the confirmed cases? Best columns and suggested rules"
    key = "soft_find_first" if is_first else "soft_find"
    with st.expander(title, icon=":material/search_insights:", expanded=is_first, key=key, on_change="rerun") as box:
        if not box.open:
            return
        # Lower than the window, so that the editor is in sight once a draft has folded this box.
        with st.container(height=BOX_HEIGHT, border=False):
            _show_suggestions(opened, editor, columns)
            _show_columns(editor, ranked[:MOST_SHOWN])
            st.caption(CIRCULAR)


def _show_suggestions(opened: OpenRuleSet, editor: EditorState, columns: list[str]) -> None:
    found = suggested_rules(opened.workspace, opened.dataset, tuple(columns))
    if not found:
        st.caption("No rule was confirmed in the second half of the rows. Start from a column below.")
        return
    st.markdown("**Suggested rules**", help=HOW)
    for place, each in enumerate(found):
        with st.container(horizontal=True, vertical_alignment="center", wrap=False):
            st.markdown(f"**{plain(automatic_name(each.draft))}**: {plain(each.text)}.", width="stretch")
            if any(rule.when == each.draft.when for rule in opened.rules):
                st.badge("in your rules", icon=":material/check:", color="gray")
            else:
                _draft_button(editor, each.draft, f"soft_suggested_{place}")


def _show_columns(editor: EditorState, shown: tuple[ColumnSeparation, ...]) -> None:
    for start in range(0, len(shown), IN_A_LINE):
        for place, column in enumerate(st.columns(IN_A_LINE, gap="small")):
            if start + place < len(shown):
                with column, st.container(border=True, height="stretch"):
                    _show_column(editor, shown[start + place], start + place)


def _show_column(editor: EditorState, found: ColumnSeparation, place: int) -> None:
    st.markdown(f"**{plain(found.column)}**")
    st.caption(f"AUC {found.auc:.2f} ({found.low:.2f} to {found.high:.2f})", help=SEPARATION)
    show_chart(separation_chart(found, theme=theme()), key=f"soft_column_{place}")
    if found.draft is None:
        st.caption("No value stands out.")
    else:
        _draft_button(editor, found.draft, f"soft_draft_{place}")


def _draft_button(editor: EditorState, draft: RuleDraft, key: str) -> None:
    if st.button("Draft a rule", icon=":material/edit:", key=key):
        editor.start(draft)
        st.rerun()
