"""Experiment results in words: for a terminal, and as Markdown."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import fill
from typing import Any

from spu_core.experiments.result import Cell, ExperimentResult, ResultTable

WIDTH = 110


def to_text(result: ExperimentResult) -> str:
    """Title, tables, claims, choices and provenance, no line wider than a terminal except in wide tables."""
    parts = [result.title, "=" * len(result.title)]
    for table in result.tables:
        parts += ["", table.title, text_table(table)]
        parts += [_wrapped(table.note)] if table.note else []
    parts += ["", "What the paper claims, and what we found"]
    parts += [_wrapped(f"[{each.verdict}] {each.text} {each.words}", "- ") for each in result.claims]
    parts += ["", "Choices"]
    parts += [_wrapped(choice, "- ") for choice in result.choices]
    return "\n".join([*parts, "", _wrapped(result.provenance.describe())])


def to_markdown(result: ExperimentResult) -> str:
    """The same with Markdown's tables and headings."""
    parts = [f"## {result.title}"]
    for table in result.tables:
        parts += [f"### {table.title}", markdown_table(table)]
        parts += [table.note] if table.note else []
    parts += ["### What the paper claims, and what we found"]
    parts += ["\n".join(f"- **{each.verdict}**: {each.text} {each.words}" for each in result.claims)]
    parts += ["### Choices", "\n".join(f"- {choice}" for choice in result.choices)]
    return "\n\n".join([*parts, f"*{result.provenance.describe()}*"]) + "\n"


def printed_beside_ours(stored: Callable[[str], ExperimentResult]) -> ResultTable:
    """Every number of the paper's three tables beside ours, from the stored results; differences are ours − printed."""
    rows: list[tuple[Any, ...]] = []
    for row in stored("table1").table("paper").records():
        place = f"{row['data']}, {row['model']}"
        rows += [
            ("1", place, name, row[f"printed {name}"], row[name], row[error])
            for name, error in (("result", "SE"), ("baseline", "SE of baseline"))
        ]
    for row in stored("table2").table("auc").records():
        if row["training images"] == "all":
            place = f"{row['images']} {{{row['positive classes']}}}"
            rows.append(("2", place, row["method"], row["paper"], row["ours"], row["SE"]))
    for row in stored("table3").table("ratios").records():
        if (row["admission tilt"], row["exposure"]) == (0.25, 1.0) and row["printed pass %"] is not None:
            rows += [
                ("3", row["method"], name, row[f"printed {name}"], row[name], row[error])
                for name, error in (("surrender %", "SE"), ("pass %", "SE of pass"))
            ]
    columns = ("table", "row", "figure", "printed", "ours", "SE", "difference")
    return ResultTable(
        "printed", "All printed numbers beside ours", columns, tuple((*row, row[4] - row[3]) for row in rows)
    )


def text_table(table: ResultTable) -> str:
    """Columns aligned by spaces.

    >>> print(text_table(ResultTable("t", "T", ("data", "AUC"), (("adult", 0.8632), ("bank", None)))))
    data     AUC
    adult  0.863
    bank       –
    """
    cells = [list(table.columns), *([cell_text(cell) for cell in row] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    is_text = [any(isinstance(cell, str) for cell in table.column(name)) for name in table.columns]
    return "\n".join(_line(row, widths, is_text) for row in cells)


def markdown_table(table: ResultTable) -> str:
    """The table as Markdown, numbers to the right."""
    is_text = [any(isinstance(cell, str) for cell in table.column(name)) for name in table.columns]
    rows = [list(table.columns), [" --- " if text else " ---: " for text in is_text]]
    rows += [[cell_text(cell) for cell in row] for row in table.rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|").strip() for cell in row) + " |" for row in rows)


def cell_text(cell: Cell) -> str:
    """A cell as people read it: a standard error keeps a digit more than an AUC.

    >>> [cell_text(cell) for cell in (0.8632, 0.00241, 1e-12, 1234, "adult", None)]
    ['0.863', '0.0024', '1.0e-12', '1,234', 'adult', '–']
    """
    if cell is None:
        return "–"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    if cell != 0.0 and abs(cell) < 5e-5:
        return f"{cell:.1e}"
    return f"{cell:.4f}" if abs(cell) < 0.1 else f"{cell:.3f}"


def _line(row: list[str], widths: list[int], is_text: list[bool]) -> str:
    cells = [
        cell.ljust(width) if text else cell.rjust(width) for cell, width, text in zip(row, widths, is_text, strict=True)
    ]
    return "  ".join(cells).rstrip()


def _wrapped(text: str, mark: str = "") -> str:
    return fill(text, WIDTH, initial_indent=mark, subsequent_indent=" " * len(mark))
