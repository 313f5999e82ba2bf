"""Technical words in plain language, user text without Markdown, LaTeX, HTML or icons in it, and numbers in words."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from spu_core.workspace import Home

# Text that a browser turns into links: the scheme of a web address, www, the name before the @ of a mail address.
_LINK = re.compile(r"\b(https?|ftp|mailto|xmpp|www)(?=[:.])|[\w.+-](?=@[\w-])", re.IGNORECASE)
_SERVER_FOLDER = re.compile(r"SPU_HOME/users/[0-9a-f]{64}")
# Any ASCII punctuation can be escaped in Markdown; these are the marks to which Streamlit gives a meaning.
_MARKS = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|$:~^=&\"'@/])")


def plain(text: object) -> str:
    """User text for places that render Markdown (titles, captions, labels, messages).

    Web and mail addresses stay text, broken by a word joiner; the folder of the server is replaced by SPU_HOME.

    >>> plain("a*b* $x$ :red[hi] <b>")
    'a\\\\*b\\\\* \\\\$x\\\\$ \\\\:red\\\\[hi\\\\] \\\\<b\\\\>'
    """
    words = _SERVER_FOLDER.sub("SPU_HOME", " ".join(str(text).split()).replace(str(Home.default().folder), "SPU_HOME"))
    return _MARKS.sub(r"\\\1", _LINK.sub(lambda found: f"{found[0]}\u2060", words))


def count(number: float) -> str:
    """A whole number with thousands separators.

    >>> count(1234567)
    '1,234,567'
    """
    return f"{number:,.0f}"


def row_count(number: int) -> str:
    """A number of rows in words.

    >>> row_count(1), row_count(1234)
    ('1 row', '1,234 rows')
    """
    return f"{count(number)} row{'s' * (number != 1)}"


def share(value: float) -> str:
    """A share in percent, with more digits where it is small.

    >>> share(0.1234), share(0.00123), share(1e-13)
    ('12.3%', '0.12%', '<0.01%')
    """
    if 0 < value < 0.0001:
        return "<0.01%"
    return f"{100 * value:.1f}%" if abs(value) >= 0.01 or value == 0 else f"{100 * value:.2g}%"


def shares(parts: Sequence[float]) -> list[str]:
    """Shares of one whole in percent, rounded by largest remainder so that they add up to 100%.

    >>> shares([1 / 3, 1 / 3, 1 / 3]), shares([0.0004, 0.9996])
    (['33.4%', '33.3%', '33.3%'], ['0.04%', '99.96%'])
    """
    whole, smallest = sum(parts), min((part for part in parts if part > 0), default=1.0)
    digits = 1 if smallest >= 0.0005 * whole else 2
    units = [1000 * 10 ** (digits - 1) * part / whole for part in parts]
    counts = [math.floor(unit) for unit in units]
    by_remainder = sorted(range(len(parts)), key=lambda place: counts[place] - units[place])
    for place in by_remainder[: round(sum(units)) - sum(counts)]:
        counts[place] += 1
    return [f"{each / 10**digits:.{digits}f}%" for each in counts]


def figure(value: float) -> str:
    """A metric with three decimals; a dash for NaN.

    >>> figure(0.81249), figure(float("nan"))
    ('0.812', '–')
    """
    return "–" if value != value else f"{value:.3f}"


def sized(bytes_: float) -> str:
    """A file size with its unit.

    >>> sized(1536), sized(3_000_000)
    ('1.5 kB', '3.0 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if bytes_ < 1000 or unit == "GB":
            return f"{bytes_:.0f} {unit}" if unit == "B" else f"{bytes_:.1f} {unit}"
        bytes_ /= 1000
    raise AssertionError("unreachable")


@dataclass(frozen=True)
class Entry:
    """One word: its title, what it means, and the formula for those who want it."""

    title: str
    words: str
    formula: str = ""


GLOSSARY = {
    "soft label": Entry(
        "Soft label (S)",
        "How strongly you believe that a row is positive, from 0 to 1. Confirmed cases have 1.",
        r"S_i \in [0, 1], \quad S_i = 1 \text{ where confirmed}",
    ),
    "label": Entry("Confirmed case", "A row that somebody has checked and found to be positive."),
    "AUC_SPU": Entry(
        "AUC_SPU",
        "How well a score ranks rows with a high soft label above rows with a low one; 0.5 is guessing. It needs no "
        "true negatives, and it is only as good as your soft labels.",
        r"\frac{\sum_{ij} S_i (1-S_j)\,(1[g_i>g_j] + \tfrac12 1[g_i=g_j])}{\sum S \cdot \sum (1-S)}",
    ),
    "ceiling": Entry(
        "Ceiling",
        "The largest AUC_SPU that any model can reach with these soft labels. Uncertain soft labels lower it.",
        r"\tfrac12 + \frac{E|S-S'|}{4\,p\,(1-p)}, \quad p = E[S]",
    ),
    "share of ceiling": Entry(
        "Share of the ceiling",
        "How much of what is possible a model reaches: 0% is guessing, 100% is the ceiling.",
        r"\frac{AUC_{SPU} - \tfrac12}{\text{ceiling} - \tfrac12}",
    ),
    "TPR_SPU": Entry(
        "TPR_SPU",
        "The share of the expected positives (the sum of soft labels) that is in the flagged rows.",
        r"\frac{\sum S\,1[g>T]}{\sum S}",
    ),
    "FPR_SPU": Entry(
        "FPR_SPU",
        "The share of the expected negatives (the sum of 1 − S) that is in the flagged rows.",
        r"\frac{\sum (1-S)\,1[g>T]}{\sum (1-S)}",
    ),
    "known-positive AUC": Entry(
        "AUC on confirmed cases",
        "How well a score ranks confirmed cases that the model has not seen above all other rows (known-positive AUC). "
        "Hidden cases count as negatives, so it is no estimate of the true AUC. Your rules cannot inflate it, unless "
        "they decided which rows were checked.",
        r"P(g_i > g_j) + \tfrac12 P(g_i = g_j), \quad i \text{ confirmed},\ j \text{ not}",
    ),
    "refined S": Entry(
        "Refined soft labels",
        "Soft labels corrected by the confirmed cases. Models trained on them are not evaluated by them.",
    ),
    "mean soft label": Entry(
        "Mean soft label (E[S])",
        "The average belief: the share of rows you expect to be positive.",
        r"\tfrac1N \sum_i S_i",
    ),
    "lift": Entry(
        "Lift",
        "How many times more often a rule fires on confirmed cases than on all rows; 1 means no relation.",
        r"\frac{P(\text{fires} \mid \text{confirmed})}{P(\text{fires})}",
    ),
    "threshold": Entry("Threshold (T)", "Rows with a score above it are flagged for review.", r"g_i > T"),
    "role": Entry(
        "Role",
        "What a column is for: a feature that models may see, the label of confirmed cases, the truth (to evaluate "
        "with, never to train on), an id, a weight, a group whose rows belong together, a time, or nothing.",
    ),
    "perfect classifier": Entry(
        "Level of a perfect classifier",
        "The AUC_SPU of a model that knows the truth. It is below the ceiling, which only a score that knows S "
        "reaches.",
        r"\tfrac12 (1 + a - c)",
    ),
    "generalized SCAR": Entry(
        "Generalized SCAR",
        "The assumption that, within a true class, soft labels do not depend on the row. Rules usually violate it.",
        r"S \perp X \mid Y",
    ),
    "prior": Entry("Prior (π)", "The share of rows that are truly positive.", r"\pi = P(Y = 1)"),
    "standard error": Entry(
        "Standard error (SE)", "How much a mean over seeds would vary if the experiment were repeated with other seeds."
    ),
    "surrender ratio": Entry(
        "Confirmed share",
        "Of all checks, the share that confirmed a case. Higher is better. The paper calls it surrender ratio.",
        r"\frac{\#\,confirmed}{\#\,checks}",
    ),
    "pass ratio": Entry(
        "Cleared share",
        "Of all checks, the share that found nothing: mostly rows that were checked needlessly. Lower is better. The "
        "paper calls it pass ratio.",
        r"\frac{\#\,cleared}{\#\,checks}",
    ),
    "failure ratio": Entry(
        "Failure ratio",
        "The share of checks that were failed or skipped. Compared with the failure ratio of random checks, it shows "
        "how strong the evidence of a failed check is.",
        r"S = 1 - \frac{P(F \mid R_0)}{P(F \mid R)}",
    ),
    "random holdout": Entry(
        "Random share",
        "A fixed random part of the rows from which no model chooses. Some of them are checked at random. Their "
        "outcomes therefore represent all rows, and the next model can be measured on them without the bias that "
        "earlier models leave in the data.",
    ),
    "arm": Entry(
        "Chosen by",
        "What selected a row for a check: one of the models, or random choice. A seeded hash of the name of the row "
        "assigns it to one of them, so the groups differ only in the model.",
    ),
    "review queue": Entry(
        "Review queue", "The rows to check, with who chose them, the score, the soft label and the reasons."
    ),
    "label delay": Entry(
        "Label delay",
        "Outcomes take time. Recent rows have had less time to be confirmed than old ones, so they look better than "
        "they are. Counting only rows that are old enough corrects this.",
    ),
}
