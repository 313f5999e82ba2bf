"""Findings about rules: those that say nothing, repeat others, or are contradicted by the labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from spu_core.rules.analysis import overlap_table, summarize_rules
from spu_core.rules.matrix import RuleMatrix
from spu_core.tables import Finding, Severity

# Two rules that share this much of their rows (Jaccard) are one rule written twice.
TWIN = 0.95
# A rule that believes this strongly, and is still no commoner among confirmed positives, is worth a look.
STRONG = 0.5


def rule_findings(matrix: RuleMatrix, is_labeled: Any = None, *, level: float = 0.95) -> tuple[Finding, ...]:
    """Rules that deserve a second look, as findings; whatever rests on labels uses the interval, not the estimate.

    >>> matrix = RuleMatrix.from_arrays(["a", "same", "never"], [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]])
    >>> [finding.message for finding in rule_findings(matrix)]
    ["Rule 'never' fires on no row.", "Rules 'a' and 'same' fire on the same rows (100% in common)."]
    """
    return findings_in(summarize_rules(matrix, is_labeled, level=level), matrix)


def findings_in(summary: pd.DataFrame, matrix: RuleMatrix) -> tuple[Finding, ...]:
    """The same where the rules are summarized already, which is what takes the time."""
    lines = [finding for name, line in summary.iterrows() for finding in _about_rule(str(name), line)]
    return (*lines, *_twins(overlap_table(matrix, "jaccard")))


def _about_rule(name: str, line: pd.Series) -> Iterator[Finding]:
    if line["coverage"] == 0:
        yield _warning("rule_never_fires", f"Rule {name!r} fires on no row.", "Check its condition.")
        return
    if line["coverage"] == 1 and line["mean_belief"] >= STRONG:
        message = f"Rule {name!r} fires on every row with a mean belief of {line['mean_belief']:.2f}."
        yield _warning("rule_fires_always", message, "Give it a condition, or use the floor for a base rate.")
    if line.get("lift_high", 1.0) < 1:
        message = (
            f"Rule {name!r} fires {line['lift']:.2f} times as often on confirmed positives as on all rows "
            f"({line['lift_low']:.2f}–{line['lift_high']:.2f}): the labels speak against it."
        )
        yield _warning("rule_against_labels", message, "Check its direction, or lower its belief.")
    elif line.get("lift_low", 1.0) < 1 < line.get("lift_high", 1.0) and line["mean_belief"] >= STRONG:
        message = (
            f"Rule {name!r} has a belief of {line['mean_belief']:.2f}, but the labels do not tell it from chance "
            f"(lift {line['lift_low']:.2f}–{line['lift_high']:.2f})."
        )
        yield Finding("rule_not_confirmed", Severity.INFO, message, "Confirm more positives, or lower its belief.")


def _twins(common: pd.DataFrame) -> Iterator[Finding]:
    for i, first in enumerate(common.index):
        for second in common.columns[i + 1 :]:
            share = common.loc[first, second]
            if share >= TWIN:
                message = f"Rules {first!r} and {second!r} fire on the same rows ({100 * share:.3g}% in common)."
                advice = "Keep one of them: noisy-or and log-odds would count the same reason twice."
                yield _warning("rules_are_twins", message, advice)


def _warning(code: str, message: str, advice: str) -> Finding:
    return Finding(code, Severity.WARNING, message, advice)
