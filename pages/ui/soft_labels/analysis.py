"""The figures of the rules, the effect and the saving of the draft, analysis of the rules, a row, and the audit."""

from __future__ import annotations

from functools import partial

import streamlit as st

from pages.ui.data.table_view import is_sampled
from pages.ui.shared.cached import draw_once, load_table, make_soft_labels
from pages.ui.shared.shell import choose_in_address, link_to, step_named
from pages.ui.shared.show import meaning, show_chart, show_findings, show_table, theme
from pages.ui.shared.text import count, figure, plain, share, shares
from pages.ui.soft_labels.editor_state import (
    EditorState,
    OpenRuleSet,
    RuleAnalysis,
    estimate_prior,
    rule_analysis,
    rule_preview,
    rule_ranking,
    soft_label_audit,
)
from spu_core.charts import coverage_chart, leave_one_out_chart, overlap_chart, rule_lift_chart, soft_label_chart
from spu_core.errors import SpuError, TableError
from spu_core.labels import RuleLift, RulePreview, ranked
from spu_core.labels.belief_suggestions import Prior
from spu_core.rules.draft import AS_IT_IS, RuleDraft, save_draft
from spu_core.rules.suggest import FROM_LABELS
from spu_core.tables import Role, Table
from spu_core.theory.prior import PriorEstimate

FIGURE_WIDTH, MEAN_WIDTH = 92, 128
SAMPLED = "Rows of the sample on which the rule fires; their share is about the same among all rows."
SUGGESTION = (
    "If confirmed cases are a random sample of all positives, the share of positives among the rows of this rule "
    "is the overall share times the lift. The overall share is set, or estimated as a range, under Audit."
)
RANKING = (
    "How many times more often the rows of a rule are confirmed than all rows, with a 95% interval. The share of "
    "positives among all rows is not known, so the labels can rank rules but cannot suggest a belief."
)
HEADLINE_WIDTH = 145
IN_USE = "A rule that is switched off is kept."
SUSPECTED = "Unlabelled rows whose soft label is above the floor. Confirmed cases are not counted."
LOWER_CEILING = (
    ":material/info: A lower ceiling is not a fault. No model can rank rows perfectly while their soft labels are "
    "uncertain; compare models by their share of the ceiling."
)


def show_changes(opened: OpenRuleSet, draft: RuleDraft) -> RulePreview:
    """Figures with the draft included, and how they differ from those of the saved rules."""
    rule = draft.rule() if draft.is_complete else None
    saved = rule_preview(opened.workspace, opened.dataset, opened.text, None, None)
    shown, problem = saved, ""
    try:
        shown = rule_preview(opened.workspace, opened.dataset, opened.text, rule, known_prior(opened))
    except SpuError as error:
        problem = str(error)
    if problem:
        # Errors of a condition are shown at its fields, those of the whole rule here; the draft can be corrected.
        st.error(plain(problem), icon=":material/error:")
    is_sample = is_sampled(opened.dataset, load_table(opened.workspace, opened.dataset))
    _show_figures(shown, saved, is_drafted=rule is not None and not problem, is_sample=is_sample)
    return shown


def show_preview(preview: RulePreview, *, is_drafted: bool, is_sample: bool) -> None:
    """The distribution of soft labels, with the unsaved rule included."""
    with st.container(border=True, height="stretch"):
        title, mark = st.columns([3, 2], vertical_alignment="center")
        rows_name = "the sample" if is_sample else "all rows"
        title.subheader(f"Soft labels of {rows_name}", anchor=False, help=meaning("soft label"))
        if is_drafted:
            mark.badge("includes the unsaved rule", icon=":material/edit:", color="orange")
        # On a linear scale a few suspected rows among thousands of others are invisible.
        chart = draw_once(soft_label_chart, preview, log_rows=preview.share_suspected < 0.1, theme=theme())
        show_chart(chart, key="soft_preview", height="stretch")


def warn_of_rules(opened: OpenRuleSet) -> None:
    """Warn of rules that confirmed cases contradict, and of too few values of S for AUC_SPU (Theorem 3)."""
    if len(opened.usable.active):
        audit = soft_label_audit(opened.workspace, opened.dataset, opened.text)
        show_findings(finding for finding in audit.findings if finding.code in ("labels_against_rules", "few_levels"))


def _show_figures(shown: RulePreview, saved: RulePreview, *, is_drafted: bool, is_sample: bool) -> None:
    rows, part = (count(shown.rows), share(shown.share)) if is_drafted else ("–", None)
    known = is_drafted and shown.lift == shown.lift
    lift, limits = (f"{shown.lift:.1f}×", f"{shown.lift_low:.1f} to {shown.lift_high:.1f}") if known else ("–", None)
    quiet = partial(st.metric, delta_arrow="off", delta_color="off", width=FIGURE_WIDTH)
    with st.container(horizontal=True, key="soft_changes"):
        touched, explained = ("Sample rows", SAMPLED) if is_sample else ("Rows matched", None)
        quiet(touched, rows, part, help=explained)
        quiet("Lift", lift, limits, help=meaning("lift"))
        change = _change(shown.mean, saved.mean)
        mean = figure(shown.mean)
        st.metric("Mean soft label", mean, change, delta_color="off", help=meaning("mean soft label"), width=MEAN_WIDTH)
        change = _change(shown.ceiling, saved.ceiling)
        quiet("Ceiling", figure(shown.ceiling), change, delta_arrow="auto", help=meaning("ceiling"))
    if change is not None and shown.ceiling < saved.ceiling:
        st.caption(LOWER_CEILING)


def _change(after: float, before: float) -> str | None:
    """A signed difference; None where it rounds to zero."""
    difference = after - before
    return f"{difference:+.3f}" if abs(difference) >= 0.0005 else None


def show_saving(opened: OpenRuleSet, editor: EditorState, draft: RuleDraft, preview: RulePreview) -> None:
    """The belief that the labels suggest, and the buttons that save or clear the draft."""
    is_new = draft.editing is None
    label, icon = ("Add rule", ":material/add:") if is_new else ("Save changes", ":material/save:")
    keep, drop = st.columns([3, 1])
    if keep.button(label, icon=icon, type="primary", width="stretch", disabled=not draft.is_complete, key="soft_save"):
        opened.save(save_draft(opened.rules, draft), f"{'added' if is_new else 'changed'} {draft.rule().name!r}"[:200])
        editor.clear()
        st.rerun()
    if drop.button("Clear", width="stretch", key="soft_clear"):
        editor.clear()
        st.rerun()
    if FROM_LABELS in draft.note:
        st.caption(":material/info: Drafted from confirmed cases, so they cannot judge this rule.")
    _show_suggestion(opened, editor, draft, preview)


def _show_suggestion(opened: OpenRuleSet, editor: EditorState, draft: RuleDraft, preview: RulePreview) -> None:
    found = preview.suggestion
    if not draft.is_complete:
        return
    if not preview.rows:
        st.caption(":material/block: No row meets this condition yet.")
        return
    if found is None:
        _show_rank(opened, draft, preview)
        return
    icon = ":material/balance:" if found.disagrees else ":material/check:"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(f"{icon} {plain(found.text.capitalize())} {_assumed(found.prior)}.", help=SUGGESTION)
        # A suggestion from one share of positives is one number with a button; one from a range has no button.
        if not isinstance(found.prior, tuple) and found.is_known and draft.shape != AS_IT_IS:
            best = round(found.estimate, 2)
            st.button(
                f"Use {best:.2f}", key="soft_take", type="tertiary", on_click=_use_suggestion, args=(editor, best)
            )
    for warning in found.warnings:
        st.caption(f":material/warning: {plain(warning)}")


def _assumed(prior: Prior) -> str:
    if isinstance(prior, tuple):
        return f"if between {share(prior[0])} and {share(prior[1])} of all rows are positive"
    return f"if {share(prior)} of all rows are positive"


def _show_rank(opened: OpenRuleSet, draft: RuleDraft, preview: RulePreview) -> None:
    """Where the share of positives is unknown, labels can rank rules but suggest no beliefs."""
    replaced = next((rule.name for rule in opened.rules if rule.id == draft.editing), None)
    saved = rule_ranking(opened.workspace, opened.dataset, opened.text)
    mine = RuleLift("this rule", preview.lift, preview.lift_low, preview.lift_high)
    ranking = ranked([*(each for each in saved if each.rule != replaced), mine])
    if mine not in ranking:
        return
    shown = [f"{place}. {plain(each.text)}" for place, each in enumerate(ranking, 1)]
    place = ranking.index(mine)
    shown[place] = f"**{shown[place]}**"
    st.caption(f":material/leaderboard: Rules by lift: {' · '.join(shown)}", help=RANKING)


def _use_suggestion(editor: EditorState, belief: float) -> None:
    st.session_state[editor.key("belief")] = belief


def known_prior(opened: OpenRuleSet) -> Prior | None:
    """The share of positives that the analyst gave, else the range that was estimated for this table."""
    given, found = prior_in_address(), estimated_prior(opened)
    return given if given is not None or found is None else found.range


def estimated_prior(opened: OpenRuleSet) -> PriorEstimate | None:
    """The estimate for this table, if it was asked for in this session."""
    return st.session_state.get(estimate_key(opened))


def estimate_key(opened: OpenRuleSet) -> str:
    return f"soft_estimated_{opened.dataset.id}_{opened.dataset.version}"


def prior_in_address() -> float | None:
    """The share of positives that the analyst assumes; None if the address holds no share between 0 and 1."""
    try:
        value = float(st.query_params.get("prior", ""))
    except ValueError:
        return None
    return value if 0.0 < value < 1.0 else None


def show_headline(opened: OpenRuleSet) -> None:
    """The figures of the saved rules and, as soon as there are any, the link to training."""
    _show_problems(opened)
    preview = rule_preview(opened.workspace, opened.dataset, opened.text, None, None)
    active = len(opened.usable.active)
    with st.container(horizontal=True, vertical_alignment="center", key="soft_headline"):
        st.metric("Rules in use", f"{active} of {count(len(opened.rules))}", help=IN_USE, width=HEADLINE_WIDTH)
        st.metric("Rows suspected", share(preview.share_suspected), help=SUSPECTED, width=HEADLINE_WIDTH)
        st.metric("Mean soft label", figure(preview.mean), help=meaning("mean soft label"), width=HEADLINE_WIDTH)
        st.metric("Ceiling", figure(preview.ceiling), help=meaning("ceiling"), width=HEADLINE_WIDTH)
        with st.container(width=180, gap="xsmall"):
            _show_next_step(opened, is_ready=active > 0 and preview.ceiling == preview.ceiling)


def _show_next_step(opened: OpenRuleSet, *, is_ready: bool) -> None:
    if not is_ready:
        st.badge("No rule in use yet", icon=":material/hourglass_empty:", color="gray")
        return
    st.badge("Ready to train", icon=":material/check:", color="green")
    train = step_named("Train")
    link_to(train, train.invitation, opened.page.query)


def _show_problems(opened: OpenRuleSet) -> None:
    """List the rules that do not fit this table and are therefore left out of every figure."""
    broken = [rule for rule in opened.rules if rule.on and rule.id in opened.problems]
    if not broken:
        return
    with st.container(border=True):
        st.warning(
            f"{count(len(broken))} of the rules cannot be applied to this table and are left out.",
            icon=":material/warning:",
        )
        for rule in broken[:5]:
            st.caption(plain(opened.problems[rule.id]))
        if st.button("Switch them off", icon=":material/toggle_off:", key="soft_off"):
            rules = opened.rules
            for rule in broken:
                rules = rules.switch(rule.id, on=False)
            opened.save(rules, "switched off rules that do not fit the table")
            st.rerun()


SHARES = ("coverage", "overlap", "conflict", "redundancy")
ESTIMATE = (
    "Trains a small model of confirmed cases against the rest, and estimates from its scores how many positives "
    "there can be at most. It assumes that confirmed cases are a random sample of all positives, and takes some "
    "seconds. The range is shown; it is not written into the field."
)


def show_analysis(opened: OpenRuleSet) -> None:
    """Coverage, lift, overlap and leave-one-out of the active rules."""
    if not len(opened.usable.active):
        st.info("No rule is active, so there is nothing to compare.", icon=":material/info:")
        return
    analysis = rule_analysis(opened.workspace, opened.dataset, opened.text)
    show_findings(analysis.findings)
    left, right = st.columns(2, gap="small")
    with left, st.container(border=True, height="stretch"):
        st.subheader("How many rows", anchor=False)
        show_chart(coverage_chart(analysis.summary, theme=theme()), key="soft_coverage")
    with right, st.container(border=True, height="stretch"):
        st.subheader("Lift among confirmed cases", anchor=False, help=meaning("lift"))
        show_chart(rule_lift_chart(analysis.summary, theme=theme()), key="soft_lift")
    left, right = st.columns(2, gap="small")
    with left, st.container(border=True, height="stretch"):
        st.subheader("Which rules fire together", anchor=False)
        if len(analysis.overlap) > 1:
            show_chart(overlap_chart(analysis.overlap, theme=theme()), key="soft_overlap")
        else:
            st.caption("Only one rule is active, so there is no overlap.")
    with right, st.container(border=True, height="stretch"):
        _show_leave_one_out(analysis)
    with st.expander("All figures", icon=":material/table:"):
        percent = {name: st.column_config.ProgressColumn(name, min_value=0, max_value=1) for name in SHARES}
        show_table(analysis.summary, column_config=percent, key="soft_summary")


def _show_leave_one_out(analysis: RuleAnalysis) -> None:
    st.subheader("Without each rule", anchor=False)
    choices = {"ceiling_change": "Ceiling", "mean_change": "Mean soft label"}
    change = st.segmented_control(
        "Change of", list(choices), format_func=choices.__getitem__, default="ceiling_change", required=True,
        key="soft_change",
    )  # fmt: skip
    chart = leave_one_out_chart(analysis.without, change=change or "ceiling_change", theme=theme())
    show_chart(chart, key="soft_without")


def show_why(opened: OpenRuleSet, table: Table) -> None:
    """What the rules, the floor and the label contribute to the soft label of one row."""
    labels = make_soft_labels(opened.workspace, opened.dataset, opened.text)
    row = _choose_row(table, labels.first_suspected_row)
    reason = labels.explain(row)
    left, right = st.columns([3, 2], gap="small")
    with left, st.container(border=True, height="stretch"):
        st.metric("Soft label", figure(reason.value), help=meaning("soft label"))
        st.write(plain(reason.text))
        if reason.contributions:
            bar = partial(st.column_config.ProgressColumn, min_value=0, max_value=1, format="%.2f", width=110)
            shares = {
                "fired": st.column_config.CheckboxColumn("fired", width=56),
                "belief": bar("belief"),
                "contribution": bar("adds"),
            }
            show_table(reason.table(), column_config=shares, key="soft_why")
    with right, st.container(border=True, height="stretch"):
        st.caption("The row")
        values = table.frame.iloc[row].astype(str).rename("value").rename_axis("column")
        show_table(values, height=360, key="soft_row")


def _choose_row(table: Table, first: int) -> int:
    number, name = st.columns(2)
    column = table.column_with(Role.ID)
    wanted = ""
    if column is not None:
        wanted = name.text_input(f"Or its {plain(column)}", key="soft_row_id", max_chars=200)
    row = number.number_input(
        f"Row, from 1 to {count(len(table))}", 1, len(table), value=first + 1, step=1, key="soft_row_number"
    )
    return row_with(table, column, wanted.strip()) if column is not None and wanted.strip() else int(row) - 1


def row_with(table: Table, column: str, wanted: str) -> int:
    """The first row whose id is `wanted`."""
    found = (table.frame[column].astype(str) == wanted).to_numpy().nonzero()[0]
    if not len(found):
        raise TableError(f"No row has {wanted!r} in column {column!r}.")
    return int(found[0])


def show_audit(opened: OpenRuleSet) -> None:
    """The distribution of soft labels beside the assumed share of positives, and findings."""
    _ask_prior(opened)
    audit = soft_label_audit(opened.workspace, opened.dataset, opened.text, known_prior(opened))
    confirmed, suspected, rest = shares([audit.share_confirmed, audit.share_suspected, audit.share_at_floor])
    columns = st.columns(5)
    columns[0].metric("Mean soft label", figure(audit.mean), border=True, help=meaning("mean soft label"))
    columns[1].metric("Ceiling", figure(audit.ceiling), border=True, help=meaning("ceiling"))
    columns[2].metric("Confirmed", confirmed, border=True, help="Rows that are confirmed cases; their soft label is 1.")
    columns[3].metric("Suspected by a rule", suspected, border=True, help="Unconfirmed rows above the floor.")
    columns[4].metric(
        "Neither", rest, border=True, help="Unconfirmed rows that no rule suspects; their soft label is the floor."
    )
    if audit.findings:
        show_findings(audit.findings)
    else:
        st.success("No problems found in these soft labels.", icon=":material/check_circle:")
    with st.container(border=True):
        log_rows = st.toggle("Rows on a log scale", key="soft_log", value=audit.share_at_floor > 0.9)
        show_chart(soft_label_chart(audit, log_rows=log_rows, theme=theme()), key="soft_audit")


def _ask_prior(opened: OpenRuleSet) -> None:
    given = prior_in_address()
    key = f"soft_prior_{given}"
    # A field with a default value cannot be emptied, so the value is set through the session.
    st.session_state.setdefault(key, None if given is None else _three_digits(100 * given))
    typed, guess = st.columns([3, 1], vertical_alignment="bottom")
    typed.number_input(
        "Share of positives among all rows, if you know or assume it (in %)",
        0.0,
        100.0,
        value=None,
        step=0.5,
        format="%g",
        placeholder="not known",
        key=key,
        on_change=lambda: _keep_prior(st.session_state[key]),
        help="The mean soft label should be near it. The rule editor uses it to suggest beliefs for rules.",
    )
    asked = guess.button(
        "Estimate a range", icon=":material/query_stats:", width="stretch", key="soft_estimate", help=ESTIMATE
    )
    # A place of its own, so that the spinner does not cover the figures below.
    with st.container(key="soft_estimating"):
        if asked:
            with st.spinner("Estimating the share of positives …"):
                st.session_state[estimate_key(opened)] = estimate_prior(opened.workspace, opened.dataset)
            st.rerun()
    found = estimated_prior(opened)
    if found is not None:
        st.caption(f":material/query_stats: {plain(found.sentence)}")
        if found.warning:
            st.caption(f":material/warning: {plain(found.warning)}")


def _keep_prior(percent: float | None) -> None:
    is_share = percent is not None and 0.0 < percent < 100.0
    choose_in_address(prior=f"{_three_digits(percent or 0.0) / 100:.6g}" if is_share else None)


def _three_digits(percent: float) -> float:
    return float(f"{percent:.3g}")
