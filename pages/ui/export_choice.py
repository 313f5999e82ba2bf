"""Which model is taken away: the champion, or any other run of the dataset."""

from __future__ import annotations

from dataclasses import dataclass, replace

import streamlit as st

from pages.ui import cached
from pages.ui.shell import Page
from pages.ui.steps import link_to, step_named
from spu_core.engines.export_files import ExportWords, StoredModel
from spu_core.engines.stored_runs import model_to_show, names_apart
from spu_core.workspace import DatasetRecord, RunRecord


@dataclass(frozen=True, eq=False)
class Chosen:
    """The run on the page, ready to be exported."""

    page: Page
    dataset: DatasetRecord
    record: RunRecord
    is_champion: bool
    stored: StoredModel

    def with_words(self, words: ExportWords) -> Chosen:
        """The same run, exported with other words."""
        return replace(self, stored=cached.stored_model(self.page.workspace, self.dataset, self.record, words))


def stored_models(page: Page) -> tuple[RunRecord, ...]:
    """The runs of the chosen dataset, the newest first."""
    return () if page.dataset is None else page.workspace.runs.list(page.dataset.id)


def choose_model(page: Page) -> Chosen:
    """Ask which run: that of the address, else the champion, else the best model of the newest training."""
    dataset, records = page.need_dataset(), stored_models(page)
    champion = page.workspace.thresholds.champion(dataset.id)
    first = model_to_show(records).id if champion is None else champion.run
    names, known = names_apart(records), [record.id for record in records]
    with st.container(horizontal=True, vertical_alignment="center", key="export_choice"):
        chosen = _ask(dataset, known, names, first)
        is_champion = champion is not None and champion.run == chosen
        _say_rank(page, is_champion, champion is not None)
    record = next(each for each in records if each.id == chosen)
    words = ExportWords.last_said(page.workspace, chosen)
    return Chosen(page, dataset, record, is_champion, cached.stored_model(page.workspace, dataset, record, words))


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


def _say_rank(page: Page, is_champion: bool, has_champion: bool) -> None:
    if is_champion:
        st.badge("Champion", icon=":material/trophy:", color="green")
        return
    words = "Not the champion" if has_champion else "No champion chosen yet"
    st.badge(words, icon=":material/info:", color="orange" if has_champion else "gray")
    link_to(step_named("Compare"), "Choose on Compare", page.query)
