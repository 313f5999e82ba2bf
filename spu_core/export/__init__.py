"""Export: bundles, scoring, drift hints, ONNX, model card, report, and the way to an MLflow server."""

from spu_core.export.archive import BundleLimits
from spu_core.export.bundle import Bundle
from spu_core.export.card import model_card, model_card_html
from spu_core.export.drift import ColumnDrift, DriftReport, ScoreDrift
from spu_core.export.flagging import FlagPoint
from spu_core.export.folder import standalone_script, write_folder
from spu_core.export.onnx_export import OnnxModel, export_onnx, onnx_inputs
from spu_core.export.passport import Passport, Recipe, recipe_of
from spu_core.export.score_report import ScoreProgress, ScoreReport, ScoreTable, Scoring
from spu_core.export.storage import bundle_bytes, load_bundle, save_bundle
from spu_core.export.tracking import log_to_mlflow
from spu_core.tables.spreadsheet import safe_frame, to_csv

__all__ = [
    "Bundle",
    "BundleLimits",
    "ColumnDrift",
    "DriftReport",
    "FlagPoint",
    "OnnxModel",
    "Passport",
    "Recipe",
    "ScoreDrift",
    "ScoreProgress",
    "ScoreReport",
    "ScoreTable",
    "Scoring",
    "bundle_bytes",
    "export_onnx",
    "load_bundle",
    "log_to_mlflow",
    "model_card",
    "model_card_html",
    "onnx_inputs",
    "recipe_of",
    "report_html",
    "safe_frame",
    "save_bundle",
    "standalone_script",
    "to_csv",
    "write_folder",
]


def __getattr__(name: str) -> object:
    # The report draws charts; whoever only scores should not wait for Plotly.
    if name == "report_html":
        from spu_core.export.report import report_html

        return report_html
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
