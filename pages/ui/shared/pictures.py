"""The idea as three small pictures, drawn as SVG in the colours of the theme."""

from __future__ import annotations

from spu_core.charts import Theme

IDEA = {
    "known": "A few rows are confirmed. You suspect some others. Of the rest you know nothing.",
    "belief": "Your rules give each row a soft label: how strongly you believe that it is positive, from 0 to 1.",
    "ranked": "A model learns from both and ranks all rows. Check the top of the list first.",
}
WIDTH, HEIGHT = 300, 150
COLUMNS, ROWS = 10, 5
# Places in the grid of rows.
CONFIRMED, SUSPECTED = (7, 23, 41), (4, 8, 13, 18, 22, 32, 37, 42)
BELIEFS = (1.0, 0.8, 0.6, 0.35, 0.1, 0.0)
SCORES = (0.97, 0.9, 0.82, 0.6, 0.35, 0.15)


def picture(name: str, theme: Theme) -> str:
    """One of the pictures of the idea as SVG text."""
    drawn = {"known": _known, "belief": _belief, "ranked": _ranked}[name](theme)
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">{drawn}</svg>'


def _known(theme: Theme) -> str:
    dots = []
    for place in range(COLUMNS * ROWS):
        color = theme.confirmed if place in CONFIRMED else theme.belief if place in SUSPECTED else theme.rest
        x, y = 24 + 28 * (place % COLUMNS), 18 + 28 * (place // COLUMNS)
        dots.append(f'<circle cx="{x}" cy="{y}" r="9" fill="{color}"/>')
    return "".join(dots)


def _belief(theme: Theme) -> str:
    return _bars(theme, [(value, theme.confirmed if value == 1.0 else theme.belief) for value in BELIEFS])


def _ranked(theme: Theme) -> str:
    marked = {0: theme.confirmed, 1: theme.model, 2: theme.model}
    bars = [(value, marked.get(place, theme.rest)) for place, value in enumerate(SCORES)]
    line = f'<line x1="14" x2="286" y1="73" y2="73" stroke="{theme.text}" stroke-dasharray="4 3"/>'
    return _bars(theme, bars) + line


def _bars(theme: Theme, bars: list[tuple[float, str]]) -> str:
    parts = []
    for place, (value, color) in enumerate(bars):
        y = 6 + 24 * place
        parts.append(f'<rect x="14" y="{y}" width="220" height="14" rx="7" fill="{theme.grid}"/>')
        parts.append(f'<rect x="14" y="{y}" width="{max(220 * value, 3):.0f}" height="14" rx="7" fill="{color}"/>')
        number = f"{value:.2f}".rstrip("0").rstrip(".")
        parts.append(_text(246, y + 12, number, theme))
    return "".join(parts)


def _text(x: int, y: int, words: str, theme: Theme) -> str:
    return f'<text x="{x}" y="{y}" font-family="sans-serif" font-size="13" fill="{theme.text}">{words}</text>'
