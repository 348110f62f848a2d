"""Compose files."""

from workers.parse.infrastructure.blocks import Rule, under

COMPOSE = (
    under("services", "service"),
    under("volumes", "volume"),
    under("networks", "network"),
    under("secrets", "secret"),
    under("configs", "config"),
    Rule("x-*", "extension"),
)
