"""A critical-difference diagram as an SVG picture: methods by mean rank; bars join those without a clear difference."""

from __future__ import annotations

from html import escape

import numpy as np
import pandas as pd

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
