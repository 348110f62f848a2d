"""Serve until SIGTERM or SIGINT: `python -m gateway`."""

from gateway.app import main

main()
