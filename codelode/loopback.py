"""Tell whether a host is this machine, so that what is sent to it crosses no network."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Return whether the host name or address reaches only this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_address(host: str) -> bool:
    """Return whether the host is an IP address and not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_on_loopback(address: str) -> bool:
    """Return whether HOST:PORT is on this machine; an IPv6 host is in brackets."""
    return is_loopback(address.rpartition(":")[0].strip("[]"))


def is_confidential(url: str) -> bool:
    """Return whether no other machine can read the traffic: https, or http to this machine."""
    from urllib.parse import urlsplit  # every command imports this module, few call this

    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
