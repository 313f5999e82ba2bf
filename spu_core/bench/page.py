"""The results page: tables in Markdown, and beside it the diagram of critical differences (SVG): methods by mean rank,
where bars join those without a clear difference.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

import numpy as np
import pandas as pd

from spu_core.bench.report import (
    CELL,
    DEFAULT,
    cell_means,
    clear_losses,
    differences,
    gain_of_rules,
    mean_ranks,
    method_table,
    rivals_of,
    yardstick_table,
)
from spu_core.errors import SpuError

PICTURE = "pictures/critical-difference.svg"
MARKS = "<!-- results: made by spu bench report -->\n", "<!-- end of results -->\n"
HEADS = {
    "auc": "AUC",
    "average_precision": "average precision",
    "precision_at_1": "precision at 1 %",
    "precision_at_5": "precision at 5 %",
    "rank": "mean rank",
    "regret": "regret",
    "clear_losses": "clear losses",
    "cost": "CPU / labeled_vs_rest",
    "cells": "cells",
    "seeds": "seeds",
}


def write_page(page: Path, results: pd.DataFrame) -> None:
    """Replace the part of the page between the marks, and write the picture."""
    text = page.read_text(encoding="utf-8")
    pattern = re.escape(MARKS[0]) + ".*?" + re.escape(MARKS[1])
    if not re.search(pattern, text, re.DOTALL):
        raise SpuError(f"{page} has no place for results: add the lines {MARKS[0].strip()!r} and {MARKS[1].strip()!r}.")
    made = MARKS[0] + results_markdown(results) + MARKS[1]
    page.write_text(re.sub(pattern, lambda _: made, text, flags=re.DOTALL), encoding="utf-8")
    picture = page.parent / PICTURE
    picture.parent.mkdir(exist_ok=True)
    picture.write_text(critical_difference_svg(*mean_ranks(results)), encoding="utf-8")


def results_markdown(results: pd.DataFrame) -> str:
    """All tables of the page."""
    parts = [_size(results), _methods(results), _differences(results), _gain(results), _losses(results)]
    return "\n".join([*parts, _yardsticks(results)])


def _size(results: pd.DataFrame) -> str:
    cells, tables, seeds = len(cell_means(results)), results["table"].nunique(), results["seed"].nunique()
    labels = results["labels"]
    return (
        f"{tables} tables, {cells} cells, {seeds} {'seed' if seeds == 1 else 'seeds'}, {labels.min():,} to "
        f"{labels.max():,} labels. ± is one standard error over tables.\n"
    )


def _methods(results: pd.DataFrame) -> str:
    found = method_table(results)
    head = ["method", *HEADS.values(), "what it assumes about labels"]
    rows = [
        [row["method"], *(_number(row[name], name) for name in HEADS), row["assumes"]] for _, row in found.iterrows()
    ]
    return f"### Methods\n\n{_table(head, rows)}\n![Mean ranks with the critical difference]({PICTURE})\n"


def _differences(results: pd.DataFrame) -> str:
    rows = [
        [row["method"], _signed(row["difference"], row["error"]), f"{row['better']:.0%}".replace("%", " %")]
        for _, row in differences(results).iterrows()
    ]
    head = ["method", "difference", "cells where fused is better"]
    return f"### Fused minus each method, true AUC\n\n{_table(head, rows)}"


def _gain(results: pd.DataFrame) -> str:
    """AUC and the two figures for the top of the list, by group."""
    figures = {"auc": "AUC", "average_precision": "average precision", "precision_at_1": "precision at 1 %"}
    found = {figure: gain_of_rules(results, figure).set_index(["labelling", "rules"]) for figure in figures}
    rows = [
        [*group, *(_signed(each.loc[group, "difference"], each.loc[group, "error"]) for each in found.values())]
        for group in found["auc"].index
    ]
    return (
        f"### What rules add: fused minus fused without rules\n\n{_table(['labels', 'rules', *figures.values()], rows)}"
    )


def _losses(results: pd.DataFrame) -> str:
    means, rivals = cell_means(results), rivals_of(results, DEFAULT)
    lost = clear_losses(results, DEFAULT)
    rows = []
    for cell in lost[lost].index:
        others = means.loc[cell, rivals]
        rows.append([*cell, f"{means.loc[cell, DEFAULT]:.3f}", str(others.idxmax()), f"{others.max():.3f}"])
    head = [*CELL, "fused", "best rival in hindsight", "its AUC"]
    words = "clearly worse" if results["seed"].nunique() > 1 else "worse by more than .01, noise included"
    return f"### Where fused is {words}: {lost.sum()} of {len(lost)} cells\n\n{_table(head, rows)}"


def _yardsticks(results: pd.DataFrame) -> str:
    found = yardstick_table(results)
    groups = [name for name in map(str, found) if name not in ("chosen_by", "spearman", "regret")]
    rows = [
        [
            row["chosen_by"],
            _number(row["spearman"], "spearman"),
            *(_number(row[name], name) for name in ["regret", *groups]),
        ]
        for _, row in found.iterrows()
    ]
    head = ["chosen by", "Spearman", "regret", *(f"regret, {name}" for name in groups)]
    return f"### How well figures without truth choose\n\n{_table(head, rows)}"


def _number(value: object, name: str) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return "–"
    if name in ("clear_losses", "cells", "seeds"):
        return f"{int(float(str(value)))}"
    return f"{float(str(value)):.{1 if name in ('rank', 'cost') else 3}f}"


def _signed(value: float, error: float) -> str:
    return f"{value:+.3f} ± {error:.3f}" if not np.isnan(error) else f"{value:+.3f}"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


WIDTH, MARGIN, LINE, TOP = 900, 230, 20, 60


def critical_difference_svg(ranks: pd.Series, critical: float) -> str:
    """The diagram of `mean_ranks`; the best method stands first on the left."""
    ranks = ranks.sort_values()
    low, high = np.floor(ranks.min()), np.ceil(ranks.max())

    def place(rank: float) -> float:
        return MARGIN + (rank - low) / max(high - low, 1.0) * (WIDTH - 2 * MARGIN)

    bars = groups(ranks.to_numpy(), critical)
    half = (len(ranks) + 1) // 2
    begin = TOP + 16 + 8 * len(bars)
    parts = [_axis(low, high, place), _ruler(critical, place(low), place(low + critical))]
    for number, (first, last) in enumerate(bars):
        height = TOP + 14 + 8 * number
        parts.append(_line(place(ranks.iloc[first]) - 4, height, place(ranks.iloc[last]) + 4, height, 4))
    for number, (name, rank) in enumerate(ranks.items()):
        on_left = number < half
        height = begin + LINE * (number if on_left else len(ranks) - 1 - number)
        edge, anchor = (MARGIN - 10, "end") if on_left else (WIDTH - MARGIN + 10, "start")
        parts += [_line(place(rank), TOP, place(rank), height, 1), _line(place(rank), height, edge, height, 1)]
        parts.append(_text(edge + (-4 if on_left else 4), height + 4, f"{name}  {rank:.1f}", anchor))
    size = begin + LINE * half
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {size}" width="{WIDTH}" height="{size}" '
        f'font-family="sans-serif" font-size="13">\n<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def groups(ranks: np.ndarray, critical: float) -> list[tuple[int, int]]:
    """(first, last) of each longest run of sorted ranks that differ by less than the critical difference.

    >>> groups(np.array([1.0, 1.5, 2.2, 4.0]), 1.0)
    [(0, 1), (1, 2)]
    """
    found: list[tuple[int, int]] = []
    for first, rank in enumerate(ranks):
        last = int(np.flatnonzero(ranks - rank < critical)[-1])
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found


def _axis(low: float, high: float, place: object) -> str:
    assert callable(place)
    ticks = [
        _line(place(rank), TOP - 6, place(rank), TOP, 1) + _text(place(rank), TOP - 10, f"{rank:g}", "middle")
        for rank in np.arange(low, high + 1)
    ]
    return _line(place(low), TOP, place(high), TOP, 1) + "".join(ticks)


def _ruler(critical: float, start: float, end: float) -> str:
    words = _text(start, 16, f"critical difference {critical:.1f}", "start")
    return words + _line(start, 26, end, 26, 2)


def _line(x1: float, y1: float, x2: float, y2: float, width: int) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="black" stroke-width="{width}"/>'


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
