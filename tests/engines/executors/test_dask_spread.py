"""A folder spread over a cluster: rules and soft labels exactly as in memory, AUC_SPU as good as in memory."""

from __future__ import annotations

from dataclasses import replace

import dask
import numpy as np
import pandas as pd
import pytest

from spu_core import Rule, RuleSet, TrainConfig, cross_fit, soft_labels_for
from spu_core.engines.executors import DaskSpreadExecutor, score_folder_on, soft_labels_on
from spu_core.engines.executors.dask_spread import FilePiece, RemoteMatrix, Share, fit_encoder_on, pieces_of
from spu_core.engines.study import Study
from spu_core.errors import BundleError, EngineError
from spu_core.export import save_bundle
from spu_core.rules import Compare, Ramp
from spu_core.tables import open_folder
from spu_core.training import Candidate, EarlyStopping, TrainingCancelled, TrainPlan, iter_cross_fit
from spu_core.training.rows import fit_encoder
from tests.export.examples import known

pytestmark = pytest.mark.xdist_group("cluster")

# Small trees: workers talk to each other for every split, and wait for each other where cores are busy.
CANDIDATES = (
    Candidate("lightgbm", {"rounds": 20, "num_leaves": 8}),
    Candidate("xgboost", {"rounds": 20, "max_depth": 3}),
)
CONFIG = TrainConfig(folds=3, threads=1)
RULES = RuleSet(
    (
        Rule("large", Ramp(column="amount", start=0.5, end=1.0, at_end=0.8, scale="quantile")),
        Rule("night", 0.3, when=Compare("hour", "<", 5)),
    )
)


def rows(count: int, seed: int = 0) -> pd.DataFrame:
    """Fraud-like rows; what matters most beside the rules is a category."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(list("abcdefgh"), count)
    truth = rng.random(count) < 1 / (1 + np.exp(3 - 3.5 * np.isin(kind, ["b", "g"])))
    return pd.DataFrame(
        {
            "user": np.arange(count),
            "amount": np.exp(rng.normal(size=count) + 1.5 * truth),
            "hour": rng.integers(0, 24, count),
            "kind": kind,
            "speed": rng.normal(size=count) + truth,
            "noise": np.where(rng.random(count) < 0.1, np.nan, rng.normal(size=count)),
            "fraud": np.where(truth & (rng.random(count) < 0.3), "yes", None),
        }
    )


ROLES = {"user": "id", "fraud": "label"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files sorted by category, so that each holds levels that the others lack; one file is empty."""
    home = tmp_path_factory.mktemp("spread")
    frame = rows(12_000).sort_values(["kind", "user"], ignore_index=True)
    for number, part in enumerate([frame[:3000], frame[3000:3000], frame[3000:8000], frame[8000:]]):
        part.to_parquet(home / f"part-{number}.parquet")
    return open_folder(home, roles=ROLES)


def test_pieces_are_the_files_that_have_rows(folder):
    assert [piece.start for piece in pieces_of(folder)] == [0, 3000, 8000]


def test_soft_labels_are_exactly_those_of_the_rows_in_memory(cluster, folder):
    there, here = soft_labels_on(cluster, folder, RULES), soft_labels_for(folder.read(), RULES)

    np.testing.assert_array_equal(there.value, here.value)
    np.testing.assert_array_equal(there.rule_score, here.rule_score)
    np.testing.assert_array_equal(there.is_labeled, here.is_labeled)
    assert there.rule_columns == here.rule_columns


def test_levels_of_all_pieces_are_merged_before_anything_is_trained(cluster, folder):
    assert fit_encoder_on(cluster, folder) == fit_encoder(folder)


@pytest.fixture(scope="module")
def soft_labels(folder):
    return soft_labels_for(folder, RULES)


@pytest.fixture(scope="module")
def there(cluster, folder, soft_labels):
    return list(iter_cross_fit(folder, soft_labels, CANDIDATES, CONFIG, executor=DaskSpreadExecutor(cluster)))


def test_runs_agree_with_local_ones_although_files_hold_different_levels(there, folder, soft_labels):
    here = cross_fit(folder, soft_labels, CANDIDATES, CONFIG)

    for remote, local in zip(there, here, strict=True):
        assert remote.error is None
        np.testing.assert_array_equal(remote.fold, local.fold)
        figures = remote.metrics.auc_spu.estimate, local.metrics.auc_spu.estimate
        assert figures[0] == pytest.approx(figures[1], abs=0.003)


def test_what_is_sent_for_each_row_goes_to_its_worker_and_not_into_the_graph_of_the_scheduler(
    cluster, folder, tmp_path, recwarn
):
    """Numbers, targets and weights of a training part are 96 kB for each worker here, gigabytes at 1e8 rows."""
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "30kB"}):
        study = Study.of(folder, RULES, TrainPlan(CONFIG, CANDIDATES[:1]), refine=False)
        ((_, bundle),) = study.run(folder, executor=DaskSpreadExecutor(cluster))
        score_folder_on(cluster, save_bundle(bundle, tmp_path / "model.spu"), folder.store.path, tmp_path / "scores")

    assert [str(warning.message) for warning in recwarn if "large graph" in str(warning.message)] == []


def test_a_caller_can_stop_in_the_middle_and_new_workers_give_the_same_scores_to_the_bit(
    cluster, there, folder, soft_labels
):
    slow, asked, executor = Candidate("lightgbm", settings={"rounds": 20_000}), [], DaskSpreadExecutor(cluster)

    def should_stop():
        asked.append(cluster.workers)
        return len(asked) == 4

    with pytest.raises(TrainingCancelled):
        list(iter_cross_fit(folder, soft_labels, [slow], CONFIG, executor=executor, should_stop=should_stop))
    again = list(iter_cross_fit(folder, soft_labels, CANDIDATES, CONFIG, executor=executor))

    assert not set(cluster.workers) & set(asked[-1])
    for one, other in zip(there, again, strict=True):
        np.testing.assert_array_equal(one.score, other.score)


def test_rows_whose_worker_was_lost_between_two_steps_are_not_waited_for(cluster):
    class Nobody:
        client = cluster.client

        def restart(self) -> str:
            return "Start it again."

    gone = Share("tcp://127.0.0.1:1", matrix=None, rows=np.arange(4))
    matrix = RemoteMatrix(replace(cluster, pool=Nobody()), (4, 1), (gone,))

    with pytest.raises(EngineError, match=r"interrupted: the worker tcp://127\.0\.0\.1:1 was lost\. Start it again"):
        matrix.every(2)


def test_one_file_is_enough(cluster, tmp_path):
    rows(600).to_parquet(tmp_path / "only.parquet")
    folder = open_folder(tmp_path, roles=ROLES)

    (run,) = iter_cross_fit(
        folder, soft_labels_for(folder, RULES), CANDIDATES[:1], CONFIG, executor=DaskSpreadExecutor(cluster)
    )

    assert run.error is None
    assert np.isfinite(run.score).all()


def test_a_study_on_a_cluster_leaves_a_bundle_that_scores(cluster, folder, tmp_path):
    study = Study.of(folder, RULES, TrainPlan(CONFIG, CANDIDATES[:1]), refine=False)
    ((run, bundle),) = study.run(folder, executor=DaskSpreadExecutor(cluster))

    path = save_bundle(bundle, tmp_path / "model.spu")

    scored = known(path).score(rows(200, seed=5))
    assert scored.frame["score"].between(0, 1).all()
    assert run.name == "lightgbm"


def test_a_bundle_scores_a_folder_as_one_process_scores_one_file(cluster, folder, tmp_path):
    ((_, bundle),) = Study.of(folder, RULES, TrainPlan(CONFIG, CANDIDATES[:1]), refine=False).run(folder)
    path = save_bundle(bundle, tmp_path / "model.spu")
    fresh = rows(500, seed=9)
    (tmp_path / "new" / "deeper").mkdir(parents=True)
    fresh[:200].to_parquet(tmp_path / "new" / "a.parquet")
    fresh[200:].to_parquet(tmp_path / "new" / "deeper" / "b.parquet")
    fresh[:0].to_parquet(tmp_path / "new" / "empty.parquet")

    report = score_folder_on(cluster, path, tmp_path / "new", tmp_path / "scores")

    wanted = known(path).score(fresh)
    found = [pd.read_parquet(tmp_path / "scores" / name) for name in ("a.parquet", "deeper/b.parquet")]
    pd.testing.assert_frame_equal(pd.concat(found, ignore_index=True), wanted.frame)
    assert report == wanted.report
    empty = pd.read_parquet(tmp_path / "scores" / "empty.parquet")
    assert list(empty) == list(wanted.frame)
    assert len(empty) == 0

    with pytest.raises(BundleError, match=r"a\.parquet' exists already; give an empty folder"):
        score_folder_on(cluster, path, tmp_path / "new", tmp_path / "scores")


@pytest.mark.parametrize(
    ("candidate", "config", "words"),
    [
        (Candidate("fused"), CONFIG, "fused: on rows that are spread"),
        (Candidate("logistic"), CONFIG, "only one booster with one target"),
        (CANDIDATES[0], TrainConfig(folds=3, early_stopping=EarlyStopping()), "tune on a sample"),
    ],
)
def test_what_cannot_be_shared_is_a_row_with_an_error(cluster, folder, soft_labels, candidate, config, words):
    (run,) = iter_cross_fit(folder, soft_labels, [candidate], config, executor=DaskSpreadExecutor(cluster))

    assert words in run.error


def test_files_that_workers_cannot_see_are_named(folder):
    (piece, *_) = pieces_of(folder)
    store = piece.table.store
    gone = replace(store.files[0], path=store.path / "gone.parquet")
    lost = FilePiece(replace(piece.table, store=replace(store, files=(gone,))), 0)

    with pytest.raises(EngineError, match=r"A worker cannot read .*gone\.parquet.* a disk that all workers share"):
        next(lost.parts())
