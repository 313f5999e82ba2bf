"""What is saved comes back: the same scores to the bit, in a fresh process and another locale, for every method."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from spu_core.codec import decode, dump_json, encode
from spu_core.errors import BundleError
from spu_core.export import FlagPoint, ModelDetails, bundle_bytes, load_bundle, save_bundle
from spu_core.export.bundle_parts import RunFacts, row_parts, run_from
from spu_core.models import METHODS
from spu_core.rules import Compare, Rule, RuleSet
from spu_core.training import TrainConfig, cross_fit
from spu_core.training.fitting import TuningReport
from tests.export.examples import example, known, make_frame

TABLE_METHODS = [method for method in METHODS if method != "cnn"]
SCORE_ALL = """
import locale, pathlib, sys
locale.setlocale(locale.LC_ALL, "")
import numpy as np, pandas as pd
from spu_core.export import load_bundle
from spu_core.export.archive import digest
folder = pathlib.Path(sys.argv[1])
frame = pd.read_parquet(folder / "new.parquet")
for path in sorted(folder.glob("*.spu")):
    bundle = load_bundle(path, known_hash=digest(path.read_bytes()))
    bundle.predict(frame).astype("<f8").tofile(path.with_suffix(".scores"))
"""


def decimal_comma(folder) -> dict[str, str]:
    """The environment of a locale that writes 0,5, made for this test; the plain C locale where none can be made."""
    if shutil.which("localedef") is None:
        return {"LC_ALL": "C"}
    command = ["localedef", "-i", "de_DE", "-f", "UTF-8", str(folder / "de_DE.UTF-8")]
    made = subprocess.run(command, capture_output=True, check=False)
    return {"LC_ALL": "C"} if made.returncode else {"LC_ALL": "de_DE.UTF-8", "LOCPATH": str(folder)}


@pytest.fixture(scope="module")
def scored_elsewhere(tmp_path_factory):
    """The scores that a fresh process, with another locale, time zone and hash seed, gives for every method."""
    folder = tmp_path_factory.mktemp("bundles")
    make_frame(300, seed=5)[::-1].to_parquet(folder / "new.parquet")
    for method in TABLE_METHODS:
        save_bundle(example(method).bundle, folder / f"{method}.spu")
    elsewhere = {"TZ": "Asia/Kolkata", "PYTHONHASHSEED": "7", "PYTHONPATH": os.getcwd()}
    other = {**elsewhere, **decimal_comma(folder)}
    command = [sys.executable, "-c", SCORE_ALL, str(folder)]
    subprocess.run(command, env={**os.environ, **other}, check=True, capture_output=True)
    return {method: np.fromfile(folder / f"{method}.scores", dtype="<f8") for method in TABLE_METHODS}


@pytest.mark.parametrize("method", TABLE_METHODS)
def test_a_fresh_process_in_another_locale_scores_as_the_refit_to_the_bit(method, scored_elsewhere):
    expected = example(method).expected(make_frame(300, seed=5)[::-1])

    np.testing.assert_array_equal(scored_elsewhere[method], expected)


@pytest.mark.vision
def test_the_convolutional_network_comes_back_too():
    pytest.importorskip("torch")
    from spu_core.labels import SoftLabels
    from spu_core.tables import Table
    from spu_core.training import Candidate

    rng = np.random.default_rng(0)
    pixels = pd.DataFrame(rng.random((80, 64)), columns=[f"p{place}" for place in range(64)])
    is_labeled = rng.random(80) < 0.3
    soft_labels = SoftLabels.from_values(pixels.mean(axis=1), is_labeled)
    table = Table.from_frame(pixels)
    [run] = cross_fit(table, soft_labels, [Candidate("cnn", {"rounds": 1})], TrainConfig(folds=2))
    fitted = run.fit_all()

    again = known(bundle_bytes(run, fitted=fitted))

    np.testing.assert_array_equal(again.predict(pixels), fitted.score(pixels))


@pytest.mark.parametrize("method", TABLE_METHODS)
def test_saving_what_was_loaded_gives_the_same_bytes(method):
    data = bundle_bytes(example(method).bundle)

    assert bundle_bytes(known(data)) == data


@pytest.mark.parametrize("method", TABLE_METHODS)
def test_no_member_is_a_pickle(method):
    import io
    import pickletools
    import zipfile

    with zipfile.ZipFile(io.BytesIO(bundle_bytes(example(method).bundle))) as archive:
        for name in archive.namelist():
            if name.endswith((".txt", ".ubj", ".json")):
                with pytest.raises(ValueError, match=r"."):
                    list(pickletools.genops(archive.read(name)))


def test_two_trainings_with_the_same_config_differ_only_in_seconds():
    found = example("lightgbm")
    [again] = cross_fit(found.table, found.soft_labels, [found.run.candidate], found.run.config)
    object.__setattr__(again, "seconds", found.run.seconds)

    one = bundle_bytes(found.run, label_rules=found.label_rules)

    assert bundle_bytes(again, label_rules=found.label_rules) == one


def test_a_stored_run_has_its_scores_folds_and_figures():
    found = example("fused")

    run = known(bundle_bytes(found.bundle)).run

    np.testing.assert_array_equal(run.score, found.run.score)
    np.testing.assert_array_equal(run.fold, found.run.fold)
    assert run.metrics == found.run.metrics
    assert run.candidate == found.run.candidate
    assert run.config == found.run.config


def test_a_bundle_without_rows_scores_but_cannot_be_compared():
    found = example("lightgbm")
    lean = known(bundle_bytes(found.run, fitted=found.fitted, keep_rows=False))

    np.testing.assert_array_equal(lean.predict(found.table.frame), found.expected(found.table.frame))
    with pytest.raises(BundleError, match="saved without its training rows, so it cannot be compared"):
        _ = lean.run


def test_a_foreign_bundle_is_tried_in_a_child_and_then_scores(tmp_path):
    found = example("lightgbm")
    path = save_bundle(found.bundle, tmp_path / "a.spu")

    bundle = load_bundle(path)

    np.testing.assert_array_equal(bundle.predict(found.table.frame), found.expected(found.table.frame))


def test_words_threshold_and_versions_travel():
    found = example("lightgbm")
    words = ModelDetails(purpose="find cheats", licence="internal", contact="risk@example.org", history=("first",))
    point = FlagPoint.at_threshold(found.run, 0.3)

    bundle = known(bundle_bytes(found.run, fitted=found.fitted, details=words, point=point))

    assert bundle.details == words
    assert bundle.point == point
    assert bundle.facts.versions["spu-studio"]


def test_the_fingerprint_of_the_training_table_travels():
    found = example("lightgbm")

    assert known(bundle_bytes(found.bundle)).details.fingerprint == found.table.fingerprint


def test_the_default_point_spends_the_review_budget_out_of_fold():
    found = example("fused")

    point = found.bundle.point

    judged = found.run.score[found.run.evaluation.judged]
    assert point.share == pytest.approx((judged > point.threshold).mean())
    assert point.share <= 0.02


@pytest.mark.parametrize(("share", "expected"), [(0.0, np.inf), (1.0, -np.inf)])
def test_a_threshold_that_flags_nothing_or_everything_survives(share, expected):
    point = FlagPoint(threshold=expected, share=share)

    assert FlagPoint.from_dict(point.to_dict()) == point


def test_a_threshold_knows_the_share_that_it_flags_out_of_fold_and_who_chose_it():
    run = example("lightgbm").run
    judged = run.score[run.evaluation.judged]
    point, all_rows = FlagPoint.at_threshold(run, 0.3), FlagPoint.at_budget(run, 10**9)

    assert 0 < point.share < 1
    assert point.share == pytest.approx((judged > 0.3).mean())
    assert (all_rows.share, all_rows.chosen_by) == (1.0, "a review budget of 1,000,000,000 rows")
    assert FlagPoint.from_dict(all_rows.to_dict()) == all_rows


def test_tied_highest_scores_are_flagged_together_instead_of_nobody():
    run = example("lightgbm").run
    score = np.where(np.arange(run.score.size) % 3 == 0, 0.9, 0.1)
    point = FlagPoint.at_budget(replace(run, score=score), 0.02)

    assert np.isfinite(point.threshold)
    assert point.share == pytest.approx((score[run.evaluation.judged] > 0.5).mean())
    assert point.flags(score).sum() == (score > 0.5).sum()
    assert "highest scores are equal" in point.chosen_by
    assert FlagPoint.at_budget(replace(run, score=score), 0).share == 0.0


@pytest.mark.parametrize("value", [0.75, np.nan])
def test_a_search_for_settings_comes_back_with_its_trials(value):
    report = TuningReport({"rounds": 30}, value, "auc_spu", (({"rounds": 30}, 0.75), ({"rounds": 9}, None)), True)

    again = decode(TuningReport, json.loads(dump_json(encode(report))), "tuning")

    assert (again.settings, again.trials, again.objective, again.is_cut) == (
        report.settings,
        report.trials,
        "auc_spu",
        True,
    )
    assert again.value == pytest.approx(value, nan_ok=True)


def test_a_run_comes_back_with_its_level_its_curve_and_its_gaps():
    run = example("lightgbm").run
    changed = replace(run, config=replace(run.config, level=0.8), learning_curve=((0.5, np.nan), (0.4,)), rounds=(2, 1))
    facts = RunFacts.from_dict(json.loads(json.dumps(RunFacts.of(changed).to_dict())))

    again = run_from(facts, run.candidate, row_parts(run))

    assert again.evaluation.level == again.metrics.auc_spu.level == 0.8
    np.testing.assert_equal(again.learning_curve, ((0.5, np.nan), (0.4,)))
    assert again.rounds == (2, 1)
    with pytest.raises(BundleError, match=r"selections\[0\] must be an object"):
        RunFacts.from_dict(facts.to_dict() | {"selections": ["none"]})


def test_rules_of_another_table_are_refused():
    found = example("lightgbm")
    from spu_core.export import LabelRules

    others = RuleSet((Rule("old", 0.5, Compare("age", ">", 60)),)).fit(found.table)
    with pytest.raises(BundleError, match=r"The given rules read \['age'\], but 'lightgbm' was trained with"):
        bundle_bytes(found.run, label_rules=LabelRules(rules=others))


def test_a_model_that_reads_the_rules_says_so_when_they_were_left_out():
    found = example("fused")
    bundle = known(bundle_bytes(found.run, fitted=found.fitted))

    with pytest.raises(BundleError, match="depends on the rules, but the bundle was saved without them"):
        bundle.predict(found.table.frame)
    given = bundle.predict(found.table.frame, rule_score=found.soft_labels.rule_score)
    np.testing.assert_array_equal(given, found.expected(found.table.frame))


def test_nearest_neighbours_admit_that_they_keep_training_rows():
    assert example("nearest_neighbors").bundle.keeps_training_rows
    assert not example("lightgbm").bundle.keeps_training_rows


def test_a_bundle_is_written_whole_or_not_at_all(tmp_path):
    target = tmp_path / "missing" / "a.spu"

    with pytest.raises(BundleError, match=r"'a.spu' cannot be written: No such file or directory"):
        save_bundle(example("lightgbm").bundle, target)
    assert list(tmp_path.iterdir()) == []


def test_a_bundle_knows_the_plan_that_trains_it_again():
    found = example("lightgbm")

    plan = known(bundle_bytes(found.bundle)).plan

    assert plan.config == found.run.config
    assert plan.candidates == (found.run.candidate,)


def test_a_workspace_stores_a_run_as_a_bundle_and_reads_it_without_a_trial(tmp_path):
    from spu_core.export.archive import digest
    from spu_core.workspace import RunDraft, Workspace

    found = example("lightgbm")
    workspace = Workspace.open(tmp_path / "space")
    dataset = workspace.datasets.save(found.table)
    draft = RunDraft(name="run", dataset=dataset.id, candidate=found.run.candidate.to_dict())

    record = workspace.runs.save(draft, lambda path: save_bundle(found.bundle, path))

    path = workspace.runs.path(record.id)
    again = load_bundle(path, known_hash=digest(path.read_bytes()))
    np.testing.assert_array_equal(again.predict(found.table.frame), found.expected(found.table.frame))


def test_signs_of_selected_labels_that_earlier_versions_recorded_are_kept():
    facts = RunFacts.of(example("lightgbm").bundle.run).to_dict()
    recorded = {**facts, "selections": [{"label_auc": 0.93, "rule_auc": 0.74, "labels": 40}]}

    assert RunFacts.from_dict(recorded).to_dict() == recorded
    before = {name: value for name, value in facts.items() if name != "selections"}
    assert RunFacts.from_dict(before).to_dict() == facts


def test_the_duration_of_a_training_is_not_stored_but_read_from_earlier_versions():
    facts = RunFacts.of(replace(example("lightgbm").bundle.run, seconds=3.5)).to_dict()

    assert "seconds" not in facts
    assert RunFacts.from_dict({**facts, "seconds": 3.5}).seconds == 3.5
