"""Signatures of exported files: Ed25519, 64 bytes in a file beside them, so that openssl can make and check them too.

A hash shows that a file was not changed; a signature shows who made it, to those who have the maker's public key.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from spu_core.errors import BundleError
from spu_core.export.archive import write_file

SUFFIX = ".sig"


def sign_file(path: str | os.PathLike[str], private_key: str | os.PathLike[str]) -> Path:
    """Write the signature of a file beside it, as `FILE.sig`.

    Parameters
    ----------
    path : str or path
        The file to sign: a bundle, an ONNX model, a zip.
    private_key : str or path
        An Ed25519 key in PEM form without a password: `openssl genpkey -algorithm ed25519 -out key.pem`.

    Returns
    -------
    Path
        The file with the signature.
    """
    key = _key(private_key, "private")
    return write_file(key.sign(Path(path).read_bytes()), f"{os.fspath(path)}{SUFFIX}")


def verify_file(path: str | os.PathLike[str], public_key: str | os.PathLike[str]) -> None:
    """Refuse a file whose signature `FILE.sig` is absent or was not made with the private half of this key.

    Parameters
    ----------
    path : str or path
        The signed file.
    public_key : str or path
        The sender's public key in PEM form: `openssl pkey -in key.pem -pubout -out public.pem`.

    Raises
    ------
    BundleError
        If there is no signature, or it is not that of this file by this key.
    """
    key, shown = _key(public_key, "public"), Path(path).name
    from cryptography.exceptions import InvalidSignature

    try:
        data, signature = Path(path).read_bytes(), Path(f"{os.fspath(path)}{SUFFIX}").read_bytes()
        key.verify(signature, data)
    except OSError as problem:
        name = Path(str(problem.filename)).name
        raise BundleError(f"{shown!r} cannot be verified: {name!r} cannot be read ({problem.strerror}).") from None
    except InvalidSignature:
        raise BundleError(
            f"{shown!r} was not signed with this key, or was changed since; ask the sender for the file again."
        ) from None


def _key(path: str | os.PathLike[str], kind: str) -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
    except ImportError:
        raise BundleError(
            "Signatures need cryptography, which is not installed; install the extra: pip install 'spu-studio[sign]'."
        ) from None
    shown = Path(path).name
    try:
        data = Path(path).read_bytes()
        key = load_pem_private_key(data, password=None) if kind == "private" else load_pem_public_key(data)
    except OSError as problem:
        raise BundleError(f"The key {shown!r} cannot be read: {problem.strerror}.") from None
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey if kind == "private" else Ed25519PublicKey):
        raise BundleError(f"{shown!r} is not an Ed25519 {kind} key in PEM form without a password.")
    return key
