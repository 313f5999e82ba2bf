"""Signatures: made and checked with a key, and with openssl's form of keys; everything else is refused in words."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key  # noqa: E402
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: E402

from spu_core import cli  # noqa: E402
from spu_core.errors import BundleError  # noqa: E402
from spu_core.export import sign_file, verify_file  # noqa: E402

PEM = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def write_keys(folder, name, key):
    (folder / f"{name}.pem").write_bytes(key.private_bytes(*PEM))
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / f"{name}.pub").write_bytes(public)


@pytest.fixture
def place(tmp_path):
    write_keys(tmp_path, "own", Ed25519PrivateKey.generate())
    write_keys(tmp_path, "other", Ed25519PrivateKey.generate())
    write_keys(tmp_path, "curve", generate_private_key(SECP256R1()))
    (tmp_path / "model.spu").write_bytes(b"a bundle")
    return tmp_path


def test_a_signed_file_is_accepted_with_the_right_key_only(place):
    signature = sign_file(place / "model.spu", place / "own.pem")

    assert signature.name == "model.spu.sig"
    assert len(signature.read_bytes()) == 64
    verify_file(place / "model.spu", place / "own.pub")
    with pytest.raises(BundleError, match="was not signed with this key, or was changed since"):
        verify_file(place / "model.spu", place / "other.pub")
    (place / "model.spu").write_bytes(b"a bundlf")
    with pytest.raises(BundleError, match="was not signed with this key, or was changed since"):
        verify_file(place / "model.spu", place / "own.pub")


def test_what_is_no_signature_or_no_key_is_refused_in_words(place):
    with pytest.raises(BundleError, match=r"'model.spu' cannot be verified: 'model.spu.sig' cannot be read"):
        verify_file(place / "model.spu", place / "own.pub")
    for wrong in ("curve.pem", "own.pub", "model.spu"):
        with pytest.raises(BundleError, match="is not an Ed25519 private key"):
            sign_file(place / "model.spu", place / wrong)
    with pytest.raises(BundleError, match=r"The key 'gone.pem' cannot be read"):
        sign_file(place / "model.spu", place / "gone.pem")


def test_without_the_extra_the_way_to_it_is_told(place, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)

    with pytest.raises(BundleError, match=r"pip install 'spu-studio\[sign\]'"):
        sign_file(place / "model.spu", place / "own.pem")


def test_the_command_line_verifies(place, monkeypatch):
    monkeypatch.chdir(place)
    sign_file("model.spu", "own.pem")

    done = CliRunner().invoke(cli.app, ["verify", "model.spu", "--key", "own.pub"])
    assert "was signed with this key and not changed since" in done.stdout
    refused = CliRunner().invoke(cli.app, ["verify", "model.spu", "--key", "other.pub"])
    assert isinstance(refused.exception, BundleError)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_openssl_accepts_the_signature(place):
    sign_file(place / "model.spu", place / "own.pem")
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "own.pub", "-rawin", "-in", "model.spu"]

    done = subprocess.run(
        [*command, "-sigfile", "model.spu.sig"], cwd=place, capture_output=True, text=True, check=False
    )

    assert "Verified Successfully" in done.stdout + done.stderr
