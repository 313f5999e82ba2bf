"""The zip file of a bundle: equal members give equal bytes, and every byte is checked before it is used.

The first member is the manifest. The comment of the zip holds the SHA-256 of everything before the end record, so that
one changed bit anywhere is noticed; the hashes in the manifest show which member was changed. A hash shows that a file
was not changed; a signature (Ed25519, 64 bytes beside the file) shows who made it.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from spu_core.errors import BundleError

MANIFEST = "manifest.json"
# No other names are accepted, so that a member cannot name a path on the reader's computer.
MEMBER_NAME = re.compile(r"(manifest|encoder|profile|rules|self_test)\.json|(model|rows)/[0-9]{4,6}\.(txt|ubj|bin)")
_SEAL = "spu-studio bundle sha256:"
_SEAL_LENGTH = len(_SEAL) + 64
_END = struct.Struct("<4s4H2LH")
_MOMENT = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, kw_only=True)
class BundleLimits:
    """The sizes beyond which a bundle is refused; each is checked before anything is unpacked."""

    bytes: int = 1024**3
    expanded_bytes: int = 4 * 1024**3
    members: int = 20_000
    # Trees in text form shrink to a tenth. An array of zeros may shrink to a thousandth, but is small: below
    # `expansion_free` bytes the ratio is not checked.
    expansion: int = 200
    expansion_free: int = 64 * 1024**2


def pack_archive(members: Mapping[str, bytes]) -> bytes:
    """The bytes of a zip with these members, the manifest first; equal members give equal bytes."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in (MANIFEST, *sorted(set(members) - {MANIFEST})):
            entry = zipfile.ZipInfo(name, _MOMENT)
            entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, 3, 0o600 << 16
            archive.writestr(entry, members[name])
    body = target.getvalue()
    end = len(body) - _END.size
    return body[: end + _END.size - 2] + struct.pack("<H", _SEAL_LENGTH) + _seal(body[:end])


def write_file(data: bytes, path: str | os.PathLike[str]) -> Path:
    """Write a file completely or not at all: into a draft in the same folder, which is then renamed.

    It is meant to be passed on, so its permissions are the usual ones (the umask), not those of a temporary file.
    """
    target = Path(path)
    place = target.parent / f".writing-{uuid4().hex}"
    try:
        with place.open("xb") as draft:
            try:
                draft.write(data)
                draft.flush()
                os.fsync(draft.fileno())
                os.replace(place, target)
            except BaseException:
                place.unlink()
                raise
    except OSError as problem:
        raise BundleError(f"{target.name!r} cannot be written: {problem.strerror or problem}.") from problem
    return target


def read_file(path: str | os.PathLike[str], limits: BundleLimits) -> bytes:
    """The bytes of a bundle file; one that is too large or not a regular file is refused."""
    shown = os.path.basename(os.fspath(path))
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise BundleError(f"{shown!r} is a folder or a device, not a bundle file.")
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > limits.bytes:
                raise BundleError(f"{shown!r} has {size:,} bytes; a bundle may have {limits.bytes:,}.")
            return stream.read(limits.bytes + 1)
    except OSError as problem:
        raise BundleError(f"{shown!r} cannot be opened: {problem.strerror or problem}.") from problem


def unpack_archive(data: bytes, limits: BundleLimits | None = None) -> dict[str, bytes]:
    """The members of a bundle, after checking its size and the number, names and sizes of the members."""
    limits = limits or BundleLimits()
    if len(data) > limits.bytes:
        raise BundleError(f"The bundle has {len(data):,} bytes; it may have {limits.bytes:,}.")
    _refuse_other_files(data)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            _check_entries(entries, limits)
            return {entry.filename: _read_member(archive, entry) for entry in entries}
    except (zipfile.BadZipFile, NotImplementedError, struct.error, EOFError, UnicodeError, ValueError) as problem:
        if isinstance(problem, BundleError):
            raise
        raise BundleError(
            f"The bundle's directory of members is damaged or cut off ({_plain(problem)}); copy or export it again."
        ) from None


def is_sealed(data: bytes) -> bool:
    """Whether the file is exactly as it was written."""
    end = len(data) - _END.size - _SEAL_LENGTH
    if end < 0 or data[end + _END.size :] != _seal(data[:end]):
        return False
    signature, disk, start_disk, here, total, size, start, comment = _END.unpack_from(data, end)
    plain = (signature, disk, start_disk, comment) == (b"PK\x05\x06", 0, 0, _SEAL_LENGTH)
    return plain and here == total and start + size == end


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def _seal(body: bytes) -> bytes:
    return (_SEAL + digest(body)).encode()


def _refuse_other_files(data: bytes) -> None:
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return
    if re.match(rb"\x80[\x02-\x05]|\(dp|\]q|c__builtin__|cos\n", data[:32]):
        raise BundleError(
            "The file is a Python pickle, which could run code; it is never opened. Ask for a .spu bundle."
        )
    if not data:
        raise BundleError("The file is empty (0 bytes), not a bundle; copy or export it again.")
    raise BundleError(
        "The file is not a bundle: it does not start like a zip file. Ask for a file made by save_bundle."
    )


def _check_entries(entries: list[zipfile.ZipInfo], limits: BundleLimits) -> None:
    if len(entries) > limits.members:
        raise BundleError(f"The bundle has {len(entries):,} members; it may have {limits.members:,}.")
    if not entries or entries[0].filename != MANIFEST:
        raise BundleError(f"The bundle does not start with {MANIFEST}, so nothing in it can be checked.")
    for entry in entries:
        _check_entry(entry)
    [(twice, times)] = Counter(entry.filename for entry in entries).most_common(1)
    if times > 1:
        raise BundleError(f"The bundle has two members called {twice!r}; only one is allowed.")
    _check_growth(entries, limits)


def _check_entry(entry: zipfile.ZipInfo) -> None:
    if not MEMBER_NAME.fullmatch(entry.filename) or entry.orig_filename != entry.filename:
        raise BundleError(
            f"The bundle has a member called {entry.orig_filename[:80]!r}, which is not a name of a bundle member."
        )
    if entry.flag_bits & 0x1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise BundleError(f"Member {entry.filename!r} is encrypted or has an unknown compression.")


def _check_growth(entries: list[zipfile.ZipInfo], limits: BundleLimits) -> None:
    packed, grown = sum(e.compress_size for e in entries), sum(e.file_size for e in entries)
    if grown > limits.expanded_bytes:
        raise BundleError(f"The bundle unpacks to {grown:,} bytes; it may unpack to {limits.expanded_bytes:,}.")
    if grown > limits.expansion_free and grown > limits.expansion * packed:
        raise BundleError(
            f"The bundle grows more than {limits.expansion}-fold when unpacked ({packed:,} bytes become {grown:,}); "
            "it was refused as a decompression bomb."
        )


def _read_member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    try:
        with archive.open(entry) as stream:
            # The zip directory may give a wrong size; reading one byte more shows it.
            data = stream.read(entry.file_size + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as problem:
        raise BundleError(f"Member {entry.filename!r} is damaged ({_plain(problem)}).") from None
    if len(data) != entry.file_size:
        raise BundleError(
            f"Member {entry.filename!r} does not have the {entry.file_size:,} bytes that the zip directory lists."
        )
    return data


def _plain(problem: Any) -> str:
    return re.sub(r"\s+", " ", str(problem)).strip(" .")[:120] or type(problem).__name__


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
