"""Self-test rows: made from summaries, kept with the model, and checked before anything is scored."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from spu_core.errors import BundleError
from spu_core.export import bundle_bytes, export_onnx, load_bundle, standalone
from spu_core.export.archive import digest
from spu_core.export.bundle_parts import ROWS, SelfTest
from tests.export.examples import example, known, make_frame
from tests.export.hostile import members_of, resealed


@pytest.fixture
def model(tmp_path):
    """The ONNX model of a fused bundle, as a file."""
    path = tmp_path / "model.onnx"
    export_onnx(example("fused").bundle, make_frame(50)).save(path)
    return path


def test_the_rows_are_twenty_with_medians_gaps_unseen_and_extreme_values_and_none_of_the_table():
    bundle = example("fused").bundle
    rows = bundle.self_test.frame

    assert len(rows) == ROWS == 20
    assert rows["amount"].iloc[0] == pytest.approx(make_frame()["amount"].median(), rel=0.02)
    assert rows.iloc[1].isna().all()
    assert set(rows["job"].dropna()) - set(make_frame()["job"].dropna())
    assert rows["amount"].abs().max() == 1e300
    table = make_frame()[list(bundle.columns)].astype(str)
    assert not (set(map(tuple, rows[list(bundle.columns)].astype(str).to_numpy())) & set(map(tuple, table.to_numpy())))
    np.testing.assert_array_equal(bundle.predict(rows), bundle.self_test.score)


@pytest.mark.parametrize("method", ["fused", "logistic", "rule_score"])
def test_they_survive_in_the_bundle_and_are_checked_when_it_is_loaded(method):
    data = bundle_bytes(example(method).bundle)
    assert known(data).self_test.to_dict() == example(method).bundle.self_test.to_dict()

    members = members_of(data)
    changed = json.loads(members["self_test.json"])
    changed["score"][3] += 0.01
    forged = resealed({**members, "self_test.json": json.dumps(changed).encode()})
    with pytest.raises(BundleError, match=r"gives other scores here than at its export \(off by up to 0.01"):
        load_bundle(forged, known_hash=digest(forged))


def test_rows_of_another_form_are_refused():
    good = example("lightgbm").bundle.self_test.to_dict()
    [first, *others] = good["columns"]
    for wrong in ({"kind": "odd"}, {"values": first["values"][:3]}, {"values": ["text"] * ROWS}):
        with pytest.raises(BundleError, match=r"(?i)column 'age'"):
            SelfTest.from_dict({**good, "columns": [{**first, **wrong}, *others]})


def test_a_bundle_without_the_rules_it_needs_has_no_self_test():
    found = example("fused")

    assert type(found.bundle).of(found.run, fitted=found.fitted).self_test is None


def test_the_stand_alone_script_refuses_a_changed_file_before_it_reads_it(model):
    data = bytearray(model.read_bytes())
    for place in np.linspace(0, len(data) - 1, 60).astype(int):
        changed = bytearray(data)
        changed[place] ^= 1
        model.write_bytes(changed)
        with pytest.raises(SystemExit, match="its SHA-256 is wrong"):
            standalone.open_model(str(model))
    model.write_bytes(data[: len(data) // 2])
    with pytest.raises(SystemExit, match="its SHA-256 is wrong"):
        standalone.open_model(str(model))


def test_the_stand_alone_script_refuses_a_model_that_scores_otherwise_here(model, monkeypatch):
    bundle = example("fused").bundle
    wrong = replace(bundle.self_test, score=tuple(value + 0.05 for value in bundle.self_test.score))
    monkeypatch.setattr("spu_core.export.onnx_export._prove", lambda *_: 0.0)
    export_onnx(replace(bundle, self_test=wrong), make_frame(50)).save(model)

    with pytest.raises(SystemExit, match=r"self-test rows differ by up to 0\.05\. Nothing was scored"):
        standalone.open_model(str(model))


def test_the_stand_alone_script_refuses_an_old_onnxruntime(model, monkeypatch):
    import onnxruntime

    monkeypatch.setattr(onnxruntime, "__version__", "1.23.2")
    with pytest.raises(SystemExit, match=r"onnxruntime 1\.23\.2 can give wrong scores; install 1\.24 or newer"):
        standalone.open_model(str(model))


def test_the_stand_alone_script_names_a_row_without_a_score():
    standalone.refuse_unscored(np.array([[0.1], [0.2]]), 10)
    with pytest.raises(SystemExit, match="Row 12 cannot be scored"):
        standalone.refuse_unscored(np.array([[0.1], [np.nan]]), 10)


def test_metadata_names_the_lowest_version_and_holds_no_row_of_the_table(model):
    _, about = standalone.open_model(str(model))

    assert about["onnxruntime"] == "1.24"
    assert about["self_test"] == example("fused").bundle.self_test.to_dict()
    assert not set(make_frame()["id"]) & set(json.dumps(about).split('"'))
    assert example("fused").bundle.self_test.frame.shape == (20, 6)
