"""A bundle on a real local MLflow server: parameters, figures, files and a model that scores."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import time
import urllib.request
import zipfile
from pathlib import Path

import numpy as np
import pytest

from spu_core.errors import BundleError
from spu_core.export import log_to_mlflow
from spu_core.export.publishing import input_example, metrics_of, roc_table, write_wheel
from spu_core.versions import __version__
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


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A tracking server of our own on a free port, ended afterwards; each test has an experiment of its own."""
    pytest.importorskip("mlflow")
    tmp_path = tmp_path_factory.mktemp("mlflow")
    address, port = free_address()
    place = ["--backend-store-uri", f"sqlite:///{tmp_path}/runs.db", "--artifacts-destination", f"{tmp_path}/files"]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    # A session of its own: the server has children, which must end with it.
    process = subprocess.Popen([*command, *place], env=environment, cwd=tmp_path, start_new_session=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        _wait(address, process)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MLFLOW_TRACKING_URI", address)
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


def test_the_package_travels_as_a_wheel(tmp_path):
    wheel = write_wheel(tmp_path)

    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    assert wheel.name == f"spu_studio-{__version__}-py3-none-any.whl"
    assert {"spu_core/__init__.py", "spu_core/export/bundle.py"} <= set(names)
    assert not [name for name in names if "__pycache__" in name]
    assert "Requires-Dist: lightgbm" in metadata


def test_the_input_example_can_be_scored():
    bundle = example("fused").bundle
    row = input_example(bundle)

    assert row["vip"].dtype == bool
    np.testing.assert_allclose(bundle.predict(row), bundle.self_test.score[:1])


def test_a_run_is_logged_registered_and_scores_in_an_environment_of_its_requirements(server, tmp_path):
    import mlflow

    found = example("lightgbm")

    run_id = log_to_mlflow(found.bundle, experiment="tests", register="cheats")

    client = mlflow.MlflowClient()
    logged = client.get_run(run_id)
    assert logged.data.params["method"] == "lightgbm"
    assert logged.data.metrics["auc_spu"] == pytest.approx(found.run.metrics.auc_spu.estimate)
    names = {entry.path for entry in client.list_artifacts(run_id)}
    assert {"bundle.spu", "model_card.md", "model_card.html", "roc_spu.csv"} <= names
    model = mlflow.pyfunc.load_model(f"runs:/{run_id}/model")
    frame = make_frame(50, seed=5)
    np.testing.assert_array_equal(model.predict(frame), found.expected(frame))
    assert model.metadata.signature.inputs.input_names() == list(found.bundle.columns)
    assert client.get_model_version("cheats", "1").run_id == run_id

    folder = Path(mlflow.artifacts.download_artifacts(f"runs:/{run_id}/model", dst_path=str(tmp_path)))
    fresh = environment_of(folder, tmp_path / "fresh")
    frame.to_parquet(tmp_path / "rows.parquet")
    script = "import mlflow, pandas, spu_core, sys; frame = pandas.read_parquet(sys.argv[2]); "
    script += "assert spu_core.__file__.startswith(sys.prefix), 'not from the wheel'; "
    script += "print(mlflow.pyfunc.load_model(sys.argv[1]).predict(frame).tolist())"
    command = [fresh / "bin" / "python", "-I", "-c", script, str(folder), str(tmp_path / "rows.parquet")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    np.testing.assert_allclose(json.loads(done.stdout.splitlines()[-1]), found.expected(frame), atol=1e-6)


def environment_of(folder: Path, fresh: Path) -> Path:
    """A fresh environment with the logged requirements.

    With SPU_SLOW=1 all of them are downloaded. Otherwise the libraries are those of this environment, so that pip only
    checks their versions; the package itself is installed from the logged wheel in both cases.
    """
    subprocess.run([sys.executable, "-m", "venv", str(fresh)], check=True)
    install = [fresh / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
    if os.environ.get("SPU_SLOW") != "1":
        # Otherwise the setuptools of the fresh environment would hide a newer one that a library needs.
        subprocess.run([fresh / "bin" / "pip", "uninstall", "--quiet", "--yes", "setuptools"], check=True)
        [site] = fresh.glob("lib/python*/site-packages")
        (site / "libraries.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
        [wheel] = [line for line in (folder / "requirements.txt").read_text().splitlines() if line.endswith(".whl")]
        install += ["--no-index"]
        subprocess.run([*install, "--no-deps", "--force-reinstall", wheel], cwd=folder, check=True)
    subprocess.run([*install, "-r", "requirements.txt"], cwd=folder, check=True)
    return fresh


def test_a_run_that_is_cut_ends_failed(server, monkeypatch):
    import mlflow

    def cut(*_):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)

    monkeypatch.setattr("spu_core.export.publishing.write_wheel", cut)
    with pytest.raises(SystemExit):
        log_to_mlflow(example("lightgbm").bundle, experiment="cut")

    [run] = mlflow.search_runs(experiment_names=["cut"], output_format="list")
    assert run.info.status == "FAILED"
