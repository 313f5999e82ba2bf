"""Which candidates to begin with on a table, and why some cannot be trained on it."""

from __future__ import annotations

from importlib.util import find_spec

from spu_core.models import METHODS, Need, method
from spu_core.tables import Table, TableFolder
from spu_core.training.candidate import Candidate

# The recommended default, the paper's method beside it, and the baselines that keep both honest.
SHORTLIST = ("fused", "lightgbm", "labeled_vs_rest", "elkan_noto", "rule_score")

_LACKING = {
    Need.LABELS: "It learns from confirmed positives, and this table has none: choose the label column on the data.",
    Need.SOFT_LABELS: "It learns from soft labels, and there are none yet: say what you know as rules.",
    Need.RULE_SCORE: "It uses what the rules say of each row, and there are no rules yet.",
    Need.TRUTH: "It learns from the truth, and this table has no column with that role.",
}


def why_not(key: str, table: Table | TableFolder, *, has_beliefs: bool) -> str | None:
    """Why a method cannot be trained on this table, in words; None where it can.

    `has_beliefs` says whether rules, or a column of soft labels, say anything about the unlabelled rows.

    >>> import pandas as pd
    >>> table = Table.from_frame(pd.DataFrame({"age": [30, 40], "label": [1, 0]}))
    >>> why_not("labeled_vs_rest", table, has_beliefs=False)
    >>> why_not("rule_score", table, has_beliefs=False)
    'It uses what the rules say of each row, and there are no rules yet.'
    """
    given = {
        Need.LABELS: bool(table.is_labeled.any()),
        Need.SOFT_LABELS: has_beliefs,
        Need.RULE_SCORE: has_beliefs,
        Need.TRUTH: table.truth is not None,
        Need.PRIOR: True,  # it is estimated where nobody gives one
    }
    lacking = next((need for need in method(key).needs if not given[need]), None)
    if lacking is not None:
        return _LACKING[lacking]
    if key == "cnn" and find_spec("torch") is None:
        return "It needs PyTorch, which is not installed here: pip install 'spu-studio[vision]'."
    return None


def shortlist(table: Table | TableFolder, *, has_beliefs: bool) -> tuple[Candidate, ...]:
    """The candidates to begin with: those of SHORTLIST that this table allows, and fused once more without rules.

    The same method with and without rules is the plainest evidence of what the rules are worth.
    """
    chosen = [Candidate(key) for key in SHORTLIST if why_not(key, table, has_beliefs=has_beliefs) is None]
    if has_beliefs and any(candidate.method == "fused" for candidate in chosen):
        chosen.insert(1, Candidate("fused", without_rules=True))
    return tuple(chosen)


def methods_by_group() -> dict[str, tuple[str, ...]]:
    """All methods by group, those of SHORTLIST first.

    >>> methods_by_group()["ours"]
    ('fused', 'two_stage', 'soft_bagging')
    """
    ranked = sorted(METHODS, key=lambda key: SHORTLIST.index(key) if key in SHORTLIST else len(SHORTLIST))
    groups = dict.fromkeys(METHODS[key].group for key in ranked)
    return {group: tuple(key for key in ranked if METHODS[key].group == group) for group in groups}
