"""The technical words of the dashboard in plain language, with their formulas."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One word: its title, what it means, and the formula for those who want it."""

    title: str
    words: str
    formula: str = ""


GLOSSARY = {
    "soft label": Entry(
        "Soft label (S)",
        "How strongly you believe that a row is positive, from 0 to 1. Confirmed positives have 1.",
    ),
    "label": Entry("Confirmed positive", "A row that somebody has checked and found to be positive."),
    "AUC_SPU": Entry(
        "AUC_SPU",
        "How well a score puts rows with a high soft label above those with a low one; ½ is guessing. It needs no true "
        "negatives, and it is only as good as your soft labels.",
        r"\frac{\sum_{ij} S_i (1-S_j)\,(1[g_i>g_j] + \tfrac12 1[g_i=g_j])}{\sum S \cdot \sum (1-S)}",
    ),
    "ceiling": Entry(
        "Ceiling",
        "The largest AUC_SPU that any model can reach with these soft labels. Uncertain soft labels lower it.",
        r"\tfrac12 + \frac{E|S-S'|}{4\,p\,(1-p)}, \quad p = E[S]",
    ),
    "share of ceiling": Entry(
        "Share of the ceiling",
        "How much of what is possible a model reaches: 0 % is guessing, 100 % is the ceiling.",
        r"\frac{AUC_{SPU} - \tfrac12}{\text{ceiling} - \tfrac12}",
    ),
    "TPR_SPU": Entry(
        "TPR_SPU",
        "The share of all suspicion (the sum of soft labels) that lies in the flagged rows.",
        r"\frac{\sum S\,1[g>T]}{\sum S}",
    ),
    "FPR_SPU": Entry(
        "FPR_SPU",
        "The share of all innocence (the sum of 1 − S) that lies in the flagged rows.",
        r"\frac{\sum (1-S)\,1[g>T]}{\sum (1-S)}",
    ),
    "known-positive AUC": Entry(
        "Known-positive AUC",
        "How well a score puts confirmed positives, which it has never seen, above the rest. Your rules cannot flatter "
        "it, unless they decided who was checked.",
    ),
    "refined S": Entry(
        "Refined soft labels",
        "Soft labels corrected by what the confirmed positives say. Models built from them are not judged by them.",
    ),
    "mean soft label": Entry("Mean soft label", "The average belief: the share of rows you expect to be positive."),
    "lift": Entry(
        "Lift", "How many times more often a rule fires on confirmed positives than on all rows; 1 says nothing."
    ),
    "threshold": Entry("Threshold", "Rows with a score above it are flagged for review."),
    "role": Entry(
        "Role",
        "What a column is for: a feature that models may see, the label of confirmed positives, the truth (to evaluate "
        "with, never to train on), an id, a weight, a group whose rows belong together, a time, or nothing.",
    ),
}
