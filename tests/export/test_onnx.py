"""An ONNX model says what the native one says, on real columns with levels, gaps and dates; others refuse in words."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

import numpy as np
import pandas as pd
import pytest

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

from spu_core.errors import BundleError  # noqa: E402
from spu_core.export import (  # noqa: E402
    Bundle,
    FlagPoint,
    LabelRules,
    ModelDetails,
    export_onnx,
    onnx_inputs,
    standalone,
    write_folder,
)
from spu_core.labels import assign_soft_labels  # noqa: E402
from spu_core.models import METHODS  # noqa: E402
from spu_core.rules import RuleSet  # noqa: E402
from spu_core.tables.samples import load_sample, load_sample_rules  # noqa: E402
from spu_core.training import Candidate, TrainConfig, cross_fit  # noqa: E402
from tests.export.examples import example, make_frame  # noqa: E402

SAMPLES = ["ads_conversion", "anti_cheat", "mild_cognitive_impairment"]
REFUSED = ["nearest_neighbors"]
# The network for images is tested with the extra that trains it.
TRANSLATED = [method for method in METHODS if method not in (*REFUSED, "cnn")]


def run_onnx(data: bytes, inputs) -> np.ndarray:
    standalone.check_graph(data)  # raises an error where the stand-alone script would refuse the model
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0].ravel()


def with_gaps(frame: pd.DataFrame, columns) -> pd.DataFrame:
    """A copy in which every tenth cell of these columns is missing: only one of the samples has gaps by itself."""
    rng = np.random.default_rng(1)
    return frame.assign(**{name: frame[name].mask(rng.random(len(frame)) < 0.1) for name in columns})


@cache
def sample_bundle(name: str, method: str) -> tuple[Bundle, pd.DataFrame]:
    table = load_sample(name)
    rules = RuleSet.from_json(load_sample_rules(name)).fit(table)
    rows = np.random.default_rng(0).permutation(len(table))[:800]
    soft_labels = assign_soft_labels(rules.apply(table.frame), table.is_labeled)
    from spu_core.tables import Table

    frame = with_gaps(table.frame.iloc[np.sort(rows)].reset_index(drop=True), table.features)
    part = Table.from_frame(frame, roles=table.roles, positive_values=table.positive_values)
    settings = {"rounds": 15} if "rounds" in {s.name for s in METHODS[method].settings()} else {}
    candidate = Candidate(method, {**settings, "keep_rule_columns": True})
    [run] = cross_fit(part, soft_labels.take(np.sort(rows)), [candidate], TrainConfig(folds=2, threads=1))
    assert run.error is None, run.error
    label_rules = LabelRules(rules=rules, combine=soft_labels.combine)
    return Bundle.of(run, details=ModelDetails.of(part), label_rules=label_rules), part.frame


@pytest.mark.parametrize("method", ["fused", "xgboost", "logistic", "neural_net"])
@pytest.mark.parametrize("sample", SAMPLES)
def test_the_samples_score_alike_with_levels_and_missing_values(sample, method):
    bundle, frame = sample_bundle(sample, method)

    translated = export_onnx(bundle, frame)

    read = frame[list(bundle.columns)]
    assert read.isna().any().all()
    assert any(column.is_category for column in bundle.fitted.encoder.columns if column.name in read)
    found = run_onnx(translated.data, onnx_inputs(bundle, frame))
    assert np.abs(found - bundle.predict(frame)).max() <= 1e-6
    assert translated.worst <= 1e-6
    assert translated.rows == len(frame)


def strange_rows() -> pd.DataFrame:
    """Gaps in every column, empty texts, unseen categories, and numbers and dates far outside the training rows."""
    frame = make_frame(210, seed=5)
    for place, name in enumerate(["amount", "age", "job", "code", "when"]):
        frame.loc[frame.index % 7 == place, name] = None
    frame.loc[frame.index % 3 == 0, ["job", "code"]] = "never seen"
    frame.loc[frame.index % 5 == 0, ["job", "code"]] = ""
    frame.loc[frame.index % 11 == 0, ["amount", "age"]] = np.inf
    frame.loc[frame.index % 11 == 1, ["amount", "age"]] = -np.inf
    frame.loc[frame.index % 11 == 2, ["amount", "age"]] = [1e300, -1e300]
    frame.loc[frame.index % 11 == 3, "when"] = pd.Timestamp("1700-01-01")
    return frame


@pytest.mark.parametrize("method", TRANSLATED)
def test_every_method_scores_alike_on_training_rows_gaps_unseen_categories_and_extreme_numbers(method):
    bundle = example(method).bundle
    translated = export_onnx(bundle, make_frame())

    assert translated.worst <= 1e-6
    strange = strange_rows()
    found = run_onnx(translated.data, onnx_inputs(bundle, strange))
    np.testing.assert_allclose(found, bundle.predict(strange), rtol=0, atol=1e-6)


@pytest.mark.parametrize("method", ["lightgbm", "xgboost"])
def test_splits_on_many_levels_score_alike(method):
    """Two hundred levels make sets that no chain of comparisons would hold."""
    from spu_core.labels import SoftLabels
    from spu_core.tables import Table

    rng = np.random.default_rng(0)
    place = rng.integers(0, 200, 3000)
    code = rng.integers(0, 40, 3000)
    chance = np.where((place % 7 < 3) ^ (code % 3 == 0), 0.8, 0.1)
    frame = pd.DataFrame({"city": [f"city {number}" for number in place], "code": pd.Series(code).astype("category")})
    frame.loc[rng.random(3000) < 0.05, "city"] = None
    soft_labels = SoftLabels.from_values(chance, rng.random(3000) < 0.3 * chance)
    [run] = cross_fit(
        Table.from_frame(frame), soft_labels, [Candidate(method, {"rounds": 30})], TrainConfig(folds=2, threads=1)
    )
    bundle = Bundle.of(run)

    translated = export_onnx(bundle, frame)
    assert translated.worst <= 1e-6
    standalone.check_graph(translated.data)


@pytest.mark.parametrize("method", REFUSED)
def test_others_refuse_in_words(method):
    with pytest.raises(BundleError, match=r"with a part of kind '\w+' cannot become ONNX; use the bundle itself"):
        export_onnx(example(method).bundle, make_frame(20))


def test_a_model_that_reads_rules_is_refused_where_the_bundle_lacks_them():
    found = example("fused")

    with pytest.raises(BundleError, match="depends on the rules, but the bundle was saved without them"):
        export_onnx(Bundle.of(found.run, fitted=found.fitted), make_frame(50))


@pytest.mark.parametrize("method", ["fused", "soft_as_feature"])
def test_a_model_trained_without_the_rules_becomes_onnx_without_them(method):
    found = example("fused")
    candidate = Candidate(method, {"rounds": 8}, without_rules=True)
    [run] = cross_fit(found.table, found.soft_labels, [candidate], TrainConfig(folds=2, threads=1))
    bundle, frame = Bundle.of(run), make_frame(50, seed=5)

    score = run_onnx(export_onnx(bundle, make_frame()).data, onnx_inputs(bundle, frame))

    np.testing.assert_allclose(score, bundle.predict(frame), rtol=0, atol=1e-6)


def test_inputs_are_named_like_the_columns_and_typed():
    session = onnxruntime.InferenceSession(export_onnx(example("lightgbm").bundle, make_frame(50)).data)

    kinds = {value.name: value.type for value in session.get_inputs()}

    assert kinds == {
        "age": "tensor(double)",
        "code": "tensor(string)",
        "when": "tensor(double)",
        "vip": "tensor(double)",
    }


def test_flags_follow_the_threshold_of_the_bundle():
    bundle = example("lightgbm").bundle.with_point(FlagPoint(threshold=0.33, share=0.1))
    frame = make_frame(100, seed=5)
    session = onnxruntime.InferenceSession(export_onnx(bundle, frame).data)

    score, flagged = session.run(["score", "flagged"], onnx_inputs(bundle, frame))

    np.testing.assert_array_equal(flagged.ravel(), score.ravel() > 0.33)
    assert 0 < flagged.sum() < 100


def test_a_translation_that_differs_is_refused_with_its_worst_row(monkeypatch):
    """One missing age is translated wrongly: the row that holds it is named."""
    import spu_core.export.onnx_export as module

    frame = make_frame(60, seed=5).assign(age=lambda f: f["age"].fillna(40.0))
    right = module.input_values

    def wrong(kind, values):
        found = right(kind, values).copy()
        if values.name == "age" and len(values) == 60:
            found[16, 0] = 90.0
        return found

    monkeypatch.setattr(module, "input_values", wrong)
    bundle = example("logistic").bundle
    expected = np.abs(
        bundle.predict(frame) - bundle.predict(frame.assign(age=frame["age"].where(frame.index != 16, 90)))
    )
    with pytest.raises(BundleError, match=rf"by {expected[16]:.3g} in row 17 .*more than 1e-06; it was not written"):
        export_onnx(bundle, frame)


def test_a_column_called_like_an_output_keeps_its_name():
    from spu_core.labels import SoftLabels
    from spu_core.tables import Table

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"score": rng.random(200), "flagged": rng.random(200), "": rng.random(200)})
    frame = frame.rename(columns={"": "a, b [c]"})
    soft_labels = SoftLabels.from_values(frame["score"], rng.random(200) < 0.2)
    [run] = cross_fit(
        Table.from_frame(frame), soft_labels, [Candidate("lightgbm", {"rounds": 5})], TrainConfig(folds=2)
    )

    session = onnxruntime.InferenceSession(export_onnx(Bundle.of(run), frame).data)

    assert {value.name for value in session.get_inputs()} == {"score", "flagged", "a, b [c]"}
    assert [value.name for value in session.get_outputs()] == ["spu_score", "spu_flagged"]


def test_no_rows_to_prove_it_on_is_refused():
    with pytest.raises(BundleError, match="compared on rows, but the table has none"):
        export_onnx(example("lightgbm").bundle, make_frame(20).head(0))


def test_the_stand_alone_script_scores_a_csv_without_this_package(tmp_path):
    bundle = example("lightgbm").bundle
    frame = make_frame(60, seed=5)
    folder = write_folder(bundle, tmp_path / "export", onnx_rows=frame)
    frame.to_csv(tmp_path / "new.csv", index=False)

    # -I: neither the current folder nor PYTHONPATH is searched, and the script's own folder holds no package.
    command = [sys.executable, "-I", "score.py", "model.onnx", str(tmp_path / "new.csv"), str(tmp_path / "out.csv")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)

    assert done.stdout == "60 rows scored\n", done.stderr
    found = pd.read_csv(tmp_path / "out.csv")
    np.testing.assert_allclose(found["score"], bundle.predict(frame), atol=1e-6)
    assert found["id"].tolist() == frame["id"].tolist()
    assert "spu_core" not in (folder / "score.py").read_text()


def test_the_stand_alone_script_reads_cells_as_the_bundle_does():
    assert [standalone.flag(cell) for cell in ("true", "T", " yes", "False", "f", "no", "1", "0.0")] == [
        *[1.0, 1.0, 1.0, 0.0, 0.0, 0.0],
        *[1.0, 0.0],
    ]
    assert np.isnan([standalone.number(" "), standalone.days(""), standalone.flag("")]).all()
    assert standalone.number("-2.5") == -2.5
    assert standalone.days("2024-01-01T12:00") == standalone.days("2024-01-01T13:00+01:00") == 19723.5
    assert [standalone.safe(cell) for cell in ("=1+1", " @a", "-3", "+0.5", "a-b", "-inf")] == [
        *["'=1+1", "' @a", "-3", "+0.5", "a-b", "'-inf"],
    ]


def test_the_stand_alone_script_takes_all_rows_in_pieces_and_names_absent_columns(monkeypatch):
    monkeypatch.setattr(standalone, "CHUNK", 2)

    assert list(standalone.chunks({"row": row} for row in range(4))) == [
        [{"row": 0}, {"row": 1}],
        [{"row": 2}, {"row": 3}],
    ]
    assert [len(chunk) for chunk in standalone.chunks({"row": row} for row in range(5))] == [2, 2, 1]
    with pytest.raises(SystemExit, match="The file lacks the columns: 'b'"):
        standalone.need_columns([{"name": "a"}, {"name": "b"}], ["a", "c"])


def test_the_folder_holds_the_bundle_its_members_and_the_card(tmp_path):
    folder = write_folder(example("lightgbm").bundle, tmp_path / "export")

    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}

    assert {"bundle.spu", "contents/manifest.json", "contents/model/0000.txt", "model_card.md", "README.txt"} <= names
    assert "model.onnx" not in names
    with pytest.raises(BundleError, match="'export' is not an empty folder; choose a new name"):
        write_folder(example("lightgbm").bundle, folder)
