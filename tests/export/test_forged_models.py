"""Fifty forged ONNX models and fifty forged XGBoost models: each is refused in a sentence, and nothing crashes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnx")

from spu_core.export import bundle_bytes, export_onnx, standalone
from tests.export.examples import example, make_frame
from tests.export.forged import forged_onnx, forged_xgboost
from tests.export.hostile import members_of, resealed

# Each file is tried in a fork of one process that has loaded the libraries, so that a crash ends the fork only.
# A bundle is always tried in a child process, so a crash gives the sentence of `trial`; an ONNX model must not crash.
TRY = """
import json, os, signal, sys
from spu_core.export import bundle_storage, standalone, trial_child

def attempt(path):
    if path.endswith(".onnx"):
        try:
            standalone.open_model(path)
        except SystemExit as refused:
            return str(refused)
    return trial_child._answer(open(path, "rb").read(), []).get("problem") if path.endswith(".spu") else None

found = {}
for path in sys.argv[1:]:
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(60)
        os.write(writer, json.dumps(attempt(path)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        answer = stream.read()
    _, ending = os.waitpid(child, 0)
    refused = str(bundle_storage._refused(bundle_storage._ending(-ending)))
    crash = refused if path.endswith(".spu") else f"CRASHED {ending}"
    found[path] = json.loads(answer) if answer and not ending else crash
print(json.dumps(found))
"""


def outcomes(files: dict[str, bytes], folder: Path, suffix: str) -> dict[str, str | None]:
    """What each file is refused with; None where it is accepted."""
    paths = {}
    for number, (name, data) in enumerate(files.items()):
        path = folder / f"{number:02d}{suffix}"
        path.write_bytes(data)
        paths[str(path)] = name
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", TRY, *paths], env=environment, capture_output=True, check=True)
    return {paths[path]: answer for path, answer in json.loads(done.stdout.splitlines()[-1]).items()}


def assert_refused(found: dict[str, str | None]) -> None:
    assert len(found) >= 50
    for name, sentence in found.items():
        assert sentence is not None, f"{name} was accepted"
        assert not sentence.startswith("CRASHED"), f"{name}: {sentence}"
        assert sentence.endswith((".", ".)")), sentence
        assert "Traceback" not in sentence


def test_forged_onnx_models_are_refused_in_a_sentence(tmp_path):
    good = export_onnx(example("lightgbm").bundle, make_frame(50)).data

    assert outcomes({"good": good}, tmp_path, ".onnx") == {"good": None}
    assert_refused(outcomes(dict(forged_onnx(good)), tmp_path, ".onnx"))


def test_functions_within_an_onnx_model_are_refused():
    from onnx import load_from_string

    model = load_from_string(export_onnx(example("lightgbm").bundle, make_frame(50)).data)
    standalone.check_graph(model.SerializeToString())
    model.functions.add(name="anything")

    with pytest.raises(ValueError, match="another format, or functions of its own"):
        standalone.check_graph(model.SerializeToString())


@pytest.mark.parametrize(
    ("domain", "operator"), [("com.elsewhere", "TreeEnsemble"), ("ai.onnx.ml", "TreeEnsembleRegressor")]
)
def test_an_operator_of_another_domain_or_one_that_no_export_uses_is_refused(domain, operator):
    from onnx import load_from_string

    model = load_from_string(export_onnx(example("lightgbm").bundle, make_frame(50)).data)
    node = next(node for node in model.graph.node if node.op_type == "TreeEnsemble")
    node.domain, node.op_type = domain, operator

    with pytest.raises(ValueError, match="an operator that no export uses"):
        standalone.check_graph(model.SerializeToString())


@pytest.mark.parametrize("column", [-1, 2**31])
def test_a_tree_that_splits_on_no_column_is_refused(column):
    from onnx import load_from_string

    model = load_from_string(export_onnx(example("lightgbm").bundle, make_frame(50)).data)
    node = next(node for node in model.graph.node if node.op_type == "TreeEnsemble")
    next(part for part in node.attribute if part.name == "nodes_featureids").ints[0] = column

    with pytest.raises(ValueError, match="its trees do not fit together"):
        standalone.check_graph(model.SerializeToString())


def test_integers_are_read_as_protobuf_stores_them_one_by_one_or_packed():
    from onnx import AttributeProto

    wanted = [0, 1, 127, 128, 300, -1, 2**40, -(2**63), 2**63 - 1]
    single = standalone.fields(AttributeProto(ints=wanted).SerializeToString())[8]
    packed = b"".join(AttributeProto(ints=[value]).SerializeToString()[1:] for value in wanted)

    assert standalone.integers(single).tolist() == standalone.integers([packed]).tolist() == wanted
    with pytest.raises(ValueError, match="a damaged integer"):
        standalone.integers([b"\xff" * 10 + b"\x01"])


def test_forged_xgboost_models_are_refused_in_a_sentence(tmp_path):
    good = bundle_bytes(example("xgboost").bundle)
    members = members_of(good)
    [name] = [name for name in members if name.endswith(".ubj")]

    assert outcomes({"good": good}, tmp_path, ".spu") == {"good": None}
    forged = {what: resealed({**members, name: data}) for what, data in forged_xgboost(members[name])}
    assert_refused(outcomes(forged, tmp_path, ".spu"))


def test_a_crash_and_an_endless_loop_would_be_noticed(tmp_path, monkeypatch):
    """The tests above can fail: a fork that dies is reported."""
    dying = TRY.replace("def attempt(path):", "def attempt(path):\n    os.abort()")
    monkeypatch.setattr(sys.modules[__name__], "TRY", dying)

    assert outcomes({"any": b""}, tmp_path, ".onnx") == {"any": f"CRASHED {int(signal.SIGABRT)}"}
