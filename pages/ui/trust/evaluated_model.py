"""The model and the soft labels that all sections of the Trust page use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import streamlit as st

from pages.ui.compare.cached import compare_stored_runs
from pages.ui.shared.cached import load_table, make_soft_labels, recommended_run
from pages.ui.shared.shell import Page
from pages.ui.shared.show import meaning
from pages.ui.shared.text import count, plain, share
from spu_core.engines.stored_runs import displayed_names, soft_labels_by
from spu_core.labels import SoftLabels
from spu_core.tables import Table
from spu_core.training import Run
from spu_core.training.comparison import NOT_MODELS
from spu_core.workspace import DatasetRecord, RuleSetVersion, RunRecord, ThresholdRecord, Workspace


@dataclass(frozen=True, eq=False)
class EvaluatedModel:
    """A model, its training rows, and the soft labels that evaluate it; the rest is loaded when it is needed.

    `names` has a distinct name for each run of the dataset, and `references` are the names of those that are no models,
    such as the rules alone. `point` is the operating point, if one was chosen.
    """

    page: Page
    dataset: DatasetRecord
    record: RunRecord
    names: dict[str, str]
    references: frozenset[str]
    rules: RuleSetVersion | None
    point: ThresholdRecord | None

    @property
    def workspace(self) -> Workspace:
        return self.page.workspace

    @property
    def threshold(self) -> float | None:
        return None if self.point is None else self.point.threshold

    @property
    def name(self) -> str:
        return self.names[self.record.id]

    @property
    def key(self) -> tuple[str, str, int, str, str]:
        """What a cached call about this model must be keyed by."""
        sha256 = "" if self.rules is None else self.rules.sha256
        return str(self.page.workspace.folder), self.dataset.id, self.dataset.version, self.record.id, sha256

    @property
    def table(self) -> Table:
        return load_table(self.workspace, self.dataset)

    @property
    def soft_labels(self) -> SoftLabels:
        """The soft labels of the rules, or of the table itself where there are no rules."""
        if self.rules is None:
            return soft_labels_by(self.table, None)
        return make_soft_labels(self.workspace, self.dataset, self.rules.text)

    @property
    def run(self) -> Run:
        """The run with its out-of-fold scores, evaluated by these soft labels."""
        named = ((self.record.id, self.name),)
        return compare_stored_runs(self.workspace, self.dataset, named, self.rules).runs[0]


def choose_model(page: Page) -> EvaluatedModel:
    """Ask which model and which soft labels; without any run the page shows what to do and stops."""
    dataset = page.need_dataset()
    records = _runs(page, dataset)
    if not records:
        page.show_empty("No models yet.", "This page checks a model. Train some candidates first.", "Train")
    if dataset.folder is not None:
        page.show_empty(
            "These rows stay in a folder.",
            "It needs all rows in memory. Upload a sample of the rows as a file, train on it, and check that model "
            "here.",
            "Data",
        )
    names = displayed_names(records)
    with st.container(horizontal=True, vertical_alignment="bottom", key="trust_choice"):
        record = _ask_run(page, dataset, records, names)
        rules = _ask_rules(page, record)
    points = page.workspace.thresholds.list(record.id)
    references = frozenset(names[each.id] for each in records if each.candidate.get("method") in NOT_MODELS)
    model = EvaluatedModel(page, dataset, record, names, references, rules, points[0] if points else None)
    _show_choice(model)
    return model


def _runs(page: Page, dataset: DatasetRecord) -> tuple[RunRecord, ...]:
    """The runs of a dataset; before its first, those of the dataset that it was made from by check outcomes."""
    family = page.workspace.feedbacks.family(dataset.id)
    return next((found for token in family if (found := page.workspace.runs.list(token))), ())


def _ask_run(page: Page, dataset: DatasetRecord, records: Sequence[RunRecord], names: dict[str, str]) -> RunRecord:
    """The run of the address, else the champion, else the recommended run."""
    champion = page.workspace.thresholds.champion(dataset.id)
    known = [record.id for record in records]
    first = champion.run if champion else recommended_run(page.workspace, tuple(records), dataset.origin).id
    wanted = st.query_params.get("run", first)
    default = wanted if wanted in known else first
    chosen = st.selectbox(
        "Model",
        known,
        index=known.index(default),
        format_func=lambda token: names[token] + (" · in use" if champion and token == champion.run else ""),
        key=f"trust_run_{dataset.id}",
        width=360,
    )
    if chosen != default:
        st.query_params["run"] = str(chosen)
    return next(record for record in records if record.id == chosen)


def _ask_rules(page: Page, record: RunRecord) -> RuleSetVersion | None:
    """The soft labels that the model was trained on, or those of the open rules."""
    versions: dict[str, RuleSetVersion] = {}
    if record.rule_set is not None:
        version = page.workspace.rule_sets.get(record.rule_set, record.rule_set_version)
        versions[f"{version.name}, version {version.number}"] = version
    if page.rules is not None:
        versions.setdefault(f"{page.rules.name}, version {page.rules.number}", page.rules)
    if not versions:
        return None
    name = st.selectbox(
        "Soft labels", list(versions), key=f"trust_rules_{record.id}", width=300, help=meaning("soft label")
    )
    return versions[str(name)]


def _show_choice(model: EvaluatedModel) -> None:
    words = f"{plain(model.dataset.name)}, {count(model.dataset.n_rows)} rows, scored out of fold"
    if model.record.dataset != model.dataset.id:
        words += " · :material/history: trained before the latest check outcomes"
    if model.point is None:
        words += " · no operating point chosen yet"
    else:
        words += f" · flags {share(model.point.flagged_share)} above {model.point.threshold:.4g}"
    st.caption(words)


def choose_by_address(name: str, titles: Mapping[str, str], default: str | None = None) -> str:
    """A choice in one row, kept in the address under `name`, so that a refresh or a shared link opens it again."""
    options = list(titles)
    first = options[0] if default is None else default
    wanted = st.query_params.get(name, first)
    asked = st.session_state.pop(f"trust_{name}_next", None)
    if asked in options:
        st.session_state[f"trust_{name}"] = asked
    st.session_state.setdefault(f"trust_{name}", wanted if wanted in options else first)
    chosen = st.segmented_control(
        name,
        options,
        required=True,
        format_func=titles.__getitem__,
        key=f"trust_{name}",
        label_visibility="collapsed",
    )
    if chosen != wanted:
        st.query_params[name] = str(chosen)
    return str(chosen)


def choose_next(name: str, option: str) -> None:
    """Make the choice of `choose_by_address` from elsewhere on the page, and run the page again."""
    st.session_state[f"trust_{name}_next"] = option
    st.rerun()
