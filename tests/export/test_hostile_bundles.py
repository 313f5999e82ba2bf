"""Damaged, foreign and hostile files are refused in words, before any byte reaches a native library."""

from __future__ import annotations

import json
import pickle
import struct

import numpy as np
import pytest

from spu_core.errors import BundleError
from spu_core.export import BundleLimits, load_bundle
from spu_core.export.archive import MANIFEST, digest, pack_archive
from spu_core.export.manifest import SCHEMA_VERSION
from tests.export.hostile import Canary, good, members_of, resealed, zip_of


@pytest.fixture
def no_child(monkeypatch):
    """These files must be refused before anything reaches a native library, even in a child."""
    import spu_core.export.bundle_storage as storage

    monkeypatch.setattr(storage, "try_in_child", lambda data: pytest.fail("the file reached the trial"))


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
    with pytest.raises(BundleError, match=f"version {SCHEMA_VERSION + 1}, but .* reads up to {SCHEMA_VERSION}; update"):
        load_bundle(resealed(members_of(good()), schema_version=SCHEMA_VERSION + 1))


@pytest.mark.parametrize("version", [0, -1, "1", None, True, 1.0])
def test_a_schema_version_is_a_whole_number(version, no_child):
    with pytest.raises(BundleError, match="schema version"):
        load_bundle(resealed(members_of(good()), schema_version=version))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_is_refused_and_never_run(tmp_path, protocol, no_child):
    canary = tmp_path / "canary"
    (tmp_path / "model.spu").write_bytes(pickle.dumps(Canary(canary), protocol=protocol))

    with pytest.raises(BundleError, match=r"pickle|not a bundle"):
        load_bundle(tmp_path / "model.spu")
    assert not canary.exists()


@pytest.mark.parametrize(
    "name",
    ["../evil.txt", "/etc/passwd", "model/../../x.bin", "model\\0000.txt", "C:\\x.bin", "model/0000.pkl", "", "a"],
)
def test_names_that_are_not_ours_are_refused(name, tmp_path, no_child):
    members = members_of(good())
    data = zip_of([(MANIFEST, members[MANIFEST]), (name, b"x")])

    with pytest.raises(BundleError, match=r"not a name of a bundle member|damaged"):
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
        (zip_of([(MANIFEST, b"{}")]), "not a bundle: its"),
        (zip_of([(MANIFEST, b'{"a": 1, "a": 2}')]), "has the key 'a' twice"),
        (zip_of([(MANIFEST, b"[" * 100 + b"]" * 100)]), "nested deeper"),
        (zip_of([(MANIFEST, b"NaN")]), "NaN"),
        (zip_of([(MANIFEST, b"\xff\xfe")]), "not UTF-8"),
    ],
    ids=["empty", "header only", "csv", "foreign zip", "no manifest", "duplicate keys", "deep", "nan", "binary"],
)
def test_other_files_get_a_sentence(data, message, no_child):
    with pytest.raises(BundleError, match=message):
        load_bundle(data)


def test_a_stored_file_that_is_not_the_stored_one_is_refused():
    with pytest.raises(BundleError, match="not the file that was stored"):
        load_bundle(good(), known_hash=digest(b"other"))


def test_a_missing_file_and_a_folder_get_a_sentence(tmp_path):
    with pytest.raises(BundleError, match=r"'none.spu' cannot be opened: No such file"):
        load_bundle(tmp_path / "none.spu")
    with pytest.raises(BundleError, match="is a folder or a device, not a bundle file"):
        load_bundle(tmp_path)
