"""Soft labels from checks (Appendix A of the paper): from the failure ratios of rules (A.1), from the record of a row
(A.2), or from a log with one line per check, which becomes a column of the data and a rule on it."""

from __future__ import annotations

import re
from typing import Any

import streamlit as st

from pages.ui.shared.cached import read_upload
from pages.ui.shared.shell import choose_in_address
from pages.ui.shared.show import show_chart, show_findings, theme
from pages.ui.shared.text import plain
from pages.ui.soft_labels.editor_state import OpenRuleSet, check_statistics, column_choices
from spu_core.charts import check_prior_chart, failure_ratio_chart
from spu_core.errors import SpuError
from spu_core.labels import CheckRatioLabels, check_ratio_labels
from spu_core.rules import Belief, CheckRatio, CheckRecord, Kind, ReadyMade, Rule, RuleSet
from spu_core.rules.draft import add_rules
from spu_core.tables import ColumnType, Role, Table
from spu_core.tables.samples import SAMPLES, load_sample_checks

FAILED_WORDS = {"fail", "failed", "skip", "skipped", "fail-or-skip", "fail_or_skip"}
ADMITTED_WORDS = {"admit", "admitted"}
NEEDED = {"user": ("user", "player", "id"), "rule": ("rule",), "outcome": ("outcome", "result"), "day": ("day", "date")}
COLUMN = "check_soft_label"
CHECKS = "From checks"
# `checks`, `last_check` and `numChecks`, but not `checking_account`.
CHECK_NAMES = re.compile(r"((?<![A-Za-z])check|Check|CHECK)(s|S|ed|ED)?(?![a-z])")


def shows_checks(table: Table) -> bool:
    """Whether the table has columns about checks, or the address asks for this part."""
    named = any(CHECK_NAMES.search(name) for name in table.roles)
    return named or st.query_params.get("part") == CHECKS


def show_checks(opened: OpenRuleSet, table: Table) -> None:
    """Two forms side by side; each makes a rule."""
    st.caption(
        "Some teams check the users whom they suspect. A failed or skipped check does not prove a positive, but it is "
        "evidence. These two methods turn it into a soft label."
    )
    left, right = st.columns(2, gap="small")
    with left, st.container(border=True, height="stretch"):
        _ask_ratios(opened, table)
    with right, st.container(border=True, height="stretch"):
        _ask_records(opened, table)
    ask_log(opened, table)


def _ask_ratios(opened: OpenRuleSet, table: Table) -> None:
    st.subheader("How often the checks of a rule fail", anchor=False)
    columns = [name for name in table.frame.columns if _can_name(opened, table, name)]
    if len(columns) < 2:
        st.caption("This needs two columns: the rule that asked for a check, and the outcome of the check.")
        return
    rule_column = _pick("The rule that asked for the check", columns, ("rule", "check"), "soft_a1_rule")
    rest = [name for name in columns if name != rule_column]
    outcome_column = _pick("Outcome of the check", rest, ("outcome", "result"), "soft_a1_outcome")
    if rule_column is None or outcome_column is None:
        return
    rules = _levels(opened, rule_column)
    outcomes = _levels(opened, outcome_column)
    random_rule = _pick("The rule that picks at random", rules, ("random",), f"soft_a1_random_{rule_column}")
    guessed = [level for level in outcomes if level.lower() in FAILED_WORDS]
    failed = st.multiselect("Failed or skipped", outcomes, default=guessed, key=f"soft_a1_failed_{outcome_column}")
    others = [level for level in outcomes if level not in failed]
    confessed = [level for level in others if level.lower() in ADMITTED_WORDS]
    admitted = st.multiselect("Admitted", others, default=confessed, key=f"soft_a1_admitted_{outcome_column}")
    if not failed or not random_rule:
        st.caption("Choose the outcomes that mean that a check was failed or skipped.")
        return
    belief = CheckRatio(
        rule_column=rule_column,
        outcome_column=outcome_column,
        random_rule=random_rule,
        failed=tuple(failed),
        admitted=tuple(admitted),
    )
    ratios = check_statistics(opened.workspace, opened.dataset, belief)
    show_chart(failure_ratio_chart(ratios, theme=theme()), key="soft_a1_chart")
    st.caption(
        "S = 1 − failure ratio of random checks / failure ratio of the rule's checks. It is a lower bound, if "
        "negatives fail the checks of all rules equally often and positives at least as often."
    )
    if ratios.weaker_than_random:
        named = ", ".join(map(plain, ratios.weaker_than_random))
        st.caption(f":material/warning: Checks of {named} fail less often than random ones, so they get 0.")
    _offer_rule(opened, "Failed the latest check", belief, "soft_a1_add")


def _ask_records(opened: OpenRuleSet, table: Table) -> None:
    st.subheader("The record of a row", anchor=False)
    columns = [name for name in table.frame.columns if _can_count(opened, table, name)]
    if len(columns) < 2:
        st.caption("This needs two columns of whole numbers: the number of checks, and the number of passed checks.")
        return
    checks = _pick("Number of checks", columns, ("checked", "checks"), "soft_a2_checks")
    rest = [name for name in columns if name != checks]
    passes = _pick("Number of passed checks", rest, ("passed", "passes"), "soft_a2_passes")
    if checks is None or passes is None:
        return
    if not st.toggle("Fit the prior", key="soft_a2_fit", value=_is_guessed(checks, passes)):
        return
    belief = CheckRecord(checks_column=checks, passes_column=passes)
    prior = check_statistics(opened.workspace, opened.dataset, belief)
    show_chart(check_prior_chart(prior, theme=theme()), key="soft_a2_chart")
    st.caption(
        "S = 1 − E[θ | k of n passed] for rows that failed or skipped a check. This is the chance to fail the next "
        "check, not a proven probability of being positive. Both methods use the same checks, so use only one."
    )
    _offer_rule(opened, "Record of checks", belief, "soft_a2_add")


def _offer_rule(opened: OpenRuleSet, name: str, belief: Belief, key: str) -> None:
    # A second rule on the same checks would count the same evidence twice.
    same = [rule for rule in opened.rules if (rule.belief.kind, rule.belief.needs) == (belief.kind, belief.needs)]
    if same:
        st.caption(
            f":material/check: Rule {plain(same[0].name)} already does this{'' if same[0].on else '; it is off'}."
        )
    elif st.button("Add as a rule", icon=":material/add:", type="primary", key=key):
        names = set(opened.rules.names)
        free = next(each for each in (name, *(f"{name} ({n})" for n in range(2, 1_000))) if each not in names)
        opened.change(lambda rules: rules.add(Rule(free, belief)), f"added {free!r} from checks")


def _pick(label: str, options: list[str], words: tuple[str, ...], key: str) -> str | None:
    """A selectbox whose default is the first option that contains one of the words; empty where none does."""
    guess = next((place for place, name in enumerate(options) if any(word in name.lower() for word in words)), None)
    return st.selectbox(label, options, index=guess, key=key, placeholder="Choose")


def _is_guessed(checks: str, passes: str) -> bool:
    return "check" in checks.lower() and "pass" in passes.lower()


def _levels(opened: OpenRuleSet, column: str) -> list[str]:
    choices = column_choices(opened.workspace, opened.dataset, column)
    return [str(level) for level in choices.levels]


def _can_name(opened: OpenRuleSet, table: Table, name: str) -> bool:
    if table.roles[name] in (Role.TRUTH, Role.LABEL, Role.ID) or opened.dataset.roles.get(name) == Role.TRUTH:
        return False
    return column_choices(opened.workspace, opened.dataset, name).kind is Kind.TEXT


def _can_count(opened: OpenRuleSet, table: Table, name: str) -> bool:
    if table.roles[name] in (Role.TRUTH, Role.LABEL):
        return False
    choices = column_choices(opened.workspace, opened.dataset, name)
    return choices.kind is Kind.NUMBER and choices.is_whole


def ask_log(opened: OpenRuleSet, table: Table) -> None:
    """Upload a log of checks, choose its columns, and show the soft labels from it."""
    with st.expander("From a log of checks in a file", icon=":material/receipt_long:"):
        column = table.column_with(Role.ID)
        if column is None:
            st.caption(
                "The log refers to users, so this table needs a column with the role *id*; set it on the Data page."
            )
            return
        log = _upload_log(opened)
        if log is None:
            return
        named = {what: _guess_column(what, list(log.columns), words) for what, words in NEEDED.items()}
        columns = {what: log[name] for what, name in named.items() if name is not None}
        if not {"user", "rule", "outcome"} <= set(columns):
            st.caption("A log needs the columns user, rule and outcome; the day is optional.")
            return
        rules = sorted({str(rule) for rule in columns["rule"].dropna().unique()})
        guess = next((place for place, rule in enumerate(rules) if "random" in rule.lower()), 0)
        random_rule = st.selectbox("The rule that picks at random", rules, index=guess, key="soft_log_random")
        repeats = "first" if "day" in columns else "every"
        try:
            result = check_ratio_labels(columns, random_rule=random_rule, users=table.frame[column], repeats=repeats)
        except SpuError as problem:
            st.error(plain(problem), icon=":material/error:")
            return
        _show_result(opened, table, result)


def _upload_log(opened: OpenRuleSet) -> Any:
    uploaded = st.file_uploader("One line per check: user, rule, outcome, day", key="soft_log_file")
    if uploaded is not None:
        try:
            return read_upload(uploaded)
        except SpuError as problem:
            st.error(plain(problem), icon=":material/error:")
            return None
    if opened.dataset.name == SAMPLES["anti_cheat"].title and st.toggle(
        "Use the log of the sample", key="soft_log_sample"
    ):
        return load_sample_checks()
    return None


def _guess_column(what: str, columns: list[str], words: tuple[str, ...]) -> str | None:
    guess = next((place for place, name in enumerate(columns) if any(word in name.lower() for word in words)), None)
    return st.selectbox(f"Column with the {what}", columns, index=guess, key=f"soft_log_{what}")


def _show_result(opened: OpenRuleSet, table: Table, result: CheckRatioLabels) -> None:
    show_chart(failure_ratio_chart(result.ratios, theme=theme()), key="soft_log_chart")
    st.caption(plain(result.reading))
    show_findings(result.findings)
    if st.button("Add to the data and as a rule", icon=":material/add:", type="primary", key="soft_log_add"):
        # The rule score, not S: in S an admission counts as a label, and rules must not read labels.
        bigger, column = with_column(table, result.labels.rule_score)
        rule = Rule("Failed a check of the log", ReadyMade(column))
        dataset = opened.workspace.datasets.save(bigger, opened.dataset.name)
        text = add_rules(opened.rules, RuleSet((rule,))).to_json()
        rules = opened.workspace.rule_sets.create(opened.dataset.name, text, "added a log", dataset.id)
        choose_in_address(dataset=dataset.id, rules=rules.id)
        st.rerun()
    st.caption("This makes a new dataset with one more column; the old dataset stays.")


def with_column(table: Table, values: Any) -> tuple[Table, str]:
    """The table with a column of soft labels added, under a name that is not taken."""
    name, place = COLUMN, 2
    while name in table.frame.columns:
        name, place = f"{COLUMN}_{place}", place + 1
    role = Role.SOFT_LABEL if table.column_with(Role.SOFT_LABEL) is None else Role.IGNORE
    roles, types = {**table.roles, name: role}, {**table.types, name: ColumnType.NUMBER}
    return table.with_frame(table.frame.assign(**{name: values}), roles=roles, types=types), name
