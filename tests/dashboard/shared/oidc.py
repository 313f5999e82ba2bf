"""A small login provider for tests: OpenID Connect on loopback, with a link for each person instead of a password."""

from __future__ import annotations

import html
import json
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

CLIENT, SECRET = "spu-studio", "a secret of the tests"


@dataclass
class Provider:
    """The provider: its address, its key, and the codes that it has given out."""

    url: str
    key: Any
    people: tuple[str, ...]
    codes: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def configuration(self) -> dict[str, Any]:
        paths = {"authorization": "authorize", "token": "token", "userinfo": "userinfo"}
        return {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/jwks",
            **{f"{name}_endpoint": f"{self.url}/{path}" for name, path in paths.items()},
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }

    def login_page(self, asked: Mapping[str, str]) -> str:
        links = []
        for person in self.people:
            code = secrets.token_hex(8)
            self.codes[code] = {"sub": person, "nonce": asked.get("nonce", "")}
            back = f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"
            links.append(f'<a href="{html.escape(back)}">{person}</a>')
        return "<h1>Who are you?</h1>" + " ".join(links)

    def tokens(self, code: str) -> dict[str, Any]:
        from joserfc import jwt

        given = self.codes.pop(code)  # a code is good for one login
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 600, "email": f"{given['sub']}@example"}
        signed = jwt.encode({"alg": "RS256", "kid": self.key.kid}, {**claims, **given}, self.key)
        return {"access_token": given["sub"], "token_type": "Bearer", "expires_in": 600, "id_token": signed}

    def secrets_file(self, dashboard: str) -> str:
        """What `[auth]` in Streamlit's secrets must say for this provider."""
        values = {
            "redirect_uri": f"{dashboard}/oauth2callback",
            "cookie_secret": "signs the cookies of the tests",
            "client_id": CLIENT,
            "client_secret": SECRET,
            "server_metadata_url": f"{self.url}/.well-known/openid-configuration",
        }
        return "[auth]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())


@contextmanager
def running_provider(*people: str) -> Iterator[Provider]:
    """A provider in a thread of this process."""
    from joserfc.jwk import RSAKey

    key = RSAKey.generate_key(2048, parameters={"use": "sig", "alg": "RS256"})
    key.ensure_kid()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    provider = server.provider = Provider(f"http://127.0.0.1:{server.server_port}", key, people)  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        provider: Provider = self.server.provider  # type: ignore[attr-defined]
        address = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(address.query).items()}
        if address.path == "/.well-known/openid-configuration":
            self._answer(provider.configuration())
        elif address.path == "/jwks":
            self._answer({"keys": [provider.key.as_dict(private=False)]})
        elif address.path == "/userinfo":
            self._answer({"sub": self.headers["Authorization"].removeprefix("Bearer ")})
        elif address.path == "/authorize" and asked.get("client_id") == CLIENT:
            self._answer(provider.login_page(asked))
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        provider: Provider = self.server.provider  # type: ignore[attr-defined]
        sent = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        code = sent.get("code", [""])[0]
        if self.path == "/token" and code in provider.codes:
            self._answer(provider.tokens(code))
        else:
            self.send_error(400)

    def _answer(self, content: dict[str, Any] | str) -> None:
        is_page = isinstance(content, str)
        body = (content if is_page else json.dumps(content)).encode()  # type: ignore[union-attr]
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if is_page else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass
