"""Choose the model to export, edit its words, and download it in several forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import streamlit as st

from pages.ui.shared.cached import cache_result, load_all_rows, recommended_run_and_why
from pages.ui.shared.shell import Page, link_to, step_named
from pages.ui.shared.show import figure_cards, show_figure
from pages.ui.shared.text import figure, plain, share, sized
from spu_core.engines.export_files import (
    EXPORT_FORMS,
    ExportTexts,
    StoredModel,
    file_stem,
    made_before,
    prepare,
    refusal,
)
from spu_core.engines.stored_runs import displayed_names
from spu_core.errors import SpuError
from spu_core.workspace import DatasetRecord, ExportRecord, RunRecord, Workspace

ROWS_INSIDE = (
    "This model compares new rows with training rows, so **its files contain training rows**. Share them only with "
    "people who may see the data."
)
ORACLE = "This run was trained on the truth. It shows the best possible result; do not use it in production."
CARD_FIELDS = {
    "purpose": ("Purpose", "What is the model for, and what is it not for?"),
    "chosen_because": ("Why this model", "How was it chosen among the candidates?"),
    "contact": ("Contact", "Who answers questions about it?"),
    "licence": ("Licence", "Who may use it, and how?"),
    "changes": ("Changes", "What is new? One line per change. Training and thresholds are added automatically."),
}


@dataclass(frozen=True, eq=False)
class ExportChoice:
    """The run on the page, ready to be exported."""

    page: Page
    dataset: DatasetRecord
    record: RunRecord
    is_champion: bool
    stored: StoredModel

    def with_texts(self, words: ExportTexts) -> ExportChoice:
        """The same run, exported with other text."""
        return replace(self, stored=_load_model(self.page.workspace, self.dataset, self.record, words))


def _load_model(workspace: Workspace, dataset: DatasetRecord, record: RunRecord, words: ExportTexts) -> StoredModel:
    """A stored run, ready to be written in any form."""
    points = workspace.thresholds.list(record.id)
    others = tuple((run.id, run.name) for run in workspace.runs.list(dataset.id))
    return _cached_model(workspace, dataset, record, words, points[0].id if points else "", others)


@cache_result(8, "Loading the model …")
def _cached_model(
    workspace: Workspace,
    dataset: DatasetRecord,
    record: RunRecord,
    words: ExportTexts,
    point: str,
    others: tuple[tuple[str, str], ...],
) -> StoredModel:
    """Keyed also by the operating point and by the other runs of the dataset, which the model card compares."""
    return StoredModel(workspace, record, load_all_rows(workspace, dataset), words)


def stored_models(page: Page) -> tuple[RunRecord, ...]:
    """The runs of the chosen dataset, the newest first."""
    return () if page.dataset is None else page.workspace.runs.list(page.dataset.id)


def choose_model(page: Page) -> ExportChoice:
    """Ask which run: that of the address, else the champion, else the recommended run."""
    dataset, records = page.need_dataset(), stored_models(page)
    champion, why = page.workspace.thresholds.champion(dataset.id), ""
    if champion is None:
        recommended, found = recommended_run_and_why(page.workspace, records, dataset.origin)
        first, why = recommended.id, found.sentence
    else:
        first = champion.run
    names, known = _names(page, records), [record.id for record in records]
    with st.container(horizontal=True, vertical_alignment="center", key="export_choice"):
        chosen = _ask(dataset, known, names, first)
        is_champion = champion is not None and champion.run == chosen
        _show_rank(page, is_champion, champion is not None)
    if champion is None and chosen == first:
        st.caption(
            f":material/recommend: You have not chosen a model, so this page uses {plain(names[first])}, the "
            f"recommended model of your latest training. {plain(why)}"
        )
    record = next(each for each in records if each.id == chosen)
    if _is_stale(page, record):
        _show_stale(page, record)
    words = ExportTexts.last_used(page.workspace, chosen)
    return ExportChoice(page, dataset, record, is_champion, _load_model(page.workspace, dataset, record, words))


def _names(page: Page, records: Sequence[RunRecord]) -> dict[str, str]:
    """Id → name; runs of other rules than the open ones are marked."""
    stale = {record.id for record in records if _is_stale(page, record)}
    return {
        token: f"{name} · other rules" if token in stale else name for token, name in displayed_names(records).items()
    }


def _is_stale(page: Page, record: RunRecord) -> bool:
    """Whether a run was trained with other rules than the open ones."""
    open_now = None if page.rules is None else (page.rules.id, page.rules.number)
    return open_now is not None and open_now != (record.rule_set, record.rule_set_version)


def _show_stale(page: Page, record: RunRecord) -> None:
    assert page.rules is not None
    trained = "without rules"
    if record.rule_set is not None:
        version = page.workspace.rule_sets.get(record.rule_set, record.rule_set_version)
        trained = f"with {version.name}, version {version.number}"
    with st.container(border=True, horizontal=True, vertical_alignment="center", key="export_stale"):
        words = f"This model was trained {trained}. {page.rules.name}, version {page.rules.number}, is open now."
        st.markdown(f":material/history: {plain(words)}", width="content")
        link_to(step_named("Train"), "Train again", page.query)


def _ask(dataset: DatasetRecord, known: list[str], names: dict[str, str], first: str) -> str:
    wanted = st.query_params.get("run", first)
    default = wanted if wanted in known else first
    chosen = st.selectbox(
        "Model",
        known,
        index=known.index(default),
        format_func=names.__getitem__,
        key=f"export_run_{dataset.id}",
        width=420,
        label_visibility="collapsed",
    )
    if chosen != default:
        st.query_params["run"] = chosen
    return str(chosen)


def _show_rank(page: Page, is_champion: bool, has_champion: bool) -> None:
    if is_champion:
        st.badge("Model in use", icon=":material/check_circle:", color="green")
        return
    words = "Not the chosen model" if has_champion else "No model chosen yet"
    st.badge(words, icon=":material/info:", color="orange" if has_champion else "gray")
    link_to(step_named("Compare"), "Choose on Compare", page.query)


def show_card(chosen: ExportChoice) -> None:
    """Four figures, the origin of the model, and warnings."""
    metrics: Mapping[str, Any] = chosen.record.summary.get("metrics") or {}
    point = chosen.stored.bundle.point
    cards = figure_cards(4)
    show_figure(cards[0], "AUC_SPU", *_bounded(metrics.get("auc_spu")), about="AUC_SPU")
    reached, ceiling = metrics.get("share_of_ceiling"), metrics.get("ceiling")
    show_figure(
        cards[1],
        "Share of the ceiling",
        "–" if reached is None else share(reached["estimate"]),
        "no ceiling" if ceiling is None else f"ceiling {figure(ceiling)}",
        about="share of ceiling",
    )
    known = metrics.get("known_positive_auc")
    show_figure(cards[2], "AUC on confirmed cases", *_bounded(known), about="known-positive AUC")
    show_figure(cards[3], "Flags", share(point.share), _above(point.threshold), about="threshold")
    lineage = plain(chosen.page.workspace.lineage(chosen.record.id))
    st.caption(f":material/account_tree: {lineage} · trained {chosen.record.made:%Y-%m-%d %H:%M} UTC")
    if chosen.stored.bundle.keeps_training_rows:
        st.warning(ROWS_INSIDE, icon=":material/privacy_tip:")
    if chosen.record.candidate.get("method") == "oracle":
        st.warning(ORACLE, icon=":material/warning:")


def _above(threshold: float) -> str:
    if isfinite(threshold):
        return f"above {threshold:.3g}"
    return "no score; choose a threshold on Compare" if threshold > 0 else "every score"


def edit_texts(chosen: ExportChoice) -> ExportChoice:
    """The text of the model card, and what the bundle may contain; starts from the last export."""
    last = chosen.stored.words
    with st.expander("Text of the model card, and content of the bundle", icon=":material/edit_note:"):
        columns = st.columns(2, gap="medium")
        entered = {
            name: columns[place % 2]
            .text_area(
                title,
                getattr(last, name),
                placeholder=hint,
                max_chars=2000,
                height=80,
                key=f"export_{name}_{chosen.record.id}",
                persist_state="session",
            )
            .strip()
            for place, (name, (title, hint)) in enumerate(CARD_FIELDS.items())
        }
        keep_rows = st.toggle(
            "Keep scores, soft labels and labels of the training rows in the bundle",
            last.keep_rows,
            key=f"export_keep_{chosen.record.id}",
            persist_state="session",
            help="With them the run can be compared again elsewhere. Scoring does not need them.",
        )
    words = ExportTexts(**entered, keep_rows=keep_rows)
    return chosen if words == last else chosen.with_texts(words)


def _bounded(value: Mapping[str, Any] | None) -> tuple[str, str]:
    """An estimate and its interval in words."""
    if value is None or value.get("estimate") is None:
        return "–", "not known"
    if value.get("low") is None or value.get("high") is None:
        return figure(value["estimate"]), "no interval"
    return figure(value["estimate"]), f"{figure(value['low'])} to {figure(value['high'])}"


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
