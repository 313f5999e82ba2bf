"""What the draft would change, live: rows, lift, what the labels suggest, E[S] and the ceiling; and saving it."""

from __future__ import annotations

from functools import partial

import streamlit as st

from pages.ui import cached
from pages.ui.data_folder import is_sampled
from pages.ui.show import meaning, show_chart, theme
from pages.ui.soft_label_draft import AS_IT_IS, Draft
from pages.ui.soft_label_state import Book, Desk
from pages.ui.text import count, figure, plain, share
from spu_core.charts import soft_label_chart
from spu_core.errors import SpuError
from spu_core.labels import RuleLift, RulePreview, ranked
from spu_core.labels.belief_suggestions import Prior
from spu_core.rules import RuleSet
from spu_core.theory.prior import PriorEstimate

FIGURE_WIDTH = 98
SAMPLED = "Rows of the sample that the rule touches; their share is about that among all rows."


def show_changes(book: Book, draft: Draft) -> RulePreview:
    """What the draft touches and changes, in figures."""
    rule = draft.rule() if draft.is_complete else None
    saved = cached.rule_preview(book.page.workspace, book.dataset, book.text, None, None)
    shown, problem = saved, draft.problem
    try:
        shown = cached.rule_preview(book.page.workspace, book.dataset, book.text, rule, known_prior(book))
    except SpuError as error:
        problem = str(error)
    if problem:
        # Said here, so that the draft can be mended: the rest of the page must stay usable.
        st.error(plain(problem), icon=":material/error:")
    is_sample = is_sampled(book.dataset, cached.table(book.page.workspace, book.dataset))
    _show_figures(shown, saved, is_drafted=rule is not None and not problem, is_sample=is_sample)
    return shown


def show_preview(preview: RulePreview, *, is_drafted: bool, is_sample: bool) -> None:
    """How S is spread, with the unsaved rule in it."""
    with st.container(border=True, height="stretch"):
        title, mark = st.columns([3, 2], vertical_alignment="center")
        whose = "the sample" if is_sample else "all rows"
        title.subheader(f"Soft labels of {whose}", anchor=False, help=meaning("soft label"))
        if is_drafted:
            mark.badge("includes the unsaved rule", icon=":material/edit:", color="orange")
        # Few suspects beside thousands of others are invisible on an even scale.
        chart = soft_label_chart(preview, log_rows=preview.share_suspected < 0.1, theme=theme())  # type: ignore[arg-type]
        show_chart(chart, key="soft_preview", height="stretch")


def _show_figures(shown: RulePreview, saved: RulePreview, *, is_drafted: bool, is_sample: bool) -> None:
    rows, part = (count(shown.rows), share(shown.share)) if is_drafted else ("–", None)
    known = is_drafted and shown.lift == shown.lift
    lift, limits = (f"{shown.lift:.1f}×", f"{shown.lift_low:.1f} to {shown.lift_high:.1f}") if known else ("–", None)
    quiet = partial(st.metric, delta_arrow="off", delta_color="off", width=FIGURE_WIDTH)
    with st.container(horizontal=True, key="soft_changes"):
        touched, explained = ("Sample rows", SAMPLED) if is_sample else ("Rows touched", None)
        quiet(touched, rows, part, help=explained)
        quiet("Lift", lift, limits, help=meaning("lift"))
        change = _change(shown.mean, saved.mean)
        mean = figure(shown.mean)
        st.metric("Mean S", mean, change, delta_color="off", help=meaning("mean soft label"), width=FIGURE_WIDTH)
        change = _change(shown.ceiling, saved.ceiling)
        st.metric("Ceiling", figure(shown.ceiling), change, help=meaning("ceiling"), width=FIGURE_WIDTH)


def _change(after: float, before: float) -> str | None:
    """A signed difference; nothing where there is none to speak of."""
    difference = after - before
    return f"{difference:+.3f}" if abs(difference) >= 0.0005 else None


def save_draft(book: Book, desk: Desk, draft: Draft, preview: RulePreview) -> None:
    """What the labels suggest for the draft, and the buttons that keep it or drop it."""
    _show_suggestion(book, desk, draft, preview)
    is_new = draft.editing is None
    label, icon = ("Add rule", ":material/add:") if is_new else ("Save changes", ":material/save:")
    keep, drop = st.columns([3, 1])
    if keep.button(label, icon=icon, type="primary", width="stretch", disabled=not draft.is_complete, key="soft_save"):
        book.save(changed_rules(book.rules, draft), f"{'added' if is_new else 'changed'} {draft.rule().name!r}"[:200])
        desk.clear()
        st.rerun()
    if drop.button("Clear", width="stretch", key="soft_clear"):
        desk.clear()
        st.rerun()
    if draft.is_complete:
        st.caption(plain(draft.rule().text))


def changed_rules(rules: RuleSet, draft: Draft) -> RuleSet:
    """The rules with the draft added, or in the place of the rule that it edits."""
    known = {rule.id for rule in rules}
    taken = [rule.name for rule in rules if rule.id != draft.editing]
    if draft.editing in known and draft.editing is not None:
        return rules.replace(draft.editing, draft.rule(taken))
    return rules.add(draft.rule(taken))


def _show_suggestion(book: Book, desk: Desk, draft: Draft, preview: RulePreview) -> None:
    found = preview.suggestion
    if not draft.is_complete:
        return
    if not preview.rows:
        st.caption(":material/block: No row meets this condition yet.")
        return
    if found is None:
        _show_rank(book, draft, preview)
        return
    icon = ":material/balance:" if found.disagrees else ":material/check:"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(f"{icon} {plain(found.text.capitalize())} {_assumed(found.prior)}.", help=SUGGESTION)
        # Who gave one number may take what follows from it; a range gives no number to take.
        if not isinstance(found.prior, tuple) and found.is_known and draft.shape != AS_IT_IS:
            best = round(found.estimate, 2)
            st.button(f"Take {best:.2f}", key="soft_take", type="tertiary", on_click=_take, args=(desk, best))
    for warning in found.warnings:
        st.caption(f":material/warning: {plain(warning)}")


def _assumed(prior: Prior) -> str:
    if isinstance(prior, tuple):
        return f"if between {share(prior[0])} and {share(prior[1])} of all rows are positive"
    return f"if {share(prior)} of all rows are positive"


def _show_rank(book: Book, draft: Draft, preview: RulePreview) -> None:
    """Where the share of positives is unknown, the labels rank rules and suggest no beliefs."""
    replaced = next((rule.name for rule in book.rules if rule.id == draft.editing), None)
    saved = cached.rule_ranking(book.page.workspace, book.dataset, book.text)
    mine = RuleLift("this rule", preview.lift, preview.lift_low, preview.lift_high)
    ranking = ranked([*(each for each in saved if each.rule != replaced), mine])
    if mine not in ranking:
        return
    shown = [f"{place}. {plain(each.text)}" for place, each in enumerate(ranking, 1)]
    place = ranking.index(mine)
    shown[place] = f"**{shown[place]}**"
    st.caption(f":material/leaderboard: Rules by lift: {' · '.join(shown)}", help=RANKING)


def _take(desk: Desk, belief: float) -> None:
    st.session_state[desk.key("belief")] = belief


SUGGESTION = (
    "If confirmed positives are a random sample of all positives, the share of positives among the rows of this rule "
    "is the overall share times the lift. The overall share is the one given under Audit, or the range estimated there."
)
RANKING = (
    "How much likelier the rows of a rule are confirmed than all rows, with a 95% interval. The share of positives "
    "among all rows is not known, so the labels can rank rules, but cannot say how strong a belief should be."
)


def known_prior(book: Book) -> Prior | None:
    """The share of positives that the analyst gave, else the range that was estimated for this table."""
    given, found = prior_in_address(), estimated_prior(book)
    return given if given is not None or found is None else found.range


def estimated_prior(book: Book) -> PriorEstimate | None:
    """What was estimated for this table in this session, where somebody asked."""
    return st.session_state.get(estimate_key(book))


def estimate_key(book: Book) -> str:
    return f"soft_estimated_{book.dataset.id}_{book.dataset.version}"


def prior_in_address() -> float | None:
    """The share of positives that the analyst assumes; whatever is no share counts as none."""
    try:
        value = float(st.query_params.get("prior", ""))
    except ValueError:
        return None
    return value if 0.0 < value < 1.0 else None
