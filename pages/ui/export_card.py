"""The card of the model on the page: its figures, where it comes from, where it flags, and what people say of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from pages.ui.export_choice import Chosen
from pages.ui.show import show_figure
from pages.ui.text import figure, plain, share
from spu_core.engines.export_files import ExportWords

ROWS_INSIDE = (
    "This model compares new rows with training rows, so **its files contain training rows**. Whoever has one can read "
    "values from it: share it only with people who may see the data."
)
ORACLE = "This run learnt from the truth. It shows what is possible at best; do not use it."
ASKED = {
    "purpose": ("Purpose", "What is the model for, and what is it not for?"),
    "chosen_because": ("Why this model", "How was it chosen among the candidates?"),
    "contact": ("Contact", "Who answers questions about it?"),
    "licence": ("Licence", "Who may use it, and how?"),
    "changes": ("Changes", "What is new? A line for each change; training and thresholds are noted by themselves."),
}


def show_card(chosen: Chosen) -> None:
    """Four figures, where the model comes from, and what to be careful about."""
    metrics: Mapping[str, Any] = chosen.record.summary.get("metrics") or {}
    point = chosen.stored.bundle.point
    cards = st.columns(4, gap="small")
    show_figure(cards[0], "AUC_SPU", *_bounded(metrics.get("auc_spu")), about="AUC_SPU")
    reached, ceiling = metrics.get("share_of_ceiling"), metrics.get("ceiling")
    show_figure(
        cards[1],
        "Share of the ceiling",
        "–" if reached is None else share(reached["estimate"]),
        "no ceiling" if ceiling is None else f"ceiling {figure(ceiling)}",
        about="share of ceiling",
    )
    known = metrics.get("known_positive_auc")
    show_figure(cards[2], "Known-positive AUC", *_bounded(known), about="known-positive AUC")
    show_figure(cards[3], "Flags", share(point.share), f"scores above {point.threshold:.4g}", about="threshold")
    lineage = plain(chosen.page.workspace.lineage(chosen.record.id))
    st.caption(f":material/account_tree: {lineage} · trained {chosen.record.made:%Y-%m-%d %H:%M} UTC")
    if chosen.stored.bundle.keeps_training_rows:
        st.warning(ROWS_INSIDE, icon=":material/privacy_tip:")
    if chosen.record.candidate.get("method") == "oracle":
        st.warning(ORACLE, icon=":material/warning:")


def tell_words(chosen: Chosen) -> Chosen:
    """What the card and the bundle say besides figures; the words of the last export come back."""
    last = chosen.stored.words
    with st.expander("Words for the model card, and what the bundle may hold", icon=":material/edit_note:"):
        columns = st.columns(2, gap="medium")
        said = {
            name: columns[place % 2]
            .text_area(
                title,
                getattr(last, name),
                placeholder=asked,
                max_chars=2000,
                height=80,
                key=f"export_{name}_{chosen.record.id}",
                persist_state="session",
            )
            .strip()
            for place, (name, (title, asked)) in enumerate(ASKED.items())
        }
        keep_rows = st.toggle(
            "Keep scores, soft labels and labels of the training rows in the bundle",
            last.keep_rows,
            key=f"export_keep_{chosen.record.id}",
            persist_state="session",
            help="They allow the run to be compared again elsewhere. Without them the bundle scores just as well.",
        )
    words = ExportWords(**said, keep_rows=keep_rows)
    return chosen if words == last else chosen.with_words(words)


def _bounded(value: Mapping[str, Any] | None) -> tuple[str, str]:
    """An estimate and its interval in words."""
    if value is None or value.get("estimate") is None:
        return "–", "not known"
    if value.get("low") is None or value.get("high") is None:
        return figure(value["estimate"]), "no interval"
    return figure(value["estimate"]), f"{figure(value['low'])} to {figure(value['high'])}"
