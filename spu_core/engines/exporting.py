"""Files of stored runs: made when somebody asks, kept with the run, and found again as long as nothing has changed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from spu_core.checks import check_choice
from spu_core.engines.export_forms import FORMS
from spu_core.engines.stored_model import StoredModel
from spu_core.errors import WorkspaceError
from spu_core.workspace import ExportRecord
from spu_core.workspace.records import clean_name


def prepare(model: StoredModel, form: str) -> ExportRecord:
    """Make a file of a run and keep it, in the place of an older one of that form."""
    known = made_before(model, form)
    if known is not None:
        return known
    workspace, token = model.workspace, model.record.id
    older = [record for record in workspace.exports.list(token) if record.format == form]
    made = FORMS[form].make(model)

    def write(path: Path) -> None:
        path.write_bytes(made.data)

    detail = {"key": _key(model, form), "note": made.note, "words": asdict(model.words)}
    stored = workspace.exports.save(token, f"{file_stem(model.name)}{FORMS[form].suffix}", form, write, detail)
    for record in older:
        workspace.delete(workspace.plan_deletion("export", record.id))
    return stored


def made_before(model: StoredModel, form: str) -> ExportRecord | None:
    """The file that is there already, made of the same run, operating point, roles and words."""
    check_choice(form, FORMS, "form", WorkspaceError)
    key = _key(model, form)
    found = (record for record in model.workspace.exports.list(model.record.id) if record.format == form)
    return next((record for record in found if record.detail.get("key") == key), None)


def file_stem(name: str) -> str:
    """Letters, digits and dashes of a name; what people typed never becomes a path.

    >>> file_stem("../My *best* model"), file_stem("模型 3"), file_stem("…")
    ('My-best-model', '模型-3', 'model')
    """
    letters = "".join(letter if letter.isalnum() else " " for letter in clean_name(name))
    return "-".join(letters.split())[:60].strip("-") or "model"


def _key(model: StoredModel, form: str) -> str:
    """Everything that decides the content, besides the run itself, which never changes."""
    points = model.workspace.thresholds.list(model.record.id)
    decides = {
        "form": form,
        "name": model.name,
        "points": [[point.threshold, point.flagged_share] for point in points],
        "roles": dict(model.table.roles),
        "words": asdict(model.words),
        "compared": model.compared if FORMS[form].compares else (),
    }
    return hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()
