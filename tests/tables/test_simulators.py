"""The simulators: what they draw matches their parameters, with the binomial error written down."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from spu_core.errors import TableError
from spu_core.tables.simulators import (
    AdsConfig,
    AntiCheatConfig,
    AntiCheatWorld,
    BreastCancerConfig,
    MedicalConfig,
    simulate_ads,
    simulate_anti_cheat,
    simulate_breast_cancer,
    simulate_medical,
)

# Everybody of one class behaves alike, so checks are independent and their error is binomial.
ALIKE = AntiCheatConfig(players=60_000, concentration=1e9)


def assert_share(flags, share):
    """Within four binomial standard errors."""
    flags = np.asarray(flags)
    error = np.sqrt(share * (1 - share) / flags.size)
    assert flags.mean() == pytest.approx(share, abs=4 * error + 1e-12)


@pytest.fixture(scope="module")
def season():
    return simulate_anti_cheat(ALIKE)


@pytest.fixture(scope="module")
def checks(season):
    """One row per check, whoever asked for it, with the truth of the user."""
    truth = pd.Series(season.players.truth, index=season.players.frame["player"])
    log = season.checks
    return log.assign(truth=log["user"].map(truth).astype(bool))


def test_cheaters_are_as_many_and_of_the_kinds_that_the_config_says():
    players = AntiCheatWorld(ALIKE).draw()

    assert_share(players.truth, ALIKE.cheater_share)
    assert_share(players.kind[players.truth] == 2, ALIKE.hardened_share)


def test_innocent_players_fail_the_checks_of_every_rule_alike(checks):
    """Assumption (a) of Appendix A.1 holds in the simulated world."""
    for _, asked in checks[~checks["truth"]].groupby("rule"):
        assert_share(asked["outcome"] == "fail", ALIKE.innocent_failure)
        assert not (asked["outcome"] == "admit").any()


def test_one_check_ends_as_the_behavioural_parameters_say():
    world = AntiCheatWorld(ALIKE)
    players = world.draw(200_000, seed=7)
    outcome = world.check(players, seed=8)
    cheaters, innocents = outcome[players.truth], outcome[~players.truth]

    assert_share(cheaters == "admit", ALIKE.cheater_admission)
    assert_share(cheaters == "pass", ALIKE.cheater_pass)
    assert_share(cheaters == "fail", 1.0 - ALIKE.cheater_admission - ALIKE.cheater_pass)
    assert_share(innocents == "fail", ALIKE.innocent_failure)
    assert_share(outcome[players.kind == 1] == "admit", ALIKE.casual_admission)
    assert_share(outcome[players.kind == 2] == "admit", ALIKE.hardened_admission)


def test_players_who_differ_still_meet_the_parameters_on_average():
    world = AntiCheatWorld(replace(ALIKE, concentration=5.0))
    players = world.draw(200_000, seed=7)

    assert players.pass_chance[~players.truth].std() > 0.05
    assert_share(world.check(players, ~players.truth) == "fail", ALIKE.innocent_failure)


def test_the_random_rule_checks_everybody_alike(checks, season):
    is_random = checks["rule"] == "random"
    first_days = checks[is_random & (checks["day"] <= 3)]

    assert_share(np.repeat([1, 0], [len(first_days), 3 * 60_000 - len(first_days)]), ALIKE.random_rate)
    assert_share(first_days["truth"], season.players.truth.mean())


def test_the_rules_differ_in_precision_and_the_imprecise_one_has_the_largest_volume(checks):
    by_rule = checks[checks["rule"] != "random"].groupby("rule")["truth"]
    precision, volume = by_rule.mean(), by_rule.size()

    assert set(precision.index) == {
        "complaints",
        "device_hopping",
        "impossible_aim",
        "input_script",
        "win_streak",
    }
    assert precision.idxmin() == volume.idxmax() == "complaints"
    assert precision.max() > 3 * precision.min()


def test_an_admission_is_the_last_check_of_a_player_and_makes_the_label(season):
    log = season.checks
    admitted = log[log["outcome"] == "admit"].groupby("user")["day"].first()
    last_day = log.groupby("user")["day"].max()

    assert (last_day[admitted.index] == admitted).all()
    frame = season.players.frame
    assert set(frame["player"][season.players.is_labeled]) == set(admitted.index)
    assert season.players.truth[season.players.is_labeled].all()


def test_the_record_of_a_player_counts_the_checked_days_without_the_admission(season):
    log = season.checks[season.checks["outcome"] != "admit"].drop_duplicates(["user", "day"])
    record = season.players.frame.set_index("player")
    log = log.assign(passed=log["outcome"] == "pass")
    counted = log.groupby("user").agg(n=("day", "size"), k=("passed", "sum"))

    assert (record.loc[counted.index, "checked_days"] == counted["n"]).all()
    assert (record.loc[counted.index, "passed_days"] == counted["k"]).all()
    assert record["checked_days"].sum() == counted["n"].sum()


def test_all_rules_that_ask_for_one_check_share_its_outcome(season):
    assert (season.checks.groupby(["user", "day"])["outcome"].nunique() == 1).all()


def test_exposure_makes_the_imprecise_rule_check_more():
    small = replace(ALIKE, players=5_000)
    volumes = [
        (simulate_anti_cheat(replace(small, exposure=exposure)).checks["rule"] == "complaints").mean()
        for exposure in (0.0, 1.0, 4.0)
    ]

    assert volumes[0] == 0.0
    assert volumes[0] < volumes[1] < volumes[2]


def test_without_tilt_all_cheaters_admit_alike_and_with_full_tilt_only_casual_ones():
    even, tilted = replace(ALIKE, admission_tilt=0.0), replace(ALIKE, admission_tilt=1.0)

    assert even.casual_admission == pytest.approx(even.hardened_admission)
    assert tilted.hardened_admission == 0.0
    assert 0.4 * tilted.casual_admission == pytest.approx(tilted.cheater_admission)


def test_a_check_can_be_asked_for_by_row_numbers_or_flags():
    world = AntiCheatWorld()
    players = world.draw(50, seed=1)

    assert world.check(players, [3, 4]).size == 2
    assert world.check(players, players.features["devices"].to_numpy() > 1).size < 50
    assert world.check(players).tolist() == world.check(players).tolist()
    assert world.check(players, seed=1).tolist() != world.check(players, seed=2).tolist()


@pytest.mark.parametrize(
    ("simulate", "config"),
    [
        (lambda config: simulate_anti_cheat(config).players, AntiCheatConfig(players=300)),
        (simulate_medical, MedicalConfig(patients=300)),
        (simulate_ads, AdsConfig(users=300)),
        (simulate_breast_cancer, BreastCancerConfig()),
    ],
    ids=["anti_cheat", "medical", "ads", "breast_cancer"],
)
def test_equal_configs_give_equal_tables_and_other_seeds_other_ones(simulate, config):
    table = simulate(config)

    assert table.fingerprint == simulate(config).fingerprint
    assert table.fingerprint != simulate(replace(config, seed=1)).fingerprint
    assert table.truth[table.is_labeled].all()
    assert not set(table.features) & {table.column_with("label"), table.column_with("truth")}


def test_patients_are_diagnosed_by_distance_and_staged_by_illness():
    config = MedicalConfig(patients=60_000)
    table = simulate_medical(config)
    near, stage = table.frame["specialist_km"] < 20, table.frame["impairment"]

    assert_share(table.truth, config.prevalence)
    assert_share(table.is_labeled[table.truth & near], config.diagnosis_near)
    assert_share(table.is_labeled[table.truth & ~near], config.diagnosis_far)
    for position, name in enumerate(("normal", "very mild", "mild")):
        assert_share(stage[table.truth] == name, config.stages_ill[position])
        assert_share(stage[~table.truth] == name, config.stages_well[position])


def test_conversions_are_seen_only_where_users_are_tracked():
    config = AdsConfig(users=60_000)
    table = simulate_ads(config)
    tracked, phone = table.frame["tracking"] == "tracked", table.frame["device"] == "phone"

    assert not table.is_labeled[~tracked].any()
    assert_share(table.truth, config.conversion_rate)
    assert_share(~tracked[phone], config.tracking_off_phone)
    assert_share(~tracked[~phone], config.tracking_off_computer)
    assert_share(table.is_labeled[table.truth & tracked], config.reported)
    assert_share(table.frame["cart_added"][table.truth] == 1, config.cart_given_conversion)


def test_malignant_tumours_are_labelled_with_their_chance():
    """The paper's mechanism; the sum over 40 seeds has the binomial error of 8,480 draws with mean chance 1/4."""
    tables = [simulate_breast_cancer(BreastCancerConfig(seed=seed)) for seed in range(40)]
    labelled = np.concatenate([table.is_labeled[table.truth] for table in tables])
    chance = np.concatenate([table.frame["label_chance"] for table in tables])

    assert_share(labelled, 0.25)
    assert 0.0 <= chance.min() < chance.max() <= 0.5
    assert chance.mean() == pytest.approx(0.25, abs=4 * 0.5 / np.sqrt(12 * chance.size))
    assert tables[0].truth.sum() == 212


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AntiCheatConfig(cheater_share=1.2), r"cheater_share must lie in \[0, 1\], got 1.2"),
        (lambda: AntiCheatConfig(players=0), "players must be at least 1, got 0"),
        (
            lambda: AntiCheatConfig(concentration=float("nan")),
            "concentration must be at least 0.001, got nan",
        ),
        (lambda: AntiCheatConfig(cheater_admission=0.8), "Casual cheaters would admit with"),
        (
            lambda: MedicalConfig(stages_ill=(0.5, 0.5, 0.5)),
            "stages_ill must hold three chances that add up to 1",
        ),
        (lambda: MedicalConfig(patients=-1), "patients must be at least 1, got -1"),
        (lambda: AdsConfig(reported=-0.1), r"reported must lie in \[0, 1\], got -0.1"),
        (lambda: AdsConfig(users=0), "users must be at least 1, got 0"),
        (lambda: BreastCancerConfig(largest_chance=2), r"largest_chance must lie in \[0, 1\], got 2"),
    ],
)
def test_configs_that_make_no_sense_get_a_clear_sentence(make, message):
    with pytest.raises(TableError, match=message):
        make()
