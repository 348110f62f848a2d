"""An issuer of OpenID Connect on a free loopback port, with keys that are made for the test."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey
from joserfc.jws import JWSRegistry

AUDIENCE = "codelode"

ENDPOINTS = {
    "jwks_uri": "keys",
    "authorization_endpoint": "auth",
    "token_endpoint": "token",
    "revocation_endpoint": "revoke",
}


class Issuer:
    """Serves its description and its keys, and records the requests."""

    def __init__(self) -> None:
        self.keys: list[RSAKey | ECKey] = [new_key("first")]
        self.further: list[object] = []  # invalid entries of the key set
        self.description: dict[str, object] = {}
        self.body: bytes | None = None  # replaces the key set
        self.is_away = False
        self.granted: dict[str, object] = {}  # the answer of the token endpoint; empty: a refusal
        self.forms: list[dict[str, list[str]]] = []  # of the POST requests
        self.asked: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}/realm"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def fetches(self) -> int:
        """Return how often the keys were requested."""
        return self.asked.count("/realm/keys")

    def reset(self) -> None:
        """Undo what a test has changed, and forget the requests."""
        self.keys[:] = self.keys[:1]
        self.further, self.description, self.body = [], {}, None
        self.is_away, self.granted = False, {}
        self.forms.clear()
        self.asked.clear()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def token(
        self, *, key: Any = None, alg: str = "RS256", header: Any = None, **claims: Any
    ) -> str:
        """Return a token for Ann; `claims` replace the usual ones, and None leaves one out."""
        signer = key or self.keys[0]
        names = {"alg": alg, "kid": signer.kid, **(header or {})}
        registry = JWSRegistry(algorithms=[alg], strict_check_header=False)
        return jwt.encode(names, self.claims(**claims), signer, [alg], registry)

    def claims(self, **given: Any) -> dict[str, Any]:
        now = int(time.time())
        usual = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "248289761001",
            "email": "ann@example.org",
            "email_verified": True,
            "groups": ["search", "payments"],
            "iat": now,
            "exp": now + 300,
        }
        return {name: one for name, one in {**usual, **given}.items() if one is not None}

    def _answer(self, path: str) -> object:
        if path == "/realm/.well-known/openid-configuration":
            own = {
                "issuer": self.url,
                **{name: f"{self.url}/{path}" for name, path in ENDPOINTS.items()},
            }
            return {**own, **self.description}
        return {"keys": [*self.further, *(key.as_dict(private=False) for key in self.keys)]}

    def _handler(issuer) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                body = json.dumps(issuer._answer(self.path)).encode()
                if issuer.body is not None and self.path.endswith("/keys"):
                    body = issuer.body
                self._send(200, body)

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                issuer.forms.append(parse_qs(self.rfile.read(length).decode()))
                if self.path.endswith("/revoke"):
                    return self._send(200, b"")
                answer = issuer.granted or {"error": "invalid_grant"}
                return self._send(200 if issuer.granted else 400, json.dumps(answer).encode())

            def _send(self, status: int, body: bytes) -> None:
                self.send_response(503 if issuer.is_away else status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


def new_key(name: str, bits: int = 2048) -> RSAKey:
    return RSAKey.generate_key(bits, {"kid": name, "use": "sig"})
