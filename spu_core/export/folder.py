"""The folder form of a bundle: its members as plain files, the card, the ONNX model and a script to run it."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from textwrap import wrap

import pandas as pd

from spu_core.errors import BundleError
from spu_core.export.archive import BundleLimits
from spu_core.export.bundle import Bundle
from spu_core.export.card import model_card, model_card_html
from spu_core.export.onnx_export import export_onnx
from spu_core.export.storage import bundle_bytes, open_members

_README = """This folder is an exported run of SPU Studio.

bundle.spu        the bundle itself: `spu score bundle.spu NEW.csv -o SCORED.csv`
contents/         its members as plain files, to be read by people and programs
model_card.md     what the model is for, how good it is, and its limits (also as HTML)
"""
_ONNX_README = """model.onnx        encoder and model as one graph, with one input per column
score.py          scores a CSV with model.onnx; needs numpy and onnxruntime only:
                  python score.py model.onnx NEW.csv SCORED.csv
"""


def write_folder(bundle: Bundle, folder: str | os.PathLike[str], onnx_rows: pd.DataFrame | None = None) -> Path:
    """Write the folder form into a new or empty folder.

    With `onnx_rows`, the ONNX model is written too, after it was proven on these rows, with a script that scores with
    it; a model that cannot become ONNX is refused before anything is written.
    """
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BundleError(f"{target.name!r} is not an empty folder; choose a new name.")
    written = _files(bundle, onnx_rows)
    for name, data in written.items():
        # Names of members were checked; all others are our own.
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return target


def standalone_script() -> str:
    """The source of the script that scores a CSV with an ONNX model and does not need this package."""
    return files("spu_core.export").joinpath("standalone.py").read_text(encoding="utf-8")


def _files(bundle: Bundle, onnx_rows: pd.DataFrame | None) -> dict[str, bytes]:
    data = bundle_bytes(bundle)
    members, _ = open_members(data, BundleLimits())
    found = {f"contents/{name}": member for name, member in members.items()}
    note, texts = "", {"README.txt": _README}
    if onnx_rows is not None:
        translated = export_onnx(bundle, onnx_rows)
        found["model.onnx"], note = translated.data, translated.note
        about = _ONNX_README + ("\n" + "\n".join(wrap(note, 100)) + "\n" if note else "")
        texts = {"score.py": standalone_script(), "README.txt": _README + about}
    texts["model_card.md"] = model_card(bundle, onnx_note=note)
    texts["model_card.html"] = model_card_html(bundle, onnx_note=note)
    return {"bundle.spu": data, **found, **{name: text.encode() for name, text in texts.items()}}
