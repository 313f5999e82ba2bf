"""Wizards for Appendix A: what failed checks say, from the ratios of rules (A.1) or from each row's record (A.2)."""

from __future__ import annotations

import streamlit as st

from pages.ui.shared import cached
from pages.ui.shared.show import show_chart, theme
from pages.ui.shared.text import plain
from pages.ui.soft_labels.log import ask_log
from pages.ui.soft_labels.state import Book
from spu_core.charts import check_prior_chart, failure_ratio_chart
from spu_core.rules import Belief, CheckRatio, CheckRecord, Kind, Rule
from spu_core.tables import Role, Table

FAILED_WORDS = {"fail", "failed", "skip", "skipped", "fail-or-skip", "fail_or_skip"}
ADMITTED_WORDS = {"admit", "admitted"}


def show_checks(book: Book, table: Table) -> None:
    """Both wizards side by side; either ends in a rule."""
    st.caption(
        "Some teams check whom they suspect. Who fails or skips a check is not proven positive, but it says something: "
        "these two ways turn it into a soft label."
    )
    left, right = st.columns(2, gap="small")
    with left, st.container(border=True, height="stretch"):
        _ask_ratios(book, table)
    with right, st.container(border=True, height="stretch"):
        _ask_records(book, table)
    ask_log(book, table)


def _ask_ratios(book: Book, table: Table) -> None:
    st.subheader("How often the checks of a rule fail (A.1)", anchor=False)
    columns = [name for name in table.frame.columns if _can_name(book, table, name)]
    if len(columns) < 2:
        st.caption("It needs two columns: the rule that asked for a check, and how the check ended.")
        return
    rule_column = _pick("The rule that asked for the check", columns, ("rule", "check"), "soft_a1_rule")
    rest = [name for name in columns if name != rule_column]
    outcome_column = _pick("How the check ended", rest, ("outcome", "result"), "soft_a1_outcome")
    rules = _levels(book, rule_column)
    outcomes = _levels(book, outcome_column)
    random_rule = _pick("The rule that picks at random", rules, ("random",), f"soft_a1_random_{rule_column}")
    guessed = [level for level in outcomes if level.lower() in FAILED_WORDS]
    failed = st.multiselect("Failed or skipped", outcomes, default=guessed, key=f"soft_a1_failed_{outcome_column}")
    others = [level for level in outcomes if level not in failed]
    confessed = [level for level in others if level.lower() in ADMITTED_WORDS]
    admitted = st.multiselect("Admitted", others, default=confessed, key=f"soft_a1_admitted_{outcome_column}")
    if not failed or not random_rule:
        st.caption("Say which outcomes mean that a check was failed or skipped.")
        return
    belief = CheckRatio(
        rule_column=rule_column,
        outcome_column=outcome_column,
        random_rule=random_rule,
        failed=tuple(failed),
        admitted=tuple(admitted),
    )
    ratios = cached.check_ratios(book.page.workspace, book.dataset, belief)
    show_chart(failure_ratio_chart(ratios, theme=theme()), key="soft_a1_chart")
    st.caption(
        "S = 1 − failure ratio of random checks / failure ratio of the rule's checks. It is a lower bound, if innocent "
        "rows fail every rule's checks alike and positives at least as often."
    )
    if ratios.weaker_than_random:
        named = ", ".join(map(plain, ratios.weaker_than_random))
        st.caption(f":material/warning: Checks of {named} fail less often than random ones, so they get 0.")
    _offer(book, "Failed the latest check", belief, "soft_a1_add")


def _ask_records(book: Book, table: Table) -> None:
    st.subheader("The record of a row (A.2)", anchor=False)
    columns = [name for name in table.frame.columns if _can_count(book, table, name)]
    if len(columns) < 2:
        st.caption("It needs two columns of whole numbers: how many checks, and how many of them were passed.")
        return
    checks = _pick("Number of checks", columns, ("checked", "checks"), "soft_a2_checks")
    rest = [name for name in columns if name != checks]
    passes = _pick("Number of passed checks", rest, ("passed", "passes"), "soft_a2_passes")
    if not st.toggle("Fit the prior", key="soft_a2_fit", value=_is_guessed(checks, passes)):
        return
    belief = CheckRecord(checks_column=checks, passes_column=passes)
    prior = cached.check_prior(book.page.workspace, book.dataset, belief)
    show_chart(check_prior_chart(prior, theme=theme()), key="soft_a2_chart")
    st.caption(
        "S = 1 − E[θ | k of n passed] for rows that failed or skipped a check: the chance to fail the next check, not "
        "a proven probability of being positive. Both wizards weigh the same checks, so use one of them."
    )
    _offer(book, "Record of checks", belief, "soft_a2_add")


def _offer(book: Book, name: str, belief: Belief, key: str) -> None:
    # The same checks in a second rule would be the same evidence twice.
    same = [rule for rule in book.rules if (rule.belief.kind, rule.belief.needs) == (belief.kind, belief.needs)]
    if same:
        st.caption(f":material/check: Rule {plain(same[0].name)} says this{'' if same[0].on else '; it is off'}.")
    elif st.button("Add as a rule", icon=":material/add:", type="primary", key=key):
        names = set(book.rules.names)
        free = next(each for each in (name, *(f"{name} ({n})" for n in range(2, 1_000))) if each not in names)
        book.change(lambda rules: rules.add(Rule(free, belief)), f"added {free!r} from checks")


def _pick(label: str, options: list[str], words: tuple[str, ...], key: str) -> str:
    """A choice whose first guess is the option that holds one of the words."""
    guess = next((place for place, name in enumerate(options) if any(word in name.lower() for word in words)), 0)
    return st.selectbox(label, options, index=guess, key=key)


def _is_guessed(checks: str, passes: str) -> bool:
    return "check" in checks.lower() and "pass" in passes.lower()


def _levels(book: Book, column: str) -> list[str]:
    choices = cached.column_choices(book.page.workspace, book.dataset, column)
    return [str(level) for level in choices.levels]


def _can_name(book: Book, table: Table, name: str) -> bool:
    if table.roles[name] in (Role.TRUTH, Role.LABEL, Role.ID) or book.dataset.roles.get(name) == Role.TRUTH:
        return False
    return cached.column_choices(book.page.workspace, book.dataset, name).kind is Kind.TEXT


def _can_count(book: Book, table: Table, name: str) -> bool:
    if table.roles[name] in (Role.TRUTH, Role.LABEL):
        return False
    choices = cached.column_choices(book.page.workspace, book.dataset, name)
    return choices.kind is Kind.NUMBER and choices.is_whole
