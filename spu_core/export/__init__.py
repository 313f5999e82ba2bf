"""Export: bundles, scoring, drift hints, ONNX, model card, report, and logging to an MLflow server.

Names are loaded when they are first used, so that writing a CSV file loads no models and scoring loads no charts.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spu_core.export.archive import BundleLimits
    from spu_core.export.bundle import Bundle
    from spu_core.export.bundle_parts import FlagPoint, LabelRules, ModelDetails, label_rules_of
    from spu_core.export.bundle_storage import bundle_bytes, load_bundle, save_bundle
    from spu_core.export.card import model_card, model_card_html
    from spu_core.export.drift import ColumnDrift, DriftReport, ScoreDrift
    from spu_core.export.onnx_export import OnnxModel, export_onnx, onnx_inputs
    from spu_core.export.publishing import log_to_mlflow, standalone_script, write_folder
    from spu_core.export.report import report_html
    from spu_core.export.score_report import ScoreProgress, ScoreReport, ScoreTable, Scoring
    from spu_core.export.signing import sign_file, verify_file
    from spu_core.tables.spreadsheet import safe_frame, to_csv

__all__ = [
    "Bundle",
    "BundleLimits",
    "ColumnDrift",
    "DriftReport",
    "FlagPoint",
    "LabelRules",
    "ModelDetails",
    "OnnxModel",
    "ScoreDrift",
    "ScoreProgress",
    "ScoreReport",
    "ScoreTable",
    "Scoring",
    "bundle_bytes",
    "export_onnx",
    "label_rules_of",
    "load_bundle",
    "log_to_mlflow",
    "model_card",
    "model_card_html",
    "onnx_inputs",
    "report_html",
    "safe_frame",
    "save_bundle",
    "sign_file",
    "standalone_script",
    "to_csv",
    "verify_file",
    "write_folder",
]

_HOMES = {
    "archive": ("BundleLimits",),
    "bundle": ("Bundle",),
    "bundle_parts": ("FlagPoint", "LabelRules", "ModelDetails", "label_rules_of"),
    "bundle_storage": ("bundle_bytes", "load_bundle", "save_bundle"),
    "card": ("model_card", "model_card_html"),
    "drift": ("ColumnDrift", "DriftReport", "ScoreDrift"),
    "onnx_export": ("OnnxModel", "export_onnx", "onnx_inputs"),
    "publishing": ("log_to_mlflow", "standalone_script", "write_folder"),
    "report": ("report_html",),
    "score_report": ("ScoreProgress", "ScoreReport", "ScoreTable", "Scoring"),
    "signing": ("sign_file", "verify_file"),
}


def __getattr__(name: str) -> Any:
    if name in ("safe_frame", "to_csv"):
        return getattr(import_module("spu_core.tables.spreadsheet"), name)
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
