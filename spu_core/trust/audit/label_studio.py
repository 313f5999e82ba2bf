"""Review lists for Label Studio (https://labelstud.io): tasks and labelling interface out, completed annotations back.

The files are Label Studio's own JSON: a list of tasks, each with `data`; after the review also with `annotations`. All
cells of a row are one object that the `Table` tag shows as text, so column names need not be valid XML names, and a
cell is never interpreted as HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pandas as pd

from spu_core.codec import describe, dump_json, encode, parse_json, shorten
from spu_core.errors import AssumptionError
from spu_core.tables import Table
from spu_core.trust.audit.plan import AuditPlan
from spu_core.trust.audit.verdicts import OWN_COLUMNS, VerdictFile, read_verdicts, review_list

MAX_BYTES = 50_000_000
CONFIG = """<View>
  <Header value="Is this row positive?"/>
  <Table name="row" value="$cells"/>
  <Choices name="verdict" toName="row" choice="single" required="true" showInline="true">
    <Choice value="positive" hotkey="p"/>
    <Choice value="negative" hotkey="n"/>
    <Choice value="unsure" hotkey="u"/>
  </Choices>
  <TextArea name="note" toName="row" placeholder="Note (optional)" maxSubmissions="1"/>
</View>
"""


def label_studio_tasks(
    table: Table, plan: AuditPlan, columns: Sequence[str] | None = None, *, rows: Iterable[int] | None = None
) -> str:
    """The review list of an audit as tasks to import into Label Studio (JSON text); only these `rows` if given.

    Like `review_list`, without score, soft label, stratum and probability. Use `CONFIG` as the labelling interface.
    """
    listed = review_list(table, plan, columns)
    if rows is not None:
        listed = listed[listed["row"].isin(list(rows))]
    shown = [name for name in listed.columns if name not in OWN_COLUMNS]
    tasks = [
        {
            "data": {
                "audit": plan.code,
                "row": int(row),
                "cells": {
                    str(name): "" if pd.isna(cell) else str(cell) for name, cell in zip(shown, cells, strict=True)
                },
            }
        }
        for row, cells in zip(listed["row"], listed[shown].itertuples(index=False, name=None), strict=True)
    ]
    return dump_json(encode(tasks), indent=1)


def read_label_studio(source: str | bytes, plan: AuditPlan) -> VerdictFile:
    """The verdicts of a Label Studio export in its JSON format (not JSON-MIN).

    Skipped and empty annotations count as rows without a verdict. A reviewer is named by e-mail address or name, else
    by the number that Label Studio gave them.

    >>> from spu_core.trust.audit.population import Population
    >>> from spu_core.trust.audit.plan import plan_audit
    >>> import numpy as np
    >>> rows = Population.of(np.linspace(0, 1, 50), np.linspace(0, 1, 50), threshold=0.5)
    >>> plan = plan_audit(rows, 10)
    >>> answer = {"from_name": "verdict", "type": "choices", "value": {"choices": ["positive"]}}
    >>> done = [{"data": {"row": plan.rows[0]}, "annotations": [{"completed_by": 7, "result": [answer]}]}]
    >>> read_label_studio(dump_json(done), plan).verdicts
    (Verdict(row=..., verdict='positive', reviewer='Label Studio user 7', note=''),)
    """
    tasks = parse_json(source, "The Label Studio file", AssumptionError, MAX_BYTES)
    if not isinstance(tasks, list):
        raise AssumptionError(f"A Label Studio export is a list of tasks, but this file holds {describe(tasks)}.")
    lines = [line for place, task in enumerate(tasks, start=1) for line in _lines(place, task)]
    listed = pd.DataFrame(lines, columns=["row", "audit", "verdict", "reviewer", "note"])
    return read_verdicts(listed, plan, unit="Annotation", first=1)


def _lines(place: int, task: Any) -> Iterator[tuple[str, str, str, str, str]]:
    """A line for each annotation of a task, or one without a verdict."""
    where = f"Task {place} of the Label Studio file"
    data = _field(task, "data", dict, where)
    row = data.get("row")
    if isinstance(row, bool) or not isinstance(row, int):
        raise AssumptionError(f"{where}: data.row must be a row number of the review list, got {shorten(row)}.")
    audit = data.get("audit", "")
    annotations = _field(task, "annotations", list, where)
    if not isinstance(audit, str):
        raise AssumptionError(f"{where}: data.audit must be text, got {describe(audit)}.")
    if not annotations:
        yield str(row), audit, "", "", ""
    for annotation in annotations:
        result = _field(annotation, "result", list, where)
        if annotation.get("was_cancelled"):
            result = []
        verdict, note = (_answer(result, name, key, where) for name, key in (("verdict", "choices"), ("note", "text")))
        yield str(row), audit, verdict, _reviewer(annotation.get("completed_by")), note


def _field(value: Any, name: str, kind: type, where: str) -> Any:
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, kind):
        hint = " Export the project as JSON, not as JSON-MIN or CSV." if name in ("data", "annotations") else ""
        raise AssumptionError(f"{where} has no {'list' if kind is list else 'object'} {name!r}.{hint}")
    return found


def _answer(result: list[Any], name: str, key: str, where: str) -> str:
    """What was entered in one control of the labelling interface; empty if nothing was."""
    for part in result:
        if isinstance(part, dict) and part.get("from_name") == name:
            value = part.get("value")
            texts = value.get(key) if isinstance(value, dict) else None
            texts = [texts] if isinstance(texts, str) else texts
            if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                raise AssumptionError(f"{where}: the value of {name!r} must have a list of texts {key!r}.")
            if name == "verdict" and len(texts) > 1:
                raise AssumptionError(f"{where} has {len(texts)} verdicts in one annotation; choose one.")
            return " ".join(texts)
    return ""


def _reviewer(found: Any) -> str:
    if isinstance(found, dict):
        name = f"{found.get('first_name') or ''} {found.get('last_name') or ''}".strip()
        found = found.get("email") or name or found.get("id")
    return found if isinstance(found, str) and found.strip() else f"Label Studio user {shorten(found)}"
