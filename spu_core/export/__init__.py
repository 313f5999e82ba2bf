"""Export: bundles, scoring, ONNX, model card, report."""

from spu_core.export.archive import BundleLimits
from spu_core.export.bundle import Bundle
from spu_core.export.flagging import FlagPoint
from spu_core.export.passport import Passport, Recipe, recipe_of
from spu_core.export.storage import bundle_bytes, load_bundle, save_bundle

__all__ = [
    "Bundle",
    "BundleLimits",
    "FlagPoint",
    "Passport",
    "Recipe",
    "bundle_bytes",
    "load_bundle",
    "recipe_of",
    "save_bundle",
]
