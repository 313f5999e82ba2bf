"""Scoring keeps the frozen schema, says what it ignored, and gives the same for frames, files and pieces of files."""

from __future__ import annotations

import gzip
import io
import json
import re
import weakref
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from spu_core.errors import BundleError, TableError
from spu_core.export import Bundle, FlagPoint, Scoring, row_files
from spu_core.export.bundle import ScoreWork
from spu_core.export.bundle_parts import share_threshold
from spu_core.export.drift import (
    ColumnDrift,
    ColumnSummary,
    DriftCounter,
    TrainingProfile,
    code_shares,
    number_profile,
    score_drift,
)
from spu_core.export.row_files import RowSource, open_rows
from spu_core.export.score_report import SEEN_BEFORE, ScoreReport
from spu_core.labels import soft_labels_for
from spu_core.rules import RuleSet
from spu_core.tables import read_table
from spu_core.training import TrainConfig, cross_fit
from tests.export.examples import example, make_frame


@pytest.fixture
def bundle():
    return example("fused").bundle


def rank_by_counting(score):
    """One more than the number of rows with a higher score."""
    return np.array([1 + (score > own).sum() for own in score])


def test_scores_equal_the_refit_to_the_bit_whatever_the_order_of_columns_and_rows(bundle):
    frame = make_frame(150, seed=5)
    shuffled = frame.sample(frac=1, random_state=0)[frame.columns[::-1]]

    expected = pd.Series(example("fused").expected(frame), index=frame.index)

    np.testing.assert_array_equal(bundle.score(frame).frame["score"], expected)
    np.testing.assert_array_equal(bundle.predict(shuffled), expected.loc[shuffled.index])


def test_the_table_has_id_score_flag_rank_percentile_reasons_and_rules(bundle):
    frame = make_frame(150, seed=5)

    found = bundle.with_point(FlagPoint(threshold=0.8, share=0.05)).score(frame).frame

    columns = ["id", "score", "flagged", "rank", "percentile", "reason_1", "reason_2", "reason_3", "rules"]
    assert found.columns.tolist() == columns
    assert found["id"].tolist() == frame["id"].tolist()
    np.testing.assert_array_equal(found["flagged"], found["score"] > 0.8)
    np.testing.assert_array_equal(found["rank"], rank_by_counting(found["score"].to_numpy()))
    assert found["percentile"].max() == 100.0
    assert (found.loc[~found["flagged"], "reason_1"] == "").all()
    assert found.loc[found["flagged"], "reason_1"].str.match(r"(\w+ = .+|rules? .+) \(\+[\d.e-]+\)").all()


def test_the_rules_that_fired_are_named(bundle):
    frame = make_frame(50, seed=6)
    big, cook = frame["amount"] > 1.5, frame["job"] == "cook"

    found = bundle.score(frame).frame["rules"]

    expected = [
        "; ".join(n for n, on in (("big amount", b), ("cook", c)) if on) for b, c in zip(big, cook, strict=True)
    ]
    assert found.tolist() == expected


def test_a_reason_names_the_rules_that_fired(bundle):
    everything = bundle.with_point(FlagPoint(threshold=-np.inf, share=1.0))
    found = everything.score(make_frame(80, seed=6), Scoring(reasons=9)).frame
    reasons = found.filter(like="reason_").agg("|".join, axis=1)
    by_rules = reasons.str.contains(r"(?:^|\|)rules? ", regex=True)

    assert by_rules.any()
    assert not reasons.str.contains("the rules").any()
    for names, row in zip(found.loc[by_rules, "rules"], reasons[by_rules], strict=True):
        assert f"rule {names} (+" in row or f"rules {names} (+" in row


@pytest.mark.parametrize("method", ["fused", "lightgbm", "logistic"])
def test_an_explanation_leads_from_a_usual_row_to_the_score_of_this_row(method):
    bundle, frame = example(method).bundle, make_frame(40, seed=7)
    score = bundle.predict(frame)
    row = int(score.argmax())

    found = bundle.explain(frame, row)

    assert found.start + sum(gain for _, gain in found.parts) + found.rest == pytest.approx(found.end)
    end = found.end if found.unit == "score" else 1.0 / (1.0 + np.exp(-found.end))
    assert end == pytest.approx(score[row], abs=1e-6)
    assert [abs(gain) for _, gain in found.parts] == sorted((abs(gain) for _, gain in found.parts), reverse=True)
    assert found.start < found.end
    with pytest.raises(TableError, match="The table has no row 41; it has 40"):
        bundle.explain(frame, 40)


@pytest.mark.parametrize("method", ["lightgbm", "xgboost", "elkan_noto"])
def test_reasons_of_boosters_come_from_their_own_contributions(method):
    bundle = example(method).bundle.with_point(FlagPoint(threshold=-np.inf, share=1.0))
    frame = make_frame(40, seed=7)

    found = bundle.score(frame, Scoring(reasons=1)).frame["reason_1"]

    assert (found.str.contains(r" = ") | (found == "")).all()
    assert (found != "").mean() > 0.5


def test_only_the_best_flagged_rows_are_explained(bundle):
    everything = bundle.with_point(FlagPoint(threshold=-np.inf, share=1.0))

    found = everything.score(make_frame(60, seed=8), Scoring(reasons=1, explained=5)).frame

    assert (found.loc[found["rank"] > 5, "reason_1"] == "").all()
    assert (found.loc[found["rank"] <= 5, "reason_1"] != "").all()


def test_no_reasons_means_no_reason_columns(bundle):
    assert not any("reason" in name for name in bundle.score(make_frame(40), Scoring(reasons=0)).frame)


def test_flagging_by_share_fills_the_stored_share_of_this_table(bundle):
    frame = make_frame(200, seed=5).assign(amount=lambda f: f["amount"] * 20)

    found = bundle.with_point(FlagPoint(threshold=0.5, share=0.1)).score(frame, Scoring(flag_by="share"))

    assert found.report.flagged == found.frame["flagged"].sum() <= 20
    assert found.report.flag_rate == pytest.approx(0.1, abs=0.02)
    assert "by the stored share" in found.report.notes[0]


@pytest.mark.parametrize("share", [0.0, 0.02, 0.1, 1 / 3, 0.5, 0.999, 1.0])
def test_a_share_is_filled_as_far_as_whole_rows_go_and_never_exceeded(share):
    for rows in range(1, 60):
        score = np.random.default_rng(rows).permutation(rows) / rows
        flagged = (score > share_threshold(np.sort(score), share)).sum()
        assert share * rows - 1 < flagged <= share * rows + 1e-9

        tied = np.sort(np.floor(4 * score))
        assert (tied > share_threshold(tied, share)).sum() <= share * rows + 1e-9


def test_the_flag_rate_is_compared_with_training(bundle):
    point = FlagPoint.at_budget(example("fused").run, 0.5)
    usual = bundle.with_point(point).score(make_frame(400, seed=5)).report
    strange = bundle.with_point(FlagPoint(threshold=-1.0, share=0.02)).score(make_frame(400, seed=5)).report

    assert "at training 50.00% out of fold)." in usual.notes[0]
    assert usual.notes[1] == "These rows are like the training rows."
    assert strange.notes[1] == "These rows differ from the training rows: more rows are flagged than at training."
    assert (usual.level, strange.level) == ("normal", "warning")
    assert strange.flag_rate == 1.0


def test_extra_columns_are_listed_and_ignored(bundle):
    frame = make_frame(40).assign(note="x", junk=[[1]] * 40)

    report = bundle.score(frame).report

    assert report.columns.extra == ("label", "truth", "note", "junk")
    assert "Ignored columns: 'label', 'truth', 'note', 'junk'." in report.notes


def test_missing_columns_are_named_all_at_once_with_the_nearest_name(bundle):
    frame = make_frame(40).rename(columns={"amount": "amounts"}).drop(columns=["vip", "code"])

    with pytest.raises(
        TableError, match=r"lacks 3 of the 6 columns that 'fused' reads: 'amount', 'code', 'vip'"
    ) as told:
        bundle.score(frame)
    assert "'amount': Did you mean 'amounts'?" in str(told.value)


def test_retyped_columns_are_named_all_at_once(bundle):
    frame = make_frame(40).assign(amount="much", age="old", job=3.0)

    with pytest.raises(TableError, match="Column 'amount' was number when the model was trained, now text") as told:
        bundle.score(frame)
    assert "Column 'age' was number when the model was trained, now text." in str(told.value)
    assert "Column 'job' was text when the model was trained, now number." in str(told.value)


def test_columns_the_model_does_not_read_may_be_absent_but_then_rules_are_not_shown():
    found = example("lightgbm")
    frame = make_frame(60, seed=5)

    scored = found.bundle.score(frame.drop(columns=["amount", "job"]))

    np.testing.assert_array_equal(scored.frame["score"], found.expected(frame))
    assert "rules" not in scored.frame
    assert "Rules cannot be shown, since these columns are absent: 'amount', 'job'." in scored.report.notes


def test_levels_never_seen_are_scored_like_rare_ones_and_reported(bundle):
    frame = make_frame(100, seed=5)
    one, other = frame.assign(job="king"), frame.assign(job="queen")

    np.testing.assert_array_equal(bundle.predict(one), bundle.predict(other))
    hints = bundle.score(one).report.drift.hints
    assert any("'job' has categories that training did not know in 100.0% of the rows." in hint for hint in hints)


def test_duplicate_columns_are_refused(bundle):
    frame = make_frame(40)

    with pytest.raises(TableError, match="Column names must be unique, but 'age' appears more than once"):
        bundle.score(pd.concat([frame, frame[["age"]]], axis=1))


def test_a_table_without_rows_is_refused_in_words(bundle):
    with pytest.raises(TableError, match="no rows to score"):
        bundle.score(make_frame(40).head(0))


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_files_score_like_the_frame(tmp_path, bundle, suffix):
    frame, path = make_frame(120, seed=5), tmp_path / f"new.{suffix}"
    if suffix == "parquet":
        frame.to_parquet(path)
    else:
        text = frame.to_csv(index=False).encode()
        path.write_bytes(gzip.compress(text) if suffix == "csv.gz" else text)

    found = bundle.score(path).frame

    np.testing.assert_array_equal(found["score"], bundle.predict(frame))
    assert found["id"].tolist() == frame["id"].tolist()


def test_bytes_and_open_files_score_too(bundle):
    frame = make_frame(50, seed=5)
    text = frame.to_csv(index=False).encode()

    np.testing.assert_array_equal(bundle.score(text).frame["score"], bundle.predict(frame))
    np.testing.assert_array_equal(bundle.score(io.BytesIO(text)).frame["score"], bundle.predict(frame))


def test_a_european_file_scores_like_a_plain_one(tmp_path, bundle):
    frame, path = make_frame(120, seed=5), tmp_path / "new.csv"
    path.write_bytes(frame.to_csv(index=False, sep=";", decimal=",").encode("utf-16"))

    np.testing.assert_array_equal(bundle.score(path).frame["score"], bundle.predict(frame))


def test_a_text_file_in_pieces_gives_the_same_rows(tmp_path):
    frame, path = make_frame(300, seed=5), tmp_path / "new.csv"
    frame["job"] = frame["job"].where(frame["job"] != "cook", 'a "cook",\nor so')
    frame.to_csv(path, index=False)

    whole = pd.concat(open_rows(path, frozenset({"job", "code"})).chunks())
    pieces = list(open_rows(path, frozenset({"job", "code"}), piece_bytes=4000).chunks())

    assert len(pieces) > 5
    for name in frame.columns:
        joined = pd.concat([piece[name].astype(object) for piece in pieces])
        assert joined.isna().tolist() == whole[name].isna().tolist()
        assert joined.dropna().tolist() == whole[name].astype(object).dropna().tolist()


@pytest.mark.parametrize(
    "head",
    ["Report,,\n,,\nname,x,y\n", "name,,x,y\n", "name,x,y\n,(cm),(kg)\n", ",group,\nname,x,y\n"],
    ids=["title", "one separator too many", "units", "groups"],
)
def test_what_stands_around_a_header_is_left_out_once(tmp_path, head):
    path = tmp_path / "new.csv"
    path.write_text(head + "".join(f"n{row},{row / 8},{row}\n" for row in range(400)))

    pieces = list(open_rows(path, piece_bytes=1000).chunks())

    assert len(pieces) > 3
    assert pd.concat(pieces).iloc[:, 1].tolist() == [row / 8 for row in range(400)]


def test_a_separator_of_two_signs_is_found_in_every_piece(tmp_path):
    path = tmp_path / "new.txt"
    path.write_text("name||x\n" + "".join(f"n{row}||{row / 8}\n" for row in range(400)))

    pieces = list(open_rows(path, piece_bytes=1000).chunks())

    assert pd.concat(pieces)["x"].tolist() == [row / 8 for row in range(400)]


def test_the_text_beside_the_columns_of_a_stored_table_is_not_scored(tmp_path):
    read_table(b"item,price\na,$1.50\nb,$2.00\n").to_parquet(tmp_path / "kept.parquet")

    source = open_rows(tmp_path / "kept.parquet")

    assert source.names == ("item", "price")
    assert next(source.chunks())["price"].tolist() == [1.5, 2.0]


def test_no_rows_are_kept_while_the_next_ones_are_read(bundle):
    """Memory stays flat only if whoever reads lets go of a chunk before asking for another."""
    frame = make_frame(90, seed=5)
    left = []

    def chunks():
        for start in range(0, len(frame), 30):
            handed = [frame.iloc[start : start + 30].copy()]
            seen = weakref.ref(handed[0])
            yield handed.pop()
            left.append(seen() is not None)

    with ScoreWork(bundle, RowSource(tuple(frame.columns), chunks, len(frame)), Scoring()) as work:
        found = pd.concat(work.tables())

    assert left == [False] * 6  # three chunks in each of two passes
    np.testing.assert_array_equal(found["score"], bundle.predict(frame))


def test_a_piece_of_a_text_file_is_let_go_before_the_next_is_read(tmp_path, monkeypatch):
    path, frames, left = tmp_path / "new.csv", [], []
    make_frame(300, seed=5).to_csv(path, index=False)
    source = open_rows(path, frozenset({"job", "code"}), piece_bytes=8000)

    def watched(*given, **options):
        left.extend(frame() is not None for frame in frames)
        table = read_table(*given, **options)
        frames.append(weakref.ref(table.frame))
        return table

    monkeypatch.setattr(row_files, "read_table", watched)
    chunks = source.chunks()
    while next(chunks, None) is not None:
        pass

    assert len(left) >= 3
    assert not any(left)


def test_text_columns_stay_text_when_a_new_file_holds_only_digits(tmp_path, bundle):
    frame, path = make_frame(30, seed=5).assign(code="12"), tmp_path / "new.csv"
    frame.to_csv(path, index=False)

    np.testing.assert_array_equal(bundle.score(path).frame["score"], bundle.predict(frame))


def test_ids_in_a_file_keep_their_zeros(tmp_path, bundle):
    frame, path = make_frame(30, seed=5), tmp_path / "new.csv"
    frame["id"] = [f"{row:05d}" for row in range(30)]
    frame.to_csv(path, index=False)

    assert bundle.score(path).frame["id"].tolist() == frame["id"].tolist()


def test_flags_that_are_all_true_stay_flags(tmp_path, bundle):
    frame, path = make_frame(30, seed=5).assign(vip=True), tmp_path / "new.csv"
    frame.to_csv(path, index=False)

    np.testing.assert_array_equal(bundle.score(path).frame["score"], bundle.predict(frame))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_file_to_file_equals_the_table_in_memory(tmp_path, bundle, suffix):
    frame = make_frame(120, seed=5)
    frame.to_csv(tmp_path / "new.csv", index=False)

    report = bundle.score_file(tmp_path / "new.csv", tmp_path / f"scored.{suffix}")

    expected = bundle.score(frame)
    scored = tmp_path / f"scored.{suffix}"
    found = pd.read_parquet(scored) if suffix == "parquet" else pd.read_csv(scored, dtype={"score": str})
    # Python reads every digit; pandas 3.0 rounds the last one.
    np.testing.assert_array_equal(found["score"].map(float), expected.frame["score"])
    assert found["rank"].tolist() == expected.frame["rank"].tolist()
    assert report.notes == expected.report.notes


def test_rows_without_an_id_column_are_numbered(bundle):
    found = bundle.score(make_frame(40).drop(columns="id")).frame

    assert found["id"].tolist() == list(range(1, 41))


def test_drift_is_told_in_words_and_absent_where_nothing_moved(bundle):
    same = bundle.score(make_frame(400, seed=1)).report.drift
    moved = bundle.score(make_frame(400, seed=1).assign(age=lambda f: f["age"] + 25)).report.drift

    assert same.hints == ()
    assert any(
        hint.startswith("'age' has moved strongly: ") and "median went from 39.8208 to more than 64.7" in hint
        for hint in moved.hints
    )


def column_drift(**parts):
    still = {"name": "age", "moved": 0.0, "noise": 0.0, "missing_before": 0.0, "missing_now": 0.0}
    return ColumnDrift(**still | parts)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"moved": 0.13, "noise": 0.04}, ""),
        ({"moved": 0.15, "noise": 0.04}, "'age' has moved somewhat: 15% of the rows lie elsewhere than "),
        ({"moved": 0.3, "noise": 0.04}, "'age' has moved strongly: 30% of the rows lie elsewhere than at "),
        ({"missing_before": 0.3, "missing_now": 0.1}, "'age' is missing in 10% of the rows, at training"),
        ({"missing_before": 0.1, "missing_now": 0.15}, ""),
        ({"unseen": 0.02, "unseen_before": 0.015}, ""),
        ({"unseen": 0.32, "unseen_before": 0.02}, "'age' has categories that training did not know in 32.0%"),
    ],
)
def test_a_column_has_drifted_where_one_of_three_shares_has_changed_by_more_than_noise(parts, words):
    found = column_drift(**parts)

    assert found.summary.startswith(words)
    assert bool(found.summary) == bool(words)


@pytest.mark.parametrize(("factor", "limit"), [(100, r"to more than \d"), (-100, r"to \S+ or less\.")])
def test_a_median_outside_of_the_training_values_is_told_as_a_limit(bundle, factor, limit):
    moved = bundle.score(make_frame(400, seed=1).assign(age=lambda f: f["age"] * factor)).report.drift

    assert re.search(limit, next(hint for hint in moved.hints if hint.startswith("'age'")))


def test_the_median_is_told_only_where_it_has_changed():
    moved = column_drift(moved=0.5, middle_before="1", middle_now="2")

    assert moved.summary.endswith("than at training; its median went from 1 to 2.")
    assert column_drift(moved=0.5, middle_before="1", middle_now="1").summary.endswith("than at training.")


@pytest.mark.parametrize(("step", "words"), [(0.3, "strongly: .* the median is higher, 0.8 after 0.5"), (0.0, "^$")])
def test_scores_have_moved_by_the_mean_distance_of_their_quantiles(step, words):
    old = np.arange(1001) / 1000
    found = score_drift(number_profile("score", old, 0.0), old + step)

    assert found.moved == pytest.approx(step / 0.9)  # the spread is that from 5 % to 95 %
    assert found.noise == pytest.approx(1 / np.sqrt(1001))
    assert (found.middle_before, found.middle_now) == pytest.approx((0.5, 0.5 + step))
    assert re.search(words, found.summary)
    falling = score_drift(number_profile("score", old, 0.0), old - 0.2)
    assert "somewhat" in falling.summary
    assert "the median is lower" in falling.summary


def test_drift_is_the_share_of_rows_that_would_have_to_move_and_parts_add_up(bundle):
    """Training: the numbers 1 to 4 alike, and levels 1 and 2 in three quarters and a quarter of the rows."""
    encoder = bundle.fitted.encoder
    place = [column.name for column in encoder.columns].index("amount")
    numbers = number_profile("amount", np.arange(1.0, 5.0), 0.0)
    levels = ColumnSummary(name="job", missing=0.5, shares=(0.0, 0.75, 0.25))
    columns = [numbers if at == place else levels for at in range(len(encoder.columns))]
    profile = TrainingProfile(columns=tuple(columns), score=number_profile("score", np.arange(5.0), 0.0), rows=20)
    rows = np.full((40, len(columns)), np.nan, dtype=np.float32)
    rows[:30, place] = 4.0
    other = (place + 1) % len(columns)
    rows[:, other] = [1] * 20 + [2] * 10 + [0] * 6 + [7] * 4
    places = np.array([place, other])
    whole, first, second = (DriftCounter(profile, encoder) for _ in range(3))
    whole.add(rows, places)
    first.add(rows[:25], places)
    second.add(rows[25:], places)

    found = whole.report(places, np.arange(5.0))

    amount, job = found.columns
    assert found == first.merge(second).report(places, np.arange(5.0))
    assert found.rows == 40
    assert amount.moved == pytest.approx(0.75)  # one row in four was 4 before
    assert (amount.missing_before, amount.missing_now) == (0.0, 0.25)
    assert (amount.middle_before, amount.middle_now) == ("2", "4")
    assert amount.noise == pytest.approx(4 * np.sqrt(2 * 0.25 * 0.75 / (np.pi * 30)))
    assert job.moved == pytest.approx(0.25)  # levels 0 and 7 are new
    assert (job.unseen, job.unseen_before, job.missing_now) == (pytest.approx(0.15), 0.0, 0.0)


def test_a_column_without_values_has_no_quantiles():
    assert number_profile("x", np.array([]), 1.0) == ColumnSummary(name="x", missing=1.0)
    assert code_shares(np.array([]), 50) == ()
    some = number_profile("x", np.array([3.0, 1.0, 1.0]), 0.25)
    assert (some.quantiles[0], some.quantiles[-1], some.missing) == (1.0, 3.0, 0.25)
    assert (some.below[0], some.below[-1]) == (pytest.approx(2 / 3), 1.0)


@pytest.mark.parametrize("threshold", [0.5, np.inf, -np.inf])
def test_a_report_survives_json(bundle, threshold):
    report = bundle.with_point(FlagPoint(threshold=threshold, share=0.1)).score(make_frame(40)).report

    again = ScoreReport.from_dict(json.loads(json.dumps(report.to_dict())))

    strongest_first = tuple(sorted(report.drift.columns, key=lambda column: -column.moved))
    assert again == replace(report, drift=replace(report.drift, columns=strongest_first))


def test_missing_values_that_were_not_there_are_told(bundle):
    hints = bundle.score(make_frame(200, seed=1).assign(age=np.nan)).report.drift.hints

    assert any("'age' is missing in 100% of the rows, at training in" in hint for hint in hints)


def test_few_rows_say_nothing_about_drift(bundle):
    report = bundle.score(make_frame(5)).report

    assert report.drift.hints == ()
    assert report.notes[1] == "With 5 rows drift cannot be judged; 30 are needed."
    assert report.level == "unknown"


def test_a_report_has_one_conclusion_and_never_contradicts_itself(bundle):
    for frame in (make_frame(400, seed=1), make_frame(400, seed=1).assign(age=90.0, job=None), make_frame(400)):
        for point in (FlagPoint(threshold=-1.0, share=0.02), FlagPoint(threshold=2.0, share=0.02), bundle.point):
            report = bundle.with_point(point).score(frame).report
            alike = "These rows are like the training rows."
            assert (alike in report.notes) == (report.level == "normal")
            assert sum("training rows" in note for note in report.notes) == 1
            assert not (report.level == "normal" and report.drift.hints)


@pytest.mark.parametrize(("setting", "value"), [("flag_by", "luck"), ("reasons", -1), ("explained", 1.5)])
def test_settings_state_their_law(setting, value):
    with pytest.raises(BundleError, match=setting):
        Scoring(**{setting: value})


def test_a_scored_file_is_whole_or_absent(tmp_path, bundle, monkeypatch):
    import spu_core.export.row_files as module

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "_write_csv", fail)
    with pytest.raises(BundleError, match=r"'out.csv' cannot be written: No space left on device"):
        bundle.score_file(make_frame(40), tmp_path / "out.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_progress_rises_to_the_end_in_two_steps(tmp_path, bundle, suffix):
    frame, path = make_frame(300, seed=5), tmp_path / f"new.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)
    told = []

    bundle.score_file(path, tmp_path / "out.csv", on_progress=told.append)

    assert [each.step for each in told] == ["scoring", "ranking and writing"]
    assert [each.rows for each in told] == [300, 300]
    shares = [each.share for each in told]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_a_stream_gets_the_same_csv_as_a_file(tmp_path, bundle):
    frame, stream = make_frame(60, seed=5), io.StringIO()

    report = bundle.score_file(frame, stream)

    bundle.score_file(frame, tmp_path / "out.csv")
    assert stream.getvalue() == (tmp_path / "out.csv").read_text(encoding="utf-8")
    assert report.rows == 60


def test_the_training_rows_are_named_as_such_and_a_few_of_them_are_not():
    table = read_table(
        io.BytesIO(make_frame(300, seed=1).assign(label=lambda f: np.arange(300) % 9 == 0).to_csv(index=False).encode())
    )
    table = table.with_roles({"label": "label"})
    soft = soft_labels_for(table, RuleSet())
    run = cross_fit(table, soft, ["labeled_vs_rest"], TrainConfig(folds=2, threads=1))[0]
    bundle = Bundle.of(run)
    known, part = bundle.score(table.frame).report, bundle.score(table.frame.head(120)).report

    assert SEEN_BEFORE in known.notes
    assert known.flag_rate > 2 * known.training_share  # the model has seen these rows
    assert not known.flags_differ
    assert "flagged than at training" not in known.conclusion
    assert SEEN_BEFORE not in part.notes
    changed = table.frame.assign(age=table.frame["age"] + 40)
    assert bundle.score(changed).report.conclusion.startswith("These rows differ")
