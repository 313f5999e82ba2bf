"""Roles that a column should probably have: identifiers and groups are proposed, ordinary features are left alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from spu_core.tables import Role, Table, read_table
from spu_core.tables.profiles import propose_roles
from spu_core.tables.samples import SAMPLES, load_sample, sample_folder

RNG_ROWS = 600


def proposals(frame: pd.DataFrame, **roles: str) -> dict[str, str | None]:
    return {finding.code: finding.column for finding in propose_roles(Table.from_frame(frame, roles=roles))}


def visits(noise: float = 0.3, patients: int = 100) -> pd.DataFrame:
    """Six visits of each patient, whose rows are alike; the numbers of the patients mean nothing."""
    rng = np.random.default_rng(0)
    who = rng.permutation(np.repeat(np.arange(patients), 6))
    traits = rng.normal(size=(patients, 4))[who] + noise * rng.normal(size=(who.size, 4))
    return pd.DataFrame(traits).add_prefix("x").assign(nr=rng.permutation(patients)[who])


def spread(low: int, high: int, rows: int = RNG_ROWS) -> np.ndarray:
    return np.random.default_rng(1).permutation(high - low)[:rows] + low


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (np.arange(RNG_ROWS) * 7 + 3, "in order"),
        (spread(0, 700), "too close together"),
        (spread(100_000, 1_000_000), "all of 6 digits"),
        (np.append(spread(0, 700), np.nan), "too close together"),
    ],
    ids=["counter", "shuffled counter", "fixed length", "with a gap"],
)
def test_a_number_that_identifies_rows_is_proposed_as_id(values: np.ndarray, why: str) -> None:
    frame = pd.DataFrame({"policy": values, "x": np.random.default_rng(0).normal(size=len(values))})
    [finding] = Table.from_frame(frame).profile().findings

    assert (finding.code, finding.column) == ("id_proposed", "policy")
    assert why in finding.message
    assert "'id'" in finding.advice


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(0).lognormal(8, 1, RNG_ROWS).round(),
        np.random.default_rng(0).integers(18, 90, RNG_ROWS),
        np.random.default_rng(0).normal(size=RNG_ROWS),
        spread(1_000, 10_000_000),
        np.arange(10),
    ],
    ids=["amounts", "ages", "fractions", "large amounts", "few rows"],
)
def test_numbers_that_describe_rows_are_not_proposed_as_id(values: np.ndarray) -> None:
    assert proposals(pd.DataFrame({"a": values})) == {}


def test_a_column_that_has_the_role_already_is_not_proposed() -> None:
    assert proposals(pd.DataFrame({"a": np.arange(50), "b": 1.5}), a="id") == {}


@pytest.mark.parametrize(
    "name", ["patient", "user_id", "customer", "customerId", "client_no", "Account ID", "store_id"]
)
def test_people_and_numbered_things_become_the_group_and_a_finding_says_so(name: str) -> None:
    text = "\n".join([f"{name},x", *(f"{row % 25},{row / 7:.3f}" for row in range(100))])
    table = read_table(text.encode())

    assert table.roles[name] is Role.GROUP
    assert f"Column {name!r} was taken as the group" in " ".join(f.message for f in table.findings)
    changed = table.with_roles({name: "feature"})
    assert "group_guessed" not in {finding.code for finding in changed.findings}


@pytest.mark.parametrize("name", ["account", "device", "store"])
def test_a_bare_name_that_can_mean_a_kind_is_only_proposed_as_group(name: str) -> None:
    frame = pd.DataFrame({name: np.arange(200) % 40, "x": np.random.default_rng(0).normal(size=200)})
    table = Table.from_frame(frame)
    [finding] = propose_roles(table)

    assert table.roles[name] is Role.FEATURE
    assert (finding.code, finding.column) == ("group_proposed", name)
    assert f"Give {name!r} the role 'group'" in finding.advice


def test_few_kinds_of_device_are_a_feature() -> None:
    frame = pd.DataFrame({"device": ["phone", "tablet"] * 100, "x": np.random.default_rng(0).normal(size=200)})

    assert Table.from_frame(frame).roles["device"] is Role.FEATURE
    assert proposals(frame) == {}


def test_rows_that_are_alike_within_a_value_make_it_a_group_whatever_its_name() -> None:
    found = propose_roles(Table.from_frame(visits()))

    assert [(finding.code, finding.column) for finding in found] == [("group_proposed", "nr")]
    assert "are alike in 'x" in found[0].message
    assert propose_roles(Table.from_frame(visits(), roles={"nr": "group"})) == []


def test_a_column_that_others_follow_smoothly_is_no_group() -> None:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, RNG_ROWS)
    frame = pd.DataFrame(
        {"age": age, "born": 2020 - age, "decade": age // 10, "income": 100 * age + rng.normal(size=RNG_ROWS)}
    )

    assert proposals(frame) == {}


def test_values_that_say_nothing_of_their_rows_are_no_group() -> None:
    frame = visits().assign(nr=lambda f: np.random.default_rng(5).permutation(f["nr"]))

    assert proposals(frame) == {}


@pytest.mark.parametrize("key", SAMPLES)
def test_the_samples_have_the_roles_they_need(key: str) -> None:
    assert propose_roles(load_sample(key)) == []


@pytest.mark.parametrize("name", SAMPLES)
def test_the_file_of_a_sample_has_the_label_that_the_sample_has(name):
    read, sample = read_table(sample_folder() / SAMPLES[name].file), load_sample(name)

    assert read.column_with("label") == sample.column_with("label")
    assert read.positive_values == sample.positive_values


@pytest.mark.parametrize("cells", ["0", "no", "false", "unknown", "-1"])
def test_a_label_in_which_no_row_is_confirmed_has_no_positives(cells, tmp_path):
    table = read_table(f"x,label\n{''.join(f'{row},{cells}' + chr(10) for row in range(30))}".encode())
    table = table.with_roles({"label": "label"})

    assert table.is_labeled.sum() == 0
    table.to_parquet(tmp_path / "table")
    assert Table.from_parquet(tmp_path / "table").is_labeled.sum() == 0
