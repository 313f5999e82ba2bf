"""Small faults of the export that other tests did not notice; each was found by breaking the code at random."""

from __future__ import annotations

import io
import json
import runpy
import sys
import zipfile
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from spu_core.errors import BundleError, TableError
from spu_core.export import FlagPoint, ModelDetails, bundle_parts, bundle_storage, report, standalone, trial_child
from spu_core.export.archive import BundleLimits, _plain, unpack_archive
from spu_core.export.bundle import FIRST_PASS, ScoreWork
from spu_core.export.bundle_parts import LONGEST_TEXT, _compared_values, _known_values, _limited, input_kind
from spu_core.export.bundle_storage import _environment
from spu_core.export.drift import (
    LEVELS,
    ColumnDrift,
    DriftCounter,
    TrainingProfile,
    number_profile,
    score_drift,
    value_text,
)
from spu_core.export.manifest import pack_array, unpack_array
from spu_core.export.model_checks import _check, _check_range, _check_xgboost
from spu_core.export.monitoring import _line
from spu_core.export.onnx_graph import Graph
from spu_core.export.onnx_rules import _number_of
from spu_core.export.row_files import RowSource, _last_record_end, open_rows
from spu_core.export.score_report import ScoreReport, Scoring, _usual, contributions
from spu_core.models.columns import Column, Family
from spu_core.rules import Compare, Rule, RuleSet
from spu_core.rules.beliefs import FrozenReadyMade, FrozenRecords
from spu_core.rules.columns import Kind
from tests.export.examples import example, make_frame
from tests.export.hostile import good, members_of, resealed


def drift_of(**changes) -> ColumnDrift:
    return ColumnDrift(
        **{"name": "a", "moved": 0.0, "noise": 0.0, "missing_before": 0.0, "missing_now": 0.0, **changes}
    )


def test_a_small_share_of_flags_that_doubles_differs_from_training():
    drift = SimpleNamespace(is_judged=True, has_equal_columns=False)
    found = ScoreReport(
        rows=10_000, flagged=400, threshold=0.5, training_share=0.02, flag_by="threshold", columns=None, drift=drift
    )

    assert found.flags_differ


def test_drift_is_measured_beyond_chance_and_from_the_largest_change():
    assert "has moved somewhat" in drift_of(moved=0.3, noise=0.1).summary
    assert "1.0% of the rows" in drift_of(unseen=0.01).summary
    assert drift_of(moved=0.5, noise=0.1).excess == pytest.approx(0.4)


def test_scores_move_by_the_mean_distance_of_inner_quantiles_up_to_one():
    before = number_profile("score", np.arange(1000) / 1000, 0.0)
    old, spread = np.array(before.quantiles), before.quantiles[-2] - before.quantiles[1]
    new = np.sort(np.append(np.arange(1, 1000) / 1000, -5.0))
    at = new[np.ceil(LEVELS * 1000).astype(int).clip(1) - 1]

    assert score_drift(before, new).moved == pytest.approx(np.abs(at - old)[1:-1].mean() / spread)
    assert score_drift(before, np.arange(1000) + 9.0).moved == 1.0


def drift_of_numbers(before: list[float], now: list[float]) -> ColumnDrift:
    """The drift of one column of numbers."""
    profile = TrainingProfile(
        columns=(number_profile("a", np.array(before), 0.0),), score=number_profile("score", np.zeros(1), 0.0), rows=9
    )
    counter = DriftCounter(profile, SimpleNamespace(columns=[Column("a", Family.NUMBER)]))
    counter.add(np.array(now, dtype=np.float32)[:, None], np.array([0]))
    return counter.columns(np.array([0]))[0]


def test_a_median_at_the_lowest_of_three_values_is_a_limit_and_numbers_have_no_unknown_category():
    three = drift_of_numbers([1.0, 2.0, 3.0] * 7, [0.0] * 9)
    two = drift_of_numbers([0.0, 1.0] * 7, [0.0] * 9)

    assert (three.middle_before, three.middle_now, two.middle_now) == ("2", "1 or less", "0")
    assert three.unseen == three.unseen_before == 0.0


def test_values_are_written_in_terms_of_the_table():
    job = Column("job", Family.TEXT, is_category=True, levels=("clerk", "pilot"))

    assert value_text(job, 1.0) == "clerk"
    assert value_text(Column("amount", Family.NUMBER), 2_000_000.0) == "2000000"


def test_the_history_has_the_low_score_and_the_column_that_lost_most_values():
    columns = (drift_of(name="old", missing_before=0.8, missing_now=0.8), drift_of(name="new", missing_now=0.3))
    score = SimpleNamespace(quantiles_now=(0.1, 0.2, 0.3, 0.4, 0.5), middle_now=0.3)
    scored = SimpleNamespace(
        drift=SimpleNamespace(score=score, columns=columns), level="watch", rows=9, flag_rate=0.1, training_share=0.1
    )
    found = _line(SimpleNamespace(report=scored, made=None, name="new.csv"))

    assert (found["score_low"], found["score_high"], found["missing"]) == (0.1, 0.5, "new 30.0%")

    score.quantiles_now = ()  # a report of an earlier version
    assert np.isnan(_line(SimpleNamespace(report=scored, made=None, name="old.csv"))["score_low"])


def test_an_explanation_starts_from_the_row_of_usual_values():
    bundle, frame = example("logistic").bundle, make_frame(20, seed=3)
    found = contributions(bundle.fitted.model, bundle.features(frame), None, bundle.profile)
    at = [column.name for column in bundle.profile.columns].index("amount")

    assert np.isfinite(found.start)
    assert _usual(bundle.profile, at) == bundle.profile.columns[at].quantiles[10]


def test_self_test_rows_hold_every_second_quantile_from_the_median_and_both_flags():
    summary = number_profile("x", np.arange(21.0), 0.0)
    values = _known_values("number", Column("x", Family.NUMBER), summary)
    flags = next(each.values for each in example("fused").bundle.self_test.columns if each.kind == "flag")

    assert values == np.roll(summary.quantiles, -10)[::2].tolist()
    assert flags[2:4] == (1.0, 0.0)


def test_a_ready_made_belief_is_missing_in_the_second_row_of_the_self_test():
    rules = SimpleNamespace(rules=SimpleNamespace(beliefs=[FrozenReadyMade("belief")]))
    [(name, values)] = _limited(rules)

    assert (name, values[0], values[1], values[2], values[-1]) == ("belief", 0.0, None, 2 / 19, 1.0)


def test_records_of_checks_in_the_self_test_have_as_many_checks_as_their_row_and_half_as_many_passes():
    rules = SimpleNamespace(rules=SimpleNamespace(beliefs=[FrozenRecords("checks", "passes", (0.5,), (1.0,))]))
    found = dict(_limited(rules))

    assert found["checks"][:4] == (0.0, None, 2.0, 3.0)
    assert found["passes"][:4] == (0.0, 0.0, None, 1.0)


def test_the_self_test_holds_the_numbers_that_rules_compare_with():
    rules = RuleSet((Rule("big", 0.5, Compare("amount", ">", 7)), Rule("other", 0.5, Compare("age", ">", 9))))

    assert list(_compared_values("number", "amount", SimpleNamespace(rules=rules))) == [7.0]


@pytest.mark.parametrize("method", ["lightgbm", "xgboost"])
def test_every_column_of_a_tree_model_has_a_contribution_and_they_sum_to_the_log_odds(method):
    bundle, frame = example(method).bundle, make_frame(20, seed=3)
    found = contributions(bundle.fitted.model, bundle.features(frame), None, bundle.profile)
    score = bundle.predict(frame)

    assert found.value.shape == (20, found.places.size)
    np.testing.assert_allclose(found.start + found.value.sum(axis=1), np.log(score / (1 - score)), atol=1e-5)


@pytest.mark.parametrize(
    ("column", "rule_kind", "kind"),
    [
        (Column("x", Family.EMPTY), Kind.TEXT, "text"),
        (Column("x", Family.TEXT), Kind.DATE, "text"),
        (Column("x", Family.EMPTY), None, "number"),
    ],
)
def test_the_rules_decide_the_kind_of_an_empty_column(column, rule_kind, kind):
    assert input_kind(column, rule_kind) == kind


def test_the_levels_of_a_flag_are_numbers_in_onnx():
    assert [_number_of(level, "flag") for level in ("False", "True")] == [0.0, 1.0]
    assert np.isnan(_number_of("True", "number"))


def test_the_mean_of_one_value_and_zeros_are_values_of_the_graph():
    graph = Graph()

    assert graph.mean(["a"]) == graph.nodes[-1].output[0]
    assert graph.zeros(("a", "number")) == graph.nodes[-1].output[0]


def test_members_of_a_bundle_have_a_fixed_date_and_may_reach_the_limit():
    with zipfile.ZipFile(io.BytesIO(good())) as archive:
        entries = archive.infolist()
    size = sum(entry.file_size for entry in entries)

    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}
    assert unpack_archive(good(), BundleLimits(expanded_bytes=size)) == members_of(good())
    with pytest.raises(BundleError):
        unpack_archive(good(), BundleLimits(expanded_bytes=size - 1))


def test_a_bundle_may_grow_freely_up_to_its_limit():
    size = sum(map(len, members_of(good()).values()))

    assert unpack_archive(good(), BundleLimits(expansion=1, expansion_free=size)) == members_of(good())
    with pytest.raises(BundleError, match="decompression bomb"):
        unpack_archive(good(), BundleLimits(expansion=1, expansion_free=size - 1))


def test_the_reason_of_a_damaged_member_is_its_text_or_else_its_name():
    assert _plain(OSError("no\n  space.")) == "no space"
    assert _plain(EOFError()) == "EOFError"


def test_texts_are_no_array_of_a_bundle():
    with pytest.raises(BundleError, match="'names' holds <U1 values; a bundle keeps numbers and flags only"):
        pack_array(np.array(["a"]), "names")


@pytest.mark.parametrize("shape", [[2, -1], [1, True], [1, 2.0]])
def test_a_shape_with_one_wrong_size_is_refused(shape):
    with pytest.raises(BundleError, match="which a bundle cannot have"):
        unpack_array({"dtype": "<f8", "shape": shape}, bytes(16), "An array")


def test_a_profile_of_other_columns_is_refused():
    members = members_of(good())
    profile = json.loads(members["profile.json"])
    profile["columns"][0]["name"] = "other"
    data = resealed({**members, "profile.json": json.dumps(profile).encode()})

    with pytest.raises(BundleError, match="describe different columns"):
        bundle_storage.bundle_of(*bundle_storage.open_members(data, BundleLimits()))


def test_numbers_out_of_range_are_refused_on_both_sides():
    _check_range(np.array([0, 2]), 3, "wrong")
    for values in ([0, 3], [-1, 2]):
        with pytest.raises(ValueError, match="wrong"):
            _check_range(np.array(values), 3, "wrong")


def test_a_model_may_be_nested_four_times():
    def nested(depth: int) -> dict:
        return {"parts": [nested(depth - 1)]} if depth else {}

    _check(nested(4), "", {}, {}, 0)
    with pytest.raises(BundleError, match="nested too deeply"):
        _check(nested(5), "", {}, {}, 0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tree_param": {"size_leaf_vector": "5"}}, "another output than the score"),
        ({"split_indices": [-1, 0, 0, 0, 0]}, "points outside itself"),
        ({"split_indices": [7, 0, 0, 0, 0]}, "points outside itself"),
    ],
)
def test_one_wrong_xgboost_tree_or_column_of_several_is_refused(change, words):
    tree = {
        "tree_param": {"size_leaf_vector": "1"},
        "left_children": [1, 3, -1, -1, -1],
        "right_children": [2, 4, -1, -1, -1],
        "split_indices": [0, 1, 0, 0, 0],
    }

    def model(*trees: dict) -> dict:
        found = {"tree_info": [0, 0], "trees": list(trees), "iteration_indptr": [0, 1, 2]}
        return {"learner": {"gradient_booster": {"model": found}}}

    _check_xgboost(model(tree, tree), 2)
    with pytest.raises(BundleError, match=words):
        _check_xgboost(model(tree, tree | change), 2)


@pytest.mark.parametrize("is_foreign", [True, False])
def test_loaded_trees_are_checked_where_the_bundle_is_from_elsewhere(monkeypatch, is_foreign):
    checked = []
    monkeypatch.setattr(bundle_storage, "check_loaded", checked.append)
    bundle_storage.bundle_of(*bundle_storage.open_members(good(), BundleLimits()), is_foreign=is_foreign)

    assert len(checked) == is_foreign


def test_the_child_reads_its_arguments_and_takes_the_bundle_for_foreign(monkeypatch):
    seen = {}
    monkeypatch.setattr(sys, "argv", ["trial_child.py", "7", "1000", "{}"])
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(good())))
    monkeypatch.setattr(trial_child, "_set_limits", lambda *limits: seen.update(limits=limits))
    monkeypatch.setattr(trial_child, "_report", lambda found: seen.update(found=found))
    monkeypatch.setattr(trial_child, "_score", lambda bundle: bundle)
    monkeypatch.setattr(trial_child, "bundle_of", lambda *_, is_foreign=False: is_foreign)
    trial_child.main()

    assert seen == {"limits": (7, 1000), "found": {"report": True}}


def test_the_child_finds_the_same_packages():
    assert _environment()["PYTHONPATH"].split(":") == [path for path in sys.path if path]


def test_texts_of_a_model_have_a_longest_length():
    assert ModelDetails(purpose="x" * LONGEST_TEXT).purpose
    for name in ("purpose", "id_column"):
        with pytest.raises(BundleError, match=f"{name} must be text"):
            ModelDetails(**{name: "x" * (LONGEST_TEXT + 1)})


def test_a_share_above_one_by_rounding_is_one(monkeypatch):
    point = SimpleNamespace(flagged_share=1.0 + 1e-12)
    monkeypatch.setattr(bundle_parts, "_curve", lambda run: SimpleNamespace(at_threshold=lambda threshold: point))

    assert FlagPoint.at_threshold(None, 0.0).share == 1.0


def test_a_damaged_parquet_file_is_refused_in_words():
    with pytest.raises(TableError, match="The parquet file is damaged"):
        open_rows(io.BytesIO(b"PAR1" + b"x" * 60 + b"PAR1"))


def test_without_quotes_a_record_ends_at_the_last_line_end():
    assert _last_record_end(b"a\nb", "") == 2


def test_all_pieces_of_a_file_are_read_in_the_dialect_of_its_start():
    text = "a;b\n" + "1,5;x\n" * 200 + "2,5;y,z\n" * 200
    found = pd.concat(open_rows(io.BytesIO(text.encode()), piece_bytes=600).chunks())

    assert found["a"].tolist() == [1.5] * 200 + [2.5] * 200
    assert found["b"].tolist() == ["x"] * 200 + ["y,z"] * 200


def test_a_file_of_text_tells_roughly_how_many_rows_it_has():
    text = "a,b\n" + "1,2\n" * 500_000  # longer than the part that is read first

    assert open_rows(io.BytesIO(text.encode())).about == pytest.approx(500_000, rel=0.01)


def test_rows_of_another_kind_are_refused_before_they_are_encoded():
    with pytest.raises(TableError, match=r"^The table does not fit the model\. Column 'amount' was number"):
        example("fused").bundle.predict(make_frame(40).assign(amount="much"))


def test_progress_grows_with_the_rows():
    frame, seen = make_frame(100, seed=5), []
    source = RowSource(tuple(frame.columns), lambda: (frame.iloc[at : at + 25] for at in range(0, 100, 25)), 100)
    with ScoreWork(example("fused").bundle, source, Scoring(), lambda found: seen.append(found.share)) as work:
        assert work.total == 100

    assert seen == pytest.approx([FIRST_PASS * part for part in (0.25, 0.5, 0.75, 1.0)])


def test_a_file_that_grows_while_it_is_scored_is_refused():
    sizes = iter([50, 60])
    frame = make_frame(60, seed=5)
    source = RowSource(tuple(frame.columns), lambda: iter([frame.head(next(sizes))]), 50)
    with ScoreWork(example("fused").bundle, source, Scoring()) as work, pytest.raises(TableError, match="file changed"):
        list(work.tables())


def test_a_file_of_scores_holds_no_formula_unless_raw_is_asked_for(tmp_path):
    frame = make_frame(40, seed=5).assign(id="=1+1")
    for raw, text in ((None, "'=1+1"), (True, "=1+1")):
        options = {} if raw is None else {"raw": raw}
        example("fused").bundle.score_file(frame, tmp_path / "scores.csv", **options)
        assert pd.read_csv(tmp_path / "scores.csv", quotechar='"')["id"][0] == text


def test_scores_up_to_one_have_a_calibration_chart():
    run = example("lightgbm").run
    evaluation = run.evaluation
    score = np.linspace(0.0, 1.0, evaluation.judged.size)

    for factor, charts in ((1.0, 2), (1.1, 1)):
        changed = SimpleNamespace(evaluation=evaluation, need_score=lambda f=factor: f * score, name="a")
        assert len(list(report._scores(changed))) == charts


def test_the_review_chart_of_the_report_shows_the_budget(monkeypatch):
    run, seen = example("lightgbm").run, []
    monkeypatch.setattr(report, "gains_chart", lambda gains, budget: seen.append(budget))
    monkeypatch.setattr(report, "_chart", lambda figure: figure)
    report._gains([run])

    budget = run.config.review_budget
    assert seen == [budget / run.evaluation.judged.sum() if isinstance(budget, int) else budget]


def test_the_script_explains_itself_or_scores(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["standalone.py"])
    with pytest.raises(SystemExit, match=r"(?i)onnx"):
        runpy.run_path(standalone.__file__, run_name="__main__")

    monkeypatch.setattr(sys, "argv", ["standalone.py", str(tmp_path / "no.onnx"), "rows.csv", "scores.csv"])
    with pytest.raises((SystemExit, OSError), match=r"no\.onnx"):
        runpy.run_path(standalone.__file__, run_name="__main__")


def test_a_version_of_a_preview_can_be_compared():
    assert standalone.version("1.20.0rc1") == (1, 20)
