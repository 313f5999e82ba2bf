"""Sources of tables: paths, bytes, file objects, zip archives of one file, databases with a query, addresses.

Rows of databases and JSON lines are written as CSV and then read like other text, so that types are found in one way.
Addresses and databases are for Python and the command line; the dashboard only reads uploaded bytes.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sqlite3
import ssl
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from spu_core.errors import TableError
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
            copy_stream(source, "The upload", limits),
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


BATCH = 10_000
ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
SCHEMES = ("https", "http", "s3")
INSTALL = "install it with: pip install 'spu-studio[remote]'"
SQLITE, DUCKDB = b"SQLite format 3\x00", b"DUCK"
# What a query may do in SQLite: read. Everything else, such as attaching a file, is refused.
_READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}


def is_address(source: Any) -> bool:
    """Whether a source is an address such as https://… or s3://…, and not a path.

    >>> is_address("s3://bucket/x.csv"), is_address("C:/x.csv"), is_address(Path("s3://bucket/x.csv"))
    (True, False, False)
    """
    return isinstance(source, str) and ADDRESS.match(source) is not None


def shown_address(address: str) -> str:
    """An address without passwords, keys and signatures, for messages.

    >>> shown_address("https://ann:secret@example.org/a.csv?key=1")
    'https://example.org/a.csv'
    """
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def open_address(address: str, limits: ReadLimits) -> IO[bytes]:
    """A copy of a file of the web or of S3 in a temporary file, stopped at the limit on bytes."""
    shown, scheme = shown_address(address), address.partition("://")[0].lower()
    if scheme not in SCHEMES:
        raise TableError(f"{shown!r} cannot be read: only https:// and s3:// are; copy the file, and give its path.")
    try:
        opened = import_module("fsspec").open(address, "rb")
    except ImportError as problem:
        raise TableError(f"Reading {scheme}:// needs {problem.name or 'a library'}; {INSTALL}.") from None
    except Exception as problem:
        raise _unreadable(shown, problem) from problem
    try:
        with opened as source:
            return copy_stream(source, shown, limits)
    except TableError:
        raise
    except Exception as problem:  # each file system has errors of its own
        raise _unreadable(shown, problem) from problem


def _unreadable(shown: str, problem: Exception) -> TableError:
    # fsspec says that there is no file also where it could not connect; the cause tells.
    cause = problem.__cause__ if isinstance(problem, FileNotFoundError) else None
    if isinstance(cause, ssl.SSLError) or isinstance(getattr(cause, "certificate_error", None), Exception):
        reason = "the certificate of the server is not trusted; SSL_CERT_FILE can name a file of trusted certificates"
    elif "Credentials" in type(problem).__name__:  # of botocore, which the extra brings
        reason = "no credentials were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    elif isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError):
        reason = "the server cannot be reached"
    else:
        reason = "there is no such file" if isinstance(problem, FileNotFoundError) else type(problem).__name__
    status = getattr(problem, "status", None)
    return TableError(f"{shown!r} cannot be read: {reason if status is None else f'the server answered {status}'}.")


def copy_stream(source: Any, shown: str, limits: ReadLimits) -> IO[bytes]:
    """The rest of a stream in a temporary file, stopped at the limit on bytes; a stream of text is encoded."""
    target = tempfile.SpooledTemporaryFile(max_size=64 * CHUNK)  # noqa: SIM115 - returned to the caller
    total = 0
    while piece := source.read(CHUNK):
        data = piece.encode() if isinstance(piece, str) else bytes(piece)
        total += len(data)
        if total > limits.bytes:
            raise TableError(f"{shown} has more than {limits.bytes:,} bytes, which is the limit; split it.")
        target.write(data)
    return target


def single_member(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    """The only file of a zip archive; the folders and notes that macOS adds do not count."""
    members = [
        member
        for member in archive.infolist()
        if not member.is_dir()
        and not member.filename.startswith("__MACOSX/")
        and Path(member.filename).name != ".DS_Store"
    ]
    if len(members) != 1:
        shown = ", ".join(repr(member.filename[:80]) for member in members[:3])
        found = (
            f"with {len(members):,} files ({shown}{', …' if len(members) > 3 else ''})" if members else "without files"
        )
        raise TableError(f"{name!r} is a zip archive {found}, not one table; unpack it and give one of its files.")
    if members[0].flag_bits & 1:
        raise TableError(f"{name!r} is a zip archive with a password; unpack it and give its file.")
    return members[0]


def unpack_member(stream: IO[bytes], name: str) -> Iterator[bytes]:
    """Pieces of the only file of a zip archive."""
    try:
        with zipfile.ZipFile(stream) as archive, archive.open(single_member(archive, name)) as part:
            while piece := part.read(CHUNK):
                yield piece
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError) as problem:
        raise TableError(
            f"{name!r} is a damaged zip file: {str(problem)[:200] or type(problem).__name__}."
        ) from problem


def json_lines_as_text(stream: IO[bytes], name: str, limits: ReadLimits) -> IO[bytes]:
    """JSON lines as CSV: a column for each key, in the order of appearance; what is nested stays as JSON text."""
    columns: dict[str, None] = {}
    count = 0
    for record in _records(stream, name, limits):
        count += 1
        columns.update(dict.fromkeys(record))
        if len(columns) > limits.columns:
            raise TableError(f"{name!r} has more than {limits.columns:,} different keys, which is the limit.")
    if count < 2:
        raise TableError(f"{name!r} is a JSON document, not a table; write one object in each line (JSON lines).")
    stream.seek(0)
    rows = ([_json_text(record.get(key)) for key in columns] for record in _records(stream, name, limits))
    return rows_as_text(list(columns), rows, name, limits)


def _records(stream: IO[bytes], name: str, limits: ReadLimits) -> Iterator[dict[str, Any]]:
    longest = max(4 * limits.cell_bytes, 4 * CHUNK)
    number = 0
    while line := stream.readline(longest + 1):
        number += 1
        if len(line) > longest:
            raise TableError(f"Line {number:,} of {name!r} is longer than {longest:,} bytes, which is the limit.")
        if not line.strip():
            continue
        try:
            record = json.loads(line.decode("utf-8-sig"), object_pairs_hook=_unique_keys)
        except (ValueError, RecursionError) as problem:
            reason = "nested too deeply" if isinstance(problem, RecursionError) else str(problem)[:100]
            raise TableError(f"Line {number:,} of {name!r} is not a JSON object: {reason}.") from None
        if not isinstance(record, dict):
            raise TableError(f"Line {number:,} of {name!r} is not a JSON object; each line must be one.")
        yield record


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("a key occurs twice")
    return record


def _json_text(value: Any) -> Any:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return "" if isinstance(value, float) and value != value else value


def rows_as_text(header: Sequence[str], rows: Iterable[Sequence[Any]], name: str, limits: ReadLimits) -> IO[bytes]:
    """Rows as CSV in a temporary file, within the limits; missing values are empty cells."""
    target = tempfile.TemporaryFile()  # noqa: SIM115 - returned to the caller
    text = io.TextIOWrapper(target, encoding="utf-8", errors="replace", newline="", write_through=True)
    writer = csv.writer(text)
    writer.writerow(header)
    for number, row in enumerate(rows, start=1):
        if number > limits.rows:
            raise TableError(f"{name!r} has more than {limits.rows:,} rows, which is the limit.")
        writer.writerow([_cell(value, column, name) for column, value in zip(header, row, strict=True)])
        if target.tell() > limits.expanded_bytes:
            raise TableError(f"{name!r} has more than {limits.expanded_bytes:,} bytes as text, which is the limit.")
    text.detach()
    return target


def _cell(value: Any, column: str, name: str) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        raise TableError(f"Column {column!r} of {name!r} holds bytes; leave it out of the query.")
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat(sep=" ") if hasattr(value, "hour") and hasattr(value, "year") else value


def database_kind(path: str | os.PathLike[str]) -> str | None:
    """sqlite or duckdb, by the first bytes of a file; None for anything else."""
    try:
        with open(path, "rb") as stream:
            head = stream.read(16)
    except (OSError, ValueError):
        return None
    return "sqlite" if head == SQLITE else "duckdb" if head[8:12] == DUCKDB else None


def query_as_text(path: str | os.PathLike[str], query: str, limits: ReadLimits) -> IO[bytes]:
    """The result of a query on a database file as CSV. The file is opened to read, and the query can only read it."""
    name, kind = Path(path).name, database_kind(path)
    if kind is None:
        raise TableError(f"{name!r} is not a database file of SQLite or DuckDB, so there is nothing to query.")
    try:
        with closing(_sqlite(path) if kind == "sqlite" else _duckdb(path, name)) as connection:
            result = connection.execute(query)
            if result.description is None:
                raise TableError("The query returns no rows; write a SELECT.")
            header = [str(column[0]) for column in result.description]
            if len(header) > limits.columns:
                raise TableError(f"The query has {len(header):,} columns; the limit is {limits.columns:,}.")
            return rows_as_text(header, _fetched(result), name, limits)
    except TableError:
        raise
    except Exception as problem:  # duckdb may be missing, so its errors cannot be named
        reason = (str(problem).splitlines() or [type(problem).__name__])[0][:200].rstrip(".")
        raise TableError(f"The query on {name!r} failed: {reason}.") from problem


def _fetched(result: Any) -> Iterator[Sequence[Any]]:
    while rows := result.fetchmany(BATCH):
        yield from rows


def _sqlite(path: str | os.PathLike[str]) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
    connection.execute("PRAGMA trusted_schema = OFF")  # functions in the views of a foreign file are not run
    connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY)
    return connection


def _duckdb(path: str | os.PathLike[str], name: str) -> Any:
    try:
        duckdb = import_module("duckdb")
    except ImportError:
        raise TableError(f"{name!r} is a DuckDB database, which needs duckdb; {INSTALL}.") from None
    # Without this, a query could read any file of this computer, and load extensions from the web.
    config = {"enable_external_access": "false", "lock_configuration": "true", "autoload_known_extensions": "false"}
    return duckdb.connect(os.fspath(path), read_only=True, config=config)
