"""How results are shown: charts in the viewer's theme, pictures, findings with advice, figures, tables, the glossary.

The toolbar of a table saves its cells as CSV, and the browser writes that file. Text that a spreadsheet would run as a
formula therefore gets an apostrophe before it is sent, and is shown without it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal

import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.ui.shared.text import GLOSSARY, plain
from spu_core.charts import DARK, LIGHT, Theme, alt_text
from spu_core.tables import Finding, Severity
from spu_core.tables.spreadsheet import is_dangerous, safe_frame, safe_names

_ICONS = {
    Severity.INFO: ":material/info:",
    Severity.WARNING: ":material/warning:",
    Severity.ERROR: ":material/error:",
}
BadgeColor = Literal["red", "orange", "blue", "green", "gray"]
_IMAGE = {"format": "svg", "filename": "spu-studio"}
_CONFIG = {
    "displaylogo": False,
    "modeBarButtonsToRemove": ["lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d", "pan2d", "zoom2d", "select2d"],
    "toImageButtonOptions": _IMAGE,
}
FEWEST_ALIKE = 3  # notices of one kind become one notice with a table
MOST_CELLS = 200_000  # Streamlit does not style larger tables
LONGEST_TEXT = 1_000  # of a cell; a small file can hold texts of many megabytes, which server and browser would copy


def theme() -> Theme:
    """The chart theme that matches the viewer's theme."""
    return DARK if st.context.theme.type == "dark" else LIGHT


def show_chart(figure: go.Figure, key: str, *, image: str = "svg", with_texts: bool = False, **options: Any) -> Any:
    """A chart with a text for screen readers, also shown below it if `with_texts`; its camera saves an SVG or PNG."""
    config = _CONFIG if image == "svg" else {**_CONFIG, "toImageButtonOptions": {**_IMAGE, "format": image, "scale": 2}}
    words = alt_text(figure)
    shown = st.plotly_chart(figure, theme=None, key=key, config=config, alt=words, **options)
    if with_texts:
        st.caption(plain(words))
    return shown


def show_findings(findings: Iterable[Finding]) -> None:
    """Findings with their advice, the most severe first; three or more of one kind become one with a table."""
    order = [Severity.ERROR, Severity.WARNING, Severity.INFO]
    alike: dict[tuple[str, str], list[Finding]] = {}
    for finding in sorted(findings, key=lambda each: order.index(each.severity)):
        alike.setdefault((finding.code, finding.advice), []).append(finding)
    for found in alike.values():
        box = {Severity.ERROR: st.error, Severity.WARNING: st.warning, Severity.INFO: st.info}[found[0].severity]
        first = f"**{plain(found[0].message)}**"
        if len(found) < FEWEST_ALIKE:
            for finding in found:
                box(f"**{plain(finding.message)}** {plain(finding.advice)}", icon=_ICONS[finding.severity])
            continue
        box(f"{first} {len(found) - 1} more like this. {plain(found[0].advice)}", icon=_ICONS[found[0].severity])
        with st.expander(f"All {len(found)}", icon=":material/table_rows:"):
            lines = pd.DataFrame([(each.column or "", each.message) for each in found], columns=["column", "notice"])
            show_table(lines, hide_index=True)


def figure_cards(many: int) -> list[DeltaGenerator]:
    """Places for figures side by side; on a phone they stand two by two."""
    return [st.container(horizontal=True, gap="small")] * many


def show_figure(card: DeltaGenerator, title: str, value: str, note: str, *, about: str | None = None) -> None:
    """A figure in a card with a note below it; `about` is the word of the glossary that explains it."""
    words = None if about is None else meaning(about)
    card.metric(title, value, note, help=words, delta_color="off", delta_arrow="off", border=True)


def meaning(word: str) -> str:
    """The explanation of a technical word, for the `help=` of a widget."""
    return GLOSSARY[word].words


def explain_terms(*words: str) -> None:
    """A popover with the meaning of the words of a page and their formulas."""
    with st.popover("What do these words mean?", icon=":material/help:"):
        for word in words:
            entry = GLOSSARY[word]
            st.markdown(f"**{entry.title}.** {entry.words}")
            if entry.formula:
                st.latex(entry.formula)


def show_table(
    data: pd.DataFrame | pd.Series, *, column_config: Mapping[str, Any] | None = None, **options: Any
) -> None:
    """A table to read and to download."""
    frame, pinned = _with_names_in_a_column(pd.DataFrame(data))
    if pinned:
        options["hide_index"] = True
    kept, renamed = safe_to_download(frame)
    st.dataframe(kept, column_config={**renamed, **pinned, **(column_config or {})}, **options)


def edit_table(
    frame: pd.DataFrame, editable: Collection[str], *, column_config: Mapping[str, Any], key: str, **options: Any
) -> pd.DataFrame:
    """A table with editable columns; their edited cells are returned and downloaded unchanged."""
    fixed = frame.drop(columns=list(editable))
    names = dict(zip(fixed.columns, safe_names(fixed.columns), strict=True))
    kept, renamed = safe_to_download(fixed, frame[list(editable)])
    edited = st.data_editor(
        kept,
        hide_index=True,
        disabled=list(names.values()),
        column_order=[names.get(name, name) for name in frame.columns],
        column_config={**renamed, **column_config},
        key=key,
        **options,
    )
    return frame.assign(**{name: edited[name].to_numpy() for name in editable})


def safe_to_download(frame: pd.DataFrame, typed: pd.DataFrame | None = None) -> tuple[Any, dict[str, Any]]:
    """The table as the browser gets it, and the titles of columns whose names had to change.

    >>> kept, titles = safe_to_download(pd.DataFrame({"=x": ["=1+1"], "n": [-1]}))
    >>> kept.data.to_csv(index=False), list(titles)
    ("'=x,n\\n'=1+1,-1\\n", ["'=x"])
    """
    frame = _without_long_texts(frame)
    # The browser does not quote cells that hold a CR, so CRs are replaced.
    safe = safe_frame(frame).replace("\r\n?", "\n", regex=True)
    safe.columns = pd.Index([str(name).replace("\r", "\n") for name in safe.columns])
    titles = {
        new: st.column_config.Column(str(old))
        for new, old in zip(safe.columns, frame.columns, strict=True)
        if new != str(old)
    }
    whole = safe if typed is None else safe.join(typed)
    risky = {name: _dangerous(frame.iloc[:, place]) for place, name in enumerate(safe)}
    risky = {name: mask for name, mask in risky.items() if mask.any()}
    if not risky or whole.size > MOST_CELLS:
        return whole, titles
    shown = whole.style.format(str)
    for name, mask in risky.items():
        shown = shown.format(_without_apostrophe, subset=(whole.index[mask], [name]))
    return shown, titles


def _without_long_texts(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with its long texts cut.

    >>> _without_long_texts(pd.DataFrame({"a": ["x" * 2_000], "n": [1]})).a.str.len().tolist()
    [1001]
    """
    columns = [_cut(frame.iloc[:, place]) for place in range(frame.shape[1])]
    return pd.concat(columns, axis=1) if columns else frame


def _cut(values: pd.Series) -> pd.Series:
    if pd.api.types.is_numeric_dtype(values.dtype):
        return values
    # Each distinct text is cut once: many rows may share a long one.
    codes, found = pd.factorize(values)
    texts = list(found)
    if not any(map(_is_long, texts)):
        return values
    cut = [f"{text[:LONGEST_TEXT]}…" if _is_long(text) else text for text in texts]
    shown = pd.Series([*cut, None], dtype="object").take(codes).set_axis(values.index)
    shown.name = values.name
    return shown


def _is_long(value: object) -> bool:
    return isinstance(value, str) and len(value) > LONGEST_TEXT


def _dangerous(values: pd.Series) -> Any:
    return values.map(lambda value: isinstance(value, str) and is_dangerous(value)).to_numpy(dtype=bool)


def _without_apostrophe(text: object) -> str:
    return str(text)[1:]


def _with_names_in_a_column(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Move a text index into a column, so that it is made safe like all others."""
    if pd.api.types.is_numeric_dtype(frame.index.dtype):
        return frame, {}
    name = str(frame.index.name or "")
    return frame.rename_axis(name).reset_index(), {name: st.column_config.Column(pinned=True)}


def in_percent(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """The same table with a share written in percent, as `share_column` shows it.

    >>> in_percent(pd.DataFrame({"share": [0.25]}), "share")["share"].tolist()
    [25.0]
    """
    return table.assign(**{column: 100.0 * table[column]})


def share_column(title: str, words: str, width: int | None = None) -> Any:
    """A bar from 0 to 100%."""
    bar = st.column_config.ProgressColumn
    return bar(title, format="%.0f%%", min_value=0, max_value=100, help=words, width=width)


def edited_lines(before: pd.DataFrame, after: Any, columns: list[str]) -> pd.DataFrame:
    """Lines in which one of the columns was edited and the first of them is filled in."""
    after = pd.DataFrame(after)
    texts = after[columns].fillna("")
    differs = (texts != before[columns].fillna("")).any(axis=1)
    return after[differs & (texts[columns[0]] != "")]


IDEA = {
    "known": "A few rows are confirmed (violet). You suspect some others (orange). Of the rest you know nothing.",
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
