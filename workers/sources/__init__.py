"""Connectors to code hosts."""
