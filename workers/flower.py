"""Run Flower, the web page of workers and jobs, so that every route requires a login.

Flower itself answers /metrics, /healthcheck, and static files without one. The options are those of
`celery flower`; the login is its option `basic_auth`, from a file (`--conf FILE`) or the variable
FLOWER_BASIC_AUTH, because other users of a machine see the command line of a process.
"""

from __future__ import annotations

import atexit
import hmac
import os
import signal
import sys
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from flower.app import Flower
from flower.command import (
    apply_env_options,
    apply_options,
    extract_settings,
    setup_logging,
    sigterm_handler,
)
from flower.urls import settings
from tornado.httputil import HTTPMessageDelegate, HTTPServerRequest
from tornado.options import options
from tornado.web import RequestHandler

from codelode import garbage
from codelode.settings import load
from workers.delivery.configuration import configured

#: Added to the niceness of the process: showing the jobs must not slow them on busy processors.
NICENESS = 10

NO_LOGIN = (
    "flower: set a login: FLOWER_BASIC_AUTH=NAME:PASSWORD, or basic_auth = ['NAME:PASSWORD'] in a "
    "file that --conf names"
)


class GuardedFlower(Flower):  # type: ignore[misc]
    """Flower with a login for every request, whichever handler would answer it."""

    def find_handler(self, request: HTTPServerRequest, **kwargs: Any) -> HTTPMessageDelegate | None:
        if is_admitted(request.headers.get("Authorization", ""), self.options.basic_auth):
            found: HTTPMessageDelegate | None = super().find_handler(request, **kwargs)
            return found
        refusal: HTTPMessageDelegate = self.get_handler_delegate(request, Refusal)
        return refusal


class Refusal(RequestHandler):
    """Answers every request by asking for a login."""

    SUPPORTED_METHODS = (*RequestHandler.SUPPORTED_METHODS, "TRACE", "CONNECT")

    def check_xsrf_cookie(self) -> None:
        """Check nothing, because no request is carried out."""

    def prepare(self) -> None:
        self.set_status(401)
        self.set_header("WWW-Authenticate", 'Basic realm="flower"')
        self.finish("sign in with the login of Flower\n")


def is_admitted(authorization: str, logins: Sequence[str]) -> bool:
    """Return whether the header carries one of the logins, each NAME:PASSWORD."""
    given = authorization.encode()
    accepted = [b"Basic " + b64encode(login.encode()) for login in logins]
    return any(hmac.compare_digest(given, one) for one in accepted)


def main() -> None:
    os.nice(NICENESS)
    apply_env_options()
    apply_options("flower", sys.argv[1:])
    extract_settings()
    setup_logging()
    if not options.basic_auth or not all(map(_is_login, options.basic_auth)):
        raise SystemExit(NO_LOGIN)
    server = GuardedFlower(capp=configured(load()), options=options, **settings)
    atexit.register(server.stop)
    signal.signal(signal.SIGTERM, sigterm_handler)
    server.start_http_server()
    garbage.settle()
    server.start()


def _is_login(text: str) -> bool:
    name, _, password = text.partition(":")
    return bool(name and password)


if __name__ == "__main__":
    main()
