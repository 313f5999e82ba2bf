"""Tables from zip archives, JSON lines, Arrow files, databases and addresses; each also damaged or hostile."""

from __future__ import annotations

import io
import json
import os
import socket
import sqlite3
import ssl
import struct
import subprocess
import sys
import threading
import zipfile
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

from spu_core.errors import TableError
from spu_core.tables import ReadLimits, read_table

FRAME = pd.DataFrame({"name": ["Ann", "Bob", "Eve, jr."], "amount": [1.5, None, -3.0], "is_late": [True, False, True]})
CSV = FRAME.to_csv(index=False).encode()


def zipped(members: dict[str, bytes], **more) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, **more) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return target.getvalue()


def arrow(frame: pd.DataFrame, compression: str | None = None) -> bytes:
    table, target = pa.Table.from_pandas(frame, preserve_index=False), io.BytesIO()
    with pa.ipc.new_file(target, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return target.getvalue()


def lines(*records: object) -> bytes:
    return "\n".join(map(json.dumps, records)).encode()


RECORDS = lines(*json.loads(FRAME.to_json(orient="records")))


@pytest.fixture
def sqlite_file(tmp_path):
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        FRAME.to_sql("sales", connection, index=False)
        connection.execute("CREATE TABLE pictures (picture BLOB)")
        connection.execute("INSERT INTO pictures VALUES (x'00ff')")
    connection.close()
    return path


@pytest.fixture
def duckdb_file(tmp_path):
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("given", FRAME.astype({"name": "object"}))
        connection.execute("CREATE TABLE sales AS SELECT * FROM given")
    return path


def same(table) -> bool:
    frame = table.frame
    return (
        frame["name"].astype(str).tolist() == FRAME["name"].tolist()
        and frame["amount"].fillna(99.0).tolist() == [1.5, 99.0, -3.0]
        and frame["is_late"].astype(int).tolist() == [1, 0, 1]
    )


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (zipped({"sales.csv": CSV}), "text, zip"),
        (zipped({"folder/": b"", "folder/sales.csv": CSV, "__MACOSX/._sales.csv": b"x"}), "text, zip"),
        (zipped({"../../etc/passwd": CSV}), "text, zip"),
        (zipped({"sales.jsonl": RECORDS}), "json lines, zip"),
        (zipped({"sales.arrow": arrow(FRAME)}), "arrow, zip"),
        (RECORDS, "json lines"),
        (b"\xef\xbb\xbf" + RECORDS.replace(b"\n", b"\r\n") + b"\n\n", "json lines"),
        (arrow(FRAME), "arrow"),
        (arrow(FRAME, "zstd"), "arrow"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_format_is_known_by_its_content(data, words):
    table = read_table(data, name="sales")

    assert same(table)
    assert table.reading.describe().startswith(f"sales: {words}")


def test_keys_that_not_every_line_has_are_missing_and_nested_values_are_text():
    table = read_table(lines({"a": 1}, {"b": {"x": [1, 2]}, "a": 2}, {"c": "line\nbreak"}, {"a": 4, "c": None}))

    assert list(table.frame.columns) == ["a", "b", "c"]
    assert table.frame["a"].isna().tolist() == [False, False, True, False]
    assert table.frame["b"].dropna().tolist() == ['{"x": [1, 2]}']
    assert table.frame["c"].dropna().tolist() == ["line\nbreak"]


@pytest.mark.parametrize("file", ["sqlite_file", "duckdb_file"])
def test_a_query_reads_a_database_file(file, request):
    path = request.getfixturevalue(file)

    assert same(read_table(path, query="SELECT * FROM sales"))
    assert read_table(str(path), query="SELECT count(*) AS n, 2 AS two FROM sales").frame["n"].tolist() == [3]


@pytest.mark.parametrize("file", ["sqlite_file", "duckdb_file"])
@pytest.mark.parametrize(
    "query",
    [
        "DROP TABLE sales",
        "DELETE FROM sales",
        "ATTACH '{other}' AS other",
        "SELECT * FROM read_csv('{secret}')",
        "COPY sales TO '{other}'",
        "SELECT load_extension('x')",
        "SELECT writefile('{other}', 'x')",
        "PRAGMA writable_schema = 1",
        "SELECT * FROM nothing",
        "no query",
        "",
    ],
)
def test_a_query_can_only_read_its_file(file, query, request, tmp_path):
    path = request.getfixturevalue(file)
    (tmp_path / "secret.csv").write_text("a,b\n1,2\n")
    before = path.read_bytes()
    with pytest.raises(TableError, match=r"failed|returns no rows"):
        read_table(path, query=query.format(other=tmp_path / "other", secret=tmp_path / "secret.csv"))

    assert path.read_bytes() == before
    assert not (tmp_path / "other").exists()


def test_a_database_without_a_query_and_a_query_without_a_database_get_a_sentence(sqlite_file, duckdb_file, tmp_path):
    for path in (sqlite_file, duckdb_file):
        with pytest.raises(TableError, match=r"database, not a table that can be read; use a query: read_table\(path"):
            read_table(path)
    (tmp_path / "sales.csv").write_bytes(CSV)
    with pytest.raises(TableError, match=r"'sales.csv' is not a database file"):
        read_table(tmp_path / "sales.csv", query="SELECT 1")
    with pytest.raises(TableError, match="A query needs the path of a database file, got bytes"):
        read_table(CSV, query="SELECT 1")
    with pytest.raises(TableError, match=r"Column 'picture' of 'shop.db' holds bytes; leave it out of the query"):
        read_table(sqlite_file, query="SELECT * FROM pictures")


def test_damaged_database_files_are_refused(sqlite_file, duckdb_file):
    for path in (sqlite_file, duckdb_file):
        path.write_bytes(path.read_bytes()[:1000])
        with pytest.raises(TableError, match="failed"):
            read_table(path, query="SELECT * FROM sales")


def with_password() -> bytes:
    data = bytearray(zipped({"a.csv": CSV}))
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.index(mark) + place
        data[at : at + 2] = struct.pack("<H", 1)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (zipped({"a.csv": CSV, "b.csv": CSV}), r"zip archive with 2 files \('a.csv', 'b.csv'\)"),
        (zipped({}), "zip archive without files"),
        (with_password(), "zip archive with a password"),
        (zipped({"a.csv": CSV})[:-60], "damaged"),
        (zipped({"a.zip": zipped({"a.csv": CSV})}), "zip archive"),
        (zipped({"a.csv": b"0," * 2_000_000}), "decompression bomb"),
        (zipped({"a.html": b"<html><body>log in</body></html>"}), "HTML page"),
        (b'{"a": 1}\n{"a": 2', "Line 2 of 'upload' is not a JSON object"),
        (b'{"a": 1}\n{"a": 2, "a": 3}', "a key occurs twice"),
        (b'{"a": 1}\n{"a": ' + b"[" * 100_000 + b"}", "nested too deeply|not a JSON object"),
        (b'{"a": 1, "b": 2}', "JSON document"),
        (b'{"a": 1}\n{"a": 2}\n[3]', "Line 3 of 'upload' is not a JSON object; each line must be one"),
        (arrow(FRAME)[:200], "damaged Arrow file"),
        (b"ARROW1" + bytes(500), "damaged Arrow file"),
        (arrow(pd.DataFrame({"a": [0] * 1_000_000}), "zstd"), "decompression bomb"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_hostile_and_damaged_files_are_refused_with_a_sentence(data, sentence):
    with pytest.raises(TableError, match=sentence):
        read_table(data, limits=ReadLimits(expansion_free=1 << 20))


def test_every_cut_of_an_arrow_file_is_refused_or_read():
    data = arrow(FRAME, "lz4")
    for end in range(8, len(data), 97):
        with pytest.raises(TableError):
            read_table(data[:end])


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Endless(BaseHTTPRequestHandler):
    """A file that has no end."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"1,2,3\n" * 10_000)
        except OSError:
            return

    def log_message(self, *_):
        pass


@pytest.fixture
def serve():
    servers = []

    def start(handler) -> str:
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_table_comes_from_a_web_server(serve, tmp_path):
    (tmp_path / "sales.csv.zip").write_bytes(zipped({"sales.csv": CSV}))
    address = serve(partial(Quiet, directory=tmp_path))
    table = read_table(f"{address}/sales.csv.zip?key=secret")

    assert same(table)
    assert table.name == "sales.csv.zip"
    with pytest.raises(TableError, match=r"127.0.0.1:\d+/other.csv' cannot be read: there is no such file") as refused:
        read_table(f"{address}/other.csv?key=secret".replace("http://", "http://ann:pass@"))
    assert "secret" not in str(refused.value)
    assert "pass" not in str(refused.value)


def test_a_server_that_does_not_answer_is_not_taken_for_an_absent_file():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/sales.csv"
    with pytest.raises(TableError, match="cannot be read: the server cannot be reached"):
        read_table(address)


READ_BOTH_WAYS = """
import sys
from spu_core.errors import TableError
from spu_core.tables import read_table
try:
    print(len(read_table(sys.argv[1])))
except TableError as problem:
    print(problem)
"""


def test_a_table_comes_by_https_from_a_server_whose_certificate_is_trusted_and_from_no_other(tmp_path):
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    make = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", *make.split(), *names], check=True, capture_output=True)
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "sales.csv").write_bytes(CSV)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"https://127.0.0.1:{server.server_address[1]}/sales.csv"

    def read(**trusted: str) -> str:
        # The client reads the trusted certificates once, at its import: each case needs a process of its own.
        command = [sys.executable, "-c", READ_BOTH_WAYS, address]
        environment = {name: value for name, value in os.environ.items() if name != "SSL_CERT_FILE"} | trusted
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()

    try:
        assert read(SSL_CERT_FILE=str(certificate)) == str(len(FRAME))
        assert read().startswith(f"'{address}' cannot be read: the certificate of the server is not trusted;")
    finally:
        server.shutdown()
        server.server_close()


def test_a_server_that_sends_without_end_is_stopped_at_the_limit(serve):
    with pytest.raises(TableError, match="more than 1,000,000 bytes, which is the limit"):
        read_table(f"{serve(Endless)}/sales.csv", limits=ReadLimits(bytes=1_000_000))


class S3(BaseHTTPRequestHandler):
    """As much of S3 as reading one object needs."""

    def do_HEAD(self):
        self.answer(b"")

    def do_GET(self):
        start, _, end = self.headers.get("Range", "bytes=0-").partition("=")[2].partition("-")
        self.answer(CSV[int(start) : int(end) + 1 if end else None])

    def answer(self, body):
        self.send_response(206 if body else 200)
        self.send_header("Content-Length", str(len(body) or len(CSV)))
        self.send_header("ETag", '"1"')
        self.send_header("Last-Modified", "Mon, 05 Jan 2026 10:00:00 GMT")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_a_table_comes_from_s3(serve, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", serve(S3))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")

    assert same(read_table("s3://bucket/folder/sales.csv"))


def test_s3_without_credentials_says_what_to_set(serve, monkeypatch, tmp_path):
    pytest.importorskip("s3fs").S3FileSystem.clear_instance_cache()  # else it keeps the credentials of another test
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", serve(S3))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))

    with pytest.raises(TableError, match="no credentials were found; set AWS_ACCESS_KEY_ID"):
        read_table("s3://bucket/other/sales.csv")


@pytest.mark.parametrize("address", ["ftp://host/x.csv", "file:///etc/passwd", "simplecache::https://host/x.csv"])
def test_other_addresses_are_refused(address):
    with pytest.raises(TableError, match=r"only https:// and s3:// are|cannot be opened"):
        read_table(address)


def test_a_path_is_never_an_address():
    with pytest.raises(TableError, match="cannot be opened: No such file"):
        read_table(Path("https://127.0.0.1/x.csv"))


@pytest.mark.parametrize(("missing", "source"), [("fsspec", "https://host/x.csv"), ("duckdb", "duckdb_file")])
def test_a_missing_extra_is_named(missing, source, monkeypatch, request):
    source = request.getfixturevalue(source) if source == "duckdb_file" else source
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(TableError, match=rf"needs {missing}; install it with: pip install 'spu-studio\[remote\]'"):
        read_table(source, query=None if missing == "fsspec" else "SELECT 1")
