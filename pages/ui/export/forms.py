"""The files that a run can be exported as: each is prepared on a click, kept with the run, and then downloaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import streamlit as st

from pages.ui.export.model_choice import ExportChoice
from pages.ui.shared.text import plain, sized
from spu_core.engines.export_files import EXPORT_FORMS, file_stem, made_before, prepare, refusal
from spu_core.errors import SpuError
from spu_core.workspace import ExportRecord


@dataclass(frozen=True)
class Card:
    """One kind of file, in one or more forms (title of the choice → form)."""

    title: str
    icon: str
    words: str
    forms: Mapping[str, str]


CARDS = (
    Card(
        "Bundle",
        ":material/package_2:",
        "Model, encoder, rules and threshold in one checked file. Score with `spu score` or `load_bundle`.",
        {".spu": "bundle"},
    ),
    Card(
        "ONNX model",
        ":material/memory:",
        "Encoder, rules and model as one graph with the scores of the bundle, compared on your rows. Production needs "
        "onnxruntime only.",
        {".onnx": "onnx"},
    ),
    Card(
        "Production folder",
        ":material/folder_zip:",
        "Bundle, model card and, where possible, ONNX with a small script that scores a CSV.",
        {".zip": "folder"},
    ),
    Card(
        "Scored training rows",
        ":material/table_rows:",
        "**Out-of-fold** scores: each row is scored by a model not trained on it, so they differ from those of the "
        "bundle.",
        {"CSV": "scores_csv", "Parquet": "scores_parquet"},
    ),
    Card(
        "Model card",
        ":material/description:",
        "Purpose, data, rules in words, figures with intervals, limits, and how it was chosen.",
        {"HTML": "card_html", "Markdown": "card_md"},
    ),
    Card(
        "Report",
        ":material/monitoring:",
        "The comparison with its interactive charts in one file that can be sent by mail and opened offline.",
        {".html": "report"},
    ),
    Card(
        "Rules",
        ":material/rule:",
        "The rule set that made the soft labels of this run, for another workspace or `spu label`.",
        {".json": "rules"},
    ),
    Card(
        "Run configuration",
        ":material/settings:",
        "Study: roles, rules, settings and seed, to repeat the training with `spu train`. Profile: the training "
        "columns in outline, for a monitoring tool.",
        {"Study": "study", "Profile": "profile"},
    ),
)


def show_forms(chosen: ExportChoice) -> None:
    """Cards in two rows of four; nothing is computed before its button is pressed."""
    for start in (0, 4):
        for column, card in zip(st.columns(4, gap="small"), CARDS[start : start + 4], strict=True):
            with column, st.container(border=True, height="stretch"):
                _show_form(chosen, card)
    st.caption(
        ":material/verified_user: Hashes show that a file was not changed, but not who made it. "
        "`spu export --sign` adds a signature."
    )


def _show_form(chosen: ExportChoice, card: Card) -> None:
    st.markdown(f"{card.icon} **{card.title}**")
    st.caption(card.words)
    form = _ask_form(card)
    refused = refusal(chosen.stored, form)
    if refused is not None:
        st.caption(f":material/block: {plain(refused)}")
        return
    made = made_before(chosen.stored, form)
    st.space("stretch")
    if made is None and chosen.page.workspace.is_read_only:
        _offer_direct_download(chosen, form)
    elif made is None:
        _offer_preparing(chosen, form)
    else:
        _offer_download(chosen, made)


def _ask_form(card: Card) -> str:
    names = list(card.forms)
    if len(names) == 1:
        return card.forms[names[0]]
    key = f"export_form_{card.forms[names[0]]}"
    name = st.segmented_control(
        card.title, names, default=names[0], required=True, key=key, label_visibility="collapsed"
    )
    return card.forms.get(str(name), card.forms[names[0]])


def _offer_preparing(chosen: ExportChoice, form: str) -> None:
    if not st.button("Prepare", icon=":material/build:", key=f"export_prepare_{form}", width="stretch"):
        return
    try:
        with st.spinner("Preparing …"):
            prepare(chosen.stored, form)
    except SpuError as problem:
        st.error(plain(problem), icon=":material/error:")
        return
    st.rerun()


def _offer_direct_download(chosen: ExportChoice, form: str) -> None:
    """In a read-only workspace the file is made when it is downloaded."""
    st.download_button(
        "Download",
        lambda: EXPORT_FORMS[form].make(chosen.stored).data,
        file_name=f"{file_stem(chosen.stored.name)}{EXPORT_FORMS[form].suffix}",
        mime=EXPORT_FORMS[form].mime,
        icon=":material/download:",
        on_click="ignore",
        key=f"export_unkept_{form}",
        width="stretch",
    )


def _offer_download(chosen: ExportChoice, made: ExportRecord) -> None:
    note = made.detail.get("note")
    if note:
        st.caption(f":material/info: {plain(note)}")
    exports = chosen.page.workspace.exports
    st.download_button(
        f"Download · {sized(made.size)}",
        lambda: exports.path(made.id).read_bytes(),
        file_name=made.name,
        mime=EXPORT_FORMS[made.format].mime,
        icon=":material/download:",
        type="primary",
        on_click="ignore",
        key=f"export_download_{made.format}",
        width="stretch",
    )
