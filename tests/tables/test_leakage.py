"""Repeated rows: copies are found, exact or nearly so; rows that are equal by chance are not accused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from spu_core.tables import Table
from spu_core.tables.repeats import find_repeats


def noise(rows: int = 400, columns: int = 5, seed: int = 0) -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng(seed).normal(size=(rows, columns))).add_prefix("x")


def four_times(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([frame] * 4, ignore_index=True)


def test_rows_that_come_four_times_are_one_set_each() -> None:
    frame = four_times(noise())
    found = find_repeats(frame)

    assert found is not None
    assert found.repeated == 1200
    assert (found.column, found.rounded) == (None, False)
    assert np.array_equal(found.code[:400], found.code[1200:])
    assert np.unique(found.code).size == 400


def test_copies_that_differ_by_rounding_are_found() -> None:
    rng = np.random.default_rng(1)
    frame = four_times(noise())
    found = find_repeats(frame * (1.0 + 1e-7 * rng.normal(size=frame.shape)))

    assert found is not None
    assert found.repeated == pytest.approx(1200, abs=5)
    assert found.rounded


def test_copies_that_differ_in_one_column_are_found_and_the_column_is_named() -> None:
    frame = four_times(noise()).assign(number=range(1600))
    found = find_repeats(frame)

    assert found is not None
    assert (found.repeated, found.column) == (1200, "number")
    assert "all features but 'number'" in found.as_finding().message


def test_a_few_doubled_rows_among_many_are_found() -> None:
    frame = noise(5_000)
    found = find_repeats(pd.concat([frame, frame.iloc[:20]], ignore_index=True))

    assert found is not None
    assert found.repeated == 20


def test_texts_gaps_and_flags_are_compared_as_well() -> None:
    rng = np.random.default_rng(0)
    once = noise(200, 2).assign(
        city=rng.choice(["a", "b", None], 200),
        flag=rng.random(200) < 0.5,
        gap=np.where(rng.random(200) < 0.3, np.nan, 1),
    )
    found = find_repeats(four_times(once))

    assert found is not None
    assert found.repeated == 600


@pytest.mark.parametrize(
    "make",
    [
        lambda rng: rng.integers(0, 2, (2_000, 3)),
        lambda rng: rng.integers(0, 2, (2_000, 12)),
        lambda rng: rng.integers(0, 4, (2_000, 5)),
        lambda rng: rng.random((2_000, 10)) < 0.01,
        lambda rng: np.eye(10)[rng.integers(0, 10, (2_000, 3))].reshape(2_000, 30),
        lambda rng: np.clip(np.round(1.5 * rng.normal(size=(2_000, 1)) + rng.normal(size=(2_000, 8)) + 3), 1, 5),
        lambda rng: rng.normal(size=(2_000, 2)),
        lambda rng: rng.lognormal(3, 1, (2_000, 2)).round(2),
        lambda rng: np.zeros((2_000, 3)),
    ],
    ids=[
        "3 flags",
        "12 flags",
        "5 × 4 levels",
        "rare flags",
        "one-hot",
        "answers 1 to 5",
        "numbers",
        "prices",
        "zeros",
    ],
)
def test_rows_that_are_equal_by_chance_are_not_accused(make: object) -> None:
    frame = pd.DataFrame(make(np.random.default_rng(0))).add_prefix("x")  # type: ignore[operator]

    assert find_repeats(frame) is None


def test_the_most_frequent_combination_is_not_a_copy_beside_real_copies() -> None:
    """A third of the rows hold nothing but zeros; the others come twice."""
    frame = pd.concat([noise(200)] * 2 + [noise(200) * 0.0], ignore_index=True)
    found = find_repeats(frame)

    assert found is not None
    assert found.repeated == 200
    assert np.unique(found.code[400:]).size == 200


def test_a_profile_tells_of_repeated_rows_and_looks_at_features_only() -> None:
    frame = four_times(noise()).assign(label=lambda f: (f.index % 7 == 0).astype(int), row_id=range(1600))
    findings = {finding.code: finding for finding in Table.from_frame(frame).profile().findings}

    assert "1,200 of 1,600 rows repeat an earlier row in all features." in findings["repeated_rows"].message
    assert "stay in one fold" in findings["repeated_rows"].advice
    assert "repeated_rows" not in {each.code for each in Table.from_frame(noise()).profile().findings}


@pytest.mark.parametrize("size", [1e-4, 1e-3, 1e-2])
def test_copies_whose_numbers_differ_a_little_are_found(size: float) -> None:
    rng = np.random.default_rng(1)
    frame = four_times(noise(columns=8))
    found = find_repeats(frame + size * rng.normal(size=frame.shape))

    assert found is not None
    assert found.is_near
    assert found.repeated == pytest.approx(1200, abs=20)
    assert np.array_equal(found.code[:400] == found.code[0], found.code[400:800] == found.code[400])
    assert "rows nearly repeat an earlier row" in found.as_finding().message


def test_copies_that_differ_in_several_columns_are_found() -> None:
    rng = np.random.default_rng(1)
    frame = four_times(noise(columns=8)).assign(amount=rng.gamma(2, 100, 1600), visits=rng.poisson(5, 1600))
    found = find_repeats(frame)

    assert found is not None
    assert found.is_near
    assert found.repeated == pytest.approx(1200, abs=20)


def test_a_few_near_copies_among_many_rows_are_found() -> None:
    rng = np.random.default_rng(1)
    frame = noise(2_000)
    found = find_repeats(pd.concat([frame, frame.iloc[:200] + 1e-3 * rng.normal(size=(200, 5))], ignore_index=True))

    assert found is not None
    assert found.repeated == pytest.approx(200, abs=20)
    assert (found.code[:200] == found.code[2_000:]).mean() > 0.9


@pytest.mark.parametrize(
    "make",
    [
        lambda rng: rng.normal(size=(1_000, 6)),
        lambda rng: 3.0 * rng.normal(size=(1_000, 1)) + rng.normal(size=(1_000, 6)),
        lambda rng: np.exp(2.0 * rng.normal(size=(1_000, 4))),
        lambda rng: rng.normal(size=(1_000, 5)).cumsum(axis=0),
        lambda rng: np.sin(np.outer(np.arange(1_000) / 1_000, [7, 14, 21, 28])),
        lambda rng: 5.0 * rng.normal(size=(20, 5))[rng.integers(0, 20, 1_000)] + 0.05 * rng.normal(size=(1_000, 5)),
        lambda rng: rng.normal(size=(1_000, 1)) ** np.array([1, 2, 3]),
        lambda rng: rng.gamma(1.0, 1.0, (1_000, 5)) * (rng.random((1_000, 5)) < 0.4),
        lambda rng: np.where(rng.random((1_000, 6)) < 0.3, np.nan, rng.normal(size=(1_000, 6))),
        lambda rng: rng.standard_t(2, (1_000, 4)).round(2),
        lambda rng: rng.normal(size=(150, 6))[np.arange(1_200) // 8] + 0.15 * rng.normal(size=(1_200, 6)),
        lambda rng: rng.normal(size=(60, 4)),
    ],
    ids=[
        "independent", "correlated", "skewed", "random walk", "smooth in time", "clusters", "functions of one",
        "many zeros", "gaps", "heavy tails", "visits of patients", "few rows",
    ],
)  # fmt: skip
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rows_that_are_near_by_nature_are_not_accused(make: object, seed: int) -> None:
    frame = pd.DataFrame(make(np.random.default_rng(seed))).add_prefix("x")  # type: ignore[operator]

    assert find_repeats(frame) is None
