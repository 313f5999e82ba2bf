"""Step 3: the confirmed and the cleared share of each model and of random checks, compared and over time."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from pages.ui.shared.shell import choose_in_address
from pages.ui.shared.show import meaning, show_chart, show_table, theme
from pages.ui.shared.text import count, figure, plain, share
from pages.ui.trust.evaluated_model import EvaluatedModel, all_checks, dataset_names, own_checks, queues
from pages.ui.trust.outcome_queue import today
from spu_core.charts import label_delay_chart, outcome_ratio_chart, outcome_time_chart
from spu_core.engines.outcome_learning import confirmation_delay, holdout_report, leave_out_recent_rows, random_checks
from spu_core.engines.outcome_loop import LoopChecks, answer_delay, old_enough
from spu_core.errors import SpuError
from spu_core.metrics import Interval
from spu_core.metrics.intervals import p_value_text
from spu_core.trust.outcomes.arms import ArmComparison, compare_arms
from spu_core.trust.outcomes.ratios import PERIODS, RANDOM, ArmRatios, outcome_ratios, ratio_table, ratios_over_time

WHOSE_MODEL = (
    "come from the rows that it ranked highest within its own random part, so they hold for these and not for all rows."
)


def show_ratios(model: EvaluatedModel) -> None:
    """The ratios with their intervals, and the checks behind them."""
    found = all_checks(model)
    if found is None:
        st.info(
            "No outcome was recorded yet. Make a queue, check its rows, and record the outcomes.",
            icon=":material/info:",
        )
        return
    days = _ask_age(found)
    found = old_enough(found, today(), days)
    if not len(found):
        st.info("No check is that old. Lower the age above.", icon=":material/info:")
        return
    ratios = outcome_ratios(found.checks)
    left, right = st.columns(2, gap="small")
    with left, st.container(border=True):
        st.subheader("Confirmed share", anchor=False, help=meaning("surrender ratio"))
        show_chart(outcome_ratio_chart(ratios, theme=theme()), key="ratio_surrender")
    with right, st.container(border=True):
        st.subheader("Cleared share", anchor=False, help=meaning("pass ratio"))
        show_chart(outcome_ratio_chart(ratios, which="pass_", theme=theme()), key="ratio_pass")
    _show_ratio_table(ratios, found)
    _show_populations(model, found)
    _compare(found)
    _over_time(found)
    _show_holdout(model, days)
    show_delay(model, found)


def _ask_age(found: LoopChecks) -> int:
    """How old checks must be: recent ones may still be open, and open checks can differ from finished ones."""
    waiting = sum(found.open.values())
    with st.container(horizontal=True, vertical_alignment="center", key="ratio_cut_row"):
        days = st.number_input(
            "Minimum age of checks in days",
            0,
            365,
            0,
            key="ratio_cut",
            width=330,
            help=meaning("label delay"),
        )
        if waiting:
            st.caption(
                f":material/hourglass_empty: {count(waiting)} checks have no outcome yet. Late outcomes may "
                "differ from early ones: wait for them, or count only checks that are old enough."
            )
    return int(days)


def _show_ratio_table(ratios: tuple[ArmRatios, ...], found: LoopChecks) -> None:
    table = ratio_table(ratios)
    table["open"] = [found.open.get(arm, 0) for arm in table["arm"]]
    for name in ("surrender_ratio", "pass_ratio"):
        table[name] = [_with_limits(*values) for values in table[[name, f"{name}_low", f"{name}_high"]].to_numpy()]
    shown = ["arm", "checks", "users", "open", "admitted", "failed", "passed", "surrender_ratio", "pass_ratio"]
    config = {
        "failed": st.column_config.NumberColumn("failed or skipped"),
        "arm": st.column_config.TextColumn("chosen by"),
        "users": st.column_config.NumberColumn("rows"),
        "admitted": st.column_config.NumberColumn("confirmed"),
        "passed": st.column_config.NumberColumn("cleared"),
        "surrender_ratio": st.column_config.TextColumn("confirmed share (95%)"),
        "pass_ratio": st.column_config.TextColumn("cleared share (95%)"),
    }
    show_table(table[shown], hide_index=True, column_config=config, key="ratio_table")
    chance = next((each for each in ratios if each.is_random), None)
    model = next((each for each in ratios if not each.is_random), None)
    if model is not None:
        st.caption(f":material/filter_alt: Shares of a model, such as **{plain(model.arm)}**, {WHOSE_MODEL}")
    if chance is not None:
        st.caption(f":material/casino: Shares of **{plain(chance.arm)}** come from {plain(chance.comes_from)}.")
    warnings = dict.fromkeys(f"{each.arm}: {each.surrender.warning}" for each in ratios if each.surrender.warning)
    for warning in warnings:
        st.caption(f":material/warning: {plain(warning)}")


def _show_populations(model: EvaluatedModel, found: LoopChecks) -> None:
    """List the tables where rows of several tables were checked: the shares count all of them together."""
    names, seen = dataset_names(model), set(found.queue.tolist())
    tables = dict.fromkeys(
        plain(names.get(each.dataset, "a deleted table")) for each in queues(model) if each.id in seen
    )
    if len(tables) > 1:
        st.caption(f":material/groups: Checks of {', '.join(tables)} are counted together.")


def _with_limits(estimate: float, low: float, high: float) -> str:
    return f"{share(estimate)} ({share(low)} – {share(high)})"


def _compare(found: LoopChecks) -> None:
    arms = [arm for arm in found.checks.arms if arm not in (RANDOM,)]
    others = [*arms, *(arm for arm in found.checks.arms if arm == RANDOM)]
    if len(others) < 2:
        return
    with st.container(border=True):
        st.subheader("Two against each other", anchor=False)
        one, two = st.columns(2)
        first = one.selectbox("First", others, key="compare_first", help=meaning("arm"))
        rest = [arm for arm in others if arm != first]
        second = two.selectbox("Second", rest, key=f"compare_second_{first}")
        compared = compare_arms(found.checks, str(first), str(second))
        _show_comparison(compared)


def _show_comparison(compared: ArmComparison) -> None:
    quiet: dict[str, Any] = {"delta_color": "off", "delta_arrow": "off", "border": True}
    cards = st.columns(2, gap="small")
    for card, title, each in (
        (cards[0], "Confirmed share", compared.surrender),
        (cards[1], "Cleared share", compared.pass_),
    ):
        words = f"95%: {100 * each.low:+.1f} to {100 * each.high:+.1f} points · {p_value_text(each.p_value)}"
        card.metric(f"{title}, difference", f"{100 * each.estimate:+.1f} points", words, **quiet)
    st.markdown(f":material/balance: {plain(compared.sentence)}")
    for note in compared.notes:
        st.caption(f":material/info: {plain(note)}")


def _over_time(found: LoopChecks) -> None:
    with st.container(border=True):
        st.subheader("Over time", anchor=False)
        with st.container(horizontal=True, vertical_alignment="center"):
            which = st.segmented_control(
                "Share",
                ["surrender", "pass_"],
                default="surrender",
                required=True,
                format_func={"surrender": "Confirmed share", "pass_": "Cleared share"}.__getitem__,
                key="time_which",
                label_visibility="collapsed",
            )
            every = st.segmented_control(
                "By", list(PERIODS), default="week", required=True, key="time_every", label_visibility="collapsed"
            )
        table = ratios_over_time(found.checks, every=str(every))
        show_chart(outcome_time_chart(table, which=str(which), theme=theme()), key="time_chart")


def _show_holdout(model: EvaluatedModel, days: int) -> None:
    own = own_checks(model, model.dataset.id)
    found = None if own is None else old_enough(own, today(), days)
    with st.container(border=True):
        st.subheader("Without feedback bias", anchor=False, help=meaning("random holdout"))
        if found is None or not len(random_checks(found)):
            st.caption("No random check of these rows has an outcome yet; set a random share for the next queue.")
            return
        threshold = None if model.point is None else model.point.threshold
        report = holdout_report(found, model.run.need_score(), threshold)
        assert report is not None
        st.caption(
            f"{count(report.checks)} randomly chosen rows, scored out of fold by {plain(model.name)}. No model "
            "influenced the choice, so these figures hold for all rows, with wide intervals."
        )
        show_table(_holdout_table(report), hide_index=True, key="holdout_table")


def _holdout_table(report: Any) -> pd.DataFrame:
    above = f"of {count(report.flagged)} random rows above the threshold"
    lines: list[tuple[str, Interval | None, bool]] = [
        ("AUC, confirmed against the others", report.admission_auc, False),
        ("AUC, not cleared against cleared", report.not_passed_auc, False),
        (f"Confirmed share {above}", report.surrender, True),
        (f"Cleared share {above}", report.pass_, True),
    ]
    rows = [(name, *_holdout_text(found, is_share)) for name, found, is_share in lines]
    return pd.DataFrame(rows, columns=["figure", "estimate", "95% interval", "note"])


def _holdout_text(found: Interval | None, is_share: bool) -> tuple[str, str, str]:
    if found is None:
        return "–", "", "too few outcomes of one kind"
    write = share if is_share else figure
    return write(found.estimate), f"{write(found.low)} – {write(found.high)}", found.warning or ""


def show_delay(model: EvaluatedModel, found: LoopChecks) -> None:
    """The delay of answers, and that of confirmations where the rows have dates."""
    with st.expander("How long outcomes take", icon=":material/schedule:"):
        st.caption(meaning("label delay"))
        try:
            delay = answer_delay(found, today())
            st.markdown(f"**From asking to the outcome.** {plain(delay.sentence)}")
            show_chart(label_delay_chart(delay, theme=theme()), key="delay_answers")
        except SpuError as problem:
            st.caption(plain(problem))
        _show_confirmations(model)


def _show_confirmations(model: EvaluatedModel) -> None:
    try:
        delay = confirmation_delay(model.workspace, model.dataset.id, today())
    except SpuError as problem:
        st.caption(f":material/info: {plain(problem)}")
        return
    st.markdown(f"**From the date of the features to the confirmation.** {plain(delay.sentence)}")
    show_chart(label_delay_chart(delay, theme=theme()), key="delay_labels")
    if delay.is_recent.any() and st.button(
        f"Leave out rows younger than {delay.cut_off} days", icon=":material/content_cut:", key="delay_cut"
    ):
        made = leave_out_recent_rows(model.workspace, model.dataset.id, delay)
        choose_in_address(dataset=made.id)
        st.rerun()
