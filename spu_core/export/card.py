"""The model card as Markdown or HTML: purpose, data, rules, metrics, choice, threshold and limits of a bundle.

The first half of the module is a small document model, which the report uses too. Text of users is always escaped.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from spu_core.export.bundle import Bundle
from spu_core.labels import COMBINERS
from spu_core.training import Comparison, Recommendation, recommend

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
    """HTML of a chart that this program made; Markdown shows its description instead."""

    html: str
    description: str


Block: TypeAlias = str | Bullets | Grid | Code | Chart


@dataclass(frozen=True)
class Section:
    title: str
    blocks: tuple[Block, ...]


def to_markdown(title: str, sections: Sequence[Section]) -> str:
    """The document as Markdown; text of users cannot become a heading, a link or HTML."""
    parts = [f"# {markdown_text(title)}"]
    for section in sections:
        parts.append(f"## {markdown_text(section.title)}")
        parts += [_markdown_block(block) for block in section.blocks]
    return "\n\n".join(part for part in parts if part) + "\n"


def to_html(title: str, sections: Sequence[Section], head: str = "") -> str:
    """The document as one HTML page that loads nothing from the network; `head` must be trusted markup."""
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
    r"""Text on one line, with everything escaped that means something in Markdown.

    >>> print(markdown_text("<b>a_b</b> [x](http://y)\n# z"))
    &lt;b&gt;a\_b&lt;/b&gt; \[x\](http&#58;//y) \# z
    """
    line = _SPECIAL.sub(r"\\\1", re.sub(r"\s+", " ", text).strip())
    # Markdown would turn a bare address into a link.
    return re.sub(r"(?i)(https?|ftp|mailto|javascript|data):", r"\1&#58;", html.escape(line, quote=False))


def _markdown_block(block: Block) -> str:
    if isinstance(block, Bullets):
        return "\n".join(f"- {markdown_text(item)}" for item in block.items)
    if isinstance(block, Grid):
        lines = [block.header, ("---",) * len(block.header), *block.rows]
        written = [[cell if cell == "---" else markdown_text(cell) for cell in line] for line in lines]
        return "\n".join(f"| {' | '.join(line)} |" for line in written)
    if isinstance(block, Code):
        # Whatever an indented code block contains, it stays code.
        return "\n".join(f"    {line}" for line in block.text.splitlines())
    return markdown_text(block.description if isinstance(block, Chart) else block)


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
        description = html.escape(block.description)
        return (
            f'<figure role="img" aria-label="{description}">{block.html}<figcaption>{description}</figcaption></figure>'
        )
    return f"<p>{html.escape(block)}</p>"


# The page may run its own inline scripts only, and makes no requests.
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


LIMITS = (
    "AUC_SPU says how well the scores rank rows by the soft label, not by the truth. Its highest possible value is the "
    "ceiling, which depends on the soft labels alone: figures on other soft labels cannot be compared with these.",
    "Intervals take the soft labels as given and rows (or groups) as independent; they do not cover wrong rules.",
    "Figures and intervals come from models that were each trained on a part of the rows (the folds). This model is "
    "trained on all rows; its own figures on new rows can lie outside the intervals more often than their level says.",
    "If the soft labels depend on the columns beyond the true class, as rules usually do, a good AUC_SPU does not "
    "prove a good true AUC; audit some rows to know.",
    "A score is not a calibrated probability that a row is positive.",
)
_FIGURES = {
    "auc_spu": "AUC_SPU",
    "share_of_ceiling": "Share of the ceiling",
    "known_positive_auc": "Known-positive AUC",
    "refined_auc_spu": "AUC_SPU on refined soft labels",
    "true_auc": "True AUC",
}
_NUMBERS = {
    "ceiling": "Ceiling of AUC_SPU",
    "tpr_spu_at_1": "TPR_SPU at 1% FPR_SPU",
    "tpr_spu_at_5": "TPR_SPU at 5% FPR_SPU",
    "tpr_spu_at_budget": "TPR_SPU at the review budget",
    "soft_log_loss": "Soft log-loss",
    "calibration_gap": "Mean gap between score and soft label",
}


def model_card(bundle: Bundle, comparison: Comparison | None = None, *, origin: str = "unknown") -> str:
    """The model card as Markdown.

    Parameters
    ----------
    bundle : Bundle
        The exported run.
    comparison : Comparison, optional
        The candidates that the run was chosen from, for the section on the choice.
    origin : str
        How the confirmed cases were found, for `recommend`.

    Returns
    -------
    str
        Markdown in which all text of users is escaped.
    """
    return to_markdown(_title(bundle), card_sections(bundle, comparison, origin))


def model_card_html(bundle: Bundle, comparison: Comparison | None = None, *, origin: str = "unknown") -> str:
    """The model card as one HTML page; the parameters are those of `model_card`."""
    return to_html(_title(bundle), card_sections(bundle, comparison, origin))


def card_sections(bundle: Bundle, comparison: Comparison | None = None, origin: str = "unknown") -> list[Section]:
    """The sections of the card."""
    return [
        Section("In short", _summary(bundle)),
        Section("Purpose", _purpose(bundle)),
        Section("Data", _data(bundle)),
        Section("Rules and soft labels", _rules(bundle)),
        Section("Model", _model(bundle)),
        Section("How good it is", _figures(bundle)),
        Section("How it was chosen", _chosen(bundle, comparison, origin)),
        Section("Threshold and workload", _threshold(bundle)),
        Section("How to score", _scoring(bundle)),
        Section("Limits", (Bullets((*LIMITS, *_own_limits(bundle))),)),
        Section("Changes", (Bullets(bundle.details.history) if bundle.details.history else "First version.",)),
    ]


def leaderboard_grid(comparison: Comparison, recommended: Recommendation) -> Grid:
    """The candidates with their metrics in the order of the recommendation, and which of them may be the best."""
    rows: list[tuple[str, ...]] = []
    for line in recommended.ranked(comparison.leaderboard).to_dict("records"):
        if line["error"]:
            rows.append((str(line["name"]), "", f"failed: {line['error']}", "", ""))
            continue
        figures = [
            _bounded({"estimate": line[k], "low": line[f"{k}_low"], "high": line[f"{k}_high"]}) for k in _COMPARED
        ]
        rows.append((str(line["name"]), "yes" if line["name"] in recommended.among_best else "no", *figures))
    return Grid(("Candidate", "May be the best", *(_FIGURES[name] for name in _COMPARED)), tuple(rows))


_COMPARED = ("auc_spu", "share_of_ceiling", "known_positive_auc")


def _title(bundle: Bundle) -> str:
    return f"Model card: {bundle.name}"


def _summary(bundle: Bundle) -> tuple[Block, ...]:
    """The most important facts, for readers who stop here."""
    facts, metrics = bundle.facts, bundle.facts.metrics
    title = bundle.fitted.candidate.entry.title
    lines = [f"{title}, trained on {facts.rows:,} rows with {facts.labeled:,} confirmed cases"]
    if metrics is not None:
        reached = (metrics.get("share_of_ceiling") or {}).get("estimate")
        of_ceiling = "" if reached is None else f"; that is {reached:.0%} of what these soft labels allow"
        lines.append(f"AUC_SPU {_bounded(metrics['auc_spu'])}{of_ceiling}")
        lines.append(f"Known-positive AUC {_bounded(metrics.get('known_positive_auc'))}")
    lines.append(f"Flags about {1_000 * bundle.point.share:,.1f} of every 1,000 rows")
    return (Bullets(tuple(lines)),)


def _purpose(bundle: Bundle) -> tuple[Block, ...]:
    details = bundle.details
    facts = [("Licence", details.licence), ("Contact", details.contact)]
    lines = tuple(f"{name}: {text or 'not stated'}" for name, text in facts)
    return (details.purpose or "Not stated.", Bullets(lines))


def _data(bundle: Bundle) -> tuple[Block, ...]:
    facts = bundle.facts
    share = facts.labeled / facts.rows if facts.rows else 0.0
    lines = (
        f"Table: {bundle.details.data_name or 'not named'}, {facts.rows:,} rows",
        f"Confirmed cases: {facts.labeled:,} ({share:.2%}); mean soft label {facts.soft_label_mean:.4f}",
        f"Fingerprint (SHA-256 of content and column names): {bundle.details.fingerprint or 'not stated'}",
        f"Columns the model reads: {', '.join(bundle.columns) or 'none'}",
    )
    return (Bullets(lines),)


def _rules(bundle: Bundle) -> tuple[Block, ...]:
    label_rules = bundle.label_rules
    if label_rules is None:
        return ("The bundle holds no rules; soft labels came ready-made or from labels alone.",)
    combiner = COMBINERS[label_rules.combine]
    rows = tuple((rule.name, rule.text) for rule in label_rules.rules.rules)
    words = (
        f"{combiner.name}: {combiner.description.rstrip('.')}. "
        f"Where no rule fires, the soft label is {label_rules.floor:g}."
    )
    return (Grid(("Rule", "In words"), rows), words, "Confirmed cases have soft label 1.")


def _model(bundle: Bundle) -> tuple[Block, ...]:
    fitted = bundle.fitted
    entry = fitted.candidate.entry
    settings = tuple((name, str(value)) for name, value in sorted(fitted.settings.items()))
    words = f"Method {entry.key} ({entry.title}). {entry.description} Refitted on all rows."
    versions = ", ".join(f"{name} {number}" for name, number in bundle.facts.versions.items())
    return (words, Grid(("Setting", "Value"), settings), f"Trained with {versions}.")


def _figures(bundle: Bundle) -> tuple[Block, ...]:
    metrics = bundle.facts.metrics
    if metrics is None:
        return ("There are no figures.",)
    level = metrics["auc_spu"]["level"]
    rows = [(words, _bounded(metrics.get(name))) for name, words in _FIGURES.items()]
    rows += [(words, _number_text(metrics.get(name))) for name, words in _NUMBERS.items()]
    notes = [metrics.get(name) for name in ("known_positive_note", "refined_note")]
    warning = metrics["auc_spu"].get("warning")
    said = tuple(str(note) for note in [*notes, warning] if note)
    words = f"On {metrics['rows']:,} rows, each scored by a model that never saw it; intervals of {level:.0%}."
    return (words, Grid(("Figure", "Value"), tuple(rows)), *((Bullets(said),) if said else ()))


def _chosen(bundle: Bundle, comparison: Comparison | None, origin: str) -> tuple[Block, ...]:
    words = bundle.details.chosen_because or "Not stated."
    if comparison is None:
        return (words,)
    found = recommend(comparison, origin=origin)
    other = found.model if found.model is not None and found.model != bundle.name else None
    recommended = () if other is None else (f"Another model was recommended: {other!r}.",)
    notes = [note for note in comparison.notes if note not in found.sentences]
    words_below = Bullets((*found.sentences, *comparison.disagreements, *notes))
    return (words, *recommended, leaderboard_grid(comparison, found), words_below)


def _threshold(bundle: Bundle) -> tuple[Block, ...]:
    point = bundle.point
    per = 1_000 * point.share
    return (
        f"A row is flagged when its score is above {_threshold_text(point.threshold)}, chosen by {point.chosen_by}. "
        f"Out of fold this flagged {point.share:.2%} of the training rows: about {per:,.1f} of every 1,000.",
        "The refit has seen the training rows, so it flags more of them than of fresh ones; the studio always shows "
        "their out-of-fold scores.",
    )


def _threshold_text(threshold: float) -> str:
    if np.isinf(threshold):
        return "every score (nothing is flagged)" if threshold > 0 else "no limit (everything is flagged)"
    return f"{threshold:.6g}"


def _scoring(bundle: Bundle) -> tuple[Block, ...]:
    code = 'from spu_core import load_bundle\n\nbundle = load_bundle("model.spu")\nbundle.score("new_rows.csv").frame'
    words = (
        "Columns may come in any order; extra ones are ignored and listed; categories never seen at training are "
        "scored like rare ones. In a shell: spu score model.spu new_rows.csv -o scored.csv"
    )
    trust = "Use a bundle only if you trust its sender: its hashes show that it was not changed, not who made it."
    return (trust, Code(code), words)


def _own_limits(bundle: Bundle) -> tuple[str, ...]:
    found = []
    if bundle.keeps_training_rows:
        found.append("The model contains training rows: whoever has the bundle can read values from it.")
    if bundle.rows:
        found.append("The bundle holds soft labels, labels and out-of-fold scores of the training rows.")
    if bundle.fitted.candidate.method == "oracle":
        found.append("This is the oracle: it learnt from the truth and must not be used.")
    return tuple(found)


def _bounded(value: Mapping[str, Any] | None) -> str:
    if value is None or value["estimate"] is None or np.isnan(value["estimate"]):
        return "—"
    if value["low"] is None or value["high"] is None:
        return f"{value['estimate']:.4f}"
    return f"{value['estimate']:.4f} ({value['low']:.4f} to {value['high']:.4f})"


def _number_text(value: float | None) -> str:
    return "—" if value is None else f"{value:.4f}"
