"""`codelode login` and `codelode logout`: get or forget a token of an OpenID Connect issuer.

The browser shows the login page of the issuer, which then redirects it to a port on loopback with
a code that only this process can exchange for tokens (RFC 8252, with PKCE as in RFC 7636).
"""

from __future__ import annotations

import webbrowser
from http.server import BaseHTTPRequestHandler, HTTPServer
from time import monotonic
from urllib.parse import parse_qs, urlsplit

import click

from codelode.cli.options import default_server
from codelode.client import login as logins
from codelode.client.channel import checked
from codelode.client.login import Login
from codelode.environment import client_settings
from codelode.errors import InvalidSettings, TimedOut
from codelode.openid_flow import (
    SCOPES,
    LoginRequest,
    claims,
    code_of,
    endpoint,
    new_seed,
    revocation_form,
)

#: Maximum wait for the login in the browser, seconds.
WAIT_S = 300.0

DEFAULT_CLIENT = "codelode"

server_option = click.option(
    "--server",
    metavar="[grpcs://]HOST:PORT",
    help="Log in for the gateway at this address. Default: CODELODE_SERVER, else the cluster that "
    "`codelode up` runs on this machine.",
)


@click.command()
@server_option
@click.option(
    "--issuer",
    metavar="URL",
    help="Log in at this issuer of tokens that the gateway accepts. Default: that of the last "
    "login for the gateway.",
)
@click.option(
    "--client-id",
    metavar="ID",
    help="Use this id, under which the issuer knows codelode. Default: that of the last login for "
    f"the gateway, else {DEFAULT_CLIENT}.",
)
@click.option(
    "--scope",
    default=SCOPES,
    show_default=True,
    help="Ask the issuer for these scopes; offline_access lets codelode renew the login.",
)
@click.option("--no-browser", is_flag=True, help="Print the URL, but do not open a browser.")
def login(
    *, server: str | None, issuer: str | None, client_id: str | None, scope: str, no_browser: bool
) -> None:
    """Log in at an OpenID Connect issuer in the browser, for a gateway that accepts its tokens.

    The login is kept in the data folder, where only you can read it, and renewed as long as the
    issuer allows. Clients find it by the address of the gateway.

    \b
    Example:
      codelode login --server grpcs://search.example.com:50051 --issuer https://login.example.com
    """
    data, address = client_settings().data, checked(server or default_server())
    before = logins.logins(data).get(address)
    issuer = issuer or (before.issuer if before else None)
    if issuer is None:
        raise InvalidSettings("name the issuer of tokens that the gateway accepts with --issuer")
    client = client_id or (before.client_id if before else DEFAULT_CLIENT)
    made = _logged_in(issuer, client, scope, opens_browser=not no_browser)
    logins.keep(address, made, data)
    who = claims(made.token)
    click.echo(f"logged in at {address} as {who.get('email') or who.get('sub')}")
    if not made.refresh_token:
        click.echo("the issuer gave no refresh token: the login ends when it expires", err=True)


@click.command()
@server_option
def logout(*, server: str | None) -> None:
    """Forget the login at a gateway, and have the issuer forget it too.

    \b
    Example:
      codelode logout --server grpcs://search.example.com:50051
    """
    data, address = client_settings().data, checked(server or default_server())
    gone = logins.forget(address, data)
    if gone is None:
        raise InvalidSettings(f"there is no login at {address}")
    click.echo(f"logged out at {address}")
    if gone.refresh_token:
        _revoke(gone)


def _revoke(gone: Login) -> None:
    """Revoke the refresh token, if the issuer has an endpoint for that."""
    endpoint = logins.described(gone.issuer).get("revocation_endpoint")
    if isinstance(endpoint, str):
        logins.tell(endpoint, revocation_form(gone.refresh_token, gone.client_id))


def _logged_in(issuer: str, client: str, scope: str, *, opens_browser: bool) -> Login:
    found, request = logins.described(issuer), LoginRequest.of(new_seed())
    with _Callback(request) as callback:
        client_and_back = {"client_id": client, "redirect_uri": callback.url}
        authorization = endpoint(found, "authorization_endpoint")
        url = request.url(authorization, **client_and_back, scope=scope)
        click.echo(f"Log in with the browser: {url}", err=True)
        if opens_browser:
            webbrowser.open(url)
        code = code_of(callback.wait(), issuer)
    answering = endpoint(found, "token_endpoint")
    answer = logins.post(answering, request.code_form(code, **client_and_back))
    token, refresh = request.tokens(answer, issuer)
    return Login(issuer, client, answering, token, refresh)


class _Callback:
    """The port on loopback to which the issuer redirects the browser after the login.

    Requests without the state, which only this process and the browser know, are refused.
    """

    def __init__(self, request: LoginRequest) -> None:
        self._request = request
        self._answer: dict[str, str] | None = None
        self._server = HTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}/callback"

    def wait(self) -> dict[str, str]:
        """Wait for the browser, and return the parameters of its request."""
        deadline = monotonic() + WAIT_S
        while self._answer is None:
            self._server.timeout = deadline - monotonic()
            if self._server.timeout <= 0:
                raise TimedOut(f"nobody logged in within {WAIT_S:g} s")
            self._server.handle_request()
        return self._answer

    def _take(self, path: str) -> bool:
        """Keep the parameters for `wait` if the request is the expected one; return if it is."""
        parts = urlsplit(path)
        found = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path != "/callback" or not self._request.has_state(found.get("state", "")):
            return False
        self._answer = found
        return True

    def __enter__(self) -> _Callback:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        callback = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 5.0  # seconds after which a silent connection is closed

            def do_GET(self) -> None:
                is_ours = callback._take(self.path)
                text = b"Return to the terminal; you can close this page.\n" if is_ours else b""
                self.send_response(200 if is_ours else 404)
                self.send_header("Content-Type", "text/plain; charset=utf-8")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                """Print nothing: the path contains the code."""

        return Handler
