"""How far the work on a dataset has come, in one query: the dashboard asks for it on every rerun."""

from __future__ import annotations

from dataclasses import dataclass

from spu_core.workspace.workspace import Workspace

_QUERY = """
SELECT runs.id AS run, runs.rule_set, runs.rule_set_version,
  EXISTS (SELECT 1 FROM exports WHERE exports.run = runs.id) AS is_exported,
  EXISTS (SELECT 1 FROM outcomes WHERE outcomes.dataset = datasets.id) AS has_outcomes,
  (
    SELECT thresholds.run FROM thresholds JOIN runs AS chosen ON chosen.id = thresholds.run
    WHERE chosen.dataset = datasets.id AND json_extract(thresholds.detail, '$.is_champion') = 1
      AND json_extract(thresholds.detail, '$.undone') IS NULL
    ORDER BY thresholds.seq DESC LIMIT 1
  ) AS champion
FROM datasets LEFT JOIN runs ON runs.dataset = datasets.id
WHERE datasets.id = ?
"""


@dataclass(frozen=True, slots=True)
class DatasetProgress:
    """Work done on a dataset: the rule set versions of its runs, the exported runs, the champion."""

    trained_on: frozenset[tuple[str | None, int | None]] = frozenset()
    exported: frozenset[str] = frozenset()
    champion: str | None = None
    has_outcomes: bool = False


def progress_of(workspace: Workspace, dataset: str) -> DatasetProgress:
    """The progress of a dataset; empty for an unknown one."""
    rows = workspace.catalogue.rows(_QUERY, dataset)
    if not rows:
        return DatasetProgress()
    runs = [row for row in rows if row["run"] is not None]
    return DatasetProgress(
        trained_on=frozenset((row["rule_set"], row["rule_set_version"]) for row in runs),
        exported=frozenset(row["run"] for row in runs if row["is_exported"]),
        champion=rows[0]["champion"],
        has_outcomes=bool(rows[0]["has_outcomes"]),
    )
