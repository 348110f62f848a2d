"""`python -m gateway`: serve until SIGTERM or SIGINT."""

from gateway.app import main

main()
