"""The model and the soft labels that all sections of the Trust page use, and the cached calls about them.

The key of a model consists of the workspace, the data, the run and the rules and, where the result depends on them,
of the threshold or the number of recorded outcomes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from pages.ui.compare.compared_runs import compare_stored_runs
from pages.ui.shared.cached import Keys, cache_result, load_table, make_soft_labels, recommended_run
from pages.ui.shared.shell import Page
from pages.ui.shared.show import meaning
from pages.ui.shared.text import count, plain, share
from spu_core.engines.audit_results import AuditResult, audit_result, checked_rows, truth_of
from spu_core.engines.outcome_learning import WhatChanged, propose_feedback, sample_players
from spu_core.engines.outcome_learning import what_changed as changed_between
from spu_core.engines.outcome_loop import (
    LoopChecks,
    QueueCandidates,
    checks_in_loop,
    checks_of,
    loop_queues,
    populations,
)
from spu_core.engines.stored_runs import displayed_names, models_of_same_rules, soft_labels_by
from spu_core.errors import SpuError
from spu_core.labels import SoftLabels
from spu_core.tables import Table
from spu_core.tables.simulators.anti_cheat import Players
from spu_core.training import Run, recommend
from spu_core.training.comparison import NOT_MODELS
from spu_core.trust import (
    AuditFigure,
    AuditPlan,
    AuditReport,
    BiasMap,
    CheckedRows,
    Forecast,
    GammaBounds,
    Population,
    RuleInfluence,
    Sensitivity,
    WhatIf,
    belief_sensitivity,
    draw_audit,
    forecast,
    gamma_bounds,
    judge_runs,
    rule_influence,
    selection_bias,
    tipping_by_rule,
)
from spu_core.trust.outcomes.feedback import Feedback, FeedbackPlan
from spu_core.trust.outcomes.review_queue import Queue, QueuePlan, fill_queue
from spu_core.trust.sensitivity import affordable_draws
from spu_core.workspace import (
    AuditRecord,
    DatasetRecord,
    QueueRecord,
    RuleSetVersion,
    RunRecord,
    ThresholdRecord,
    Workspace,
)


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
        words += f" · flags {share(model.point.flagged_share)} above {model.point.threshold:.3g}"
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


MOST_RUNS = 8
BY_MODEL: Keys = {EvaluatedModel: lambda model: model.key}
BY_THRESHOLD: Keys = {EvaluatedModel: lambda model: (*model.key, model.threshold)}
BY_OUTCOMES: Keys = {EvaluatedModel: lambda model: (*model.key, model.workspace.queues.state())}
BY_DATASETS: Keys = {
    EvaluatedModel: lambda model: (*model.key, [(each.id, each.version) for each in model.workspace.datasets.list()])
}


@cache_result(32, keys=BY_THRESHOLD)
def implied_figures(model: EvaluatedModel) -> WhatIf:
    """AUC_SPU and the rates at the operating point of the model."""
    return WhatIf.of_run(model.run, model.threshold)


@cache_result(8, keys=BY_THRESHOLD)
def audit_population(model: EvaluatedModel) -> Population:
    """The rows that an audit of this model would draw from."""
    return Population.of_run(model.run, model.threshold)


def audits_of_rows(model: EvaluatedModel) -> tuple[AuditRecord, ...]:
    """All audits of the rows that the model was trained on, the newest first; they serve every model."""
    return model.workspace.audits.of_dataset(model.record.dataset)


def _verdicts(model: EvaluatedModel) -> int:
    """What results depend on: a number that grows with each verdict and each undo."""
    return model.workspace.audits.state(model.record.dataset)


def _checked(model: EvaluatedModel, treatment: str = "mean") -> CheckedRows:
    return checked_rows(model.workspace, model.workspace.datasets.get(model.record.dataset), treatment=treatment)  # type: ignore[arg-type]


def checked_so_far(model: EvaluatedModel) -> int:
    """How many rows of the table have a verdict."""
    return len({item.row for audit in audits_of_rows(model) for item in model.workspace.audits.verdicts(audit.id)})


def _checked_or_none(model: EvaluatedModel) -> CheckedRows | None:
    try:
        return _checked(model)
    except SpuError:
        return None  # nothing was checked yet, or too little to direct the next checks


def open_rows(model: EvaluatedModel) -> int:
    """How many rows can be drawn: all but the confirmed cases."""
    return int(audit_population(model).is_open.sum())


def _rival(model: EvaluatedModel, rival: str | None) -> Population | None:
    if rival is None:
        return None
    [run] = compare_stored_runs(model.workspace, model.dataset, ((rival, model.names[rival]),), model.rules).runs
    return Population.of_run(run)


def audit_forecast(model: EvaluatedModel, question: str, rival: str | None) -> Forecast:
    """What each number of checks will tell."""
    return _forecast(model, question, rival, _verdicts(model))


@cache_result(64, "Computing what the checks will tell …", keys=BY_THRESHOLD)
def _forecast(model: EvaluatedModel, question: str, rival: str | None, verdicts: int) -> Forecast:
    rows = audit_population(model)
    return forecast(rows, question, rival=_rival(model, rival), checked=_checked_or_none(model))


def draw_rows(model: EvaluatedModel, checks: int, question: str, rival: str | None, looks: int) -> AuditPlan:
    """A plan; not cached, since it is drawn once and then kept in the workspace. Each batch has its own seed."""
    return draw_audit(
        audit_population(model),
        checks,
        question,
        rival=_rival(model, rival),
        checked=_checked_or_none(model),
        table_rows=model.dataset.n_rows,
        looks=looks,
        seed=len(audits_of_rows(model)),
    )


def audit_report(model: EvaluatedModel, treatment: str) -> AuditReport:
    """What the checked rows say of this model and the newest other models."""
    others = [token for token in model.names if token != model.record.id][: MOST_RUNS - 1]
    runs = tuple((token, model.names[token]) for token in (model.record.id, *others))
    return _audit_report(model, runs, treatment, _verdicts(model))


@cache_result(32, "Counting verdicts …", keys=BY_THRESHOLD)
def _audit_report(
    model: EvaluatedModel,
    runs: tuple[tuple[str, str], ...],
    treatment: str,
    verdicts: int,
) -> AuditReport:
    judged = compare_stored_runs(model.workspace, model.dataset, runs, model.rules).runs
    points = {name: model.workspace.thresholds.list(token) for token, name in runs}
    thresholds = {name: found[0].threshold for name, found in points.items() if found}
    return judge_runs(judged, _checked(model, treatment), thresholds=thresholds)


def audited_figures(model: EvaluatedModel) -> dict[str, AuditFigure]:
    """The figures of this model by the checked rows; empty before the first verdicts."""
    try:
        return audit_report(model, "mean").figures[model.name]
    except SpuError:
        return {}


def newest_audit(model: EvaluatedModel) -> AuditResult | None:
    """Tests of assumptions by the newest audit with enough verdicts; None where there is none."""
    for audit in audits_of_rows(model):
        if model.workspace.audits.verdicts(audit.id):
            try:
                return _estimate_audit(model, audit, _verdicts(model))
            except SpuError:
                continue  # drawn by other scores or soft labels, or not enough verdicts
    return None


@cache_result(32, "Counting verdicts …", keys=BY_MODEL)
def _estimate_audit(model: EvaluatedModel, audit: AuditRecord, state: int) -> AuditResult:
    verdicts = model.workspace.audits.verdicts(audit.id)
    return audit_result(model.run, model.table, AuditPlan.from_json(audit.plan), verdicts)


def true_figures(model: EvaluatedModel) -> dict[str, float]:
    """Every figure from the truth column, where there is one."""
    return truth_of(model.run, audit_population(model))


def _runs_of_same_rules(model: EvaluatedModel) -> tuple[tuple[str, str], ...]:
    """This model and the other models that were trained on the same rules, with their names."""
    records = model.workspace.runs.list(model.dataset.id)
    names = displayed_names(records)
    return tuple((each.id, names[each.id]) for each in models_of_same_rules(records, model.record, MOST_RUNS))


def belief_bands(model: EvaluatedModel, spread: float) -> tuple[Sensitivity, RuleInfluence]:
    """Stored scores of this model and the other models, evaluated by shifted beliefs."""
    return _belief_bands(model, _runs_of_same_rules(model), spread)


@cache_result(32, "Shifting the beliefs …", keys=BY_MODEL)
def _belief_bands(
    model: EvaluatedModel, runs: tuple[tuple[str, str], ...], spread: float
) -> tuple[Sensitivity, RuleInfluence]:
    judged = compare_stored_runs(model.workspace, model.dataset, runs, model.rules).runs
    draws, labels = affordable_draws(model.dataset.n_rows), model.soft_labels
    return belief_sensitivity(judged, labels, draws=draws, spread=spread), rule_influence(judged, labels, shift=spread)


def rule_error_bounds(model: EvaluatedModel) -> GammaBounds:
    """How wrong the soft labels may be before another model can be better than the recommended one."""
    return _rule_error_bounds(model, _runs_of_same_rules(model))


@cache_result(32, "Computing bounds …", keys=BY_MODEL)
def _rule_error_bounds(model: EvaluatedModel, runs: tuple[tuple[str, str], ...]) -> GammaBounds:
    compared = compare_stored_runs(model.workspace, model.dataset, runs, model.rules)
    recommended = recommend(compared, origin=model.dataset.origin).model
    return gamma_bounds(compared.runs, model.soft_labels, leader=recommended)


def rule_error_by_rule(model: EvaluatedModel, first: str, second: str) -> pd.DataFrame:
    """The same if only one rule is wrong, for each rule."""
    return _rule_error_by_rule(model, _runs_of_same_rules(model), first, second).copy()


@cache_result(64, "Computing bounds …", keys=BY_MODEL)
def _rule_error_by_rule(
    model: EvaluatedModel, runs: tuple[tuple[str, str], ...], first: str, second: str
) -> pd.DataFrame:
    judged = compare_stored_runs(model.workspace, model.dataset, runs, model.rules).runs
    return tipping_by_rule(judged, model.soft_labels, first, second)


@cache_result(32, "Comparing confirmed with expected positives …", keys=BY_MODEL)
def bias_map(model: EvaluatedModel) -> BiasMap:
    """Where confirmed cases are over-represented."""
    return selection_bias(model.table, model.soft_labels)


@cache_result(16, keys=BY_DATASETS)
def tables_to_flag(model: EvaluatedModel) -> tuple[DatasetRecord, ...]:
    """The stored tables from which the model can flag rows, its own first."""
    return populations(model.workspace, model.dataset.id, model.record.id)


def queues(model: EvaluatedModel) -> tuple[QueueRecord, ...]:
    """All review queues of this dataset and those made from it, the newest first."""
    return loop_queues(model.workspace, model.dataset.id)


def dataset_names(model: EvaluatedModel) -> dict[str, str]:
    """The names of all stored tables by their ids."""
    return {each.id: each.name for each in model.workspace.datasets.list()}


@cache_result(4, "Scoring the rows …")
def queue_population(workspace: Workspace, rows: DatasetRecord, runs: tuple[str, ...]) -> QueueCandidates:
    """The rows that may be checked, scored by these runs."""
    return QueueCandidates.of(workspace, rows.id, runs)


@cache_result(16, "Filling the queue …", keys=BY_OUTCOMES)
def preview_queue(
    model: EvaluatedModel, rows: DatasetRecord, runs: tuple[str, ...], plan: QueuePlan, again: bool
) -> tuple[Queue, str]:
    """The rows that this plan would check, and whether the split looks random."""
    found = queue_population(model.workspace, rows, runs)
    is_open = found.is_open(model.workspace, again)
    return fill_queue(found.users, found.scores, plan, is_open=is_open), found.balance(plan).sentence


@cache_result(16, "Looking for disagreements …", keys=BY_OUTCOMES)
def disagreements(model: EvaluatedModel, budget: int, side: str) -> pd.DataFrame:
    """The rows where the model and the rules disagree most, with the reasons of both."""
    found = queue_population(model.workspace, model.dataset, (model.record.id,))
    return found.explained(found.disagreement(model.workspace, budget, side))


@cache_result(8, "Counting outcomes …", keys=BY_OUTCOMES)
def all_checks(model: EvaluatedModel) -> LoopChecks | None:
    """All finished checks that models of this dataset asked for, from all tables; None before the first."""
    try:
        return checks_in_loop(model.workspace, model.dataset.id)
    except SpuError:
        return None


@cache_result(8, "Counting outcomes …", keys=BY_OUTCOMES)
def own_checks(model: EvaluatedModel, dataset: str) -> LoopChecks | None:
    """The finished checks of the rows of one dataset; None before the first."""
    try:
        return checks_of(model.workspace, dataset)
    except SpuError:
        return None


@cache_result(8, "Computing what the outcomes change …", keys=BY_OUTCOMES)
def proposed_feedback(model: EvaluatedModel, rows: DatasetRecord, plan: FeedbackPlan) -> Feedback:
    """What the outcomes of the rows of a dataset would change in it."""
    return propose_feedback(model.workspace, rows.id, model.rules, plan)


@cache_result(8, "Comparing before and after …", keys=BY_OUTCOMES)
def what_changed(model: EvaluatedModel, old: str, new: str) -> WhatChanged:
    """Two runs side by side, before and after outcomes were fed back."""
    return changed_between(model.workspace, old, new)


@cache_result(4)
def simulated_players(workspace: Workspace, dataset: DatasetRecord) -> Players | None:
    """The simulated players where the dataset is the anti-cheat sample."""
    return sample_players(load_table(workspace, dataset))
