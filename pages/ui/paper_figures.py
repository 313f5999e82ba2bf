"""The figures of an experiment: one at a time where there are many, with the views they offer."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from pages.ui.show import show_chart, theme
from pages.ui.text import plain
from spu_core.experiments import ExperimentResult
from spu_core.experiments.figures import PaperFigure, figures_of

IMAGES = ("svg", "png")


def show_figures(result: ExperimentResult, key: str = "paper") -> str:
    """One figure, chosen where there are many; returns its name, or nothing where the result has none."""
    figures = figures_of(result)
    if not figures:
        return ""
    with st.container(border=True):
        names = list(figures)
        shown = names[0] if len(names) == 1 else _choose(figures, key)
        _show(result, figures[shown], f"{key}_{result.name}_{shown}")
    return shown


def _choose(figures: Mapping[str, PaperFigure], key: str) -> str:
    names = list(figures)
    picked = st.pills(
        "Figure",
        names,
        default=names[0],
        required=True,
        format_func=lambda name: figures[name].title.split(":")[0],
        label_visibility="collapsed",
        key=f"{key}_figure",
    )
    return picked if picked in names else names[0]


def _show(result: ExperimentResult, figure: PaperFigure, key: str) -> None:
    st.subheader(plain(figure.title), anchor=False)
    st.caption(plain(figure.caption))
    views = figure.choices(result)
    choice = None
    if len(views) > 1:
        choice = _choose_view(result, figure, views, f"{key}_view")
    image = st.session_state.get("paper_image", IMAGES[0])
    show_chart(figure.of(result, choice, theme=theme()), key=f"{key}_chart", image=image, told=True)


def _choose_view(result: ExperimentResult, figure: PaperFigure, views: tuple[str, ...], key: str) -> str:
    first = figure.first_view(result)
    if _are_numbers(views):
        return st.select_slider(figure.choice, views, value=first, key=key)
    return st.selectbox(figure.choice, views, index=views.index(first), key=key)


def _are_numbers(views: tuple[str, ...]) -> bool:
    return all(view.replace(".", "", 1).isdigit() for view in views)
