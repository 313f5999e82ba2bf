"""A binary stream lent to a reader that would otherwise close it."""

from __future__ import annotations

import io
from typing import IO


class Borrowed(io.BufferedIOBase):
    """Reads from the stream where it stands; closing this leaves the stream open."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        return self._stream.read(-1 if size is None else size)

    def read1(self, size: int = -1) -> bytes:
        return self._stream.read(size)


def text_of(stream: IO[bytes], encoding: str = "utf-8") -> io.TextIOWrapper:
    """The rest of the stream as text with its line ends as they are; damaged characters become U+FFFD.

    >>> list(text_of(io.BytesIO(b"a\\r\\nb")))
    ['a\\r\\n', 'b']
    """
    return io.TextIOWrapper(Borrowed(stream), encoding=encoding, errors="replace", newline="")  # type: ignore[arg-type]
