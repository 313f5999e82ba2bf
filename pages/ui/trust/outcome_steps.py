"""The Check outcomes section: its four steps, and the main figures above them."""

from __future__ import annotations

import streamlit as st

from pages.ui.shared.show import explain_terms, show_figure
from pages.ui.shared.text import count, share
from pages.ui.trust.evaluated_model import EvaluatedModel, all_checks, choose_by_address, queues
from pages.ui.trust.outcome_feedback import show_learn
from pages.ui.trust.outcome_queue import show_flag, show_record
from pages.ui.trust.outcome_ratios import show_ratios
from spu_core.engines.outcome_loop import LoopChecks
from spu_core.metrics import Interval
from spu_core.trust.outcomes.ratios import ArmRatios, outcome_ratios

STEPS = {
    "flag": ("1 Select rows", show_flag),
    "record": ("2 Record outcomes", show_record),
    "ratios": ("3 Compare models", show_ratios),
    "learn": ("4 Update the data", show_learn),
}
WORDS = ("surrender ratio", "pass ratio", "random holdout", "arm", "review queue", "label delay")


def show_outcomes(model: EvaluatedModel) -> None:
    """One step at a time: select rows, record outcomes, compare the ratios of models, update the data."""
    chosen = choose_by_address("loop", {token: title for token, (title, _) in STEPS.items()})
    _show_headline(model, all_checks(model))
    STEPS[chosen][1](model)
    explain_terms(*WORDS)


def _show_headline(model: EvaluatedModel, found: LoopChecks | None) -> None:
    cards = st.columns(4, gap="small")
    made = len(queues(model))
    ratios = {} if found is None else {each.arm: each for each in outcome_ratios(found.checks)}
    waiting = 0 if found is None else sum(found.open.values())
    show_figure(
        cards[0],
        "Checks with an outcome",
        count(0 if found is None else len(found)),
        f"{count(waiting)} open in {count(made)} queue{'s' * (made != 1)}",
        about="review queue",
    )
    _show_ratio(cards[1], "Confirmed, this model", ratios.get(model.name), "surrender")
    _show_ratio(cards[2], "Cleared, this model", ratios.get(model.name), "pass_")
    chance = ratios.get("random")
    show_figure(
        cards[3],
        "Confirmed, random share",
        "–" if chance is None else share(chance.surrender.estimate),
        "no random checks yet" if chance is None else _limits(chance.surrender),
        about="random holdout",
    )


def _show_ratio(card: st.delta_generator.DeltaGenerator, title: str, found: ArmRatios | None, which: str) -> None:
    word = "surrender ratio" if which == "surrender" else "pass ratio"
    if found is None:
        show_figure(card, title, "–", "no checks of this model yet", about=word)
        return
    interval = getattr(found, which)
    show_figure(card, title, share(interval.estimate), _limits(interval), about=word)


def _limits(interval: Interval) -> str:
    return f"95%: {share(interval.low)} – {share(interval.high)}"
