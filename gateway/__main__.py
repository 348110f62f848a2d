"""Serve until SIGTERM or SIGINT: `python -m gateway`."""

import click

from codelode import garbage


@click.command()
@click.option(
    "--tls-terminated-by-proxy",
    is_flag=True,
    help="Listen without TLS on an address other than loopback, because a proxy that terminates "
    "TLS is in front of the gateway. Default: CODELODE_TLS_TERMINATED_BY_PROXY.",
)
def gateway(*, tls_terminated_by_proxy: bool) -> None:
    """Serve until SIGTERM or SIGINT, with the settings of the environment."""
    with garbage.postponed():
        from gateway.app import main

    main(**({"tls_terminated_by_proxy": True} if tls_terminated_by_proxy else {}))


gateway(prog_name="python -m gateway")
