"""`codelode web`: open the web page of the cluster on this machine, signed in."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import webbrowser
from urllib.parse import urlsplit

import click

from codelode.cluster import Cluster, found_cluster, token_of
from codelode.environment import client_settings
from codelode.errors import InvalidSettings, Unavailable

#: Maximum wait for the gateway, seconds.
TIMEOUT_S = 10.0


@click.command()
@click.option(
    "--open/--no-open",
    "opens_browser",
    default=True,
    help="Open the page in a browser. With --no-open, only print its link.",
)
def web(*, opens_browser: bool) -> None:
    """Open the web page of the cluster that `codelode up` runs on this machine, signed in.

    The command prints a link that signs one browser in, once, within a minute. To sign in at the
    page of another gateway, open its address and paste an API key.

    \b
    Examples:
      codelode web
      codelode web --no-open
    """
    data = client_settings().data
    cluster = found_cluster(data)
    if cluster is None or not cluster.http:
        raise InvalidSettings(
            "no cluster with a web page runs on this machine; start one with `codelode up`, or set "
            "CODELODE_DATA to the folder of the one that runs"
        )
    link = cluster.http + _path(cluster, token_of(cluster.grpc, data))
    click.echo(link)
    if opens_browser and not webbrowser.open(link):
        click.echo("no browser can be opened here; open the link within a minute", err=True)


def _path(cluster: Cluster, token: str) -> str:
    """Return the path of a new single-use link. Raises Unavailable."""
    connection = _connection(cluster)
    try:
        connection.request("POST", "/sign-in/link", headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        found = json.load(answer)
    except (OSError, ValueError, http.client.HTTPException) as exc:
        raise Unavailable(f"the gateway at {cluster.http} does not answer: {exc}") from exc
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise Unavailable(f"the gateway at {cluster.http} refuses: {found.get('detail')}")
    return str(found["path"])


def _connection(cluster: Cluster) -> http.client.HTTPConnection:
    """Return a connection; with TLS, only to a server with the cluster's own certificate."""
    url = urlsplit(cluster.http)
    host, port = url.hostname or "", url.port or 0
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    if url.scheme == "https":
        context = ssl.create_default_context(cafile=cluster.certificate)
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # trust it although it is no CA's
        plain = socket.create_connection((host, port), TIMEOUT_S)
        # Certificates seldom name loopback, so check for a name that the certificate has.
        connection.sock = context.wrap_socket(plain, server_hostname=cluster.tls_name or host)
    return connection
