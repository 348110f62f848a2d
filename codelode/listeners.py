"""Check that other machines can call a gateway only with authentication and TLS."""

from __future__ import annotations

from codelode import api_keys
from codelode.environment import PREFIX
from codelode.errors import InvalidSettings
from codelode.loopback import is_loopback
from codelode.settings import Settings

#: Shortest shared token that a gateway accepts where other machines can call it, characters. Those
#: can try 30 tokens a minute from each address (CODELODE_WRONG_CREDENTIALS_PER_MINUTE).
MIN_TOKEN_CHARS = 16


def require_secure_listeners(settings: Settings) -> None:
    """Raise InvalidSettings if other machines could call the gateway without credentials or TLS.

    The listener for health probes may be open to them. Also raises InvalidSettings for malformed
    addresses, and for settings of authentication and TLS that are incomplete.
    """
    if bool(settings.tls_certificate) != bool(settings.tls_key):
        raise InvalidSettings("set both CODELODE_TLS_CERTIFICATE and CODELODE_TLS_KEY, or neither")
    if settings.shared_token().startswith(api_keys.PREFIX):
        raise InvalidSettings(
            f"the token of a gateway must not begin with {api_keys.PREFIX!r}, as API keys do: set "
            "another long random text in CODELODE_TOKEN or CODELODE_TOKEN_FILE"
        )
    _require_mtls(settings)
    if settings.oidc_issuers and not settings.oidc_audience:
        raise InvalidSettings("CODELODE_OIDC_ISSUERS needs CODELODE_OIDC_AUDIENCE")
    if settings.health_listen:
        _listening_host("health_listen", settings.health_listen, example="127.0.0.1:50052")
    _require_secure_address(settings, "listen", example="127.0.0.1:50051")
    if settings.http_listen:
        _require_http(settings)


def _require_secure_address(settings: Settings, name: str, *, example: str) -> None:
    """Raise InvalidSettings if other machines could call this address without credentials or TLS.

    `name`: the setting that has the address. `example`: a valid value, for the message.
    """
    listen = getattr(settings, name)
    host = _listening_host(name, listen, example=example)
    if host is None or is_loopback(host):
        return
    if missing := _missing_for_other_machines(settings):
        published = settings.published_host
        what = f"published at {published!r}" if published else f"{PREFIX}{name.upper()}={listen!r}"
        loopback = "CODELODE_BIND=127.0.0.1" if published else "127.0.0.1:PORT"
        raise InvalidSettings(f"{what}: {'; '.join(missing)}; or use {loopback}")


def _require_http(settings: Settings) -> None:
    """Raise InvalidSettings if the listener for HTTP is insecure or not complete."""
    if settings.http_listen.startswith("unix:"):
        raise InvalidSettings("CODELODE_HTTP_LISTEN cannot be a Unix socket; use 127.0.0.1:PORT")
    _require_secure_address(settings, "http_listen", example="127.0.0.1:50080")
    if not settings.shared_token() and not settings.oidc_issuers:
        raise InvalidSettings(
            "CODELODE_HTTP_LISTEN needs authentication, because any web page in a browser on this "
            "machine can send requests to it; set CODELODE_TOKEN to a long random text, or "
            "CODELODE_TOKEN_FILE to a file with one, or CODELODE_OIDC_ISSUERS"
        )


def _listening_host(name: str, listen: str, *, example: str) -> str | None:
    """Return the host of an address to listen on; None for a Unix socket.

    Raises InvalidSettings if it has neither form.
    """
    if listen.startswith("unix:"):
        return None
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise InvalidSettings(
            f"{PREFIX}{name.upper()}={listen!r} must have the form HOST:PORT, such as {example}"
        )
    return host.strip("[]")


def _require_mtls(settings: Settings) -> None:
    """Raise InvalidSettings if the listener for client certificates is not complete."""
    if not settings.listen_mtls and not settings.tls_client_ca:
        return
    if not (settings.listen_mtls and settings.tls_client_ca and settings.tls_certificate):
        raise InvalidSettings(
            "client certificates need all of CODELODE_LISTEN_MTLS, CODELODE_TLS_CLIENT_CA, "
            "CODELODE_TLS_CERTIFICATE, and CODELODE_TLS_KEY"
        )
    host = _listening_host("listen_mtls", settings.listen_mtls, example="127.0.0.1:50053")
    if host is None:
        raise InvalidSettings("CODELODE_LISTEN_MTLS cannot be a Unix socket: it has no TLS")
    if not is_loopback(host) and (problem := _problem_of_token(settings)):
        raise InvalidSettings(
            f"CODELODE_LISTEN_MTLS={settings.listen_mtls!r}: {problem}; or use 127.0.0.1:PORT"
        )


def _missing_for_other_machines(settings: Settings) -> list[str]:
    """Return messages about what must be set before other machines may reach the gateway."""
    missing = []
    if not settings.shared_token() and not settings.oidc_issuers:
        missing.append(
            "without authentication the gateway may listen on loopback only; set CODELODE_TOKEN to "
            "a long random text, or CODELODE_TOKEN_FILE to a file with one, or "
            "CODELODE_OIDC_ISSUERS"
        )
    if problem := _problem_of_token(settings):
        missing.append(problem)
    needs_tls = not _is_published_on_loopback(settings)
    if needs_tls and not settings.tls_certificate and not settings.tls_terminated_by_proxy:
        missing.append(
            "without TLS the gateway may listen on loopback only; set CODELODE_TLS_CERTIFICATE and "
            "CODELODE_TLS_KEY, or, if a proxy in front of it terminates TLS, give "
            "--tls-terminated-by-proxy (CODELODE_TLS_TERMINATED_BY_PROXY=true)"
        )
    return missing


def _problem_of_token(settings: Settings) -> str:
    """Return why other machines could guess the shared token; empty if they cannot."""
    is_short = 0 < len(settings.shared_token()) < MIN_TOKEN_CHARS
    if not is_short or _is_published_on_loopback(settings):
        return ""
    return (
        f"with a shared token of fewer than {MIN_TOKEN_CHARS} characters, which others could "
        "guess, the gateway may listen on loopback only; set CODELODE_TOKEN to a long random text, "
        "such as the output of `openssl rand -hex 32`, or CODELODE_TOKEN_FILE to a file with one"
    )


def _is_published_on_loopback(settings: Settings) -> bool:
    """Return whether the container of the gateway, which listens everywhere, is out of reach."""
    return is_loopback(settings.published_host.strip("[]"))
