"""Table 2: soft labels under generalized SCAR, loaders that know their files, and networks on tiny images."""

from __future__ import annotations

import gzip
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from spu_core.errors import AssumptionError, TableError
from spu_core.experiments import ExperimentResult, ExperimentSettings
from spu_core.experiments.runners import images, table2
from spu_core.experiments.runners.images import (
    LEVELS,
    SETUPS,
    TARGETS,
    TASKS,
    CellRow,
    ImagePlan,
    NetworkSetup,
    PaperSoftLabels,
    append_row,
    channels_last,
    complete_cells,
    load_images,
    read_rows,
    run_images,
    split_by_class,
)
from spu_core.metrics import auc_spu_ceiling
from tests.experiments.images import tiny_images

PRIORS = pytest.mark.parametrize("prior", [0.1, 0.4])


@PRIORS
def test_a_soft_label_is_the_probability_of_being_positive(prior):
    """Bayes: P(Y=1|S=s) = s for s = ¼, ½, ¾; S = 1 means positive; the probabilities sum to 1."""
    labels = PaperSoftLabels(prior)
    positive, negative = prior * labels.positive, (1 - prior) * labels.negative

    assert positive[1:] / (positive + negative)[1:] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert labels.negative.sum() == pytest.approx(1.0)
    assert labels.negative.min() >= 0


@PRIORS
def test_the_two_levels_are_those_of_s_and_of_the_truth(prior):
    """AUC_SPU of g = S and of g = Y, counted over the joint distribution of S and Y."""
    labels = PaperSoftLabels(prior)
    value, truth = np.tile(LEVELS, 2), np.repeat([1.0, 0.0], 5)
    share = np.concatenate([prior * labels.positive, (1 - prior) * labels.negative])

    def auc_spu(score):
        wins = (score[:, None] > score) + 0.5 * (score[:, None] == score)
        pairs = np.outer(share * value, share * (1 - value))
        return (wins * pairs).sum() / pairs.sum()

    assert labels.ceiling == pytest.approx(auc_spu(value))
    assert labels.link.perfect_level == pytest.approx(auc_spu(truth))


def test_drawn_soft_labels_follow_the_class_only():
    rng, labels = np.random.default_rng(0), PaperSoftLabels(0.4)
    truth = np.arange(50_000) % 5 < 2
    soft_label = labels.draw(truth, rng)
    shares = [(soft_label[truth] == level).mean() for level in LEVELS]

    # A share of 20,000 draws has a standard error below 0.003.
    assert shares == pytest.approx(labels.positive, abs=0.012)
    assert [(soft_label[~truth] == level).mean() for level in LEVELS] == pytest.approx(labels.negative, abs=0.012)
    assert auc_spu_ceiling(soft_label) == pytest.approx(labels.ceiling, abs=0.01)


def test_a_prior_for_which_the_design_does_not_exist_is_refused():
    with pytest.raises(AssumptionError, match=r"between 0 and 15/28 = 0\.536, got 0\.6: beyond it P\(S=0\|Y=0\)"):
        PaperSoftLabels(0.6)


def test_baselines_differ_in_what_they_make_of_doubt():
    targets = {name: target(LEVELS).tolist() for name, target in TARGETS.items()}

    assert targets == {"RESULT": LEVELS.tolist(), "BL0": [0, 0, 0, 0, 1], "BL1": [0, 1, 1, 1, 1]}


def test_the_split_keeps_the_share_of_every_class():
    classes = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 30))
    train, held_out = split_by_class(classes, NetworkSetup({}, validation=100, train=150), np.random.default_rng(1))

    assert np.bincount(classes[held_out]).tolist() == [10] * 10
    assert np.bincount(classes[train]).tolist() == [15] * 10
    assert not set(train) & set(held_out)


def test_recipes_are_the_same_for_all_methods_and_shrink_by_plan():
    assert set(SETUPS) == {task.images for task in TASKS}
    assert [task.classes for task in TASKS] == ["0", "0,2,4,6", "0", "0,1,8,9"]
    small = ImagePlan(train=10_000).setup("cifar10")
    assert (small.train, small.network) == (10_000, SETUPS["cifar10"].network)


def write_idx(path, values, header):
    with gzip.open(path, "wb") as file:
        file.write(b"\0" * header + np.asarray(values, np.uint8).tobytes())


def test_fashion_mnist_is_read_from_the_files_of_its_authors_and_checked(tmp_path, monkeypatch):
    folder = tmp_path / "fashion-mnist"
    folder.mkdir()
    for part, count in (("train", 3), ("t10k", 2)):
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", np.arange(count * 784) % 251, 16)
        write_idx(folder / f"{part}-labels-idx1-ubyte.gz", np.arange(count), 8)

    with pytest.raises(
        TableError, match=r"Fashion-MNIST has the sha256 \w{12}…, but the figures were made with ca3ab2"
    ):
        load_images("fashion-mnist", tmp_path)
    read = images.read_fashion_mnist(folder)
    origin = replace(images.IMAGE_ORIGINS["fashion-mnist"], digest=read.digest)
    monkeypatch.setitem(images.IMAGE_ORIGINS, "fashion-mnist", origin)

    found = load_images("fashion-mnist", tmp_path)

    assert found.train.shape == (3, 784)
    assert found.test_class.tolist() == [0, 1]
    assert found.train[1, 0] == 784 % 251


def test_cifar_10_is_read_from_the_binary_version_of_its_authors(tmp_path):
    for name in [*(f"data_batch_{batch}.bin" for batch in range(1, 6)), "test_batch.bin"]:
        (np.arange(2 * 3073) % 256).astype(np.uint8).tofile(tmp_path / name)

    found = images.read_cifar10(tmp_path)

    assert found.train.shape == (10, 3072)
    assert found.train_class.tolist()[:2] == [0, 3073 % 256]
    # Red, green and blue of the first pixel lie 1,024 apart in a record.
    assert found.train[0, :3].tolist() == [1, (1 + 1024) % 256, (1 + 2048) % 256]


def test_missing_files_unknown_sets_and_a_silent_openml_are_told_in_words(tmp_path):
    def no_network(number):
        raise OSError("no route to host")

    with pytest.raises(TableError, match=r"There is no image set 'cifar'\. Did you mean 'cifar10'"):
        load_images("cifar", tmp_path)
    with pytest.raises(TableError, match=r"data_batch_1\.webp is missing in the folder 'cifar10' of the data folder"):
        load_images("cifar10", tmp_path)
    with pytest.raises(TableError, match=r"CIFAR-10 is not shipped .* OpenML could not be asked for data set 40927"):
        load_images("cifar10", None, fetch=no_network)


def test_what_openml_sends_must_be_the_same_images(monkeypatch):
    tiny = tiny_images("fashion-mnist", each=1, test=1)
    frame = pd.DataFrame(np.vstack([tiny.train, tiny.test])).assign(label=np.append(tiny.train_class, tiny.test_class))
    origin = images.IMAGE_ORIGINS["fashion-mnist"]
    read = images._frame_of("fashion-mnist", 10, planes=False)
    monkeypatch.setitem(images.IMAGE_ORIGINS, "fashion-mnist", replace(origin, digest=tiny.digest, from_frame=read))

    assert load_images("fashion-mnist", None, fetch=lambda number: frame).digest == tiny.digest
    with pytest.raises(TableError, match="get the original files again"):
        load_images("fashion-mnist", None, fetch=lambda number: frame.assign(label=0))


def test_colour_planes_become_pixels():
    planes = np.repeat([[1, 2, 3]], 1024, axis=0).T.reshape(1, 3072)

    assert channels_last(planes).reshape(32, 32, 3)[5, 7].tolist() == [1, 2, 3]


def row(method="RESULT", seed=0, positive="0", images="fashion-mnist", **figures):
    shown = {"test_auc": 0.9, "auc_spu": 0.7, "ceiling": 0.98, "perfect_level": 0.785, "predicted_auc": 0.91}
    shown |= {"predicted_error": 0.02, "validation_auc": 0.9, "cpu_seconds": 1.0, **figures}
    return CellRow(images, positive, method, seed, **shown)


def test_kept_rows_survive_a_cut_and_only_whole_cells_count(tmp_path):
    file = tmp_path / "rows.jsonl"
    for each in (*map(row, TARGETS), row("RESULT", seed=1)):
        append_row(file, each)
    with file.open("a") as open_file:
        open_file.write('{"images": "fash')

    rows = read_rows(file)

    assert len(rows) == 4
    assert [each.seed for each in complete_cells(rows)] == [0, 0, 0]


def test_claims_hold_only_where_seeds_agree():
    gains = [0.010, 0.011, 0.012]
    rows = [row("RESULT", seed, test_auc=0.9 + gain) for seed, gain in enumerate(gains)]
    rows += [row(method, seed) for seed in range(3) for method in ("BL0", "BL1")]
    result = table2.result_of(rows, ExperimentSettings(), 1.0)
    once = table2.result_of([each for each in rows if each.seed == 0], ExperimentSettings(), 1.0)

    assert result.claims[0].verdict == "holds"
    assert "all training images, 3 seeds, 1 of 4 rows of the table" in result.claims[0].text
    assert result.table("differences").column("over seeds") == ("better", "better", "no clear difference")
    assert "With Nadeau–Bengio correction: 2 and 0 (holds)." in result.claims[0].words
    assert once.claims[0].verdict == "not shown"
    assert "So few seeds" in once.claims[0].words
    assert once.table("auc").column("SE") == (None, None, None)
    assert table2.result_of([], ExperimentSettings(), 1.0).claims[0].words == "No cell ran."


@pytest.mark.vision
def test_cells_run_on_tiny_images_and_go_on_where_they_were_cut(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    setup = NetworkSetup({"rounds": 2, "first_stride": 1, "batch_rows": 32}, validation=100)
    monkeypatch.setattr(images, "load_images", tiny_images)
    monkeypatch.setattr(images, "SETUPS", dict.fromkeys(SETUPS, setup))
    keep, plan = tmp_path / "rows.jsonl", ImagePlan(seeds=1, tasks=TASKS[::3])

    rows = run_images(plan, tmp_path, keep=keep)
    said = []
    again = run_images(plan, tmp_path, lambda share, words: said.append(words), keep)

    assert again == rows
    assert not said, "nothing is trained twice"
    assert len(rows) == 2 * len(TARGETS)
    result = table2.result_of(rows, ExperimentSettings(scale="smoke"), 1.0)
    assert ExperimentResult.from_json(result.to_json()) == result
    assert table2.claims({table.name: table for table in result.tables}) == result.claims
    soft = [each for each in rows if each.method == "RESULT"]
    assert np.mean([each.test_auc for each in soft]) > 0.6
    assert all(each.ceiling > each.perfect_level for each in soft)
