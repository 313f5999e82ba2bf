"""Checks of the assumptions behind the figures of a model.

The share of positives, the beliefs of the rules (sensitivity), whether the model only repeats the rules (echo), whether
confirmed cases are typical (bias), and the what-if map: what AUC_SPU would imply about the true AUC, if Theorem 2
held.
"""

from __future__ import annotations

import streamlit as st

from pages.ui.shared.shell import Page, show_errors
from pages.ui.shared.show import explain_terms, meaning, show_chart, show_table, theme
from pages.ui.shared.text import count, figure, plain
from pages.ui.soft_labels.editor_state import estimate_prior
from pages.ui.trust.evaluated_model import (
    EvaluatedModel,
    audited_figures,
    belief_bands,
    bias_map,
    implied_figures,
    newest_audit,
    rule_error_bounds,
    rule_error_by_rule,
    true_figures,
)
from spu_core.charts import (
    bias_chart,
    echo_chart,
    gamma_chart,
    prior_chart,
    rule_influence_chart,
    sensitivity_chart,
    what_if_chart,
)
from spu_core.engines import cancel, jobs_now, start_worker
from spu_core.engines.audit_results import AuditResult
from spu_core.engines.jobs.retraining_checks import echo_job, echo_result
from spu_core.engines.processes import latest_job
from spu_core.errors import SpuError
from spu_core.metrics import Interval
from spu_core.trust import BiasMap, EchoReport, GammaBounds, Implied, Marker, PriorReport, WhatIf, compare_priors
from spu_core.trust.echo import refuse_without_rule_columns
from spu_core.trust.what_if import Quantity
from spu_core.workspace import JobStatus

TITLES = {"BBE": "From confirmed cases", "Elkan–Noto": "The same, Elkan–Noto", "E[S]": "Your rules"}
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
    "The lowest and highest true AUC if the odds of every soft label are wrong by at most a factor (Γ), in "
    "whatever way is worst for the model that is ahead."
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
            "Wrong by a factor of 2 means: where a rule claims odds of 1 to 1, the true odds lie between 1 to 2 and "
            "2 to 1. The larger the error at which a model stays ahead, the less the choice depends on the rules."
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
        table["tipping"] = [
            f"a factor of {value:.2g}" if value == value else "cannot change" for value in table["tipping"]
        ]
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
        "describes all positives only if confirmed cases are typical of them."
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


NAMES = {"prior": "trust_prior_value", "positive_mean": "trust_positive_mean", "negative_mean": "trust_negative_mean"}
QUANTITIES: dict[Quantity, str] = {"true_auc": "True AUC", "tpr": "TPR", "fpr": "FPR"}


def show_what_if(model: EvaluatedModel) -> None:
    """Three numbers, one of which follows from the others by E[S], and the figures that they would imply."""
    what_if = implied_figures(model)
    audit = newest_audit(model)
    _show_status(audit)
    known, limit = _known_markers(model), _upper_limit(model)
    controls, chart = st.columns([2, 3], gap="medium")
    with controls, st.container(border=True):
        implied = _choose(model, what_if, known)
        _show_implied(implied)
        where = "the operating point" if model.point is not None else "the review budget (no operating point is chosen)"
        st.caption(f"TPR and FPR at {where}: rows scored above {what_if.threshold:.3g}.")
    with chart, st.container(border=True):
        quantity = st.segmented_control(
            "Map of",
            list(QUANTITIES),
            default="true_auc",
            required=True,
            format_func=QUANTITIES.__getitem__,
            key="trust_quantity",
            help="TPR and FPR are those where this model flags.",
        )
        drawn = what_if_chart(
            what_if,
            quantity=quantity or "true_auc",
            chosen=implied,
            markers=(*known, *limit),
            theme=theme(),
        )
        show_chart(drawn, "trust_what_if_map")
    explain_terms("AUC_SPU", "soft label", "mean soft label", "TPR_SPU", "FPR_SPU")


def _show_status(audit: AuditResult | None) -> None:
    """Whether the assumption was tested by an audit, and with which result."""
    if audit is None:
        st.info(
            "**A what-if, not an estimate.** It holds only if, within each true class, the soft label does not "
            "depend on the score. Rules read the columns, so they usually violate this. An audit can test it.",
            icon=":material/psychology_alt:",
        )
    elif audit.assumptions.is_score_refuted:
        st.warning(f"**This map does not hold here.** {plain(audit.assumptions.sentences[1])}", icon=":material/block:")
    else:
        st.warning(f"**Still a what-if.** {plain(audit.assumptions.sentences[1])}", icon=":material/fact_check:")


def _choose(model: EvaluatedModel, what_if: WhatIf, markers: tuple[Marker, ...]) -> Implied:
    state = f"trust_at_{'_'.join(map(str, model.key[1:]))}"
    if state not in st.session_state:
        st.session_state[state] = what_if.default(markers)
    at = st.session_state[state]
    implied = what_if.at(*at)
    values = {
        "prior": at[0],
        "positive_mean": at[1],
        "negative_mean": implied.link.negative_mean,
    }
    limits = {"prior": (0.001, 0.999), "positive_mean": (what_if.mean, 1.0), "negative_mean": (0.0, what_if.mean)}
    words = {
        "prior": ("Share of true positives", "The share of all rows that are truly positive."),
        "positive_mean": (
            "Mean soft label of true positives",
            "The mean soft label that your rules give to true positives.",
        ),
        "negative_mean": (
            "Mean soft label of true negatives",
            "The mean soft label that your rules give to true negatives.",
        ),
    }
    for name, key in NAMES.items():
        low, high = limits[name]
        st.session_state[key] = min(max(values[name], low), high)
        st.slider(
            words[name][0],
            low,
            high,
            step=(high - low) / 500,
            format="%.3f",
            key=key,
            help=f"{words[name][1]} E[S] = πS_P + (1−π)S_N = {what_if.mean:.3f} is known, so moving one moves another.",
            on_change=_move,
            args=(what_if, state, name),
        )
    _offer_markers(what_if, state, markers)
    return implied


def _move(what_if: WhatIf, state: str, name: str) -> None:
    st.session_state[state] = what_if.moved(st.session_state[state], name, float(st.session_state[NAMES[name]]))


def _offer_markers(what_if: WhatIf, state: str, markers: tuple[Marker, ...]) -> None:
    usable = [m for m in markers if m.positive_mean is None or what_if.region.contains(m.prior, m.positive_mean)]
    if not usable:
        return
    with st.container(horizontal=True):
        for marker in usable:
            st.button(
                f"Use {plain(marker.name)}",
                key=f"trust_take_{marker.name}",
                type="tertiary",
                icon=":material/my_location:",
                on_click=_use_marker,
                args=(what_if, state, marker),
            )


def _use_marker(what_if: WhatIf, state: str, marker: Marker) -> None:
    st.session_state[state] = what_if.default((marker,))


def _show_implied(implied: Implied) -> None:
    st.markdown("**Would imply**")
    with st.container(horizontal=True, horizontal_alignment="distribute"):
        for title, found in (("True AUC", implied.true_auc), ("TPR", implied.tpr), ("FPR", implied.fpr)):
            st.metric(title, _value(found), help=_help(found), width="content")
    box = st.warning if implied.is_refuted else st.markdown
    box(plain(implied.sentence))


def _value(found: Interval) -> str:
    return "not possible" if not 0.0 <= found.estimate <= 1.0 else figure(found.estimate)


def _help(found: Interval) -> str:
    return (
        f"{found.estimate:.3f} ({found.low:.3f} to {found.high:.3f}): includes the sampling error of the "
        "SPU figures, not the uncertainty of π, S_P or the assumption. A value outside 0 to 1 refutes the assumption."
    )


def _known_markers(model: EvaluatedModel) -> tuple[Marker, ...]:
    """Known values: from the checked rows, and from the truth column."""
    checked = audited_figures(model)
    found = []
    if checked and checked["positive_mean"].missing == 0:
        found.append(Marker("audit", checked["prior"].estimate, checked["positive_mean"].estimate))
    truth = true_figures(model)
    if truth:
        found.append(Marker("truth", truth["prior"], truth["positive_mean"]))
    return tuple(found)


def _upper_limit(model: EvaluatedModel) -> tuple[Marker, ...]:
    """The upper estimate of π, if asked for: a limit on the map, not a value to use."""
    asked = st.toggle(
        "Mark the upper estimate of the share of positives",
        key="trust_bbe",
        persist_state="session",
        help=f"Estimated from the scores of confirmed cases; trains a small model. {meaning('label')}",
    )
    if not asked:
        return ()
    estimate = estimate_prior(model.workspace, model.dataset)
    st.caption(plain(estimate.sentence))
    return (Marker("upper estimate", estimate.range[1]),)
