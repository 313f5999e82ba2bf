"""Scoring a folder: part by part, the scores of the same rows in memory."""

import pandas as pd
import pytest

from spu_core.export import Bundle
from spu_core.labels import soft_labels_for
from spu_core.rules import Compare, Rule, RuleSet
from spu_core.tables import open_folder
from spu_core.training import Candidate, TrainConfig, cross_fit
from tests.tables.folders import mixed_frame, write_folder

RULES = RuleSet((Rule("rich", 0.4, Compare("amount", ">", 200)),))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return open_folder(write_folder(mixed_frame(300), tmp_path_factory.mktemp("rows") / "f", [70, 200], varied=True))


def test_a_folder_is_scored_like_the_table_in_memory(folder, tmp_path):
    config = TrainConfig(folds=2, threads=1)
    [run] = cross_fit(folder, soft_labels_for(folder, RULES), [Candidate("lightgbm", {"rounds": 5})], config)
    bundle = Bundle.of(run)

    report = bundle.score_file(folder.store.path, tmp_path / "scored.parquet")

    expected = bundle.score(folder.read().frame)
    found = pd.read_parquet(tmp_path / "scored.parquet")
    assert report.rows == 300
    assert found["score"].tolist() == expected.frame["score"].tolist()
    assert found["rank"].tolist() == expected.frame["rank"].tolist()
    assert bundle.score(folder).frame["score"].tolist() == expected.frame["score"].tolist()
