"""Training from a folder: the scores of training in memory, to the bit, and runs like any other."""

import numpy as np
import pandas as pd
import pytest

from spu_core.errors import TrainingError
from spu_core.export import Bundle, label_rules_of, save_bundle
from spu_core.labels import SoftLabels, soft_labels_for
from spu_core.models import METHODS, Features, TrainingRows
from spu_core.models.features import MatrixFile
from spu_core.rules import Compare, Ramp, Rule, RuleSet
from spu_core.tables import open_folder
from spu_core.training import Candidate, EarlyStopping, TrainConfig, compare_runs, cross_fit
from spu_core.training.rows import fit_encoder, hash_folds, hashed_split, prepare_rows
from tests.export.examples import known
from tests.tables.folders import mixed_frame, write_folder

FRAME = mixed_frame(900)
RULES = RuleSet(
    (
        Rule("rich", 0.4, Compare("amount", ">", 200)),
        Rule("steep", Ramp(column="visits", start=0.3, end=0.95, at_end=0.5, scale="quantile")),
    )
)
CONFIG = TrainConfig(folds=3, threads=1)
CANDIDATES = (
    Candidate("lightgbm", {"rounds": 15}),
    Candidate("xgboost", {"rounds": 10}),
    Candidate("labeled_vs_rest", {"rounds": 10}),
    Candidate("rule_score"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "folder"
    return open_folder(write_folder(FRAME, path, [200, 200, 650], varied=True))


@pytest.fixture(scope="module")
def runs(folder):
    return cross_fit(folder, soft_labels_for(folder, RULES), CANDIDATES, CONFIG)


def test_a_folder_and_the_same_table_in_memory_give_the_same_scores_to_the_bit(folder, runs):
    table = folder.read()
    soft_labels = soft_labels_for(table, RULES)

    in_memory = cross_fit(table, soft_labels, CANDIDATES, CONFIG, split=hashed_split(folder, CONFIG))

    for ours, theirs in zip(runs, in_memory, strict=True):
        assert ours.error is None
        assert np.array_equal(ours.score, theirs.score)
        assert ours.metrics.to_dict() == theirs.metrics.to_dict()


def test_the_encoder_of_a_folder_is_that_of_the_table(folder):
    soft_labels = soft_labels_for(folder, RULES)

    assert fit_encoder(folder) == prepare_rows(folder.read(), soft_labels, CONFIG).encoder


def test_rows_of_a_folder_are_read_from_a_file_that_goes_with_them(folder):
    rows = prepare_rows(folder, soft_labels_for(folder, RULES), CONFIG)
    matrix = rows.rows.features.store.matrix

    assert isinstance(matrix, MatrixFile)
    path = matrix.path
    assert path.stat().st_size == 4 * len(folder) * len(folder.features)
    del rows, matrix
    assert not path.exists()


def test_runs_of_a_folder_are_compared_exported_and_scored_like_any_other(folder, runs, tmp_path):
    assert {run.name for run in compare_runs(runs).runs} == {run.name for run in runs}
    label_rules = label_rules_of(soft_labels_for(folder, RULES), RULES.fit(folder))
    bundle = Bundle.of(runs[0], label_rules=label_rules)

    loaded = known(save_bundle(bundle, tmp_path / "model.spu"))

    table = folder.read()
    assert np.array_equal(loaded.predict(table.frame), runs[0].fit_all().score(table.frame))
    assert np.array_equal(loaded.run.score, runs[0].score)


def test_early_stopping_and_hold_out_work_from_files(folder):
    config = TrainConfig(folds=2, hold_out=0.2, early_stopping=EarlyStopping(patience=3), threads=1)
    soft_labels = soft_labels_for(folder, RULES)
    split = hashed_split(folder, config)

    ours = cross_fit(folder, soft_labels, CANDIDATES[:2], config)
    theirs = cross_fit(folder.read(), soft_labels, CANDIDATES[:2], config, split=split)

    assert (split.fold == -1).any()
    for one, other in zip(ours, theirs, strict=True):
        assert one.rounds == other.rounds
        assert np.array_equal(one.score, other.score)
        assert one.held_out_metrics.rows == int((split.fold == -1).sum())


def test_folds_go_by_the_id_of_a_row_wherever_it_lies(folder, tmp_path):
    shuffled = FRAME.sample(frac=1.0, random_state=0)
    other = open_folder(write_folder(shuffled, tmp_path / "f", [100, 500]))

    fold = pd.Series(hashed_split(folder, CONFIG).fold, index=FRAME["user_id"])
    again = pd.Series(hashed_split(other, CONFIG).fold, index=shuffled["user_id"])

    assert fold.equals(again.loc[fold.index])
    assert np.array_equal(fold.to_numpy(), hash_folds(FRAME["user_id"], CONFIG))


def test_groups_stay_together_and_the_latest_rows_are_held_out(folder):
    grouped = folder.with_roles({"visits": "group"})
    fold = hashed_split(grouped, CONFIG).fold
    late = hashed_split(folder, TrainConfig(out_of_time=0.2, time_column="signed_at"))

    assert pd.Series(fold).groupby(FRAME["visits"]).nunique().max() == 1
    assert FRAME["signed_at"][late.fold == -1].min() > FRAME["signed_at"][late.fold >= 0].max()


def test_what_a_folder_lacks_is_named(folder):
    soft_labels = soft_labels_for(folder, RULES)

    with pytest.raises(TrainingError, match="group_column is 'citty', which the table does not have"):
        hashed_split(folder, TrainConfig(group_column="citty"))
    with pytest.raises(TrainingError, match="group_column is 'city', which is also a feature"):
        hashed_split(folder, TrainConfig(group_column="city"))
    with pytest.raises(TrainingError, match="out_of_time needs to know when each row happened"):
        hashed_split(folder.with_roles({"signed_at": "ignore"}), TrainConfig(out_of_time=0.2))
    with pytest.raises(TrainingError, match="There are 10 soft labels, but the table has 900 rows"):
        prepare_rows(folder, soft_labels.take(np.arange(10)), CONFIG)


METHODS_FROM_FILES = [key for key in METHODS if key not in ("cnn", "nnpu", "sar_em", "neural_net")]


@pytest.mark.parametrize("key", METHODS_FROM_FILES)
def test_every_method_learns_from_a_file_what_it_learns_from_memory(key, tmp_path):
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(400, 4)).astype(np.float32)
    soft_label = np.where(matrix[:, 0] > 0.5, 0.7, 0.0)
    is_labeled = rng.random(400) < 0.3 * soft_label
    file = MatrixFile(tmp_path / "rows", 4)
    for start in range(0, 400, 150):
        file.append(matrix[start : start + 150])
    names = {setting.name for setting in METHODS[key].settings()}
    given = {name: value for name, value in {"rounds": 5, "bags": 2, "threads": 1}.items() if name in names}
    scores = []
    for source in (matrix, file):
        rows = TrainingRows(
            features=Features.of(source),
            soft_label=np.where(is_labeled, 1.0, soft_label),
            is_labeled=is_labeled,
            rule_score=soft_label,
            truth=matrix[:, 0] > 0,
        )
        inside = np.arange(400) % 4 != 0
        model = METHODS[key].fit(rows.take(inside), given)
        scores.append(model.score_rows(rows.take(~inside).features, soft_label[~inside]))

    assert np.array_equal(*scores)


def test_a_method_that_needs_all_rows_in_memory_says_so_when_they_do_not_fit(tmp_path):
    file = MatrixFile(tmp_path / "rows", 2, memory_limit=1_000)
    file.append(np.zeros((1_000, 2)))

    with pytest.raises(TrainingError, match="A method that reads the whole table at once needs 0 MB"):
        _ = Features.of(file).matrix


def test_a_file_that_is_cut_off_gets_a_sentence(tmp_path):
    file = MatrixFile(tmp_path / "rows", 2)
    file.append(np.zeros((10, 2)))
    file.path.write_bytes(b"1234")

    with pytest.raises(TrainingError, match="are gone or cut off; train again"):
        list(file.blocks())


@pytest.mark.parametrize("fewest", [50_000, 600], ids=["all rows at once", "a sample first"])
def test_copies_in_a_folder_stay_in_one_fold(fewest, tmp_path, monkeypatch):
    """Each row of noise four times, in other files; one text column and a counter that differs."""
    monkeypatch.setattr("spu_core.tables.table.REPEAT_ROWS", fewest)
    rng = np.random.default_rng(0)
    once = pd.DataFrame(rng.normal(size=(250, 4))).add_prefix("x")
    once = once.assign(city=rng.choice(["Bern", "Basel", "Chur"], 250), label=(rng.random(250) < 0.3).astype(int))
    frame = pd.concat([once] * 4, ignore_index=True).assign(counter=rng.permutation(1000) + 0.5)
    folder = open_folder(write_folder(frame, tmp_path / "rows", [240, 600]))
    soft_labels = SoftLabels.from_values(folder.is_labeled.astype(float), folder.is_labeled)
    [run] = cross_fit(folder, soft_labels, [Candidate("labeled_vs_rest", {"rounds": 40})], CONFIG)

    assert folder.repeats.repeated == 750
    assert folder.repeats.column == "counter"
    fold = run.fold.reshape(4, 250)
    assert (fold == fold[0]).all()
    assert run.metrics.known_positive_auc.estimate < 0.65
    assert "750 of 1,000 rows repeat an earlier row. Rows that repeat" in "\n".join(compare_runs([run]).notes)


def test_a_folder_without_copies_has_the_folds_it_always_had(folder):
    assert folder.repeats is None
    assert hashed_split(folder, CONFIG).groups is None


def test_the_profile_of_a_folder_proposes_roles_and_names_copies(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 4))).add_prefix("x")
    frame = frame.assign(device=rng.integers(0, 40, 300), label=(rng.random(300) < 0.3).astype(int))
    frame = pd.concat([frame] * 2, ignore_index=True).assign(policy=rng.permutation(600))
    folder = open_folder(write_folder(frame, tmp_path / "rows", [100]))

    codes = {finding.code: finding.column for finding in folder.profile().findings}
    assert codes["id_proposed"] == "policy"
    assert codes["group_proposed"] == "device"
    assert "repeated_rows" in codes
