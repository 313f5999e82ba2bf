"""An ONNX model says what the native one says, on real columns with levels, gaps and dates; others refuse in words."""

from __future__ import annotations

import re
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
TRANSLATED = ["lightgbm", "xgboost", "logistic", "neural_net", "soft_bagging", "elkan_noto", "sar_em", "two_stage"]
REFUSED = ["nearest_neighbors", "extra_trees", "rule_score", "soft_as_feature"]


def run_onnx(data: bytes, inputs) -> np.ndarray:
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
    return Bundle.of(run, details=ModelDetails.of(part)), part.frame


@pytest.mark.parametrize("method", ["lightgbm", "xgboost", "logistic", "neural_net"])
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


@pytest.mark.parametrize("method", TRANSLATED)
def test_new_levels_and_gaps_in_every_column_score_alike(method):
    bundle, frame = example(method).bundle, make_frame(200, seed=5)
    data = export_onnx(bundle, frame).data
    hostile = frame.assign(job="never seen")
    for place, name in enumerate(["amount", "age", "job", "code", "when"]):
        hostile.loc[hostile.index % 5 == place, name] = None

    found = run_onnx(data, onnx_inputs(bundle, hostile))

    np.testing.assert_allclose(found, bundle.predict(hostile), rtol=0, atol=1e-6)


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

    assert export_onnx(bundle, frame).worst <= 1e-6


def test_fused_gives_its_refit_and_says_so():
    found = example("fused")
    frame = make_frame(100, seed=5)

    translated = export_onnx(found.bundle, frame)

    refit = found.fitted.model.parts[-1].score_rows(found.fitted.encoder.transform(frame))
    np.testing.assert_allclose(run_onnx(translated.data, onnx_inputs(found.bundle, frame)), refit, atol=1e-6)
    assert "refit of fused alone" in translated.note
    session = onnxruntime.InferenceSession(translated.data)
    assert [output.name for output in session.get_outputs()] == ["score"]


def test_fused_says_how_far_its_refit_is_from_the_bundle_also_in_the_folder(tmp_path):
    found = example("fused")
    frame = make_frame(200, seed=5)
    bundle = found.bundle.with_point(FlagPoint(threshold=0.5, share=0.1))
    whole = bundle.predict(frame)
    alone = found.fitted.model.parts[-1].score_rows(found.fitted.encoder.transform(frame))

    note = export_onnx(bundle, frame).note

    gap = np.abs(whole - alone)
    assert f"On 200 rows they differ by {gap.mean():.3g} on average and by {gap.max():.3g} at most" in note
    assert f"rank correlation is {pd.Series(whole).corr(pd.Series(alone), method='spearman'):.3f}" in note
    threshold, flagged = map(float, re.search(r"scores above (\S+) flag (\S+)% of these rows", note).groups())
    assert 100 * (alone > threshold).mean() == pytest.approx(flagged)
    assert 5 <= flagged <= 10
    folder = write_folder(bundle, tmp_path / "export", onnx_rows=frame)
    for name in ("README.txt", "model_card.md", "model_card.html"):
        text = " ".join((folder / name).read_text(encoding="utf-8").split())
        assert "refit of fused alone" in text
        assert "rank correlation" in text


def test_fused_saved_without_its_rules_says_that_nothing_can_be_compared():
    found = example("fused")
    bundle = Bundle.of(found.run, fitted=found.fitted)

    assert "saved without its rules" in export_onnx(bundle, make_frame(50)).note


@pytest.mark.parametrize("method", REFUSED)
def test_others_refuse_in_words(method):
    with pytest.raises(BundleError, match=r"A model of kind '\w+' cannot become ONNX; boosters, logistic regression"):
        export_onnx(example(method).bundle, make_frame(20))


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
    right = module.column_values

    def wrong(column, values):
        found = right(column, values)
        if column.name == "age":
            found[16, 0] = 90.0
        return found

    monkeypatch.setattr(module, "column_values", wrong)
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
