"""The figures of each experiment, drawn from its stored or new result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from spu_core import charts
from spu_core.charts import LIGHT, PrintedFigure, Theme
from spu_core.experiments.catalog import ExperimentResult

# The table of each result that holds printed figures.
_PRINTED = {"table1": "paper", "table2": "auc", "table3": "ratios"}
_TABLE2_WORDS = {"RESULT": "soft", "BL0": "BL0", "BL1": "BL1"}
DrawFigure = Callable[[ExperimentResult, str, Theme], go.Figure]


@dataclass(frozen=True)
class PaperFigure:
    """A figure with its title and caption; `choices` are its views, such as one link or one prior."""

    title: str
    caption: str
    draw: DrawFigure
    choice: str = ""
    choices: Callable[[ExperimentResult], tuple[str, ...]] = lambda result: ()
    start: str = ""

    def of(self, result: ExperimentResult, choice: str | None = None, *, theme: Theme = LIGHT) -> go.Figure:
        """The figure of this result; by default its first view."""
        return self.draw(result, choice or self.first_view(result), theme)

    def first_view(self, result: ExperimentResult) -> str:
        """The view that is shown first; empty where there is only one."""
        views = self.choices(result)
        return self.start if self.start in views else views[0] if views else ""


def figures_of(result: ExperimentResult) -> Mapping[str, PaperFigure]:
    """The figures that this result has data for; a partial rerun has fewer."""
    return {key: figure for key, figure in FIGURES.get(result.name, {}).items() if _has(result, key)}


def printed_beside_ours(result: ExperimentResult) -> pd.DataFrame:
    """Figures of Table 1, 2 or 3 as printed in the paper, and ours: "what", "printed" and "ours".

    Table 2 is ours with all training images, Table 3 ours in the first simulated world.
    """
    table = next(each for each in result.tables if each.name == _PRINTED[result.name])
    lines: list[tuple[str, float, float]] = []
    for row in table.frame().to_dict("records"):
        if result.name == "table1":
            cell = f"{str(row['data']).split(' (')[0]}, {row['model']}"
            lines.append((f"{cell}, soft", row["printed result"], row["result"]))
            lines.append((f"{cell}, base", row["printed baseline"], row["baseline"]))
        elif result.name == "table2" and row["training images"] == "all":
            method = _TABLE2_WORDS[str(row["method"])]
            lines.append(
                (f"{str(row['images']).split('-')[0]} {row['positive classes']}, {method}", row["paper"], row["ours"])
            )
        elif result.name == "table3":
            lines.append((f"{row['method']}, surrender %", row["printed surrender %"], row["surrender %"]))
            lines.append((f"{row['method']}, pass %", row["printed pass %"], row["pass %"]))
    found = pd.DataFrame(lines, columns=["what", "printed", "ours"]).dropna()
    return found.drop_duplicates("what", ignore_index=True)


def _has(result: ExperimentResult, key: str) -> bool:
    wanted = _NEEDS.get(key, key)
    return wanted in result.series or any(table.name == wanted for table in result.tables)


def _of_series(draw: Callable[..., go.Figure], *path: str) -> DrawFigure:
    """A chart of a part of the series."""

    def drawn(result: ExperimentResult, choice: str, theme: Theme) -> go.Figure:
        part: Any = result.series
        for step in path:
            part = part[step]
        return draw(part, theme=theme)

    return drawn


def _ordering(result: ExperimentResult, link: str, theme: Theme) -> go.Figure:
    return charts.ordering_chart(result.series["theorem3"]["links"][link], link, theme=theme)


def _links(result: ExperimentResult) -> tuple[str, ...]:
    """The links, those with a warning first."""
    links = result.series["theorem3"]["links"]
    return tuple(sorted(links, key=lambda link: not links[link]["pair"]))


def _noise(result: ExperimentResult, prior: str, theme: Theme) -> go.Figure:
    return charts.noisy_link_chart(result.series["theorem4"]["priors"][prior], float(prior), theme=theme)


def _table1(result: ExperimentResult, choice: str, theme: Theme) -> go.Figure:
    found = []
    for row in result.table("paper").records():
        name = f"{row['data']}, {row['model']}"
        found.append(PrintedFigure(name, row["printed result"], row["result"], row["SE"], "soft labels"))
        found.append(PrintedFigure(name, row["printed baseline"], row["baseline"], row["SE of baseline"], "baseline"))
    return charts.reproduction_chart(found, "true AUC on test rows", theme=theme)


def _honest(result: ExperimentResult, trial: str, theme: Theme) -> go.Figure:
    rows = [row for row in result.table("honest").records() if row["trial"] == trial]
    ordered = sorted(rows, key=lambda row: -row["AUC"])
    found = [PrintedFigure(row["method"], None, row["AUC"], row["SE"], row["group"]) for row in ordered]
    return charts.reproduction_chart(found, "true AUC on test rows", theme=theme)


def _table2(result: ExperimentResult, size: str, theme: Theme) -> go.Figure:
    found = [
        PrintedFigure(
            f"{row['images']} {{{row['positive classes']}}}", row["paper"], row["ours"], row["SE"], row["method"]
        )
        for row in result.table("auc").records()
        if row["training images"] == size
    ]
    return charts.reproduction_chart(found, "true AUC on test images", theme=theme)


def _table3(result: ExperimentResult, figure: str, theme: Theme) -> go.Figure:
    column, error, printed = TABLE3[figure]
    found = [
        PrintedFigure(
            f"tilt {row['admission tilt']:g}, exposure {row['exposure']:g}",
            row[printed],
            row[column],
            row[error],
            row["method"],
        )
        for row in result.table("ratios").records()
    ]
    return charts.reproduction_chart(found, figure, theme=theme)


TABLE3 = {
    "surrender ratio, %": ("surrender %", "SE", "printed surrender %"),
    "pass ratio, %": ("pass %", "SE of pass", "printed pass %"),
}


def _selection(result: ExperimentResult, pool: str, theme: Theme) -> go.Figure:
    rows = [row for row in result.table("ranks").records() if row["candidates"] == pool]
    return _ranks(rows, "chosen by", theme)


def _features(result: ExperimentResult, choice: str, theme: Theme) -> go.Figure:
    return _ranks(result.table("ranks").records(), "figure", theme)


def _ranks(rows: Iterable[Mapping[str, Any]], by: str, theme: Theme) -> go.Figure:
    found = [
        PrintedFigure(row["data"], None, row["rank correlation"], row["SE"], row[by])
        for row in rows
        if row["rank correlation"] is not None
    ]
    return charts.reproduction_chart(found, "rank correlation with the true AUC", theme=theme)


def _discussion(result: ExperimentResult, rules: str, theme: Theme) -> go.Figure:
    return charts.winner_map_chart([row for row in result.table("map").records() if row["rules"] == rules], theme=theme)


def _values(table: str, column: str) -> Callable[[ExperimentResult], tuple[str, ...]]:
    return lambda result: tuple(dict.fromkeys(str(value) for value in result.table(table).column(column)))


_NEEDS = {"figure1": "theorem4"}
FIGURES: dict[str, dict[str, PaperFigure]] = {
    "table1": {
        "paper": PaperFigure("Paper mode", "Diamonds are printed, dots are ours with ± 2 standard errors.", _table1),
        "honest": PaperFigure(
            "Honest mode",
            "Every method on the same draws, without the labelling probability in X.",
            _honest,
            "Data",
            _values("honest", "trial"),
        ),
    },
    "table2": {
        "auc": PaperFigure(
            "Table 2",
            "Diamonds are printed, dots are ours with ± 2 standard errors.",
            _table2,
            "Training images",
            _values("auc", "training images"),
        )
    },
    "table3": {
        "ratios": PaperFigure(
            "Table 3 and its sensitivity",
            "Printed figures stand beside ordinary exposure only; the levels of a simulator are not those of a game.",
            _table3,
            "Figure",
            lambda result: tuple(TABLE3),
        )
    },
    "theorems": {
        "theorem1": PaperFigure(
            "Theorem 1: the ceiling",
            "Dashed lines are ceilings. Noise can only lower AUC_SPU; no curve ever crosses its line.",
            _of_series(charts.ceiling_noise_chart, "theorem1"),
        ),
        "theorem2": PaperFigure(
            "Theorem 2: a straight line",
            "Lines are what the theorem says, dots what was measured (bars: spread over draws).",
            _of_series(charts.scar_line_chart, "theorem2", "settings"),
        ),
        "theorem3": PaperFigure(
            "Theorem 3: the best order",
            "Each dot is an imperfect score. The theorem needs a link that rises strictly. A rule that fires or not "
            "makes it flat: then scores with the best ROC_SPU can have almost any true AUC. Under a linear link the "
            "dots lie on a line; under others a higher AUC_SPU may come with a lower true AUC.",
            _ordering,
            "Link between P(Y=1|X) and E[S|X]",
            _links,
            "one rule: .6 where η > .9",
        ),
        "theorem4": PaperFigure(
            "Theorem 4: second-order loss",
            "Both scales are logarithmic: a slope of 2 means ε². Move π above 11/12 to see the printed bound fail.",
            _noise,
            "Prior π",
            lambda result: tuple(result.series["theorem4"]["priors"]),
            "0.95",
        ),
        "theorem5": PaperFigure(
            "Theorem 5: more rows",
            "Both scales are logarithmic. A model that cannot follow E[S|X] stops improving.",
            _of_series(charts.convergence_chart, "theorem5"),
        ),
        "figure1": PaperFigure(
            "Figure 1: what optimising the PU metric costs",
            "The shaded area is the AUC that is lost; the noise is exaggerated to make it visible.",
            _of_series(charts.roc_loss_chart, "theorem4", "figure1"),
        ),
        "figure2": PaperFigure(
            "Figure 2: check and punishment",
            "Widths are players of one simulated season; the deeper the colour, the more of them cheat.",
            _of_series(charts.check_flow_chart, "figure2", "flows"),
        ),
    },
    "selection": {
        "ranks": PaperFigure(
            "Which figure ranks models best",
            "1 means that choosing without truth orders the models as the truth would.",
            _selection,
            "Candidates",
            _values("ranks", "candidates"),
        )
    },
    "features": {
        "ranks": PaperFigure(
            "Which figure ranks sets of columns best",
            "1 means that choosing without truth orders the sets as the truth would.",
            _features,
        )
    },
    "discussion": {
        "map": PaperFigure(
            "Who wins",
            "Positive: the soft label is better as target; negative: better as feature.",
            _discussion,
            "Rules",
            _values("map", "rules"),
        )
    },
}
