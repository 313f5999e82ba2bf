"""The files that a stored run can become, each with its maker and the words that must go with it."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from spu_core.engines.stored_model import StoredModel
from spu_core.engines.study import soft_labels_of
from spu_core.errors import BundleError, SpuError
from spu_core.export import Bundle, bundle_bytes, export_onnx, model_card, model_card_html, to_csv, write_folder
from spu_core.export.onnx_export import translatable
from spu_core.export.onnx_graph import need_onnx
from spu_core.rules import RuleSet
from spu_core.tables import Table
from spu_core.training import make_split

# Enough to prove a translation, whatever the size of the table.
PROVEN_ROWS = 100_000
NO_RULES = "This run was trained without rules."
OTHER_FOLDS = (
    "In the studio this run shared the folds of an earlier training, so that both can be compared; spu train makes "
    "folds of its own, and its figures will differ a little."
)


@dataclass(frozen=True)
class Made:
    """The bytes of an export, and what must be said with it."""

    data: bytes
    note: str = ""


@dataclass(frozen=True)
class Form:
    """How a file is made; `suffix` ends its name, `mime` is what browsers call its content.

    `compares` marks files that tell of other runs too, so that they grow old when one is trained.
    """

    suffix: str
    mime: str
    make: Callable[[StoredModel], Made]
    compares: bool = False


def refusal(model: StoredModel, form: str) -> str | None:
    """Why a run cannot become this file; None where it can be tried."""
    if form == "rules" and model.rules is None:
        return NO_RULES
    return onnx_refusal(model.bundle) if form == "onnx" else None


def onnx_refusal(bundle: Bundle) -> str | None:
    """Why a bundle cannot become ONNX; None where it can be tried."""
    try:
        need_onnx()
        translatable(bundle.fitted.model)
    except SpuError as refused:
        return str(refused)
    return None


def zipped(folder: Path) -> bytes:
    """A folder as the bytes of a zip file."""
    with tempfile.TemporaryDirectory() as place:
        return Path(shutil.make_archive(str(Path(place) / "archive"), "zip", folder)).read_bytes()


def _bundle(model: StoredModel) -> Made:
    return Made(bundle_bytes(model.shared_bundle))


def _onnx(model: StoredModel) -> Made:
    made = export_onnx(model.bundle, _some_rows(model))
    proof = f"Proven on {made.rows:,} rows: it differs from the native model by {made.worst:.1g} at most."
    return Made(made.data, f"{proof} {made.note}".strip())


def _folder(model: StoredModel) -> Made:
    refused = onnx_refusal(model.bundle)
    rows = None if refused else _some_rows(model)
    with tempfile.TemporaryDirectory() as place:
        folder = write_folder(model.shared_bundle, Path(place) / "folder", rows)
        return Made(zipped(folder), f"Without an ONNX model. {refused}" if refused else "")


def _scores_csv(model: StoredModel) -> Made:
    return Made(to_csv(model.scored_rows()).encode())


def _scores_parquet(model: StoredModel) -> Made:
    target = io.BytesIO()
    model.scored_rows().to_parquet(target, index=False)
    return Made(target.getvalue())


def _card_md(model: StoredModel) -> Made:
    return Made(model_card(model.shared_bundle, model.comparison).encode())


def _card_html(model: StoredModel) -> Made:
    return Made(model_card_html(model.shared_bundle, model.comparison).encode())


def _report(model: StoredModel) -> Made:
    from spu_core.export.report import report_html

    title = f"Comparison report: {model.table.name}"
    return Made(report_html(model.comparison, model.shared_bundle, title=title).encode())


def _rules(model: StoredModel) -> Made:
    if model.rules is None:
        raise BundleError(NO_RULES)
    return Made(RuleSet.from_json(model.rules.text).to_json().encode())


def _study(model: StoredModel) -> Made:
    study = model.study()
    own = make_split(study.prepare(model.table), soft_labels_of(model.table, study.rules), study.plan.config)
    same = np.array_equal(own.fold, model.bundle.run.fold)
    return Made(study.to_json().encode(), "" if same else OTHER_FOLDS)


def _some_rows(model: StoredModel) -> pd.DataFrame:
    """Rows evenly spread over the table, or over the sample of a folder."""
    table = model.table
    frame = table.frame if isinstance(table, Table) else model.workspace.datasets.explore(model.record.dataset).frame
    return frame.iloc[:: max(1, -(-len(frame) // PROVEN_ROWS))]


_BYTES, _JSON = "application/octet-stream", "application/json"
FORMS = {
    "bundle": Form(".spu", _BYTES, _bundle),
    "onnx": Form(".onnx", _BYTES, _onnx),
    "folder": Form(".zip", "application/zip", _folder),
    "scores_csv": Form("-training-scores.csv", "text/csv", _scores_csv),
    "scores_parquet": Form("-training-scores.parquet", _BYTES, _scores_parquet),
    "card_md": Form("-card.md", "text/markdown", _card_md, compares=True),
    "card_html": Form("-card.html", "text/html", _card_html, compares=True),
    "report": Form("-report.html", "text/html", _report, compares=True),
    "rules": Form("-rules.json", _JSON, _rules),
    "study": Form("-study.json", _JSON, _study),
}
