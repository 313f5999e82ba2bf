"""A bundle on an MLflow tracking server: parameters, figures, curve, card, bundle, and a model that MLflow can serve.

The server is the one that MLflow itself would use: the environment variable MLFLOW_TRACKING_URI.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from spu_core.errors import BundleError
from spu_core.export.bundle import Bundle
from spu_core.export.card import model_card, model_card_html
from spu_core.export.storage import save_bundle
from spu_core.metrics import roc_spu

# MLflow refuses longer values.
LONGEST_VALUE = 6_000
# MLflow would pickle an object; a script it keeps as text.
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


def log_to_mlflow(bundle: Bundle, *, experiment: str | None = None) -> str:
    """Log the bundle as one MLflow run and return the id of that run."""
    mlflow = _mlflow()
    if experiment is not None:
        mlflow.set_experiment(experiment)
    with tempfile.TemporaryDirectory() as folder, mlflow.start_run(run_name=bundle.name) as run:
        mlflow.log_params(_params(bundle))
        mlflow.log_metrics(metrics_of(bundle))
        mlflow.set_tags({"spu.method": bundle.fitted.candidate.method, "spu.fingerprint": bundle.passport.fingerprint})
        for path in _write_files(bundle, Path(folder)):
            mlflow.log_artifact(str(path))
        script = Path(folder) / "served_model.py"
        script.write_text(_SERVED_MODEL, encoding="utf-8")
        artifacts = {"bundle": str(Path(folder) / "bundle.spu")}
        mlflow.pyfunc.log_model(name="model", python_model=str(script), artifacts=artifacts)
        return str(run.info.run_id)


def metrics_of(bundle: Bundle) -> dict[str, float]:
    """The figures as flat numbers: an interval gives three."""
    found: dict[str, float] = {}
    for name, value in (bundle.facts.metrics or {}).items():
        if isinstance(value, Mapping):
            parts = {"": value["estimate"], "_low": value["low"], "_high": value["high"]}
            found |= {f"{name}{end}": float(part) for end, part in parts.items() if part is not None}
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[name] = float(value)
    return {**found, "flagged_share": float(bundle.point.share)}


def roc_table(bundle: Bundle) -> pd.DataFrame | None:
    """The ROC_SPU curve in few points; None where the rows were left out of the bundle."""
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
