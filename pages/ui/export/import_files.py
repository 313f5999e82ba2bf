"""Import models and rules from files: they are checked before use, and refused with a reason."""

from __future__ import annotations

from functools import partial

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from pages.ui.export.score_files import score_new_file
from pages.ui.shared.cached import cache_result, load_table
from pages.ui.shared.shell import Page, choose_in_address, show_errors
from pages.ui.shared.show import show_findings
from pages.ui.shared.steps import link_to, step_named
from pages.ui.shared.text import count, figure, plain, row_count, share
from spu_core.engines.jobs.score import ScoredFile, score_foreign
from spu_core.engines.stored_runs import keep_as_run, keep_rules, kept_before, refusal_to_keep
from spu_core.errors import BundleError
from spu_core.export import Bundle, Scoring, load_bundle, model_card
from spu_core.rules import RuleSet
from spu_core.workspace import DatasetRecord, Workspace


def import_from_elsewhere(page: Page) -> None:
    """Import a bundle or a rule set from a file; after the checks the page offers what can be done with it."""
    st.subheader("Import a bundle or a rule set", anchor=False)
    st.caption(
        ":material/verified_user: Import only what comes from a sender you trust. Its hashes show that it was not "
        "changed on the way, not who made it."
    )
    uploaded = st.file_uploader(
        "A bundle (.spu) or rules (.json). The content is never run as code.",
        type=["spu", "json"],
        key="export_foreign",
    )
    if uploaded is None:
        return
    with show_errors(page.title):
        if uploaded.name.lower().endswith(".json"):
            _show_rules(page, uploaded)
        else:
            _show_bundle(page, uploaded)


def _show_rules(page: Page, uploaded: UploadedFile) -> None:
    rules = RuleSet.from_json(uploaded.getvalue())
    with st.container(border=True):
        st.markdown(f":material/rule: **{count(len(rules))} rules**")
        st.code(str(rules) or "no rules", language=None, wrap_lines=True)
        if page.dataset is not None:
            show_findings(rules.check(load_table(page.workspace, page.dataset)))
        if st.button("Save in the workspace", key="export_keep_rules", type="primary"):
            name = uploaded.name.rsplit(".", 1)[0]
            _show_kept_rules(keep_rules(page.workspace, name, rules).id)


def _show_bundle(page: Page, uploaded: UploadedFile) -> None:
    bundle = _check_bundle(page.workspace, uploaded)
    if isinstance(bundle, str):
        st.error(plain(bundle), icon=":material/error:")
        return
    with st.container(border=True):
        _show_origin(bundle)
        _offer_keeping(page, bundle, uploaded)
    st.subheader("Score a new file with it", anchor=False)
    score_new_file(page, bundle, "foreign", partial(_score_file, page.workspace, uploaded))


@cache_result(8, "Checking and testing the bundle in a separate process …", ttl=3600)
def _check_bundle(workspace: Workspace, uploaded: UploadedFile) -> Bundle | str:
    """An uploaded bundle that was checked and tested, or the message that refuses it."""
    try:
        return load_bundle(uploaded.getvalue())
    except BundleError as refused:
        return str(refused)


# Scored rows are in a temporary file, which is deleted with the cache entry.
@cache_result(8, "Scoring in a separate process …", ttl=3600)
def _score_file(workspace: Workspace, bundle: UploadedFile, uploaded: UploadedFile, flag_by: str) -> ScoredFile:
    """An uploaded file, scored by an uploaded bundle in a separate process."""
    uploaded.seek(0)
    return score_foreign(bundle.getvalue(), uploaded, Scoring(flag_by=flag_by))


def _show_origin(bundle: Bundle) -> None:
    facts, metrics = bundle.facts, bundle.facts.metrics or {}
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":material/verified_user: **{plain(bundle.name)}**", width="content")
        st.badge("Checked and tested", icon=":material/check:", color="green")
    value = (metrics.get("auc_spu") or {}).get("estimate")
    words = [
        f"{plain(bundle.fitted.candidate.entry.title)}, trained on {row_count(facts.rows)}",
        f"of {plain(bundle.details.data_name)}" if bundle.details.data_name else "",
        "" if value is None else f"· AUC\\_SPU {figure(value)}",
        f"· flags {share(bundle.point.share)}",
    ]
    st.caption(" ".join(word for word in words if word))
    with st.expander("Its model card", icon=":material/description:"):
        st.code(model_card(bundle), language=None, wrap_lines=True, height=400)


def _offer_keeping(page: Page, bundle: Bundle, uploaded: UploadedFile) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        if page.dataset is not None:
            _offer_run(page, page.dataset, bundle, uploaded.getvalue())
        if bundle.label_rules is not None and st.button("Keep its rules", key="export_keep_its_rules"):
            rules = bundle.label_rules.rules.rules
            _show_kept_rules(keep_rules(page.workspace, f"Rules of {bundle.name}", rules).id)


def _offer_run(page: Page, dataset: DatasetRecord, bundle: Bundle, data: bytes) -> None:
    """Offer to keep a bundle of the same table as a run of the dataset; otherwise show why not."""
    refused = refusal_to_keep(bundle, dataset)
    if refused is not None:
        st.caption(f":material/info: {plain(refused)}")
    elif kept_before(page.workspace, dataset, data) is not None:
        st.badge("A run of this dataset", icon=":material/check_circle:", color="green")
        link_to(step_named("Compare"), "Compare models", page.query)
    elif st.button("Keep as a run of this dataset", key="export_keep_run", type="primary"):
        keep_as_run(page.workspace, dataset, bundle, data)
        st.rerun()


def _show_kept_rules(token: str) -> None:
    choose_in_address(rules=token)
    st.success("Saved in the workspace and selected.", icon=":material/check_circle:")
    query = {key: st.query_params[key] for key in ("dataset", "rules") if key in st.query_params}
    link_to(step_named("Soft labels"), "Show the rules", query)
