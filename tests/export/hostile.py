"""Tools of an attacker: open a bundle, change it, make every hash fit again."""

from __future__ import annotations

import io
import json
import zipfile
from functools import cache

from spu_core.export import bundle_bytes
from spu_core.export.archive import MANIFEST, digest, pack_archive, unpack_archive
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


class Canary:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")
