"""How results show themselves: a short line, an HTML table for notebooks, a Markdown table, and a Plotly figure."""

from __future__ import annotations

from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    import plotly.graph_objects as go

LONGEST, LONGEST_NAME = 180, 60
SHOWN_ROWS = 30


def short_repr(kind: str, name: Any = None, *facts: str | None) -> str:
    """One line of at most 180 characters; facts that are None are left out.

    >>> short_repr("Table", "people", "3 rows", None, "2 columns")
    "<Table 'people': 3 rows, 2 columns>"
    >>> short_repr("SoftLabels", None, "3 rows")
    '<SoftLabels: 3 rows>'
    """
    start = kind if name is None else f"{kind} {short_name(name)}"
    line = f"{start}: {', '.join(fact for fact in facts if fact)}"
    return f"<{_cut(line, LONGEST - 2)}>"


def short_name(name: Any) -> str:
    """A name in quotes on one line, cut where it is long.

    >>> short_name("two\\nlines"), len(short_name("x" * 500))
    ("'two\\\\nlines'", 60)
    """
    return _cut(repr(name), LONGEST_NAME)


def count(number: int, thing: str) -> str:
    """A number with its noun.

    >>> count(1, "row"), count(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def html_table(title: str, frame: pd.DataFrame) -> str:
    """A title above the rows, all text escaped; without colours, so that the theme of the notebook decides.

    >>> html_table("<b>", pd.DataFrame({"a": ["<i>"]})).count("&lt;")
    2
    """
    shown = frame.head(SHOWN_ROWS).map(lambda cell: _cut(cell, 100) if isinstance(cell, str) else cell)
    table = shown.to_html(index=False, border=0, escape=True, na_rep="", float_format="{:.3f}".format)
    hidden = len(frame) - len(shown)
    more = f"<p>… and {hidden:,} more</p>" if hidden else ""
    return f"<div><p>{escape(title)}</p>{table}{more}</div>"


class Plotted:
    """A result with a figure, which `spu_core.charts.result_charts` makes."""

    __slots__ = ()

    def plot(self) -> go.Figure:
        """A Plotly figure of this result.

        Returns
        -------
        plotly.graph_objects.Figure
            `spu_core.charts` has more charts, and takes a theme.
        """
        # By name: charts are made from results, so this module may not import them.
        return import_module("spu_core.charts.result_charts").figure_of(self)


class Tabular:
    """A result whose `to_frame` is what a notebook shows and what `to_markdown` writes."""

    __slots__ = ()

    def to_frame(self) -> pd.DataFrame:
        """The result as a table."""
        raise NotImplementedError

    def to_markdown(self) -> str:
        """The table as Markdown, numbers with three decimals."""
        return markdown_table(self.to_frame())

    def _repr_html_(self) -> str:
        return html_table(repr(self), self.to_frame())


def markdown_table(frame: pd.DataFrame) -> str:
    """Rows as a Markdown table, numbers with three decimals; text of the user cannot end a cell or a line.

    >>> print(markdown_table(pd.DataFrame({"name": ["a|b"], "auc": [0.91234], "rows": [3]})))
    | name | auc | rows |
    | --- | --- | --- |
    | a\\|b | 0.912 | 3 |
    """
    lines = [list(frame.columns), ["---"] * frame.shape[1], *frame.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(map(_markdown_cell, line))} |" for line in lines)


def _markdown_cell(value: Any) -> str:
    if value is None or value != value:
        return ""
    return markdown_text(f"{value:.3f}" if isinstance(value, float) else str(value))


def markdown_text(text: str) -> str:
    """Text of the user on one line of Markdown, in which it is no markup.

    >>> markdown_text("a <b>")
    'a &lt;b>'
    """
    return " ".join(text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").split())


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
