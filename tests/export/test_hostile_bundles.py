"""Damaged, tampered, foreign and hostile files are refused in words, and the process that reads them lives."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from functools import cache

import numpy as np
import pytest

from spu_core.errors import BundleError
from spu_core.export import BundleLimits, bundle_bytes, load_bundle
from spu_core.export.archive import MANIFEST, digest, pack_archive, unpack_archive
from spu_core.export.lightgbm_text import parse_text
from tests.export.examples import example


@cache
def good() -> bytes:
    return bundle_bytes(example("lightgbm").bundle)


def members_of(data: bytes) -> dict[str, bytes]:
    return unpack_archive(data)


def resealed(members: dict[str, bytes], **changes) -> bytes:
    """What an attacker would do: change members, then make every hash fit again."""
    manifest = json.loads(members[MANIFEST])
    manifest.update(changes)
    manifest["members"] = {
        name: {"sha256": digest(data), "size": len(data)} for name, data in members.items() if name != MANIFEST
    }
    return pack_archive({**members, MANIFEST: json.dumps(manifest).encode()})


def zip_of(entries, compression=zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", compression) as archive:
        for name, data in entries:
            archive.writestr(zipfile.ZipInfo(name), data, compression)
    return target.getvalue()


@pytest.fixture
def no_child(monkeypatch):
    """These files must be refused before anything reaches a native library, even in a child."""
    import spu_core.export.trial as trial

    monkeypatch.setattr(trial, "try_in_child", lambda data: pytest.fail("the file reached the trial"))


def test_a_bundle_cut_at_a_hundred_offsets_is_refused(no_child):
    data = good()
    for end in np.linspace(0, len(data) - 1, 100).astype(int):
        with pytest.raises(BundleError):
            load_bundle(data[:end])


def test_a_bundle_with_a_bit_flipped_at_two_hundred_places_is_refused(no_child):
    data = good()
    rng = np.random.default_rng(0)
    for place in rng.choice(len(data), 200, replace=False):
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(rng.integers(8))
        with pytest.raises(BundleError):
            load_bundle(bytes(damaged))


def test_a_changed_bit_in_each_part_of_the_zip_structure_is_refused(no_child):
    data = good()
    # The first local header, the last entry of the directory, the end record and its comment.
    directory = struct.unpack_from("<L", data, len(data) - 22 - 89 + 16)[0]
    for place in [*range(30), *range(directory, directory + 46), *range(len(data) - 111, len(data))]:
        damaged = bytearray(data)
        damaged[place] ^= 0x40
        with pytest.raises(BundleError):
            load_bundle(bytes(damaged))


def test_the_message_names_the_damaged_member(no_child):
    members = members_of(good())
    manifest = json.loads(members[MANIFEST])
    changed = pack_archive({**members, "model/0000.txt": members["model/0000.txt"][:-1] + b"x"})

    assert "model/0000.txt" in manifest["members"]
    with pytest.raises(BundleError, match=r"Member 'model/0000.txt' was changed after the export: its SHA-256"):
        load_bundle(changed)
    with pytest.raises(BundleError, match=r"Member 'model/0000.txt' has 10 bytes, but the manifest says"):
        load_bundle(pack_archive({**members, "model/0000.txt": members["model/0000.txt"][:10]}))


def test_members_beside_the_manifest_are_refused(no_child):
    members = members_of(good())

    with pytest.raises(BundleError, match=r"has a member 'model/0099.bin' that its manifest does not list"):
        load_bundle(pack_archive({**members, "model/0099.bin": b"x"}))
    del members["model/0000.txt"]
    with pytest.raises(BundleError, match=r"lacks the member 'model/0000.txt' that its manifest lists"):
        load_bundle(pack_archive(members))


def test_a_newer_bundle_asks_for_an_update(no_child):
    with pytest.raises(BundleError, match="schema version 2, but this version of spu-studio reads up to 1; update"):
        load_bundle(resealed(members_of(good()), schema_version=2))


@pytest.mark.parametrize("version", [0, -1, "1", None, True, 1.0])
def test_a_schema_version_is_a_whole_number(version, no_child):
    with pytest.raises(BundleError, match="schema version"):
        load_bundle(resealed(members_of(good()), schema_version=version))


class Canary:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_refused_and_never_run(tmp_path, protocol, no_child):
    canary = tmp_path / "canary"
    (tmp_path / "model.spu").write_bytes(pickle.dumps(Canary(canary), protocol=protocol))

    with pytest.raises(BundleError, match=r"pickle|not a bundle"):
        load_bundle(tmp_path / "model.spu")
    assert not canary.exists()


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


@pytest.mark.parametrize(
    "name",
    ["../evil.txt", "/etc/passwd", "model/../../x.bin", "model\\0000.txt", "C:\\x.bin", "model/0000.pkl", "", "a"],
)
def test_names_that_are_not_ours_are_refused(name, tmp_path, no_child):
    members = members_of(good())
    data = zip_of([(MANIFEST, members[MANIFEST]), (name, b"x")])

    with pytest.raises(BundleError, match=r"no name of ours|damaged"):
        load_bundle(data)


def test_two_members_of_one_name_are_refused(no_child):
    members = members_of(good())
    with pytest.warns(UserWarning, match="Duplicate name"):
        data = zip_of([(MANIFEST, members[MANIFEST]), ("encoder.json", b"{}"), ("encoder.json", b"{}")])

    with pytest.raises(BundleError, match=r"two members called 'encoder.json'"):
        load_bundle(data)


def test_a_decompression_bomb_is_refused_before_it_is_unpacked(no_child):
    bomb = zip_of([(MANIFEST, b"{}"), ("model/0000.bin", bytes(80_000_000))])

    with pytest.raises(BundleError, match="refused as a decompression bomb"):
        load_bundle(bomb)


def test_a_directory_that_lies_about_sizes_is_refused(no_child):
    bomb = bytearray(zip_of([(MANIFEST, bytes(50_000_000))]))
    for header, place in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<L", bomb, bomb.find(header) + place, 10)

    with pytest.raises(BundleError, match=f"Member '{MANIFEST}'"):
        load_bundle(bytes(bomb))


def test_too_many_members_or_bytes_are_refused(no_child):
    limits = BundleLimits(members=3)
    with pytest.raises(BundleError, match=r"members; it may have 3"):
        load_bundle(good(), limits=limits)
    with pytest.raises(BundleError, match=r"bytes; it may have 100"):
        load_bundle(good(), limits=BundleLimits(bytes=100))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04", "damaged or cut off"),
        (b"id,score\n1,2\n", "not a bundle: it does not start like a zip"),
        (zip_of([("a.txt", b"x")]), "does not start with manifest.json"),
        (zip_of([(MANIFEST, b"{}")]), "not a bundle of ours"),
        (zip_of([(MANIFEST, b'{"a": 1, "a": 2}')]), "names the key 'a' twice"),
        (zip_of([(MANIFEST, b"[" * 100)]), "nested deeper"),
        (zip_of([(MANIFEST, b"NaN")]), "NaN"),
        (zip_of([(MANIFEST, b"\xff\xfe")]), "not UTF-8"),
    ],
    ids=["empty", "header only", "csv", "foreign zip", "no manifest", "duplicate keys", "deep", "nan", "binary"],
)
def test_other_files_get_a_sentence(data, message, no_child):
    with pytest.raises(BundleError, match=message):
        load_bundle(data)


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


def test_an_xgboost_model_that_is_damaged_inside_is_refused_by_the_trial():
    members = members_of(bundle_bytes(example("xgboost").bundle))
    raw = members["model/0000.ubj"]

    with pytest.raises(BundleError, match="model"):
        load_bundle(resealed({**members, "model/0000.ubj": raw[: len(raw) // 2]}))


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

    with pytest.raises(BundleError, match="a tree of a forest leads back to itself"):
        load_bundle(data, known_hash=digest(data))


def test_a_child_that_dies_or_hangs_gives_a_sentence():
    from spu_core.export.trial import try_in_child

    with pytest.raises(BundleError, match=r"refused|more memory|cannot be loaded by its library"):
        try_in_child(good(), memory=200 * 1024**2)
    with pytest.raises(BundleError, match=r"crashed its library \(signal 24\)|did not finish"):
        try_in_child(good(), seconds=0)


def test_a_stored_file_that_is_not_the_stored_one_is_refused():
    with pytest.raises(BundleError, match="not the file that was stored"):
        load_bundle(good(), known_hash=digest(b"other"))


def test_a_missing_file_and_a_folder_get_a_sentence(tmp_path):
    with pytest.raises(BundleError, match=r"'none.spu' cannot be opened: No such file"):
        load_bundle(tmp_path / "none.spu")
    with pytest.raises(BundleError, match="is a folder or a device, not a bundle file"):
        load_bundle(tmp_path)


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
        with pytest.raises(BundleError, match="figure 'auc_spu' is no number, interval or note"):
            load_bundle(resealed(members, run={**run, "metrics": {"auc_spu": value}}))


def test_a_loaded_xgboost_tree_that_leads_outside_itself_is_refused():
    from spu_core.export.model_checks import _check_xgboost

    tree = {"left_children": [1, -1, -1], "right_children": [2, -1, -1], "split_indices": [0, 0, 0]}
    model = {"learner": {"gradient_booster": {"model": {"trees": [tree]}}}}

    _check_xgboost(model, 1)
    for changes in ({"left_children": [0, -1, -1]}, {"right_children": [9, -1, -1]}, {"split_indices": [1, 0, 0]}):
        broken = {"learner": {"gradient_booster": {"model": {"trees": [{**tree, **changes}]}}}}
        with pytest.raises(BundleError, match="leads outside itself or its columns"):
            _check_xgboost(broken, 1)
