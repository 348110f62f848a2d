"""Implementations of the ports, one folder per engine; only `registry.py` imports them."""
