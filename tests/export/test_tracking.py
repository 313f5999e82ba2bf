"""A bundle on a real local MLflow server: parameters, figures, files and a model that scores."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request

import numpy as np
import pytest

from spu_core.errors import BundleError
from spu_core.export import log_to_mlflow
from spu_core.export.publishing import metrics_of, roc_table
from tests.export.examples import example, make_frame
from tests.live import free_address


def test_figures_are_flat_numbers():
    found = metrics_of(example("fused").bundle)

    assert found["auc_spu_low"] < found["auc_spu"] < found["auc_spu_high"]
    assert found["flagged_share"] == example("fused").bundle.point.share
    assert all(isinstance(value, float) for value in found.values())


def test_the_curve_is_left_out_with_the_rows():
    bundle = example("lightgbm").bundle

    assert roc_table(bundle)["tpr_spu"].is_monotonic_increasing
    assert roc_table(bundle.without_rows()) is None


def test_without_the_extra_the_way_to_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)

    with pytest.raises(BundleError, match=r"needs mlflow, which is not installed; install the extra: pip install"):
        log_to_mlflow(example("lightgbm").bundle)


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A tracking server of our own on a free port, ended afterwards."""
    pytest.importorskip("mlflow")
    address, port = free_address()
    place = ["--backend-store-uri", f"sqlite:///{tmp_path}/runs.db", "--artifacts-destination", f"{tmp_path}/files"]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    # A session of its own: the server has children, which must end with it.
    process = subprocess.Popen([*command, *place], env=environment, cwd=tmp_path, start_new_session=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        _wait(address, process)
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=300)


def _wait(address: str, process: subprocess.Popen) -> None:
    for _ in range(600):
        assert process.poll() is None, "the server ended by itself"
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=1):
                return
        except OSError:
            time.sleep(0.5)
    pytest.fail("the server did not start")


def test_a_run_is_logged_and_its_model_scores(server):
    import mlflow

    found = example("lightgbm")

    run_id = log_to_mlflow(found.bundle, experiment="tests")

    client = mlflow.MlflowClient()
    logged = client.get_run(run_id)
    assert logged.data.params["method"] == "lightgbm"
    assert logged.data.metrics["auc_spu"] == pytest.approx(found.run.metrics.auc_spu.estimate)
    names = {entry.path for entry in client.list_artifacts(run_id)}
    assert {"bundle.spu", "model_card.md", "model_card.html", "roc_spu.csv"} <= names
    model = mlflow.pyfunc.load_model(f"runs:/{run_id}/model")
    frame = make_frame(50, seed=5)
    np.testing.assert_array_equal(model.predict(frame), found.expected(frame))
