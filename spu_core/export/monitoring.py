"""Drift over time: what was scored with a model so far, and the reference profile for other monitoring tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from spu_core.codec import encode
from spu_core.export.bundle import Bundle
from spu_core.export.drift import LEVELS, ColumnSummary
from spu_core.export.score_report import DriftLevel, ScoreReport
from spu_core.models.columns import Column

MOVED = 5
PROFILE_FORMAT = "spu-studio reference profile"
PROFILE_VERSION = 1


@dataclass(frozen=True)
class ScoringEvent:
    """One scored file: when, its name, and the report."""

    made: datetime
    name: str
    report: ScoreReport


def history_table(events: Sequence[ScoringEvent]) -> pd.DataFrame:
    """One line per scored file, in the order given: flags, scores, the five columns that moved most, missing values.

    `score_low` and `score_high` are the 5 % and 95 % quantiles; `missing` is the column whose share of missing values
    has grown most.
    """
    return pd.DataFrame([_line(event) for event in events], columns=list(_COLUMNS))


_COLUMNS = (
    "scored", "file", "level", "rows", "flagged_share", "training_share", "score_low", "score_median", "score_high",
    "moved_most", "missing",
)  # fmt: skip


def _line(event: ScoringEvent) -> dict[str, Any]:
    report = event.report
    quantiles = report.drift.score.quantiles_now or (np.nan,) * 5
    moved = sorted(report.drift.columns, key=lambda column: -column.moved)[:MOVED]
    lost = max(report.drift.columns, key=lambda column: column.missing_now - column.missing_before, default=None)
    missing = "" if lost is None or lost.missing_now <= lost.missing_before else f"{lost.name} {lost.missing_now:.1%}"
    return {
        "scored": event.made,
        "file": event.name,
        "level": str(report.level),
        "rows": report.rows,
        "flagged_share": report.flag_rate,
        "training_share": report.training_share,
        "score_low": quantiles[0],
        "score_median": report.drift.score.middle_now,
        "score_high": quantiles[-1],
        "moved_most": ", ".join(f"{column.name} {column.moved:.0%}" for column in moved),
        "missing": missing,
    }


def monitoring_verdict(events: Sequence[ScoringEvent]) -> tuple[DriftLevel, str]:
    """(level of the newest file, a sentence about it)."""
    if not events:
        return DriftLevel.UNKNOWN, "Nothing was scored with this model yet."
    newest = events[-1]
    return newest.report.level, f"{newest.name} ({newest.made:%Y-%m-%d}): {newest.report.conclusion}"


def reference_profile(bundle: Bundle) -> dict[str, Any]:
    """The training columns and scores in outline, for other monitoring tools; `docs/bundles.md` explains the fields."""
    encoder = bundle.fitted.encoder.columns
    columns = [_outline(column, summary) for column, summary in zip(encoder, bundle.profile.columns, strict=True)]
    found = {
        "format": PROFILE_FORMAT,
        "version": PROFILE_VERSION,
        "model": bundle.name,
        "rows": bundle.profile.rows,
        "quantile_levels": LEVELS.round(2).tolist(),
        "columns": [column for column in columns if column["name"] in bundle.columns],
        "score": {"quantiles": list(bundle.profile.score.quantiles)},
        "threshold": bundle.point.threshold,
        "flagged_share": bundle.point.share,
    }
    return encode(found)


def _outline(column: Column, summary: ColumnSummary) -> dict[str, Any]:
    found: dict[str, Any] = {"name": column.name, "kind": str(column.family), "missing_share": summary.missing}
    if column.is_category:
        known = dict(zip(column.levels, summary.shares[1:], strict=False))
        return {**found, "categories": known, "other_share": max(0.0, 1.0 - sum(known.values()))}
    return {**found, "quantiles": [value + column.offset for value in summary.quantiles]}
