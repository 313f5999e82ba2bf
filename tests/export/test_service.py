"""The service scores like the bundle, refuses in sentences with the right status, counts, and stops gracefully."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request

import numpy as np
import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

from spu_core.errors import BundleError
from spu_core.export import save_bundle
from spu_core.export.service import Scorer, ServiceLimits, check_host, make_app
from spu_core.versions import __version__
from tests.export.examples import example, make_frame
from tests.live import free_address


def rows_of(frame):
    dated = frame.assign(when=frame["when"].dt.strftime("%Y-%m-%d"))
    return json.loads(dated.to_json(orient="records"))


@pytest.fixture(scope="module")
def client():
    return TestClient(make_app(example("fused").bundle, limits=ServiceLimits(body=60_000, rows=200)))


def test_json_and_csv_rows_get_the_scores_of_the_bundle(client):
    frame = make_frame(60, seed=5)
    bundle = example("fused").bundle

    as_json = client.post("/score", json={"rows": rows_of(frame)}).json()
    text = frame.to_csv(index=False)
    as_csv = client.post("/score", content=text, headers={"Content-Type": "text/csv; charset=utf-8"}).json()

    np.testing.assert_array_equal([row["score"] for row in as_json["scores"]], bundle.predict(frame))
    assert as_json == as_csv
    assert [row["id"] for row in as_json["scores"]] == frame["id"].tolist()
    assert [row["flagged"] for row in as_json["scores"]] == bundle.point.flags(bundle.predict(frame)).tolist()
    assert client.post("/score", json=rows_of(frame)).json() == as_json


@pytest.mark.parametrize(
    ("change", "status", "sentence"),
    [
        (lambda rows: rows[1].pop("age"), 422, r"Row 2 lacks the column 'age'; send null where a value is missing"),
        (lambda rows: rows[0].update(age="old"), 422, r"Column 'age' was number when the model was trained"),
        (lambda rows: rows[0].update(when=5), 422, r"Column 'when' must hold dates as text, but row 1 holds '5'"),
        (lambda rows: rows[0].update(when="soon"), 422, r"Column 'when' holds a text that is not a date"),
        (lambda rows: rows[0].update(job=[1]), 422, r"Column 'job' was text when the model was trained"),
        (lambda rows: rows.clear(), 422, r"There are no rows to score"),
        (lambda rows: rows.append(3), 422, r"The body must be"),
        (lambda rows: rows.extend(rows * 100), 413, r"rows in one request; at most 200 are allowed|larger than 60,000"),
    ],
)
def test_rows_that_do_not_fit_are_refused_with_a_status_and_a_sentence(client, change, status, sentence):
    rows = rows_of(make_frame(5, seed=5))
    change(rows)

    answer = client.post("/score", json={"rows": rows})

    assert answer.status_code == status
    assert re.search(sentence, answer.json()["error"])


def test_bodies_that_are_no_rows_are_refused(client):
    def refused(content, media="application/json"):
        answer = client.post("/score", content=content, headers={"Content-Type": media})
        return answer.status_code, answer.json()["error"]

    assert refused(b"{")[0] == 400
    assert refused(b'{"rows": [{"age": NaN}]}') == (
        400,
        "The body is not JSON: NaN is not a JSON number; send null for a missing value.",
    )
    assert refused(b"[" * 100_000)[0] in (400, 413)
    assert refused(b"x", "application/xml")[0] == 415
    assert refused(b"x" * 70_000) == (413, "The body is larger than 60,000 bytes; send fewer rows in one request.")
    status, sentence = refused(make_frame(5).drop(columns="age").to_csv(), "text/csv")
    assert (status, "lacks 1 of the" in sentence) == (422, True)
    unknown, wrong = client.get("/nothing"), client.get("/score")
    assert (unknown.status_code, unknown.json()) == (
        404,
        {"error": "There is no GET /nothing here; GET /docs lists the calls."},
    )
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
    assert "There is no GET /score here" in wrong.json()["error"]


def test_health_schema_metrics_and_pages_describe_the_service(client):
    before = float(re.search(r"^spu_rows_scored_total (\S+)", client.get("/metrics").text, re.M)[1])
    frame = make_frame(60, seed=5).assign(job=None)
    client.post("/score", json={"rows": rows_of(frame)})

    assert client.get("/health").json() == {"status": "ok", "model": "fused"}
    schema = client.get("/schema").json()
    assert {column["name"]: column["kind"] for column in schema["columns"]} == example("fused").bundle.input_kinds
    assert client.post("/score", json=schema["example"]).status_code == 200
    metrics = client.get("/metrics").text
    assert float(re.search(r"^spu_rows_scored_total (\S+)", metrics, re.M)[1]) == before + 61
    assert float(re.search(r'^spu_missing_share{column="job"} (\S+)', metrics, re.M)[1]) > 0.2
    assert 'spu_score_bucket{le="+Inf"}' in metrics
    page = client.get("/docs").text
    assert "POST /score" in page
    assert "http://" not in page.replace('http-equiv="', "")
    described = client.get("/openapi.json").json()
    assert "/score" in described["paths"]
    assert described["info"]["version"] == __version__


def test_with_a_key_every_call_but_health_needs_it():
    client = TestClient(make_app(example("logistic").bundle, key="secret"))

    assert client.get("/health").status_code == 200
    assert client.get("/schema").status_code == 401
    assert client.get("/schema", headers={"X-API-Key": "wrong"}).status_code == 401
    assert client.get("/schema", headers={"X-API-Key": "secret"}).status_code == 200
    assert client.get("/schema", headers={"Authorization": "Bearer secret"}).status_code == 200


def test_another_host_is_refused_without_a_key():
    check_host("127.0.0.1", None)
    check_host("0.0.0.0", "secret")
    with pytest.raises(BundleError, match="set an API key in the environment variable SPU_SERVE_KEY"):
        check_host("0.0.0.0", None)


def test_more_requests_than_allowed_at_once_get_503(monkeypatch):
    inside, go_on = threading.Event(), threading.Event()
    whole = Scorer.score

    def slow(self, body, media):
        inside.set()
        assert go_on.wait(600)
        return whole(self, body, media)

    monkeypatch.setattr(Scorer, "score", slow)
    rows = {"rows": rows_of(make_frame(3))}
    with TestClient(make_app(example("logistic").bundle, limits=ServiceLimits(at_once=1))) as client:
        first = []
        thread = threading.Thread(target=lambda: first.append(client.post("/score", json=rows)))
        thread.start()
        assert inside.wait(600)
        second = client.post("/score", json=rows)
        go_on.set()
        thread.join(600)

    assert (second.status_code, second.headers["retry-after"]) == (503, "1")
    assert first[0].status_code == 200


def test_the_command_serves_and_stops_at_a_signal(tmp_path):
    save_bundle(example("logistic").bundle, tmp_path / "model.spu")
    address, port = free_address()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", "from spu_core.cli import main; main()", "serve", "model.spu", "--port", str(port)]
    server = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE)
    try:
        for _ in range(600):
            assert server.poll() is None, server.stderr.read()
            try:
                with urllib.request.urlopen(f"{address}/health", timeout=5) as answer:
                    assert json.load(answer)["status"] == "ok"
                    break
            except OSError:
                time.sleep(0.2)
        server.send_signal(signal.SIGTERM)
        assert server.wait(600) in (0, -signal.SIGTERM)
    finally:
        if server.poll() is None:
            server.kill()


def test_the_description_of_the_service_and_its_first_counts():
    frame = make_frame(30, seed=5)
    client = TestClient(make_app(example("fused").bundle))
    answer = client.post("/score", json={"rows": rows_of(frame)})
    api = client.get("/openapi.json").json()["paths"]
    metrics = client.get("/metrics").text
    total = float(re.search(r"spu_score_sum (\S+)", metrics)[1])

    assert answer.headers["content-type"] == "application/json"
    assert 'spu_requests_total{path="/score",status="200"} 1\n' in metrics
    assert total == pytest.approx(sum(row["score"] for row in answer.json()["scores"]))
    assert api["/metrics"]["get"]["summary"].startswith("counters for Prometheus")
    assert api["/score"]["post"]["requestBody"]["required"] is True
    assert client.get("/redoc").status_code == 404
    assert "\n  &quot;rows&quot;" in client.get("/docs").text
    assert ServiceLimits().body == 16 * 1024**2
