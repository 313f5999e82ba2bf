"""The results page: tables in Markdown, and the picture of critical differences beside it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd

from spu_core.bench.diagram import critical_difference_svg
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
