"""Bundles that version 0.2.0 wrote: they open, score as they did, and are written again with the same content."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from spu_core.export import bundle_bytes
from spu_core.export.archive import MANIFEST, unpack_archive
from tests.export.examples import known

STORED = Path(__file__).parent / "stored"
METHODS = sorted(path.stem for path in STORED.glob("*.spu"))
# Their scores are sums of stored numbers in a fixed order; the others multiply matrices, which machines round
# differently.
EXACT = {"elkan_noto", "extra_trees", "lightgbm", "rule_score", "soft_as_feature", "soft_bagging", "xgboost"}


def test_every_kind_of_model_is_stored():
    kinds = {known(STORED / f"{method}.spu").fitted.model.to_state()[0]["kind"] for method in METHODS}

    assert kinds == {
        "average", "extra_trees", "fused", "lightgbm", "logistic", "nearest_neighbors", "neural_net", "nnpu_net",
        "rule_score", "scaled", "with_rule_score", "xgboost",
    }  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_an_old_bundle_scores_as_it_did(method):
    with np.load(STORED / "scores.npz") as stored:
        expected = stored[method]

    score = known(STORED / f"{method}.spu").predict(pd.read_parquet(STORED / "rows.parquet"))

    np.testing.assert_allclose(score, expected, rtol=0.0, atol=0.0 if method in EXACT else 1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_an_old_bundle_is_written_again_with_the_same_members(method):
    path = STORED / f"{method}.spu"
    again, before = unpack_archive(bundle_bytes(known(path))), unpack_archive(path.read_bytes())
    new, old = json.loads(again.pop(MANIFEST)), json.loads(before.pop(MANIFEST))

    assert again == before
    # The duration of a training is not written any more: equal studies give equal bytes.
    assert old["run"].pop("seconds") >= 0
    assert {**new, "schema_version": 3} == old


def test_an_old_bundle_with_rows_still_gives_its_run():
    run = known(STORED / "lightgbm.spu").run

    assert run.need_score().size == 400
    assert run.metrics is not None
    assert run.metrics.auc_spu.estimate == pytest.approx(
        known(STORED / "lightgbm.spu").facts.metrics["auc_spu"]["estimate"]
    )
