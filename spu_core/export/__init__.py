"""Export: bundles, scoring, drift hints, ONNX, model card, report, and the way to an MLflow server."""

from spu_core.export.archive import BundleLimits
from spu_core.export.bundle import Bundle
from spu_core.export.drift import ColumnDrift, DriftReport, ScoreDrift
from spu_core.export.flagging import FlagPoint
from spu_core.export.passport import Passport, Recipe, recipe_of
from spu_core.export.scoring import ScoreReport, ScoreTable, Scoring
from spu_core.export.spreadsheet import safe_frame, to_csv
from spu_core.export.storage import bundle_bytes, load_bundle, save_bundle

__all__ = [
    "Bundle",
    "BundleLimits",
    "ColumnDrift",
    "DriftReport",
    "FlagPoint",
    "Passport",
    "Recipe",
    "ScoreDrift",
    "ScoreReport",
    "ScoreTable",
    "Scoring",
    "bundle_bytes",
    "load_bundle",
    "recipe_of",
    "safe_frame",
    "save_bundle",
    "to_csv",
]
