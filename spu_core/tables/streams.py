"""Binary streams that are lent to a reader which would otherwise close them, or watched while they are read."""

from __future__ import annotations

import io
from collections.abc import Callable
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


def watched(stream: IO[bytes], told: Callable[[int], None]) -> IO[bytes]:
    """The same stream, which says after each piece how many bytes were read so far, over all passes.

    >>> said = []
    >>> with watched(io.BytesIO(b"abc"), said.append) as stream:
    ...     stream.read(), stream.seek(1), stream.read(1)
    (b'abc', 1, b'b')
    >>> said[0]
    3
    """
    return io.BufferedReader(_Watched(stream, told), 1 << 20)  # type: ignore[type-var]


class _Watched(io.RawIOBase):
    def __init__(self, stream: IO[bytes], told: Callable[[int], None]) -> None:
        self._stream, self._told, self._read = stream, told, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._stream.seek(offset, whence)

    def readinto(self, buffer: bytearray, /) -> int:  # type: ignore[override]
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        self._read += len(data)
        self._told(self._read)
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()
