"""Sources of tables: paths, bytes and file objects with their format, and streams for their readers."""

from __future__ import annotations

import io
import os
import re
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any

from spu_core.errors import TableError
from spu_core.tables.reading.connectors import is_address, open_address, shown_address, unpack_member
from spu_core.tables.reading.reading_report import ReadLimits

CHUNK = 1 << 20

QUERY_HINT = "use a query: read_table(path, query=…), or --query on the command line"
# Files that are not tables: the first bytes, the name of the format, and advice.
_FOREIGN = (
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Excel or Office file (.xls)", "save it as .xlsx or CSV"),
    (b"%PDF", "a PDF document", "export the table as CSV"),
    (b"BZh", "a bzip2 archive", "unpack it, or compress with gzip"),
    (b"\xfd7zXZ\x00", "an xz archive", "unpack it, or compress with gzip"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive", "unpack it, or compress with gzip"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-zip archive", "unpack it"),
    (b"Rar!\x1a\x07", "a RAR archive", "unpack it"),
    (b"SQLite format 3\x00", "an SQLite database", QUERY_HINT),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", "write the table as CSV or parquet"),
    (b"FEA1", "a Feather file of the first version", "write it again as parquet or Feather"),
    (b"\x89PNG", "a PNG image", "give a table"),
    (b"\xff\xd8\xff", "a JPEG image", "give a table"),
    (b"GIF8", "a GIF image", "give a table"),
    (b"\x7fELF", "a program", "give a table"),
    (b"MZ\x90", "a program", "give a table"),
    (b"\x93NUMPY", "a numpy array file", "write the table as CSV or parquet"),
    (b"ORC", "an ORC file", "write the table as parquet"),
    (b"{\\rtf", "a rich-text document", "save it as plain text"),
)
_PICKLE = re.compile(rb"\x80[\x02-\x05][\x95}\](cK]")
_MARKUP = re.compile(rb"\s*(<!doctype\s+html|<html|<head|<body|<table|<!--.{0,400}?-->\s*<)", re.IGNORECASE | re.DOTALL)
# An object that ends with its line, and another one; or an object whose first line is long.
_JSON_LINES = re.compile(rb'\s*\{\s*"[^\n]*(\}[ \t\r]*\n\s*\{|[^\n]{3000})')
_JSON = re.compile(rb'\s*(\{\s*["}]|\[\s*[\[{\]])')


@dataclass(frozen=True)
class Upload:
    """A seekable binary stream with its display name, size and kind: text, json lines, gzip, zip, parquet or arrow."""

    stream: IO[bytes]
    name: str
    size: int
    kind: str


def open_upload(source: Any, name: str | None, limits: ReadLimits) -> Upload:
    """Open a path, bytes or a file object, within the limit on bytes."""
    if is_address(source):
        stream, found = open_address(source, limits), os.path.basename(shown_address(source)) or "table"
    elif isinstance(source, str | os.PathLike):
        stream, found = _open_path(source), os.path.basename(os.fspath(source))
    elif isinstance(source, bytes | bytearray | memoryview):
        stream, found = io.BytesIO(source), "upload"
    elif hasattr(source, "read"):
        stream, found = (
            _copy_file_object(source, limits),
            os.path.basename(str(getattr(source, "name", "upload"))),
        )
    else:
        hint = "; use Table.from_frame(frame)" if hasattr(source, "columns") else ""
        raise TableError(f"read_table takes a path, bytes or a file object, got {type(source).__name__}{hint}.")
    return as_upload(stream, name or found, limits)


def as_upload(stream: IO[bytes], name: str, limits: ReadLimits) -> Upload:
    """A stream with checked size, and with the format detected from its content."""
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    if size == 0:
        raise TableError(f"{name!r} is empty (0 bytes).")
    if size > limits.bytes:
        raise TableError(f"{name!r} has {size:,} bytes; the limit is {limits.bytes:,}. Split it, or raise the limit.")
    head = stream.read(4096)
    stream.seek(0)
    return Upload(stream, name, size, _kind(head, name))


def expand_gzip(upload: Upload, limits: ReadLimits) -> Upload:
    """The content of a gzip file as a new upload, unpacked in pieces and stopped at the limits."""
    return _expanded(upload, _inflate(upload), limits)


def expand_zip(upload: Upload, limits: ReadLimits) -> Upload:
    """The only file of a zip archive as a new upload, unpacked in pieces and stopped at the limits."""
    return _expanded(upload, unpack_member(upload.stream, upload.name), limits)


def _expanded(upload: Upload, pieces: Iterator[bytes], limits: ReadLimits) -> Upload:
    target = tempfile.TemporaryFile()  # noqa: SIM115 - the caller reads it; it is deleted when closed
    grown = 0
    for piece in pieces:
        grown += len(piece)
        _check_growth(grown, upload, limits)
        target.write(piece)
    inner = as_upload(target, upload.name, ReadLimits(bytes=limits.expanded_bytes))
    if inner.kind == "gzip":
        raise TableError(f"{upload.name!r} is compressed twice; unpack it once.")
    return inner


def _kind(head: bytes, name: str) -> str:
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"ARROW1"):
        return "arrow"
    if head[8:12] == b"DUCK":
        raise TableError(f"{name!r} is a DuckDB database, not a table that can be read; {QUERY_HINT}.")
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    for magic, what, advice in _FOREIGN:
        if head.startswith(magic):
            raise TableError(f"{name!r} is {what}, not a table that can be read; {advice}.")
    if _PICKLE.match(head):
        raise TableError(
            f"{name!r} is a Python pickle, which could run code; it is never opened. Write CSV or parquet."
        )
    text = head.removeprefix(b"\xef\xbb\xbf")
    if _MARKUP.match(text):
        raise TableError(
            f"{name!r} is an HTML page, perhaps a login page saved in place of the data; download it again."
        )
    if text.lstrip()[:5].lower() == b"<?xml":
        raise TableError(f"{name!r} is an XML document, not a table; export it as CSV.")
    if _JSON_LINES.match(text):
        return "json lines"
    if _JSON.match(text):
        raise TableError(
            f"{name!r} is a JSON document, not a table; write JSON lines (one object in each line), CSV or parquet."
        )
    return "text"


def _open_path(path: str | os.PathLike[str]) -> IO[bytes]:
    shown = os.fspath(path)
    try:
        if os.path.isdir(path):
            raise TableError(f"{shown!r} is a folder; give a file.")
        if not os.path.isfile(path) and os.path.exists(path):
            raise TableError(f"{shown!r} is not a regular file.")
        return open(path, "rb")
    except OSError as error:
        raise TableError(f"{shown!r} cannot be opened: {error.strerror or error}.") from error
    except ValueError as error:
        if isinstance(error, TableError):
            raise
        raise TableError(f"{shown!r} is not a path: {error}.") from error


def _copy_file_object(source: Any, limits: ReadLimits) -> IO[bytes]:
    """The rest of a file object, as bytes: it may be text, a socket or a web upload, and not seekable."""
    target = tempfile.SpooledTemporaryFile(max_size=64 * CHUNK)  # noqa: SIM115 - returned to the caller
    total = 0
    while piece := source.read(CHUNK):
        data = piece.encode() if isinstance(piece, str) else bytes(piece)
        total += len(data)
        if total > limits.bytes:
            raise TableError(f"The upload has more than {limits.bytes:,} bytes, which is the limit; split it.")
        target.write(data)
    return target


def _inflate(upload: Upload) -> Iterator[bytes]:
    """Pieces of at most CHUNK bytes, so that no single step can outgrow the limits."""
    member, inside = zlib.decompressobj(wbits=31), False
    while data := upload.stream.read(CHUNK):
        while data:
            try:
                yield member.decompress(data, CHUNK)
            except zlib.error as error:
                raise TableError(f"{upload.name!r} is a damaged gzip file: {error}.") from error
            inside, data = not member.eof, member.unconsumed_tail
            if member.eof:
                # A gzip file may hold several members one after the other; zero bytes after the last are padding.
                data = member.unused_data.lstrip(b"\x00")
                member = zlib.decompressobj(wbits=31)
    if inside:
        raise TableError(f"{upload.name!r} is a gzip file that ends too early; download or copy it again.")


def _check_growth(grown: int, upload: Upload, limits: ReadLimits) -> None:
    if grown > limits.expanded_bytes:
        raise TableError(
            f"{upload.name!r} unpacks to more than {limits.expanded_bytes:,} bytes, which is the limit; it was stopped."
        )
    if grown > limits.expansion_free and grown > limits.expansion * upload.size:
        raise TableError(
            f"{upload.name!r} grows more than {limits.expansion}-fold when unpacked ({upload.size:,} bytes became "
            f"{grown:,}); it was stopped as a decompression bomb."
        )


class NonClosing(io.BufferedIOBase):
    """Reads from the current position of a stream; closing this does not close the stream."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        return self._stream.read(-1 if size is None else size)

    def read1(self, size: int = -1) -> bytes:
        return self._stream.read(size)


def text_of(stream: IO[bytes], encoding: str = "utf-8") -> io.TextIOWrapper:
    """The rest of the stream as text with unchanged line ends; damaged characters become U+FFFD.

    >>> list(text_of(io.BytesIO(b"a\\r\\nb")))
    ['a\\r\\n', 'b']
    """
    return io.TextIOWrapper(NonClosing(stream), encoding=encoding, errors="replace", newline="")  # type: ignore[arg-type]


def counting_bytes(stream: IO[bytes], on_bytes: Callable[[int], None]) -> IO[bytes]:
    """The same stream; calls `on_bytes` after each piece with the number of bytes read so far, over all passes.

    >>> said = []
    >>> with counting_bytes(io.BytesIO(b"abc"), said.append) as stream:
    ...     stream.read(), stream.seek(1), stream.read(1)
    (b'abc', 1, b'b')
    >>> said[0]
    3
    """
    return io.BufferedReader(_CountedStream(stream, on_bytes), 1 << 20)  # type: ignore[type-var]


class _CountedStream(io.RawIOBase):
    def __init__(self, stream: IO[bytes], on_bytes: Callable[[int], None]) -> None:
        self._stream, self._on_bytes, self._read = stream, on_bytes, 0

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
        self._on_bytes(self._read)
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()
