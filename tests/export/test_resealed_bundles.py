"""Bundles changed by someone who made every hash fit again are refused, and the process that reads them lives."""

from __future__ import annotations

import json
import os
import pickle

import numpy as np
import pytest

from spu_core.errors import BundleError
from spu_core.export import bundle_bytes, load_bundle
from spu_core.export.archive import MANIFEST, digest, pack_archive
from spu_core.export.model_checks import parse_text
from tests.export.examples import example
from tests.export.hostile import Canary, good, members_of, resealed


@pytest.mark.parametrize("member", ["model/0000.txt", "encoder.json", "rules.json", "profile.json", MANIFEST])
def test_a_pickle_in_the_place_of_a_member_is_refused_and_never_run(tmp_path, member):
    canary = tmp_path / "canary"
    members = members_of(good())
    manifest = json.loads(members[MANIFEST])
    members[member] = pickle.dumps(Canary(canary))
    data = (
        pack_archive(members) if member == MANIFEST else resealed({**members, MANIFEST: json.dumps(manifest).encode()})
    )

    with pytest.raises(BundleError):
        load_bundle(data)
    assert not canary.exists()


@pytest.mark.parametrize("part", ["run", "candidate", "model", "flag", "passport", "rows"])
@pytest.mark.parametrize(
    "value", [{}, {"unknown": 1}, [], None, "text"], ids=["empty", "unknown", "list", "null", "text"]
)
def test_a_resealed_manifest_with_a_wrong_part_is_refused_in_words(part, value):
    if part == "rows" and value == {}:
        return
    if part == "passport" and value == {}:
        return
    with pytest.raises(BundleError):
        load_bundle(resealed(members_of(good()), **{part: value}))


def test_resealed_models_that_would_crash_the_library_are_refused_and_we_live():
    """Every hash fits: only the check of the text and the trial stand between such a model and this process."""
    members = members_of(good())
    text = members["model/0000.txt"]
    for end in np.linspace(6, len(text) - 1, 100).astype(int):
        with pytest.raises(BundleError):
            parse_text(text[:end].decode())
    with pytest.raises(BundleError, match="LightGBM model text is cut off"):
        load_bundle(resealed({**members, "model/0000.txt": text[: len(text) // 2]}))


def test_a_tree_that_leads_outside_itself_is_refused():
    members = members_of(good())
    lines = members["model/0000.txt"].decode().split("\n")
    for field, value in (("split_feature", "99"), ("left_child", "99"), ("right_child", "0"), ("leaf_value", "nan")):
        place = next(at for at, line in enumerate(lines) if line.startswith(f"{field}="))
        cells = lines[place].partition("=")[2].split()
        broken = [*lines]
        broken[place] = f"{field}={' '.join([value, *cells[1:]])}"
        with pytest.raises(BundleError, match="LightGBM model text is damaged"):
            load_bundle(resealed({**members, "model/0000.txt": "\n".join(broken).encode()}))


def test_a_model_that_says_otherwise_than_at_export_is_refused():
    members = members_of(good())
    profile = json.loads(members["profile.json"])
    profile["probe"] = [value + 0.01 for value in profile["probe"]]

    with pytest.raises(BundleError, match=r"gives other scores here than at its export \(off by up to 0.01"):
        load_bundle(resealed({**members, "profile.json": json.dumps(profile).encode()}))


def test_a_forest_that_runs_in_circles_is_refused():
    members = members_of(bundle_bytes(example("extra_trees").bundle))
    manifest = json.loads(members[MANIFEST])
    name = manifest["model"]["blobs"]["children_left"]["member"]
    nodes = np.frombuffer(members[name], dtype="<i8").copy()
    nodes[0] = 0
    data = resealed({**members, name: nodes.tobytes()})

    with pytest.raises(BundleError, match="a tree of a forest has a cycle"):
        load_bundle(data, known_hash=digest(data))


def test_a_child_that_dies_or_hangs_gives_a_sentence():
    from spu_core.export.bundle_storage import try_in_child

    with pytest.raises(BundleError, match=r"refused|more memory|cannot be used by its library"):
        try_in_child(good(), memory=200 * 1024**2)
    with pytest.raises(BundleError, match=r"crashed its library \(signal 24\)|did not finish"):
        try_in_child(good(), seconds=0)


def test_stored_rows_of_another_kind_or_length_are_refused():
    members = members_of(good())
    manifest = json.loads(members[MANIFEST])
    for name, entry in (("score", {"dtype": "<i8"}), ("fold", {"dtype": "<f8"}), ("score", {"shape": [10, 40]})):
        rows = json.loads(json.dumps(manifest["rows"]))
        rows[name] |= entry
        with pytest.raises(BundleError, match=f"stored '{name}' is not one number for each of the 400 rows"):
            load_bundle(resealed(members, rows=rows))
    with pytest.raises(BundleError, match="stores only some parts of its rows"):
        load_bundle(resealed(members, rows={"score": manifest["rows"]["score"]}))


def test_figures_that_no_card_could_show_are_refused():
    members = members_of(good())
    run = json.loads(members[MANIFEST])["run"]
    for value in ({"estimate": 1}, [[1]], [{"a": 1}], {"estimate": {}}):
        with pytest.raises(BundleError, match="figure 'auc_spu' is not a number, interval or note"):
            load_bundle(resealed(members, run={**run, "metrics": {"auc_spu": value}}))


def test_a_loaded_xgboost_tree_that_leads_outside_itself_is_refused():
    from spu_core.export.model_checks import _check_xgboost

    tree = {"left_children": [1, -1, -1], "right_children": [2, -1, -1], "split_indices": [0, 0, 0]}
    tree["tree_param"] = {"size_leaf_vector": "1"}

    def model_of(tree):
        parts = {"iteration_indptr": [0, 1], "tree_info": [0], "trees": [tree]}
        return {"learner": {"gradient_booster": {"model": parts}}}

    _check_xgboost(model_of(tree), 1)
    for changes in ({"left_children": [0, -1, -1]}, {"right_children": [9, -1, -1]}, {"split_indices": [1, 0, 0]}):
        with pytest.raises(BundleError, match="points outside itself or its columns"):
            _check_xgboost(model_of({**tree, **changes}), 1)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "member"), [("lightgbm", "model/0000.txt"), ("xgboost", "model/0000.ubj")])
def test_a_resealed_model_cut_or_flipped_anywhere_never_ends_this_process(method, member):
    """The worst case: every hash fits. A cut is refused; a flipped bit is refused, or it is merely another model."""
    members = members_of(bundle_bytes(example(method).bundle))
    raw, rng = members[member], np.random.default_rng(0)
    cuts, flips = (100, 200) if os.environ.get("SPU_SLOW") == "1" else (1, 1)
    for end in np.linspace(6, len(raw) - 2, cuts + 1)[1:].astype(int):
        with pytest.raises(BundleError):
            load_bundle(resealed({**members, member: raw[:end]}))
    for place in rng.choice(len(raw), flips, replace=False):
        damaged = bytearray(raw)
        damaged[place] ^= 1 << int(rng.integers(8))
        try:
            bundle = load_bundle(resealed({**members, member: bytes(damaged)}))
        except BundleError:
            continue
        assert np.isfinite(bundle.predict(example(method).table.frame)).all()
