"""The report: one HTML file with the interactive charts of a comparison, which opens without a network."""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Iterator, Sequence

import plotly.graph_objects as go

from spu_core.charts import (
    alt_text,
    calibration_chart,
    difference_chart,
    gains_chart,
    leaderboard_chart,
    roc_chart,
    score_chart,
    share_of_ceiling_chart,
)
from spu_core.export.bundle import Bundle
from spu_core.export.card import LIMITS, Block, Bullets, Chart, Section, card_sections, leaderboard_grid, to_html
from spu_core.metrics import calibration_to_soft_label, gains_spu, roc_spu, roc_spu_ceiling
from spu_core.training import Comparison, Recommendation, Run, recommend

MOST_CURVES = 8


def report_html(
    comparison: Comparison,
    bundle: Bundle | None = None,
    *,
    title: str = "Comparison report",
    origin: str = "unknown",
) -> str:
    """A comparison with its charts as one HTML page.

    Parameters
    ----------
    comparison : Comparison
        The compared runs.
    bundle : Bundle, optional
        The chosen run; its model card is appended.
    title : str
        The title of the page.
    origin : str
        How the confirmed cases were found, for `recommend`.

    Returns
    -------
    str
        HTML that includes the charting library and makes no requests; below 2 MB.
    """
    found = recommend(comparison, origin=origin)
    runs = {run.name: run for run in comparison.runs if run.score is not None}
    finished = [runs[name] for name in found.order if name in runs]
    sections = [
        Section("Recommended model", _recommended(found)),
        Section("Candidates", _candidates(comparison, finished, found)),
        Section("ROC_SPU and its ceiling", _roc(finished, bundle)),
        Section("Differences", _differences(comparison)),
        Section("Review budget", _gains(finished)),
        Section(f"Scores of {finished[0].name}", tuple(_scores(finished[0]))),
        Section("What these figures do and do not say", (Bullets(LIMITS),)),
    ]
    if bundle is not None:
        sections += [Section(f"Model card: {part.title}", part.blocks) for part in card_sections(bundle)]
    return to_html(title, *_packed(sections))


def _recommended(found: Recommendation) -> tuple[Block, ...]:
    return (found.sentence, f"Confidence: {found.confidence}.", Bullets(found.sentences[1:]))


def _candidates(comparison: Comparison, finished: list[Run], found: Recommendation) -> tuple[Block, ...]:
    metrics = {run.name: run.metrics for run in finished if run.metrics is not None}
    intervals = {name: value.auc_spu for name, value in metrics.items()}
    ceiling = next(iter(metrics.values())).ceiling
    shares = {name: value.share_of_ceiling for name, value in metrics.items()}
    headline = () if comparison.headline is None else (comparison.headline,)
    notes = [note for note in comparison.notes if note not in headline]
    words = Bullets((*comparison.disagreements, *notes))
    figures = (
        leaderboard_chart({"AUC_SPU": intervals}, ceiling=ceiling),
        share_of_ceiling_chart(shares),
    )
    return (*headline, *map(_chart, figures), leaderboard_grid(comparison, found), words)


def _roc(finished: list[Run], bundle: Bundle | None) -> tuple[Block, ...]:
    evaluation = finished[0].evaluation
    soft_label, weight = evaluation.judged_soft_label, evaluation.judged_weight
    curves = {
        run.name: roc_spu(soft_label, run.need_score()[evaluation.judged], sample_weight=weight)
        for run in finished[:MOST_CURVES]
    }
    point = None
    if bundle is not None and bundle.name in curves:
        point = curves[bundle.name].at_threshold(bundle.point.threshold)
    ceiling = roc_spu_ceiling(soft_label, sample_weight=weight)
    found: list[Block] = [_chart(roc_chart(curves, ceiling, operating_point=point))]
    if len(finished) > MOST_CURVES:
        found.append(f"The first {MOST_CURVES} of {len(finished)} candidates are drawn.")
    return tuple(found)


def _differences(comparison: Comparison) -> tuple[Block, ...]:
    if not comparison.pairs:
        return ("There is only one candidate, so nothing can be compared.",)
    return (_chart(difference_chart(comparison.pairs)),)


def _gains(finished: list[Run]) -> tuple[Block, ...]:
    evaluation, config = finished[0].evaluation, finished[0].config
    soft_label, weight = evaluation.judged_soft_label, evaluation.judged_weight
    gains = {
        run.name: gains_spu(soft_label, run.need_score()[evaluation.judged], sample_weight=weight)
        for run in finished[:MOST_CURVES]
    }
    budget = config.review_budget
    share = budget / soft_label.size if isinstance(budget, int) else budget
    return (_chart(gains_chart(gains, budget=min(share, 1.0))),)


def _scores(run: Run) -> Iterator[Block]:
    evaluation = run.evaluation
    score = run.need_score()[evaluation.judged]
    yield _chart(score_chart(score, evaluation.judged_is_labeled))
    if score.min() >= 0.0 and score.max() <= 1.0:
        table = calibration_to_soft_label(evaluation.judged_soft_label, score)
        yield _chart(calibration_chart({run.name: table}))


def _chart(figure: go.Figure) -> Chart:
    return Chart(str(figure.to_json()), alt_text(figure))


# The charting library has 4.8 MB, which no mail should carry: library and charts are one compressed text. The browser
# unpacks it and adds it as a script. Base 85 needs a quarter more bytes than the compressed text, base 64 a third.
_CONFIG = '{displaylogo: false, responsive: true, modeBarButtonsToRemove: ["sendDataToCloud"]}'
_LOADER = """
document.addEventListener("DOMContentLoaded", async () => {
  const letters = "ALPHABET", text = document.getElementById("spu-packed").textContent;
  const place = Object.fromEntries([...letters].map((letter, at) => [letter, at]));
  const bytes = new Uint8Array(text.length / 5 * 4), view = new DataView(bytes.buffer);
  for (let at = 0; at < text.length; at += 5) {
    let value = 0;
    for (let k = 0; k < 5; k++) value = value * 85 + place[text[at + k]];
    view.setUint32(at / 5 * 4, value);
  }
  const whole = new Blob([bytes.slice(0, LENGTH)]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(whole).text();
  document.head.append(script);
});
"""
# Python's alphabet with a comma in the place of <, which could open a tag.
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~"


def _packed(sections: Sequence[Section]) -> tuple[list[Section], str]:
    """(the sections with an empty element for each chart, the head that fills them)."""
    from plotly.offline import get_plotlyjs

    scripts, changed = [get_plotlyjs()], []
    for section in sections:
        blocks: list[Block] = []
        for block in section.blocks:
            if isinstance(block, Chart):
                name = f"chart-{len(scripts)}"
                scripts.append(f'Plotly.newPlot("{name}", {{...{block.html}, config: {_CONFIG}}});')
                block = Chart(f'<div id="{name}"></div>', block.description)
            blocks.append(block)
        changed.append(Section(section.title, tuple(blocks)))
    data = gzip.compress("\n".join(scripts).encode(), 9, mtime=0)
    text = base64.b85encode(data, pad=True).decode().replace("<", ",")
    loader = re.sub("ALPHABET|LENGTH", lambda word: {"ALPHABET": _ALPHABET}.get(word[0], str(len(data))), _LOADER)
    return changed, f'<script type="text/plain" id="spu-packed">{text}</script><script>{loader}</script>'
