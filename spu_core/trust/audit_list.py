"""The list that reviewers get: the drawn rows in random order, without score and soft label, which would sway them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from spu_core.errors import AssumptionError, nearest_hint
from spu_core.tables import Role, Table
from spu_core.trust.audit_plan import AuditPlan

OWN_COLUMNS = ("audit", "row", "stratum", "inclusion_probability", "verdict", "reviewer", "note")
HIDDEN_ROLES = (Role.LABEL, Role.TRUTH, Role.SOFT_LABEL)


def review_list(table: Table, plan: AuditPlan, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """One line per drawn row, to be filled in: verdict (positive, negative or unsure), reviewer, note.

    `row` counts the rows of the table from 0; cells stand as they stood in the file. Strata have letters in random
    order, so that they tell nothing. Without `columns`, all but label, truth and soft label are shown.
    """
    rows = np.array(plan.rows)
    if rows.size and rows.max() >= len(table):
        raise AssumptionError(f"The audit drew row {rows.max()}, but {table.name!r} has only {len(table):,} rows.")
    shown = table.as_written(_shown(table, columns), rows)
    # A column of the table with one of our names keeps its values under another name.
    shown.columns = pd.Index([f"{name} (data)" if name in OWN_COLUMNS else name for name in shown.columns])
    letters = stratum_letters(plan)
    ours = pd.DataFrame(
        {
            "audit": plan.code,
            "row": rows,
            "stratum": [letters[number] for number in plan.row_stratum],
            "inclusion_probability": plan.inclusion,
        }
    )
    return pd.concat([ours, shown, pd.DataFrame({name: [""] * len(rows) for name in OWN_COLUMNS[4:]})], axis=1)


def stratum_letters(plan: AuditPlan) -> tuple[str, ...]:
    """The letter of each stratum, in an order that the seed decides."""
    order = np.random.default_rng([plan.seed, 11]).permutation(len(plan.sizes))
    return tuple(chr(ord("A") + int(place)) for place in order)


def _shown(table: Table, columns: Sequence[str] | None) -> list[str]:
    if columns is None:
        return [str(name) for name in table.frame.columns if table.roles.get(name) not in HIDDEN_ROLES]
    unknown = [name for name in columns if name not in table.frame.columns]
    if unknown:
        raise AssumptionError(
            f"The table has no column {unknown[0]!r}. {nearest_hint(unknown[0], table.frame.columns)}"
        )
    first = table.column_with(Role.ID)
    return list(dict.fromkeys([*([first] if first else []), *columns]))
