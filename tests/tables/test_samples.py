"""The samples in sample_data: they load with their roles, and the simulators make them anew."""

import numpy as np
import pandas as pd
import pytest

from spu_core.errors import TableError
from spu_core.labels.check_ratio_labels import check_ratio_labels
from spu_core.labels.check_record_labels import check_record_labels
from spu_core.labels.soft_labels import assign_soft_labels
from spu_core.rules import RuleSet
from spu_core.tables import Table
from spu_core.tables.samples import (
    SAMPLES,
    load_sample,
    load_sample_checks,
    load_sample_rules,
    sample_folder,
    sample_of,
    sample_truth,
    write_samples,
)

LARGEST_FILE = 1_000_000


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_loads_cleanly_with_label_and_truth(name):
    table = load_sample(name, truth=True)

    assert table.name == name
    assert not [finding for finding in table.findings if finding.severity != "info"]
    assert 20 <= table.is_labeled.sum() < table.truth.sum() < len(table) / 2
    assert table.truth[table.is_labeled].all()
    assert not {table.column_with("label"), table.column_with("truth")} & set(table.features)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_loaded_sample_has_the_roles_of_the_simulated_table(name):
    made = SAMPLES[name].make()[name]
    table = load_sample(name, truth=True)

    assert list(table.frame.columns) == list(made.columns)
    assert all(table.roles[column] == role for column, role in SAMPLES[name].roles.items())


def test_the_files_are_what_the_simulators_make(tmp_path):
    """Numbers to rounding, since the last digit may differ between processors."""
    write_samples(tmp_path)
    made, kept = sorted(tmp_path.glob("*.csv")), sorted(sample_folder().glob("*.csv"))

    assert [path.name for path in made] == [path.name for path in kept]
    for fresh, old in zip(made, kept, strict=True):
        pd.testing.assert_frame_equal(pd.read_csv(fresh), pd.read_csv(old), rtol=1e-9)


def test_every_file_fits_a_repository_and_is_described():
    readme = (sample_folder() / "README.md").read_text(encoding="utf-8")

    for path in sample_folder().glob("*.csv"):
        assert path.stat().st_size < LARGEST_FILE
        assert f"`{path.name}`" in readme


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("combine", ["strongest", "noisy_or"])
def test_the_suggested_rules_fit_and_believe_more_in_true_positives(name, combine):
    table, rules = load_sample(name, truth=True), RuleSet.from_json(load_sample_rules(name))
    soft_labels = assign_soft_labels(rules.fit(table).apply(table.frame), table.is_labeled, combine=combine)
    positive, negative = (
        soft_labels.rule_score[table.truth].mean(),
        soft_labels.rule_score[~table.truth].mean(),
    )

    assert rules.check(table) == ()
    assert positive > 2 * negative
    assert 0 < soft_labels.mean < 1.2 * table.truth.mean()


@pytest.mark.parametrize("name", SAMPLES)
def test_the_suggested_rules_keep_some_features_and_never_read_label_or_truth(name):
    table, rules = load_sample(name), RuleSet.from_json(load_sample_rules(name))
    read = {column for rule in rules for column in rule.columns}

    assert len(set(table.features) - read) >= 5
    assert not {table.column_with("label"), table.column_with("truth")} & read


def test_the_log_of_checks_gives_soft_labels_by_both_methods_of_the_appendix():
    players, checks = load_sample("anti_cheat", truth=True), load_sample_checks()
    by_ratio = check_ratio_labels(checks, random_rule="random", users=players.frame["player"], repeats="first")
    record = players.frame[["checked_days", "passed_days"]].to_numpy().T
    by_record = check_record_labels(*record, admitted=players.is_labeled)

    assert by_ratio.labels.is_labeled.tolist() == players.is_labeled.tolist()
    for labels in (by_ratio.labels, by_record.labels):
        assert labels.rule_score[players.truth].mean() > 5 * labels.rule_score[~players.truth].mean()
    assert np.isclose(by_record.prior.mass.sum(), 1.0)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_starts_without_its_truth_which_can_be_revealed(name):
    table, known = load_sample(name), load_sample(name, truth=True)

    assert table.truth is None
    assert list(table.frame.columns) == [column for column in known.frame.columns if column != SAMPLES[name].truth]
    assert np.array_equal(sample_truth(name), known.truth)
    assert [sample_of(each) for each in (table, known)] == [name, name]
    other = table.frame.assign(**{table.features[0]: table.frame[table.features[0]].to_numpy()[::-1]})
    assert sample_of(Table.from_frame(other)) is None


def test_an_unknown_sample_is_refused_with_the_nearest_name():
    with pytest.raises(TableError, match=r"There is no sample 'anti_cheats'\. Did you mean 'anti_cheat'"):
        load_sample("anti_cheats")


def test_a_missing_file_or_folder_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr("spu_core.tables.samples.sample_folder", lambda: tmp_path)

    with pytest.raises(TableError, match=r"The sample file 'anti_cheat\.csv' is missing"):
        load_sample("anti_cheat")


def test_the_folder_is_also_found_inside_an_installed_package(monkeypatch, tmp_path):
    package = tmp_path / "spu_core"
    (package / "_dashboard" / "sample_data").mkdir(parents=True)
    monkeypatch.setattr("spu_core.tables.samples.__file__", str(package / "tables" / "samples.py"))
    with pytest.raises(TableError, match="The folder 'sample_data' was not found"):
        sample_folder()
    (package / "_dashboard" / "sample_data" / "README.md").write_text("samples")

    assert sample_folder() == package / "_dashboard" / "sample_data"
