"""Checks of the assumptions behind the figures of a model: the share of positives, the beliefs of the rules
(sensitivity), whether the model only repeats the rules (echo), and whether confirmed positives are typical (bias)."""

from __future__ import annotations

import streamlit as st

from pages.ui.shared.shell import Page, show_errors
from pages.ui.shared.show import meaning, show_chart, show_table, theme
from pages.ui.shared.text import count, plain
from pages.ui.soft_labels.cached import estimate_prior
from pages.ui.trust.cached import (
    audited_figures,
    belief_bands,
    bias_map,
    rule_error_bounds,
    rule_error_by_rule,
    true_figures,
)
from pages.ui.trust.evaluated_model import EvaluatedModel
from spu_core.charts import bias_chart, echo_chart, gamma_chart, prior_chart, rule_influence_chart, sensitivity_chart
from spu_core.engines import cancel, jobs_now, start_worker
from spu_core.engines.jobs.retraining_checks import echo_job, echo_result
from spu_core.engines.processes import latest_job
from spu_core.errors import SpuError
from spu_core.trust import BiasMap, EchoReport, GammaBounds, PriorReport, compare_priors
from spu_core.trust.echo import refuse_without_rule_columns
from spu_core.workspace import JobStatus

TITLES = {"BBE": "From confirmed cases, BBE", "Elkan–Noto": "The same, Elkan–Noto", "E[S]": "Your rules"}
WORDS = {
    "BBE": "Best bin estimation: counts the unlabelled rows per labelled row among the highest scores, where nearly "
    "all rows are positive. This is an upper estimate; the true share can be far lower where positives and negatives "
    "look alike. The lower end is the share of confirmed cases.",
    "Elkan–Noto": "Up to the share of labelled rows over the mean score of labelled rows. It needs calibrated scores "
    "and is too high where positives and negatives look alike.",
    "E[S]": "The mean soft label, E[S]: how many positives your rules expect.",
    "Audit": "Rows drawn with known probabilities and checked by hand: the only estimate without an assumption about "
    "labels.",
    "Truth": "From the truth column of this dataset.",
}
GAMMA = (
    "The lowest and highest true AUC if the odds of every soft label are wrong by at most a factor Γ, in whatever way "
    "is worst for the model that is ahead."
)
SPREADS = {0.25: "quite sure", 0.5: "somewhat unsure", 1.0: "very unsure"}
EXAMPLES = {0.25: "0.44 to 0.56", 0.5: "0.38 to 0.62", 1.0: "0.27 to 0.73"}
POLL_SECONDS = 1.0


def show_prior(model: EvaluatedModel) -> None:
    """The ranges up to BBE and Elkan–Noto, E[S], and the audit or the truth where there is one."""
    try:
        estimate = estimate_prior(model.workspace, model.dataset)
    except SpuError as problem:
        st.info(f"{plain(problem)} An audit can still measure it.", icon=":material/info:")
        return
    report = compare_priors(
        estimate,
        float(model.soft_labels.mean),
        audit=audited_figures(model).get("prior"),
        truth=true_figures(model).get("prior"),
    )
    with st.container(border=True):
        with st.container(horizontal=True, horizontal_alignment="distribute"):
            for source in report.sources:
                title = TITLES.get(source.name, source.name)
                st.metric(plain(title), source.text, help=WORDS[source.name], width="content")
        _show_sentences(report)
        show_chart(prior_chart(report, theme=theme()), "trust_prior_chart")
    st.caption(
        "The thick lines are ranges, not confidence intervals: the true share can be anywhere in them. The line of an "
        "audit shows its 95% bounds. BBE and Elkan–Noto assume that confirmed cases are a random sample of all "
        "positives. Where easy cases were confirmed first, both are too low; *Where rules and labels disagree* "
        "shows where."
    )


def _show_sentences(report: PriorReport) -> None:
    box = st.success if report.agrees else st.warning
    icon = ":material/check_circle:" if report.agrees else ":material/warning:"
    box("  \n".join(plain(sentence) for sentence in report.sentences), icon=icon)


def show_sensitivity(model: EvaluatedModel) -> None:
    """How wrong the rules may be before another model can be better, for each pair and for each rule."""
    if model.soft_labels.matrix is None:
        st.info(
            "These soft labels come from a column, so there are no rules that could be wrong. Define rules to use this "
            "check.",
            icon=":material/info:",
        )
        return
    bounds = rule_error_bounds(model)
    with st.container(border=True):
        st.subheader("How wrong may the rules be?", anchor=False, help=GAMMA)
        st.markdown(f"**{plain(bounds.sentence)}**")
        st.caption(
            "Γ = 2 means: where a rule claims odds of 1 to 1, the true odds lie between 1 to 2 and 2 to 1. The larger "
            "the Γ up to which a model stays ahead, the less the choice depends on the rules."
        )
        if bounds.pairs:
            _show_pair(model, bounds)
    _show_influence(model)


def _show_pair(model: EvaluatedModel, bounds: GammaBounds) -> None:
    known = {pair.second: pair for pair in bounds.pairs}
    second = st.selectbox(
        f"{plain(bounds.leader)} against",
        list(known),
        index=list(known).index(bounds.nearest.second),
        key=f"trust_gamma_{model.record.id}",
        width=360,
    )
    pair = known[str(second)]
    chart, rules = st.columns([3, 2], gap="medium")
    with chart:
        show_chart(gamma_chart(pair, theme=theme()), "trust_gamma_chart")
    with rules:
        st.markdown("If only one rule is wrong")
        table = rule_error_by_rule(model, pair.first, pair.second)
        table["tipping"] = [f"Γ = {value:.2g}" if value == value else "cannot change" for value in table["tipping"]]
        about = "The error of this rule alone at which the other model can be better."
        columns = {
            "rule": st.column_config.TextColumn("rule", width=160),
            "tipping": st.column_config.TextColumn("order can change at", help=about, width=130),
        }
        show_table(table, hide_index=True, column_config=columns, key="trust_gamma_rules")


def _show_influence(model: EvaluatedModel) -> None:
    """The older check: beliefs shifted at random, and each rule shifted, left out and reversed."""
    with st.expander(
        "Shift the beliefs of the rules", icon=":material/tune:", on_change="rerun", key="trust_shift"
    ) as part:
        if not part.open:
            return
        spread = st.select_slider(
            "How uncertain are your beliefs?",
            list(SPREADS),
            value=0.5,
            format_func=lambda value: SPREADS[value],
            key="trust_spread",
            help="The standard deviation of the shift on the log-odds scale. "
            + "; ".join(f"{SPREADS[s]}: a belief of 0.5 becomes {EXAMPLES[s]} in two of three draws" for s in SPREADS),
        )
        bands, influence = belief_bands(model, float(spread or 0.5))
        draws, rules = st.columns(2, gap="medium")
        with draws:
            st.markdown(plain(bands.sentence))
            show_chart(sensitivity_chart(bands, theme=theme()), "trust_sensitivity_chart")
        with rules:
            st.markdown(plain(influence.sentence))
            show_chart(rule_influence_chart(influence, theme=theme()), "trust_rule_chart")
        st.caption(
            "Stored scores are evaluated with changed soft labels; no model is trained again. The belief of a reversed "
            "rule applies to the rows on which the rule does not fire."
        )


def show_echo_and_bias(model: EvaluatedModel) -> None:
    """Where confirmed cases are more or less frequent than the rules expect, and the echo check (by a job)."""
    bias, echo = st.columns([3, 2], gap="medium")
    with bias, st.container(border=True):
        _show_bias(model)
    with echo, st.container(border=True):
        _show_echo(model)


def _show_echo(model: EvaluatedModel) -> None:
    st.subheader(
        "Does the model only repeat the rules?",
        anchor=False,
        help="The same model is trained with and without the columns that rules read.",
    )
    st.caption(
        "A model that sees the columns of the rules can repeat the rules and reach a high AUC_SPU without any other "
        "knowledge. Beyond: does it rank confirmed cases higher even among rows that the rules treat alike? (0.5 = no)"
    )
    try:
        refuse_without_rule_columns(model.table, model.soft_labels)
    except SpuError as problem:
        st.info(plain(problem), icon=":material/info:")
        return
    asked = echo_job(model.record, model.dataset, model.rules)
    job = latest_job(model.workspace, asked)
    if job is not None and not job.status.is_over:
        st.fragment(_show_echo_progress, run_every=POLL_SECONDS)(model.page, job.id)
        return
    if job is not None and job.status is JobStatus.FINISHED:
        _show_report(echo_result(job))
        return
    if job is not None:
        st.info(f"The last check did not finish. {plain(job.error)}", icon=":material/info:")
    words = f"Train twice and compare, on {count(model.dataset.n_rows)} rows"
    if st.button(words, key="trust_echo_go", icon=":material/play_arrow:"):
        start_worker(model.workspace, asked)
        st.rerun()
    st.caption("This runs in the background. You can continue with other work, or close this tab and come back.")


def _show_echo_progress(page: Page, token: str) -> None:
    with show_errors(page.title):
        job = next((each for each in jobs_now(page.workspace) if each.id == token), None)
        if job is None or job.status.is_over:
            st.rerun()  # the whole page: the report replaces the progress bar
            return
        st.progress(job.share, text=plain(job.message or "waiting for its turn"))
        if st.button("Cancel", icon=":material/stop_circle:", key="trust_echo_cancel"):
            cancel(page.workspace, job.id)
            st.rerun()


def _show_report(report: EchoReport) -> None:
    box = st.warning if report.is_echo else st.markdown
    box(plain(report.sentence))
    show_chart(echo_chart(report, theme=theme()), "trust_echo_chart")
    st.caption(
        f"Out of fold on {count(report.rows)} rows; the lines are {report.reproduced.level:.0%} intervals. *Beyond* "
        "describes all positives only if confirmed positives are typical of them."
    )


def _show_bias(model: EvaluatedModel) -> None:
    st.subheader("Where rules and labels disagree", anchor=False, help=meaning("label"))
    st.caption(
        "Among rows that the rules suspect equally, confirmed cases should be equally frequent everywhere. Where they "
        "are not, either people looked there more or less closely, or a rule is wrong there."
    )
    try:
        bias = bias_map(model)
    except SpuError as problem:
        st.info(plain(problem), icon=":material/info:")
        return
    box = st.markdown if bias.biased.empty else st.warning
    box(plain(bias.sentence))
    show_chart(bias_chart(bias, theme=theme()), "trust_bias_chart")
    _show_cells(bias)


def _show_cells(bias: BiasMap) -> None:
    with st.expander("All cells as a table", icon=":material/table:"):
        show_table(bias.cells, hide_index=True)
        st.caption(
            f"Suspected rows: rule score of at least {bias.at_least:.2f} ({count(bias.rows)} rows, "
            f"{count(bias.labeled)} confirmed). Expected: rows of equal rule score have equal chances. "
            "holm: p-values corrected for the number of cells."
        )
