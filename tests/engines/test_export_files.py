"""Files of stored runs: made once, kept, found again while nothing has changed; and what comes from elsewhere."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from spu_core.engines import Job, run_in_process
from spu_core.engines.export_files import (
    EXPORT_FORMS,
    NO_RULES,
    OTHER_FOLDS,
    ExportTexts,
    StoredModel,
    made_before,
    prepare,
    refusal,
)
from spu_core.engines.jobs.score import score_upload
from spu_core.engines.stored_runs import keep_as_run, keep_rules, kept_before, refusal_to_keep
from spu_core.engines.study import Study
from spu_core.errors import BundleError, WorkspaceError
from spu_core.export import ModelDetails, Scoring, bundle_bytes
from spu_core.rules import RuleSet
from spu_core.tables.samples import load_sample, load_sample_rules
from spu_core.training import Candidate, TrainConfig, TrainPlan
from spu_core.workspace import Threshold, Workspace
from tests.export.examples import known

LEFT_OUT = "mean_radius"


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Two runs under rules, the second on the folds of the first, and one without rules."""
    with Workspace.open(tmp_path_factory.mktemp("home")) as workspace:
        dataset = workspace.datasets.save(load_sample("breast_cancer"), "cells")
        rules = workspace.rule_sets.create("rules", load_sample_rules("breast_cancer"))
        other = workspace.rule_sets.create("other", rules.text.replace('"at_end": 0.8', '"at_end": 0.3'))
        for name, rule_set in (("first", rules), ("second", other), ("third", None)):
            method = "logistic" if rule_set else "labeled_vs_rest"
            candidate = Candidate(method, {} if rule_set else {"learner": "nearest_neighbors"}, name=name)
            parameters = {
                "dataset": dataset.id,
                "rule_set": rule_set and rule_set.id,
                "rule_set_version": rule_set and rule_set.number,
                "plan": TrainPlan(TrainConfig(folds=2, threads=1), (candidate,)).to_json(),
                "refine": False,
                "left_out": [LEFT_OUT],
            }
            done = run_in_process(workspace, Job(kind="train", parameters=parameters))
            assert done.status == "finished", done.error
        yield workspace


def model(workspace, name, **words):
    record = next(run for run in workspace.runs.list() if run.name == name)
    return StoredModel(workspace, record, workspace.datasets.load(record.dataset), ExportTexts(**words))


def test_a_file_is_made_once_and_found_again_until_something_changes(stored):
    first = prepare(model(stored, "first"), "bundle")
    assert prepare(model(stored, "first"), "bundle").id == first.id

    stored.thresholds.save(first.run, Threshold("5 %", 0.6, 0.05))
    assert made_before(model(stored, "first"), "bundle") is None
    second = prepare(model(stored, "first", purpose="to learn"), "bundle")
    assert [record.id for record in stored.exports.list(first.run) if record.format == "bundle"] == [second.id]
    assert ExportTexts.last_used(stored, first.run) == ExportTexts(purpose="to learn")

    bundle = known(stored.exports.path(second.id))
    assert (bundle.point.threshold, bundle.details.purpose) == (0.6, "to learn")
    assert bundle.details.fingerprint == stored.datasets.list()[0].fingerprint


def test_a_run_is_compared_only_with_those_under_the_same_rules(stored):
    second = model(stored, "second")

    assert second.compared == (second.record.id,)
    assert [run.name for run in second.comparison.runs] == ["second"]


def test_an_unknown_form_is_refused_by_name(stored):
    with pytest.raises(WorkspaceError, match=r"form must be one of .*got 'pickle'"):
        prepare(model(stored, "first"), "pickle")


def test_the_study_trains_the_same_scores_again(stored):
    exported = model(stored, "first")
    made = EXPORT_FORMS["study"].make(exported)
    study = Study.from_json(made.data)
    table = study.prepare(exported.table)

    assert made.note == ""
    assert LEFT_OUT not in table.features
    [(run, _)] = list(study.run(table))
    np.testing.assert_array_equal(run.score, exported.bundle.run.score)


def test_a_study_on_borrowed_folds_says_so(stored):
    assert EXPORT_FORMS["study"].make(model(stored, "second")).note == OTHER_FOLDS


def test_training_rows_carry_out_of_fold_scores_and_stay_in_order(stored):
    exported = model(stored, "first")
    rows = exported.scored_rows()

    np.testing.assert_array_equal(rows["out_of_fold_score"], exported.bundle.run.score)
    np.testing.assert_array_equal(rows["confirmed_positive"], exported.table.is_labeled)
    assert rows.loc[rows["rank"] == 1, "out_of_fold_score"].iloc[0] == rows["out_of_fold_score"].max()
    assert pd.read_csv(io.BytesIO(EXPORT_FORMS["scores_csv"].make(exported).data)).shape == rows.shape
    assert pd.read_parquet(io.BytesIO(EXPORT_FORMS["scores_parquet"].make(exported).data)).shape == rows.shape


def test_what_cannot_be_made_is_said_before_and_refused_after(stored):
    without = model(stored, "third")

    assert refusal(without, "rules") == NO_RULES
    with pytest.raises(BundleError, match="trained without rules"):
        EXPORT_FORMS["rules"].make(without)
    assert "cannot become ONNX" in str(refusal(without, "onnx"))
    assert refusal(without, "bundle") is None
    assert without.bundle.keeps_training_rows


def test_the_folder_goes_without_onnx_where_it_must(stored):
    made = EXPORT_FORMS["folder"].make(model(stored, "third", keep_rows=False))
    with zipfile.ZipFile(io.BytesIO(made.data)) as archive:
        names = archive.namelist()
        bundle = known(archive.read("bundle.spu"))

    assert made.note.startswith("Without an ONNX model.")
    assert "model_card.md" in names
    assert "model.onnx" not in names
    assert not bundle.rows


@pytest.mark.parametrize(
    ("form", "title"), [("card_md", "Model card: first"), ("card_html", "Model card: first"), ("report", "cells")]
)
def test_documents_are_called_after_the_run_or_the_table(stored, form, title):
    text = EXPORT_FORMS[form].make(model(stored, "first", purpose="To find <b>cells</b>.")).data.decode()

    assert title in text[:400] + text[text.find("<title>") :][:400]


def test_a_bundle_of_the_same_table_becomes_one_run(stored, tmp_path):
    data = bundle_bytes(model(stored, "first").bundle)
    with Workspace.open(tmp_path) as elsewhere:
        dataset = elsewhere.datasets.save(load_sample("breast_cancer"), "the same cells")
        bundle = known(data)
        run = keep_as_run(elsewhere, dataset, bundle, data)

        assert keep_as_run(elsewhere, dataset, bundle, data).id == run.id
        assert kept_before(elsewhere, dataset, data).id == run.id
        assert len(elsewhere.rule_sets.list()) == 1
        table = elsewhere.datasets.load(dataset.id)
        again = StoredModel(elsewhere, run, table)
        np.testing.assert_array_equal(again.bundle.run.score, bundle.run.score)
        assert again.comparison.runs[0].name == "first"
        assert again.bundle.point.threshold == bundle.point.threshold


def test_a_bundle_of_other_rows_or_none_is_not_kept(stored, tmp_path):
    bundle = model(stored, "first").bundle
    dataset = stored.datasets.list()[0]
    foreign = bundle.with_details(ModelDetails(fingerprint="0" * 64))

    assert "fingerprints differ" in str(refusal_to_keep(foreign, dataset))
    assert "without its training rows" in str(refusal_to_keep(bundle.without_rows(), dataset))
    with pytest.raises(WorkspaceError, match="was not trained on 'cells'"):
        keep_as_run(stored, dataset, foreign, b"")


def test_rules_that_say_the_same_are_not_kept_twice(stored):
    rules = RuleSet.from_json(load_sample_rules("breast_cancer"))
    before = len(stored.rule_sets.list())

    assert keep_rules(stored, "again", rules).name == "rules"
    assert keep_rules(stored, "fewer", replace(rules, rules=rules.rules[:1])).name == "fewer"
    assert len(stored.rule_sets.list()) == before + 1


def test_scored_files_leave_safe_raw_or_as_parquet_and_clean_up(stored):
    bundle = model(stored, "first").bundle.with_details(ModelDetails(id_column="who"))
    frame = load_sample("breast_cancer").frame.head(40).assign(who=["=1+1", *map(str, range(39))])
    scored = score_upload(bundle, io.BytesIO(frame.to_csv(index=False).encode()), Scoring(flag_by="share"))
    expected = bundle.score(frame, Scoring(flag_by="share")).frame

    assert "'=1+1" in scored.to_bytes("csv").decode()
    assert "\n'=1+1" not in scored.to_bytes("raw_csv").decode()
    np.testing.assert_array_equal(pd.read_parquet(io.BytesIO(scored.to_bytes("parquet")))["score"], expected["score"])
    assert scored.best(5)["rank"].tolist() == sorted(expected["rank"])[:5]
    with pytest.raises(BundleError, match="form must be one of"):
        scored.to_bytes("xls")
    folder = Path(scored.folder.name)
    del scored
    assert not folder.exists()


def test_a_file_that_cannot_be_scored_leaves_nothing_behind(stored, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(Exception, match="lacks"):
        score_upload(model(stored, "first").bundle, io.BytesIO(b"a,b\n1,2\n"))
    assert json.dumps([path.name for path in tmp_path.iterdir()]) == "[]"
