"""`codelode login` and `codelode logout`: a token of an OpenID Connect issuer for a gateway.

The browser shows the login page of the issuer and then comes back to a port on loopback with a
code, which only this process can exchange for tokens (RFC 8252, with PKCE as in RFC 7636).
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import webbrowser
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from time import monotonic
from urllib.parse import parse_qs, urlencode, urlsplit

import click

from codelode.cli.options import default_server
from codelode.client import login as logins
from codelode.client.channel import checked
from codelode.client.login import Login
from codelode.environment import client_settings
from codelode.errors import InvalidSettings, TimedOut, Unauthenticated

#: How long the user may take in the browser, seconds.
WAIT_S = 300.0

DEFAULT_CLIENT = "codelode"
SCOPES = "openid email offline_access"

server_option = click.option(
    "--server",
    metavar="[grpcs://]HOST:PORT",
    help="The gateway that the login is for. Default: CODELODE_SERVER, else the cluster that "
    "`codelode up` runs on this machine.",
)


@dataclass(frozen=True, slots=True)
class Request:
    """Holds the secrets of one login: they connect the answer of the browser with this process."""

    state: str
    verifier: str
    nonce: str

    @classmethod
    def new(cls) -> Request:
        return cls(*(secrets.token_urlsafe(48) for _ in range(3)))

    @property
    def challenge(self) -> str:
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


@click.command()
@server_option
@click.option(
    "--issuer",
    metavar="URL",
    help="The issuer of tokens that the gateway accepts. Default: that of the last login there.",
)
@click.option(
    "--client-id",
    metavar="ID",
    help="The id under which the issuer knows codelode. Default: that of the last login there, "
    f"else {DEFAULT_CLIENT}.",
)
@click.option(
    "--scope",
    default=SCOPES,
    show_default=True,
    help="Ask the issuer for these scopes; offline_access lets the login last.",
)
@click.option("--no-browser", is_flag=True, help="Print the URL only, to be opened by hand.")
def login(
    *, server: str | None, issuer: str | None, client_id: str | None, scope: str, no_browser: bool
) -> None:
    """Log in at an OpenID Connect issuer in the browser, for a gateway that accepts its tokens.

    The login is kept in the data folder, readable by you alone, and renewed as long as the issuer
    allows. Clients find it by the address of the gateway.

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
    who = logins.claims(made.token)
    click.echo(f"logged in at {address} as {who.get('email') or who.get('sub')}")
    if not made.refresh_token:
        click.echo("the issuer gave no refresh token: the login ends with its token", err=True)


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
    """Tell the issuer, if it can be told, that the refresh token is not used any more."""
    endpoint = logins.described(gone.issuer).get("revocation_endpoint")
    if isinstance(endpoint, str):
        form = {"token": gone.refresh_token, "client_id": gone.client_id}
        logins.tell(endpoint, form)


def _logged_in(issuer: str, client: str, scope: str, *, opens_browser: bool) -> Login:
    found, request = logins.described(issuer), Request.new()
    with _Callback(request.state) as callback:
        query = {
            "response_type": "code",
            "client_id": client,
            "redirect_uri": callback.url,
            "scope": scope,
            "state": request.state,
            "nonce": request.nonce,
            "code_challenge": request.challenge,
            "code_challenge_method": "S256",
            "prompt": "consent",  # without it, issuers give no refresh token
        }
        url = f"{_endpoint(found, 'authorization_endpoint')}?{urlencode(query)}"
        click.echo(f"Log in with the browser: {url}", err=True)
        if opens_browser:
            webbrowser.open(url)
        code = _code(callback.wait(), issuer)
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": callback.url,
        "client_id": client,
        "code_verifier": request.verifier,
    }
    endpoint = _endpoint(found, "token_endpoint")
    token, refresh = _tokens(logins.post(endpoint, form), issuer, request.nonce)
    return Login(issuer, client, endpoint, token, refresh)


def _endpoint(found: dict[str, object], name: str) -> str:
    url = found.get(name)
    if not isinstance(url, str):
        raise InvalidSettings(f"{found.get('issuer')} has no {name}: it cannot be used to log in")
    return url


def _code(answer: dict[str, str], issuer: str) -> str:
    """Return the code that the browser brings. Raises Unauthenticated if it brings another."""
    if answer.get("iss", issuer) != issuer:
        raise Unauthenticated(f"the browser came back from another issuer, {answer['iss']!r}")
    if "code" not in answer:
        raise Unauthenticated(f"the issuer refuses the login: {logins.refusal(answer, 'code')}")
    return answer["code"]


def _tokens(answer: dict[str, object], issuer: str, nonce: str) -> tuple[str, str]:
    """Return the token and the refresh token; the gateway checks the signature of the first."""
    token = answer.get("id_token")
    if not isinstance(token, str):
        raise Unauthenticated(f"the issuer refuses the login: {logins.refusal(answer, 'id token')}")
    said = logins.claims(token)
    if said.get("iss") != issuer or said.get("nonce") != nonce:
        raise Unauthenticated("the token that came is of another login; try again")
    return token, str(answer.get("refresh_token") or "")


class _Callback:
    """A port on loopback at which the browser arrives when the user has logged in.

    Without the state, which only this process and the browser know, nobody is let in.
    """

    def __init__(self, state: str) -> None:
        self._state = state
        self._answer: dict[str, str] | None = None
        self._server = HTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}/callback"

    def wait(self) -> dict[str, str]:
        """Return the parameters with which the browser arrives."""
        deadline = monotonic() + WAIT_S
        while self._answer is None:
            self._server.timeout = deadline - monotonic()
            if self._server.timeout <= 0:
                raise TimedOut(f"nobody logged in within {WAIT_S:g} s")
            self._server.handle_request()
        return self._answer

    def _take(self, path: str) -> bool:
        """Return whether this is the browser, with the parameters that `wait` returns."""
        parts = urlsplit(path)
        found = {name: values[0] for name, values in parse_qs(parts.query).items()}
        state = found.get("state", "").encode()
        if parts.path != "/callback" or not secrets.compare_digest(state, self._state.encode()):
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
            timeout = 5.0  # of a connection that sends nothing

            def do_GET(self) -> None:
                is_ours = callback._take(self.path)
                text = b"Return to the terminal; you can close this page.\n" if is_ours else b""
                self.send_response(200 if is_ours else 404)
                self.send_header("Content-Type", "text/plain; charset=utf-8")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                """Print nothing: the path holds the code."""

        return Handler
