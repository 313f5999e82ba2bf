"""A bundle as a web service: `POST /score`, `GET /health`, `/schema`, `/metrics` and a page that describes them.

It asks nothing of the network and keeps no rows: only counts, for the metrics.
"""

from __future__ import annotations

import hmac
import io
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from spu_core.errors import BundleError, SpuError, TableError, nearest_hint
from spu_core.export.bundle import Bundle, check_names, conform, text_columns
from spu_core.export.card import Code, Grid, Section, to_html
from spu_core.export.drift import DriftCounter
from spu_core.export.model_checks import active_columns
from spu_core.export.row_files import open_rows
from spu_core.versions import __version__

KEY_VARIABLE = "SPU_SERVE_KEY"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
KIND_WORDS = {
    "number": "a number, or null",
    "flag": "true or false, or null",
    "days": "a date as text (ISO 8601), or null",
    "text": "a text, or null",
}
_JSON_TYPES = {"number": "number", "flag": "boolean", "days": "string", "text": "string"}
MOST_DRIFT_COLUMNS = 100


@dataclass(frozen=True, kw_only=True)
class ServiceLimits:
    """The largest body in bytes, the most rows in it, and how many requests are scored at a time."""

    body: int = 16 * 1024**2
    rows: int = 100_000
    at_once: int = 4


class RequestError(SpuError):
    """A request that is refused with a status and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(eq=False)
class Scorer:
    """Scores rows with a bundle and counts what the metrics show."""

    bundle: Bundle
    limits: ServiceLimits = field(default_factory=ServiceLimits)
    requests: Counter[tuple[str, int]] = field(default_factory=Counter)
    seconds: float = 0.0
    flagged: int = 0
    busy: int = 0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._places = active_columns(self.bundle.fitted.model)
        self._drift = DriftCounter(self.bundle.profile, self.bundle.fitted.encoder)
        self._edges = np.unique(np.array(self.bundle.profile.score.quantiles))
        self._scores = np.zeros(self._edges.size + 1, dtype=np.int64)
        self._score_sum = 0.0

    def score(self, body: bytes, media: str) -> bytes:
        """The answer to `POST /score`: one object per row with id, score and flag."""
        started = time.perf_counter()
        frame = self._frame(body, media)
        check_names(self.bundle, tuple(map(str, frame.columns)))
        fitting = conform(self.bundle, frame)
        features = self.bundle.features(fitting)
        score = self.bundle.score_features(fitting, features)
        flagged = self.bundle.point.flags(score)
        name = self.bundle.details.id_column
        ids = frame[name].tolist() if name in frame.columns else range(1, len(frame) + 1)
        found = [
            {"id": row, "score": value, "flagged": flag}
            for row, value, flag in zip(ids, score.tolist(), flagged.tolist(), strict=True)
        ]
        with self._lock:
            self._drift.add(features.matrix, self._places)
            self._scores += np.bincount(np.searchsorted(self._edges, score), minlength=self._scores.size)
            self._score_sum += float(score.sum())
            self.flagged += int(flagged.sum())
            self.seconds += time.perf_counter() - started
        return json.dumps({"model": self.bundle.name, "rows": len(frame), "scores": found}, default=str).encode()

    def schema(self) -> dict[str, Any]:
        """What rows must hold, and an example: the usual value of every column."""
        test, kinds = self.bundle.self_test, self.bundle.input_kinds
        example = None if test is None else {each.name: _example(each.kind, each.values[0]) for each in test.columns}
        threshold = self.bundle.point.threshold
        return {
            "model": self.bundle.name,
            "columns": [{"name": name, "kind": kind, "value": KIND_WORDS[kind]} for name, kind in kinds.items()],
            "id_column": self.bundle.details.id_column,
            "threshold": threshold if np.isfinite(threshold) else None,
            "limits": {"body_bytes": self.limits.body, "rows": self.limits.rows},
            "example": {"rows": [example]},
        }

    def metrics(self) -> str:
        """Counts in the text form of Prometheus."""
        with self._lock:
            rows, columns = self._drift.rows, self._drift.columns(self._places)
            counted, total, seconds, flagged = self._scores.cumsum(), self._score_sum, self.seconds, self.flagged
            requests = dict(self.requests)
        moved = sorted(columns, key=lambda column: -column.moved)[:MOST_DRIFT_COLUMNS]
        lines = ["# TYPE spu_requests_total counter"]
        lines += [f'spu_requests_total{{path="{path}",status="{code}"}} {n}' for (path, code), n in requests.items()]
        lines += ["# TYPE spu_rows_scored_total counter", f"spu_rows_scored_total {rows}"]
        lines += ["# TYPE spu_rows_flagged_total counter", f"spu_rows_flagged_total {flagged}"]
        lines += ["# TYPE spu_scoring_seconds_total counter", f"spu_scoring_seconds_total {seconds:.6f}"]
        lines += [
            "# TYPE spu_training_flagged_share gauge",
            f"spu_training_flagged_share {self.bundle.point.share:.9g}",
        ]
        lines.append("# TYPE spu_score histogram")
        edges = [*(f"{edge:.9g}" for edge in self._edges), "+Inf"]
        lines += [f'spu_score_bucket{{le="{edge}"}} {n}' for edge, n in zip(edges, counted.tolist(), strict=True)]
        lines += [f"spu_score_sum {total:.9g}", f"spu_score_count {rows}"]
        for gauge, value in (
            ("spu_drift_moved", "moved"),
            ("spu_drift_noise", "noise"),
            ("spu_missing_share", "missing_now"),
        ):
            lines.append(f"# TYPE {gauge} gauge")
            lines += [f'{gauge}{{column="{_label(each.name)}"}} {getattr(each, value):.6g}' for each in moved]
        return "\n".join(lines) + "\n"

    def page(self) -> str:
        """The calls and the columns as one page that loads nothing from elsewhere."""
        calls = Grid(("Call", "Answer"), tuple(_CALLS.items()))
        columns = Grid(("Column", "Value"), tuple((c["name"], c["value"]) for c in self.schema()["columns"]))
        example = json.dumps(self.schema()["example"], indent=2, ensure_ascii=False)
        return to_html(
            f"Scoring service: {self.bundle.name}",
            [
                Section("Calls", (calls, "Programs read the same at /openapi.json.")),
                Section("Columns", (columns,)),
                Section("Example of a body for POST /score", (Code(example),)),
            ],
        )

    def _frame(self, body: bytes, media: str) -> pd.DataFrame:
        if media == "application/json":
            return self._from_json(body)
        if media != "text/csv":
            raise RequestError(415, f"Send rows as application/json or text/csv, not as {media[:60] or 'nothing'!r}.")
        source = open_rows(io.BytesIO(body), text_columns(self.bundle))
        check_names(self.bundle, source.names)
        frame = pd.concat(list(source.chunks()), ignore_index=True)
        self._check_count(len(frame))
        return frame

    def _from_json(self, body: bytes) -> pd.DataFrame:
        try:
            found = json.loads(body, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as problem:
            raise RequestError(400, f"The body is not JSON: {str(problem)[:120]}.") from None
        rows = found.get("rows") if isinstance(found, dict) else found
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise RequestError(422, 'The body must be {"rows": [{"column": value, …}, …]}, or such a list alone.')
        self._check_count(len(rows))
        columns = {name: _column(name, kind, rows) for name, kind in self.bundle.input_kinds.items()}
        ids = self.bundle.details.id_column
        if ids is not None and ids not in columns and all(ids in row for row in rows):
            columns[ids] = pd.Series([row[ids] for row in rows], dtype=object)
        return pd.DataFrame(columns)

    def _check_count(self, rows: int) -> None:
        if not rows:
            raise RequestError(422, "There are no rows to score.")
        if rows > self.limits.rows:
            raise RequestError(413, f"{rows:,} rows in one request; at most {self.limits.rows:,} are allowed.")


def make_app(bundle: Bundle, *, limits: ServiceLimits | None = None, key: str | None = None) -> Any:
    """The service as an ASGI application; with a key, every call but /health must bring it.

    Parameters
    ----------
    bundle : Bundle
        The model; `load_bundle` has checked its self-test.
    limits : ServiceLimits, optional
        Bounds of a request, and how many are scored at a time.
    key : str, optional
        Callers send it as `Authorization: Bearer KEY` or `X-API-Key: KEY`.

    Returns
    -------
    FastAPI
    """
    try:
        from fastapi import FastAPI, Request, Response
        from fastapi.concurrency import run_in_threadpool
    except ImportError:
        raise BundleError(
            "The service needs fastapi and uvicorn, which are not installed; "
            "install the extra: pip install 'spu-studio[serve]'."
        ) from None
    scorer = Scorer(bundle, limits or ServiceLimits())
    app = FastAPI(title=f"Scores of {bundle.name}", version=__version__, docs_url=None, redoc_url=None)
    app.state.scorer = scorer

    async def refuse(request: Any, problem: Any) -> Any:
        return _refusal(problem)

    async def refuse_call(request: Any, problem: Any) -> Any:
        sentence = f"There is no {request.method} {request.url.path} here; GET /docs lists the calls."
        return _refusal(RequestError(problem.status_code, sentence), problem.headers)

    for status in (404, 405):
        app.add_exception_handler(status, refuse_call)
    # Earlier versions of Starlette do not show the middleware what a route raises.
    app.add_exception_handler(SpuError, refuse)

    @app.middleware("http")
    async def guard(request: Any, answer: Any) -> Any:
        try:
            _check_key(request, key)
        except SpuError as problem:
            response = _refusal(problem)
        else:
            response = await answer(request)
        scorer.requests[_counted(request.url.path), response.status_code] += 1
        return response

    async def score(request: Any) -> Any:
        body = await _bounded_body(request, scorer.limits.body)
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if scorer.busy >= scorer.limits.at_once:
            raise RequestError(503, f"{scorer.busy} requests are scored already; try again in a second.")
        scorer.busy += 1
        try:
            return Response(await run_in_threadpool(scorer.score, body, media), media_type="application/json")
        finally:
            scorer.busy -= 1

    # Annotations are texts in this module, and FastAPI is imported here only: the type is set as a value.
    score.__annotations__ = {"request": Request}
    app.post("/score", summary="Score rows", openapi_extra=_body_schema(scorer))(score)
    app.get("/health", summary="Whether the service works")(lambda: {"status": "ok", "model": bundle.name})
    app.get("/schema", summary="The columns that rows must have")(scorer.schema)
    _add_text(app, Response, "/metrics", scorer.metrics, "text/plain; version=0.0.4")
    _add_text(app, Response, "/docs", scorer.page, "text/html; charset=utf-8")
    return app


def check_host(host: str, key: str | None) -> None:
    """Refuse an address that others can reach, unless an API key protects it."""
    if host not in LOOPBACK and not key:
        raise BundleError(
            f"On {host!r} other computers could reach the service: set an API key in the environment variable "
            f"{KEY_VARIABLE} first, or keep the default 127.0.0.1."
        )


def run_service(bundle: Bundle, *, host: str, port: int, key: str | None, limits: ServiceLimits | None = None) -> None:
    """Serve until SIGTERM or Ctrl-C; requests that were accepted are answered first."""
    check_host(host, key)
    app = make_app(bundle, limits=limits, key=key)
    import uvicorn

    uvicorn.run(app, host=host, port=port, log_level="warning", timeout_graceful_shutdown=30, server_header=False)


_CALLS = {
    "POST /score": "score and flag of each row; JSON or CSV (text/csv)",
    "GET /health": "whether the service works",
    "GET /schema": "columns, limits and an example",
    "GET /metrics": "counters for Prometheus: requests, rows, flags, scores, drift of each column",
}


def _add_text(app: Any, response: Any, path: str, make: Callable[[], str], media: str) -> None:
    app.get(path, summary=_CALLS.get(f"GET {path}", "This description as a page"), response_class=response)(
        lambda: response(make(), media_type=media)
    )


def _counted(path: str) -> str:
    """Unknown paths are counted together: a caller must not fill the memory with names."""
    return path if path in ("/score", "/health", "/schema", "/metrics", "/docs", "/openapi.json") else "other"


def _check_key(request: Any, key: str | None) -> None:
    if key is None or request.url.path == "/health":
        return
    given = request.headers.get("x-api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")
    if not hmac.compare_digest(given.encode(), key.encode()):
        raise RequestError(401, "Send the API key as the header 'Authorization: Bearer KEY' or 'X-API-Key: KEY'.")


def _refusal(problem: SpuError, headers: Mapping[str, str] | None = None) -> Any:
    from fastapi.responses import JSONResponse

    status = problem.status if isinstance(problem, RequestError) else 422
    more = {"Retry-After": "1"} if status == 503 else {}
    return JSONResponse({"error": str(problem)}, status_code=status, headers={**(headers or {}), **more})


async def _bounded_body(request: Any, most: int) -> bytes:
    said = request.headers.get("content-length", "")
    sentence = f"The body is larger than {most:,} bytes; send fewer rows in one request."
    if said.isdigit() and int(said) > most:
        raise RequestError(413, sentence)
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise RequestError(413, sentence)
    return bytes(body)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number; send null for a missing value")


def _column(name: str, kind: str, rows: Sequence[Mapping[str, Any]]) -> pd.Series:
    """One column of the rows, as the type that a file would give it."""
    try:
        values = [row[name] for row in rows]
    except KeyError:
        at = next(at for at, row in enumerate(rows) if name not in row)
        hint = nearest_hint(name, list(rows[at]))
        raise TableError(
            f"Row {at + 1} lacks the column {name!r}; send null where a value is missing. {hint}"
        ) from None
    if kind == "days":
        return _dates(name, values)
    return pd.Series(values, dtype=object if kind == "text" else None, name=name)


def _dates(name: str, values: Sequence[Any]) -> pd.Series:
    for at, value in enumerate(values):
        if value is not None and not isinstance(value, str):
            raise TableError(f"Column {name!r} must hold dates as text, but row {at + 1} holds {str(value)[:60]!r}.")
    try:
        return pd.to_datetime(pd.Series(values, dtype=object), format="ISO8601", utc=True).dt.tz_localize(None)
    except (ValueError, TypeError) as problem:
        raise TableError(f"Column {name!r} holds a text that is not a date (ISO 8601): {str(problem)[:80]}.") from None


def _example(kind: str, value: Any) -> Any:
    if kind == "days" and value is not None:
        return str(np.datetime64("1970-01-01") + np.timedelta64(int(value), "D"))
    return bool(value) if kind == "flag" and value is not None else value


def _label(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _body_schema(scorer: Scorer) -> dict[str, Any]:
    kinds = scorer.bundle.input_kinds
    row = {
        "type": "object",
        "properties": {name: {"type": [_JSON_TYPES[kind], "null"]} for name, kind in kinds.items()},
        "required": list(kinds),
    }
    schema = {"type": "object", "properties": {"rows": {"type": "array", "items": row}}, "required": ["rows"]}
    content = {"application/json": {"schema": schema}, "text/csv": {"schema": {"type": "string"}}}
    return {"requestBody": {"required": True, "content": content}}
