"""A bundle with its model card as a folder of plain files, or as a run of an MLflow tracking server.

The server is the one that MLflow itself would use: the environment variable MLFLOW_TRACKING_URI.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd

from spu_core.errors import BundleError
from spu_core.export.archive import BundleLimits
from spu_core.export.bundle import Bundle
from spu_core.export.bundle_storage import bundle_bytes, open_members, save_bundle
from spu_core.export.card import model_card, model_card_html
from spu_core.export.onnx_export import export_onnx
from spu_core.metrics import roc_spu
from spu_core.versions import library_versions

_README = """This folder is an exported run of SPU Studio. Use it only if you trust the sender: the hashes in it
show that nothing was changed by accident, not who made it.

bundle.spu        the bundle itself: `spu score bundle.spu NEW.csv -o SCORED.csv`
contents/         its members as plain files, to be read by people and programs
contents/self_test.json
                  20 synthetic rows with their scores, which any copy of the model must reproduce
model_card.md     what the model is for, how good it is, and its limits (also as HTML)
"""
_ONNX_README = """model.onnx        encoder, rules and model as one graph, with one input per column
score.py          scores a CSV with model.onnx; it checks the self-test rows first, and needs numpy and
                  onnxruntime only: python score.py model.onnx NEW.csv SCORED.csv
"""


def write_folder(
    bundle: Bundle,
    folder: str | os.PathLike[str],
    onnx_rows: pd.DataFrame | None = None,
    *,
    card_of: Bundle | None = None,
) -> Path:
    """Write a bundle, its members as plain files and its model card into a new or empty folder.

    Parameters
    ----------
    bundle : Bundle
        The exported run.
    folder : str or path
        A new or empty folder.
    onnx_rows : DataFrame, optional
        Rows on which an ONNX model is compared with the bundle. With them, the ONNX model and a script that scores
        with it are written too; a model that cannot become ONNX is refused before anything is written.
    card_of : Bundle, optional
        What the model card describes, where it has more to tell than the bundle (dates).

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    BundleError
        If the folder is not empty, or the model cannot become ONNX.
    """
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BundleError(f"{target.name!r} is not an empty folder; choose a new name.")
    written = _files(bundle, onnx_rows, card_of or bundle)
    for name, data in written.items():
        # Names of members were checked; all other names are fixed.
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return target


def standalone_script() -> str:
    """The source of the script that scores a CSV with an ONNX model without this package."""
    return files("spu_core.export").joinpath("standalone.py").read_text(encoding="utf-8")


def _files(bundle: Bundle, onnx_rows: pd.DataFrame | None, described: Bundle) -> dict[str, bytes]:
    data = bundle_bytes(bundle)
    members, _ = open_members(data, BundleLimits())
    found = {f"contents/{name}": member for name, member in members.items()}
    texts = {"README.txt": _README}
    if onnx_rows is not None:
        translated = export_onnx(bundle, onnx_rows)
        found["model.onnx"] = translated.data
        texts = {"score.py": standalone_script(), "README.txt": f"{_README}{_ONNX_README}\n{translated.summary}\n"}
    texts["model_card.md"] = model_card(described)
    texts["model_card.html"] = model_card_html(described)
    return {"bundle.spu": data, **found, **{name: text.encode() for name, text in texts.items()}}


# MLflow does not accept longer values.
LONGEST_VALUE = 6_000
# MLflow would pickle an object, but stores a script as text.
_SERVED_MODEL = '''"""Scores frames with the bundle among the artifacts of this model."""

import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc import PythonModel

from spu_core.export import load_bundle


class ServedBundle(PythonModel):
    def load_context(self, context):
        self.bundle = load_bundle(context.artifacts["bundle"])

    def predict(self, context, model_input, params=None):
        return pd.Series(self.bundle.predict(pd.DataFrame(model_input)), name="score")


set_model(ServedBundle())
'''


def log_to_mlflow(bundle: Bundle, *, experiment: str | None = None, register: str | None = None) -> str:
    """Log the bundle as one MLflow run, with a model that MLflow can serve in an environment of its own.

    Parameters
    ----------
    bundle : Bundle
        The exported run.
    experiment : str, optional
        Name of the experiment on the server.
    register : str, optional
        Name under which the model becomes a new version in the model registry.

    Returns
    -------
    str
        The id of the run. A run that is cut off (an error, Ctrl-C, SIGTERM) ends as FAILED.
    """
    mlflow = _mlflow()
    if experiment is not None:
        mlflow.set_experiment(experiment)
    with tempfile.TemporaryDirectory() as folder, _stopped_by_signal(), mlflow.start_run(run_name=bundle.name) as run:
        mlflow.log_params(_params(bundle))
        mlflow.log_metrics(metrics_of(bundle))
        mlflow.set_tags({"spu.method": bundle.fitted.candidate.method, "spu.fingerprint": bundle.details.fingerprint})
        for path in _write_files(bundle, Path(folder)):
            mlflow.log_artifact(str(path))
        script = Path(folder) / "served_model.py"
        script.write_text(_SERVED_MODEL, encoding="utf-8")
        wheel = write_wheel(Path(folder))
        mlflow.pyfunc.log_model(
            name="model",
            python_model=str(script),
            artifacts={"bundle": str(Path(folder) / "bundle.spu")},
            code_paths=[str(wheel)],
            pip_requirements=_requirements(mlflow.__version__, wheel.name),
            signature=_signature(bundle),
            input_example=input_example(bundle),
            registered_model_name=register,
        )
        return str(run.info.run_id)


def input_example(bundle: Bundle) -> pd.DataFrame | None:
    """One row with the usual value of every column; None for bundles without self-test rows."""
    if bundle.self_test is None:
        return None
    row = bundle.self_test.frame.iloc[[0]]
    flags = [name for name, kind in bundle.input_kinds.items() if kind == "flag"]
    return row.astype(dict.fromkeys(flags, bool))


def write_wheel(folder: Path) -> Path:
    """The installed package as a wheel: it is on no index, so it travels with the model."""
    known = distribution("spu-studio")
    stem = f"spu_studio-{known.version}"
    package = files("spu_core")
    info = {
        "METADATA": known.read_text("METADATA")
        or f"Metadata-Version: 2.1\nName: spu-studio\nVersion: {known.version}\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: spu-studio\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    target = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(Path(str(package)).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, f"spu_core/{path.relative_to(str(package)).as_posix()}")
        for name, text in info.items():
            archive.writestr(f"{stem}.dist-info/{name}", text)
    return target


def _requirements(mlflow_version: str, wheel: str) -> list[str]:
    """The wheel, MLflow, and the versions of the libraries that decide scores."""
    versions = {**library_versions(), "mlflow": mlflow_version}
    pinned = [f"{name}=={version}" for name, version in versions.items() if name not in ("spu-studio", "python")]
    return [f"code/{wheel}", *pinned]


def _signature(bundle: Bundle) -> Any:
    """Names of all columns. Numbers and flags have any type: a gap turns whole numbers and flags into other types."""
    from mlflow.models import ModelSignature
    from mlflow.types.schema import AnyType, ColSpec, DataType, Schema

    types = {"text": DataType.string, "days": DataType.datetime}
    inputs: list[Any] = [
        ColSpec(types.get(kind, AnyType()), name, required=kind in types) for name, kind in bundle.input_kinds.items()
    ]
    return ModelSignature(Schema(inputs), Schema([ColSpec(DataType.double, "score")]))


@contextmanager
def _stopped_by_signal() -> Iterator[None]:
    """Turn SIGTERM into an exception, so that MLflow marks the run as FAILED; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def metrics_of(bundle: Bundle) -> dict[str, float]:
    """The metrics as single numbers; an interval gives three."""
    found: dict[str, float] = {}
    for name, value in (bundle.facts.metrics or {}).items():
        if isinstance(value, Mapping):
            parts = {"": value["estimate"], "_low": value["low"], "_high": value["high"]}
            found |= {f"{name}{end}": float(part) for end, part in parts.items() if part is not None}
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[name] = float(value)
    return {**found, "flagged_share": float(bundle.point.share)}


def roc_table(bundle: Bundle) -> pd.DataFrame | None:
    """The ROC_SPU curve with few points; None where the bundle has no training rows."""
    if not bundle.rows:
        return None
    run = bundle.run
    evaluation = run.evaluation
    curve = roc_spu(
        evaluation.judged_soft_label, run.need_score()[evaluation.judged], sample_weight=evaluation.judged_weight
    )
    thin = curve.thin()
    return pd.DataFrame({"fpr_spu": thin.fpr, "tpr_spu": thin.tpr, "threshold": thin.threshold})


def _params(bundle: Bundle) -> dict[str, str]:
    own = {"method": bundle.fitted.candidate.method, "rows": bundle.facts.rows, "folds": bundle.facts.config.folds}
    settings = {f"setting.{name}": value for name, value in bundle.fitted.settings.items()}
    return {name: str(value)[:LONGEST_VALUE] for name, value in {**own, **settings}.items()}


def _write_files(bundle: Bundle, folder: Path) -> list[Path]:
    save_bundle(bundle, folder / "bundle.spu")
    (folder / "model_card.md").write_text(model_card(bundle), encoding="utf-8")
    (folder / "model_card.html").write_text(model_card_html(bundle), encoding="utf-8")
    curve = roc_table(bundle)
    if curve is not None:
        curve.to_csv(folder / "roc_spu.csv", index=False)
    return sorted(folder.iterdir())


def _mlflow() -> Any:
    try:
        import mlflow
        import mlflow.pyfunc
    except ImportError:
        raise BundleError(
            "Logging to MLflow needs mlflow, which is not installed; "
            "install the extra: pip install 'spu-studio[mlflow]'."
        ) from None
    return mlflow
