"""The profile: counts that add up, quantiles as numpy gives them, and leaks by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from spu_core.tables import ColumnType, Table, find_leaks
from spu_core.tables.leakage import single_column_auc
from spu_core.tables.profiles import LARGEST_BINS, histogram


def players(rows: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    label = (rng.random(rows) < 0.2).astype(int)
    return pd.DataFrame({"age": rng.normal(30, 5, rows), "city": rng.choice(["a", "b", "c"], rows), "label": label})


def test_levels_count_rows_and_labelled_rows() -> None:
    frame = pd.DataFrame({"city": ["a", "a", "b", None], "label": [1, 0, 1, 0]})
    column = Table.from_frame(frame, roles={"label": "label"}).profile().column("city")

    assert [(level.value, level.count, level.label_rate) for level in column.top_levels] == [
        ("a", 2, 0.5),
        ("b", 1, 1.0),
    ]
    assert column.missing_share == 0.25
    assert column.distinct == 2


def test_quantiles_are_values_of_the_column() -> None:
    frame = players()
    column = Table.from_frame(frame).profile().column("age")

    assert column.quantiles[0.0] == frame["age"].min()
    assert column.quantiles[0.5] == np.quantile(frame["age"], 0.5, method="nearest")
    assert column.quantiles[1.0] == frame["age"].max()


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), min_size=1, max_size=200))
def test_a_histogram_counts_every_finite_value_once(values: list[float]) -> None:
    numbers = np.array(values, dtype=np.float64)
    drawn = histogram(numbers, np.zeros(numbers.size, dtype=bool))
    finite = numbers[np.isfinite(numbers)]

    if finite.size == 0:
        assert drawn is None
    else:
        assert drawn.count.sum() == finite.size
        assert drawn.count.size <= LARGEST_BINS
        assert drawn.edge.size == drawn.count.size + 1
        assert drawn.edge[0] <= finite.min()
        assert drawn.edge[-1] >= finite.max()


def test_few_whole_numbers_get_a_bin_each() -> None:
    drawn = histogram(np.array([1.0, 2.0, 2.0, 5.0]), np.array([True, False, True, False]))

    assert drawn.count.tolist() == [1, 2, 0, 0, 1]
    assert drawn.label_rate[:2].tolist() == [1.0, 0.5]
    assert np.isnan(drawn.label_rate[2])


def test_dates_have_histograms_too() -> None:
    frame = pd.DataFrame({"when": pd.date_range("2024-01-01", periods=100), "x": range(100)})
    column = Table.from_frame(frame).profile().column("when")

    assert column.histogram.count.sum() == 100


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (lambda y: 1 - y, "copy"),
        (lambda y: np.where(y == 1, "banned", "active"), "copy"),
        (lambda y: y + np.random.default_rng(1).normal(0, 0.05, y.size), "ranking"),
        (lambda y: -y + np.random.default_rng(1).normal(0, 0.05, y.size), "ranking"),
        (
            lambda y: np.where(
                (y == 1) & (np.arange(y.size) % 4 > 0), "ban", np.where(np.arange(y.size) % 2, "ok", "new")
            ),
            "value",
        ),
        (lambda y: np.where((y == 1) & (np.arange(y.size) % 4 > 0), np.arange(y.size), np.nan), "filled"),
    ],
    ids=[
        "turned copy",
        "copy in words",
        "near copy",
        "turned near copy",
        "a value of positives only",
        "filled for positives",
    ],
)
def test_a_column_that_gives_the_label_away_is_named(column: object, kind: str) -> None:
    frame = players()
    frame["trace"] = column(frame["label"].to_numpy())  # type: ignore[operator]
    table = Table(
        name="t",
        frame=frame,
        roles={"age": "feature", "city": "feature", "label": "label", "trace": "ignore"},  # type: ignore[dict-item]
        types=Table.from_frame(frame).types,
    )
    leaks = find_leaks(table, columns=("age", "city", "trace"))

    assert [(leak.column, leak.kind) for leak in leaks] == [("trace", kind)]


def test_leaks_of_the_truth_are_found_as_well() -> None:
    frame = players().assign(truth=lambda f: ((f["label"] == 1) | (f["age"] > 33)).astype(int))
    frame["trace"] = frame["truth"] + np.random.default_rng(2).normal(0, 0.01, len(frame))
    findings = Table.from_frame(frame).profile().findings

    leak = next(finding for finding in findings if finding.code == "leak_ranking")
    assert leak.column == "trace"
    assert "'truth'" in leak.message


def test_honest_columns_are_not_accused() -> None:
    assert find_leaks(Table.from_frame(players())) == ()


def test_many_levels_do_not_look_like_a_leak() -> None:
    frame = players(2_000)
    frame["shop"] = np.random.default_rng(3).integers(0, 900, len(frame)).astype(str)

    assert find_leaks(Table.from_frame(frame)) == ()


def test_single_column_auc_equals_scikit_learn() -> None:
    frame = players()
    answer = frame["label"].to_numpy() == 1
    expected = roc_auc_score(answer, frame["age"])

    assert single_column_auc(frame["age"], ColumnType.NUMBER, answer) == pytest.approx(max(expected, 1 - expected))


@pytest.mark.parametrize(
    ("labels", "code"), [([1, 1, 1], "all_labeled"), ([0, 1, 0], "few_labels")], ids=["all labelled", "one label"]
)
def test_labels_that_cannot_teach_are_findings(labels: list[int], code: str) -> None:
    table = Table.from_frame(pd.DataFrame({"x": [1, 2, 3], "y": labels}), roles={"y": "label"}, positive_values=[1])

    assert code in {finding.code for finding in table.profile().findings}


def test_a_profile_is_one_row_per_column_to_show() -> None:
    shown = Table.from_frame(players()).profile().to_frame()

    assert shown["column"].tolist() == ["age", "city", "label"]
    assert shown["type"].tolist() == ["number", "category", "number"]


def test_the_median_of_dates_is_a_day() -> None:
    days = pd.to_datetime(["2024-03-01", "2024-03-02", "2024-03-09"])
    table = Table.from_frame(pd.DataFrame({"seen": days, "paid": [1.0, 4.0, 2.0], "late": pd.NaT}))

    shown = table.profile().to_frame().set_index("column")["median"]
    assert shown["seen"] == "2024-03-02"
    assert shown["paid"] == 2.0
    assert pd.isna(shown["late"])


def with_labels(rows: int = 4_000, share: float = 0.03) -> tuple[pd.DataFrame, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(4)
    label = rng.random(rows) < share
    return pd.DataFrame({"age": rng.normal(30, 5, rows), "label": label.astype(int)}), label, rng


@pytest.mark.parametrize(
    "trace",
    [
        lambda found, rng: np.where(found, rng.uniform(5, 9, found.size), rng.uniform(0, 5, found.size)),
        lambda found, rng: np.where(found, -rng.uniform(5, 9, found.size), rng.uniform(0, 5, found.size)),
        lambda found, rng: found.astype(int),
        lambda found, rng: np.where(found, "closed", rng.choice(["open", "new"], found.size)),
        lambda found, rng: np.where(found, rng.uniform(5, 9, found.size), np.nan),
    ],
    ids=["high numbers", "low numbers", "flag", "word", "filled"],
)
def test_a_trace_that_misses_a_twentieth_of_the_labels_is_found(trace: object) -> None:
    """The column was filled after confirmation, for all but 5 % of the confirmed rows, and for 1 % of the others."""
    frame, label, rng = with_labels()
    found = np.where(label, rng.random(label.size) < 0.95, rng.random(label.size) < 0.01)
    frame["trace"] = trace(found, rng)  # type: ignore[operator]
    [leak] = find_leaks(Table.from_frame(frame))

    assert (leak.column, leak.kind) == ("trace", "most")
    assert leak.strength == pytest.approx(0.95, abs=0.04)
    assert leak.elsewhere == pytest.approx(0.01, abs=0.005)
    assert "9" in leak.as_finding().message


def test_a_strong_but_honest_feature_is_no_leak() -> None:
    """Normal values, three standard deviations apart: AUC .98, and a range that covers 95 % has 7 % of the others."""
    frame, label, rng = with_labels()
    frame["strong"] = rng.normal(size=label.size) + 3.0 * label
    frame["flag"] = np.where(label, rng.random(label.size) < 0.8, rng.random(label.size) < 0.2).astype(int)

    assert find_leaks(Table.from_frame(frame)) == ()


def test_a_value_that_every_labelled_row_has_is_named() -> None:
    frame, label, rng = with_labels()
    frame["malignant"] = (label | (rng.random(label.size) < 0.3)).astype(int)
    [leak] = find_leaks(Table.from_frame(frame))

    assert leak.kind == "shared"
    assert "Column 'malignant' is '1' for 100% of the positives of 'label', and for 3" in leak.as_finding().message
    assert "set its role to 'truth'" in leak.as_finding().advice


def test_a_value_that_nearly_every_row_has_is_not_named() -> None:
    frame, label, rng = with_labels()
    frame["adult"] = (label | (rng.random(label.size) < 0.7)).astype(int)

    assert find_leaks(Table.from_frame(frame)) == ()


def test_the_real_class_in_the_breast_cancer_file_is_named() -> None:
    from spu_core import load_sample, sample_truth

    frame = load_sample("breast_cancer").frame.assign(malignant=sample_truth("breast_cancer").astype(int))
    findings = Table.from_frame(frame, roles={"labeled": "label"}).profile().findings

    assert [finding.column for finding in findings if finding.code.startswith("leak_")] == ["malignant"]
