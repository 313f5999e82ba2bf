"""Every chart on small data: the tests draw all of them, and as a script it writes one page per chart.

python -m tests.charts.gallery FOLDER             pages in the light theme
python -m tests.charts.gallery FOLDER --dark      and in the dark one
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from spu_core import charts
from spu_core.charts import DARK, LIGHT, Theme
from spu_core.metrics import roc_spu, roc_spu_band, roc_spu_ceiling
from spu_core.theory import ScarLink

ROWS = 4000
NOISE = {"Gradient boosting": 0.55, "Random forest": 0.7, "MLP": 0.8, "Soft logistic": 0.95, "Naive Bayes": 1.9}


def rows(size: int = ROWS, seed: int = 0) -> pd.DataFrame:
    """A table whose soft labels and scores make a realistic picture."""
    rng = np.random.default_rng(seed)
    logit = rng.normal(-1.3, 1.6, size)
    frame = pd.DataFrame({"soft_label": 1 / (1 + np.exp(-logit))})
    for name, noise in NOISE.items():
        frame[name] = 1 / (1 + np.exp(-(logit + rng.normal(0, 2.2 * noise, size))))
    frame["is_labeled"] = rng.random(size) < 0.25 * frame["soft_label"]
    frame["days"] = rng.gamma(2.2, 30, size) * (1 + 0.4 * frame["is_labeled"])
    frame["country"] = rng.choice(
        ["Germany", "France", "Spain", "Poland", "Italy"], size, p=[0.4, 0.3, 0.15, 0.1, 0.05]
    )
    return frame


DATA = rows()
SOFT = DATA["soft_label"].to_numpy()
LABELED = DATA["is_labeled"].to_numpy()
SCORES = {name: DATA[name].to_numpy() for name in NOISE}
CURVES = {name: roc_spu(SOFT, score) for name, score in SCORES.items()}
CEILING = roc_spu_ceiling(SOFT)
BAND = {"Gradient boosting": roc_spu_band(SOFT, SCORES["Gradient boosting"])}
POINT = CURVES["Gradient boosting"].at_fpr(0.16)
DAYS = charts.ColumnBins.of(DATA["days"], LABELED)

Example = Callable[[Theme], go.Figure]
EXAMPLES: dict[str, Example] = {
    "roc": lambda theme: charts.roc_chart(CURVES, CEILING, operating_point=POINT, theme=theme),
    "roc_band_perfect": lambda theme: charts.roc_chart(
        dict(list(CURVES.items())[:2]), CEILING, bands=BAND, perfect=ScarLink(0.25, 0.7, 0.2), theme=theme
    ),
    "roc_low": lambda theme: charts.roc_chart(CURVES, CEILING, bands=BAND, zoom="low", theme=theme),
    "roc_log": lambda theme: charts.roc_chart(CURVES, CEILING, operating_point=POINT, zoom="log", theme=theme),
    "roc_many": lambda theme: charts.roc_chart(
        {f"Candidate number {i} with a long name": CURVES["MLP"] for i in range(12)}, CEILING, theme=theme
    ),
    "brush": lambda theme: charts.brush_chart(
        DAYS,
        "days_since_purchase",
        rules=[charts.RuleBand("late payers", 180, 269, 0.81), charts.RuleBand("new", None, 12, 0.2)],
        theme=theme,
    ),
    "category": lambda theme: charts.category_chart(*_levels(DATA["country"]), column="country", theme=theme),
}


def _levels(values: pd.Series) -> tuple[list[str], np.ndarray, np.ndarray]:
    counts = pd.crosstab(values, LABELED)
    return list(counts.index), counts[True].to_numpy(), counts[False].to_numpy()


def write_pages(folder: Path, theme: Theme = LIGHT) -> list[Path]:
    """One self-contained page per chart."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, example in EXAMPLES.items():
        path = folder / f"{name}-{theme.name}.html"
        example(theme).write_html(path, config={"displayModeBar": False, "responsive": True})
        paths.append(path)
    return paths


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]), DARK if "--dark" in sys.argv else LIGHT)
