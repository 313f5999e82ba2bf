"""The runs that are compared, the cached results of their comparison, and the choice of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd
import streamlit as st

from pages.ui.shared.cached import cache_result, load_all_rows, make_soft_labels
from pages.ui.shared.shell import Page, confirm_deletion, link_to, step_named
from pages.ui.shared.show import meaning
from pages.ui.shared.text import count, plain
from spu_core.engines.audit_results import verdict_state, with_audit
from spu_core.engines.stored_runs import (
    MOST_COMPARED,
    comparable_runs,
    compare_on,
    displayed_names,
    shuffled_columns,
    soft_labels_by,
    stored_bundle,
    stored_runs,
)
from spu_core.errors import TrainingError
from spu_core.labels import SoftLabels
from spu_core.metrics import Interval, RocBand, RocSpu
from spu_core.models.methods import FusedModel
from spu_core.tables import Role
from spu_core.tables.samples import sample_of, sample_truth
from spu_core.theory import ScarLink
from spu_core.training import (
    Comparison,
    Recommendation,
    ReviewCurve,
    Run,
    auc_figures,
    ceiling_curve,
    gain_importance,
    mean_soft_label,
    perfect_link,
    recommend,
    review_curve,
    segment_intervals,
    segment_table,
    segment_values,
    sketch,
    true_aucs,
)
from spu_core.training import run_band as band_of_run
from spu_core.training import run_calibration as calibration_of_run
from spu_core.training.comparison import NOT_MODELS
from spu_core.workspace import DatasetRecord, RuleSetVersion, RunRecord, ThresholdRecord, Workspace


@dataclass(frozen=True, eq=False)
class RunViews:
    """What the charts of a comparison need: reviews, thinned curves to draw, the ceiling, and AUCs by their titles."""

    reviews: dict[str, ReviewCurve]
    curves: dict[str, RocSpu]
    ceiling: RocSpu
    figures: dict[str, dict[str, Interval]]
    mean_soft_label: float
    perfect: ScarLink | None


@dataclass(frozen=True, eq=False)
class SegmentView:
    """AUC_SPU within parts of the table, as intervals and as a table."""

    intervals: dict[str, Interval | None]
    table: pd.DataFrame


@cache_result(24, "Loading the runs …")
def load_run(workspace: Workspace, token: str) -> Run:
    """A stored run with its out-of-fold scores."""
    return stored_runs(workspace, [token])[0]


def judging_soft_labels(workspace: Workspace, dataset: DatasetRecord, rules: RuleSetVersion | None) -> SoftLabels:
    """The soft labels that evaluate runs: those of the rules, or of the table itself where there are no rules."""
    if rules is not None and dataset.folder is None:
        return make_soft_labels(workspace, dataset, rules.text)
    return soft_labels_by(load_all_rows(workspace, dataset), rules)


@cache_result(8, "Comparing the runs …")
def compare_stored_runs(
    workspace: Workspace, dataset: DatasetRecord, runs: tuple[tuple[str, str], ...], rules: RuleSetVersion | None
) -> Comparison:
    """Runs compared by the same soft labels; `runs` are pairs of id and displayed name."""
    named = [replace(load_run(workspace, token), name=name) for token, name in runs]
    return compare_on(named, judging_soft_labels(workspace, dataset, rules))


def recommendation_of(
    workspace: Workspace,
    dataset: DatasetRecord,
    runs: tuple[tuple[str, str], ...],
    rules: RuleSetVersion | None,
    origin: str,
) -> Recommendation:
    """Which of the same runs to use; `origin` says how the confirmed cases were found."""
    return _recommendation(workspace, dataset, runs, rules, origin, verdict_state(workspace, dataset))


@cache_result(16, "Comparing the runs …")
def _recommendation(
    workspace: Workspace,
    dataset: DatasetRecord,
    runs: tuple[tuple[str, str], ...],
    rules: RuleSetVersion | None,
    origin: str,
    verdicts: str,
) -> Recommendation:
    comparison = compare_stored_runs(workspace, dataset, runs, rules)
    return recommend(with_audit(workspace, dataset, comparison), origin=origin)


@cache_result(8, "Drawing the curves …")
def run_views(
    workspace: Workspace,
    dataset: DatasetRecord,
    runs: tuple[tuple[str, str], ...],
    rules: RuleSetVersion | None,
    order: tuple[str, ...],
) -> RunViews:
    """The curves and figures of the same runs, in the order of the recommendation."""
    compared = compare_stored_runs(workspace, dataset, runs, rules)
    scored = [run for run in compared.runs if run.score is not None]
    reviews = {run.name: review_curve(run) for run in scored}
    return RunViews(
        reviews=reviews,
        curves={name: sketch(review.curve) for name, review in reviews.items()},
        ceiling=sketch(ceiling_curve(scored[0])),
        figures=auc_figures(compared, order),
        mean_soft_label=mean_soft_label(scored[0]),
        perfect=perfect_link(scored[0]),
    )


@cache_result(32)
def sample_name(workspace: Workspace, dataset: DatasetRecord) -> str | None:
    """The sample that a dataset is; None for other data."""
    return sample_of(load_all_rows(workspace, dataset))


@cache_result(8, "Revealing the truth …")
def revealed_aucs(
    workspace: Workspace,
    dataset: DatasetRecord,
    runs: tuple[tuple[str, str], ...],
    rules: RuleSetVersion | None,
    sample: str,
) -> dict[str, Interval]:
    """True AUC of the same runs by the truth of a sample."""
    return true_aucs(compare_stored_runs(workspace, dataset, runs, rules).runs, sample_truth(sample))


@cache_result(32)
def run_band(
    workspace: Workspace, dataset: DatasetRecord, _run: Run, token: str, rules: RuleSetVersion | None
) -> RocBand:
    """The confidence band of the curve of a run; `token` is its id."""
    return band_of_run(_run)


@cache_result(64)
def run_calibration(
    workspace: Workspace, dataset: DatasetRecord, _run: Run, token: str, rules: RuleSetVersion | None
) -> pd.DataFrame | None:
    """Mean score and mean soft label of a run, by bins of the score."""
    return calibration_of_run(_run)


@cache_result(32, "Looking at the segments …")
def run_segments(
    workspace: Workspace,
    dataset: DatasetRecord,
    _run: Run,
    token: str,
    rules: RuleSetVersion | None,
    column: str,
    threshold: float,
) -> SegmentView:
    """AUC_SPU of a run by the values of a column, and the share of each segment above the threshold."""
    values = segment_values(load_all_rows(workspace, dataset).values(column))
    return SegmentView(segment_intervals(_run, values), segment_table(_run, values, threshold))


@cache_result(32, "Reading the trees …")
def tree_gains(workspace: Workspace, token: str) -> pd.DataFrame | None:
    """The gain of each column in the trees of a run; None where it has no trees."""
    try:
        return gain_importance(stored_bundle(workspace, token).fitted)
    except TrainingError:
        return None


@cache_result(32)
def stack_weights(workspace: Workspace, token: str) -> dict[str, float] | None:
    """The weights of the ingredients of a fused run; None for other methods."""
    model = stored_bundle(workspace, token).fitted.model
    return model.stack_weights if isinstance(model, FusedModel) else None


@cache_result(16, "Training one fold again, then shuffling …")
def shuffle_columns(
    workspace: Workspace, dataset: DatasetRecord, _run: Run, token: str, rules: RuleSetVersion | None
) -> pd.DataFrame:
    """How far AUC_SPU falls when a column is shuffled; trains one fold again."""
    labels = judging_soft_labels(workspace, dataset, rules)
    return shuffled_columns(_run, load_all_rows(workspace, dataset), labels)


@dataclass(frozen=True, eq=False)
class Choice:
    """The compared runs, evaluated by the same soft labels, with the data for their charts.

    `champion` is the operating point by which the model in use was chosen. `sample` is the name of the sample that the
    dataset is, and `truth` its true AUCs once they were revealed; the recommendation does not use them. `names` are the
    runs with scores and `references` those of them that are no models to use, both in the order of the recommendation.
    """

    page: Page
    dataset: DatasetRecord
    comparison: Comparison
    recommendation: Recommendation
    views: RunViews
    ids: Mapping[str, str]
    rules: RuleSetVersion | None
    champion: ThresholdRecord | None
    sample: str | None
    truth: Mapping[str, Interval] | None

    def run(self, name: str) -> Run:
        return next(run for run in self.comparison.runs if run.name == name)

    def judged(self, name: str) -> tuple[Workspace, DatasetRecord, Run, str, RuleSetVersion | None]:
        """The first arguments of the cached calls about one run."""
        return self.page.workspace, self.dataset, self.run(name), self.ids[name], self.rules

    @property
    def names(self) -> list[str]:
        return [name for name in self.recommendation.order if name in self.views.curves]

    @property
    def references(self) -> list[str]:
        return [name for name in self.names if self.run(name).candidate.method in NOT_MODELS]

    @property
    def models(self) -> list[str]:
        """The runs that can be recommended."""
        return [name for name in self.names if name not in self.references]

    @property
    def figures(self) -> dict[str, dict[str, Interval]]:
        """The AUCs of each run by their titles, in the order of the recommendation."""
        if self.truth is None:
            return self.views.figures
        return {**self.views.figures, "true AUC": {name: self.truth[name] for name in self.names if name in self.truth}}

    @property
    def champion_name(self) -> str | None:
        """The name of the model in use; None where none was chosen, or where it is not among these runs."""
        token = None if self.champion is None else self.champion.run
        return next((name for name, known in self.ids.items() if known == token), None)


def choose_runs(page: Page) -> Choice:
    """Ask which runs and which soft labels; without any run the page shows what to do and stops."""
    dataset = page.need_dataset()
    records = page.workspace.runs.list(dataset.id)
    if not records:
        page.show_empty("No models yet.", "Train some candidates first; on a sample it takes about a minute.", "Train")
    with st.container(horizontal=True, vertical_alignment="center", key="compare_choice"):
        with st.popover("Runs and soft labels", icon=":material/checklist:", key="compare_popover"):
            chosen = _ask_runs(records, page)
            rules = _ask_rules(page, [record for record in records if record.id in chosen])
            _ask_change(page, records)
        compared = [record for record in records if record.id in chosen]
        _show_choice(dataset, compared, rules)
    _show_stale(page, compared)
    if not chosen:
        st.info("Choose at least one run.", icon=":material/info:")
        st.stop()
    named = tuple(_names(compared).items())
    content = (page.workspace, dataset, named, rules)
    found = recommendation_of(*content, dataset.origin)
    has_truth = Role.TRUTH in dataset.roles.values()
    sample = None if has_truth else sample_name(page.workspace, dataset)
    is_asked = st.session_state.get("compare_reveal", False)
    return Choice(
        page=page,
        dataset=dataset,
        comparison=compare_stored_runs(*content),
        recommendation=found,
        views=run_views(*content, found.order),
        ids={name: token for token, name in named},
        rules=rules,
        champion=page.workspace.thresholds.champion(dataset.id),
        sample=sample,
        truth=None if sample is None or not is_asked else revealed_aucs(*content, sample),
    )


def in_recommended_order(page: Page, records: Sequence[RunRecord]) -> list[RunRecord]:
    """Runs of one training in the order of the recommendation, under the names of the Compare page."""
    if not records:
        return []
    dataset, first, named = page.need_dataset(), records[0], _names(records)
    rules = None if first.rule_set is None else page.workspace.rule_sets.get(first.rule_set, first.rule_set_version)
    found = recommendation_of(page.workspace, dataset, tuple(named.items()), rules, dataset.origin)
    known = {named[record.id]: record for record in records}
    return [replace(known[name], name=name) for name in found.order]


def _names(records: Sequence[RunRecord]) -> dict[str, str]:
    """Id → name; where runs were trained on different versions of the rules, the name tells the version."""
    if len({_trained_on(record) for record in records}) > 1:
        records = [replace(record, name=f"{record.name}, {_trained_on(record)}") for record in records]
    return displayed_names(records)


def _trained_on(record: RunRecord) -> str:
    return "no rules" if record.rule_set_version is None else f"rules v{record.rule_set_version}"


def _show_choice(dataset: DatasetRecord, records: Sequence[RunRecord], rules: RuleSetVersion | None) -> None:
    trained = ", ".join(sorted({_trained_on(record) for record in records}))
    by = "the labels alone" if rules is None else f"soft labels of {plain(rules.name)}, version {rules.number}"
    many = f"{len(records)} run{'s' * (len(records) != 1)} trained on {trained or 'no rules'}"
    st.caption(f"{many} · {count(dataset.n_rows)} rows, out of fold · evaluated by {by}", width="content")


def _show_stale(page: Page, records: Sequence[RunRecord]) -> None:
    """Show a note where no run was trained with the open rules."""
    current = None if page.rules is None else (page.rules.id, page.rules.number)
    if current is None or not records or current in {(each.rule_set, each.rule_set_version) for each in records}:
        return
    with st.container(border=True, horizontal=True, vertical_alignment="center", key="compare_stale"):
        st.markdown(":material/history: Your rules have changed since these runs were trained.", width="content")
        link_to(step_named("Train"), "Train again", page.query)


def _ask_runs(records: Sequence[RunRecord], page: Page) -> list[str]:
    """The runs of the address, else those of the newest training; the choice goes into the address."""
    known = [record.id for record in records]
    labels = _labels(records)
    wanted = [token for token in st.query_params.get("runs", "").split(",") if token in known]
    default = wanted or comparable_runs(records, MOST_COMPARED)
    key = f"compare_runs_{page.dataset.id if page.dataset else ''}"
    # A run may have been deleted meanwhile, here or in another tab.
    st.session_state[key] = [token for token in st.session_state.get(key, default) if token in known]
    chosen = st.multiselect(
        "Runs",
        known,
        format_func=labels.__getitem__,
        max_selections=MOST_COMPARED,
        key=key,
        help="Only runs on the same folds can be compared; trainings with equal folds and seed share them.",
    )
    if chosen != default:
        st.query_params["runs"] = ",".join(chosen)
    return list(chosen)


def _ask_change(page: Page, records: Sequence[RunRecord]) -> None:
    """Rename or delete one of the runs."""
    labels = _labels(records)
    st.divider()
    token = st.selectbox(
        "Rename or delete a run",
        list(labels),
        index=None,
        format_func=lambda token: labels.get(token, ""),
        placeholder="Choose one",
        key=f"compare_change_{len(records)}",
    )
    if token is None:
        return
    now = next(record.name for record in records if record.id == token)
    name, rename, delete = st.columns([3, 1, 1], vertical_alignment="bottom")
    new = name.text_input("New name", now, max_chars=80, key=f"compare_name_{token}")
    if rename.button("Rename", key="compare_rename", disabled=not new.strip() or new == now):
        page.workspace.runs.rename(token, new)
        st.rerun()
    if delete.button("Delete …", icon=":material/delete:", key="compare_delete"):
        confirm_deletion(page, "run", token)


def _labels(records: Sequence[RunRecord]) -> dict[str, str]:
    return {record.id: f"{record.name} · {_trained_on(record)} · {record.made:%d %b %H:%M}" for record in records}


def _ask_rules(page: Page, records: Sequence[RunRecord]) -> RuleSetVersion | None:
    """The soft labels that evaluate all runs; figures from different soft labels cannot be compared."""
    versions = _versions(page, records)
    if not versions:
        return None
    keys = list(versions)
    trained = [(record.rule_set, record.rule_set_version) for record in records]
    default = next((at for at, key in enumerate(keys) if key in trained), 0)
    key = st.selectbox(
        "Evaluate all runs by the soft labels of",
        keys,
        index=default,
        format_func=lambda key: f"{versions[key].name}, version {versions[key].number}",
        key="compare_rules",
        help=f"{meaning('soft label')} Runs trained with other rules are evaluated again, from their stored scores.",
    )
    others = {each for each in trained if each != key}
    if others:
        st.caption(
            ":material/info: Some runs were trained with other rules; all are evaluated by the chosen soft labels."
        )
    return versions[key]


def _versions(page: Page, records: Sequence[RunRecord]) -> dict[tuple[str, int], RuleSetVersion]:
    wanted = [(record.rule_set, record.rule_set_version) for record in records if record.rule_set is not None]
    found = {key: page.workspace.rule_sets.get(str(key[0]), key[1]) for key in dict.fromkeys(wanted)}
    if page.rules is not None:
        found.setdefault((page.rules.id, page.rules.number), page.rules)
    return {(str(key[0]), int(key[1] or 0)): version for key, version in found.items()}
