"""Export the chosen model, score new files with it, and import models and rules from elsewhere."""

from functools import partial

import streamlit as st

from pages.ui.export.model_choice import choose_model, edit_texts, show_card, show_forms, stored_models
from pages.ui.export.score_files import import_from_elsewhere, score_file, score_new_file, show_history
from pages.ui.shared.shell import open_page, open_renamed_tab
from pages.ui.shared.show import explain_terms

PARTS = ("Export files", "Score a new file", "Import")

with open_page("Export", "Export the chosen model for production, and score new files with it.") as page:
    if not stored_models(page):
        top = st.container()
        import_from_elsewhere(page)
        with top:
            page.need_dataset()
            page.show_empty("No models yet.", "Train candidates first, then export the best one.", "Train")
    chosen = choose_model(page)
    show_card(chosen)
    open_renamed_tab("export_part", {"Take it away": "Export files", "Bring from elsewhere": "Import"})
    files, score, imports = st.tabs(PARTS, key="export_part", on_change="rerun", bind="query-params")
    if files.open:
        with files:
            # The texts become part of the files, but the files come first on the page.
            forms, texts = st.container(), st.container()
            with texts:
                edited = edit_texts(chosen)
            with forms:
                show_forms(edited)
    if score.open:
        with score:
            bundle, run = chosen.stored.bundle, chosen.record
            score_now = partial(score_file, page.workspace, bundle, run.id, str(bundle.point))
            score_new_file(page, bundle, "export", score_now, run)
            show_history(page.workspace, run.id)
    if imports.open:
        with imports:
            import_from_elsewhere(page)
    explain_terms("AUC_SPU", "ceiling", "share of ceiling", "known-positive AUC", "threshold", "soft label")
