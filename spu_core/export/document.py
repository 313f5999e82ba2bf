"""A plain document: sections of paragraphs, lists and tables, written as Markdown or HTML; every text stays text."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

_SPECIAL = re.compile(r"([\\`*_\[\]#|~$]|^[-+=]|(?<=^\d)[.)](?=\s|$))")


@dataclass(frozen=True)
class Bullets:
    items: tuple[str, ...]


@dataclass(frozen=True)
class Grid:
    """A table: one header, rows of texts."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Code:
    """Text shown as it is, in a fixed-width font."""

    text: str


@dataclass(frozen=True)
class Chart:
    """HTML of a figure that was made by us; Markdown shows its words instead."""

    html: str
    words: str


Block: TypeAlias = str | Bullets | Grid | Code | Chart


@dataclass(frozen=True)
class Section:
    title: str
    blocks: tuple[Block, ...]


def to_markdown(title: str, sections: Sequence[Section]) -> str:
    """The document as Markdown; what users typed cannot become a heading, a link or HTML."""
    parts = [f"# {markdown_text(title)}"]
    for section in sections:
        parts.append(f"## {markdown_text(section.title)}")
        parts += [_markdown_block(block) for block in section.blocks]
    return "\n\n".join(part for part in parts if part) + "\n"


def to_html(title: str, sections: Sequence[Section], *, head: str = "") -> str:
    """The document as one HTML page that loads nothing from anywhere; `head` is our own markup."""
    body = "".join(
        f"<section><h2>{html.escape(section.title)}</h2>{''.join(map(_html_block, section.blocks))}</section>"
        for section in sections
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style>{head}</head>"
        f"<body><main><h1>{html.escape(title)}</h1>{body}</main></body></html>\n"
    )


def markdown_text(text: str) -> str:
    r"""Text without any power in Markdown, on one line.

    >>> print(markdown_text("<b>a_b</b> [x](http://y)\n# z"))
    &lt;b&gt;a\_b&lt;/b&gt; \[x\](http&#58;//y) \# z
    """
    line = _SPECIAL.sub(r"\\\1", re.sub(r"\s+", " ", text).strip())
    # A bare address would become a link by itself.
    return re.sub(r"(?i)(https?|ftp|mailto|javascript|data):", r"\1&#58;", html.escape(line, quote=False))


def _markdown_block(block: Block) -> str:
    if isinstance(block, Bullets):
        return "\n".join(f"- {markdown_text(item)}" for item in block.items)
    if isinstance(block, Grid):
        lines = [block.header, ("---",) * len(block.header), *block.rows]
        written = [[cell if cell == "---" else markdown_text(cell) for cell in line] for line in lines]
        return "\n".join(f"| {' | '.join(line)} |" for line in written)
    if isinstance(block, Code):
        # Indented code cannot be left, whatever is in it.
        return "\n".join(f"    {line}" for line in block.text.splitlines())
    return markdown_text(block.words if isinstance(block, Chart) else block)


def _html_block(block: Block) -> str:
    if isinstance(block, Bullets):
        return f"<ul>{''.join(f'<li>{html.escape(item)}</li>' for item in block.items)}</ul>"
    if isinstance(block, Grid):
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in block.header)
        rows = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in block.rows)
        return f"<div class=grid><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    if isinstance(block, Code):
        return f"<pre>{html.escape(block.text)}</pre>"
    if isinstance(block, Chart):
        words = html.escape(block.words)
        return f'<figure role="img" aria-label="{words}">{block.html}<figcaption>{words}</figcaption></figure>'
    return f"<p>{html.escape(block)}</p>"


# The page may run the scripts it carries and nothing else: no request leaves it.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; "
    "form-action 'none'; base-uri 'none'"
)
_STYLE = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;color:#1c2430;background:#fff;margin:0}"
    "main{max-width:980px;margin:0 auto;padding:2rem 1.25rem}h1{font-size:1.7rem}h2{font-size:1.2rem;margin-top:2.2rem;"
    "border-bottom:1px solid #dde3ea;padding-bottom:.3rem}.grid{overflow-x:auto}table{border-collapse:collapse;"
    "font-variant-numeric:tabular-nums;font-size:.92rem}th,td{text-align:left;padding:.35rem .7rem;"
    "border-bottom:1px solid #e6eaef}th{color:#5a6675;font-weight:600}pre{background:#f5f7f9;padding:.8rem;"
    "overflow-x:auto}p,li,h1,h2{overflow-wrap:anywhere}figure{margin:1rem 0;overflow-x:auto}"
    "figcaption{font-size:.85rem;color:#5a6675}"
    "@media print{main{max-width:none}}"
    # Charts are drawn for a light page; in the dark they keep a light sheet of their own.
    "@media screen and (prefers-color-scheme:dark){body{color:#e3e6ea;background:#14181d}h2{border-color:#333b45}"
    "th{color:#a4afbc}th,td{border-color:#2a313a}pre{background:#1d232a}figure{background:#fff;border-radius:8px;"
    "padding:.5rem;color-scheme:light}}"
)
