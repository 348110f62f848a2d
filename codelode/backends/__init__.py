"""Implement the ports, one folder per engine; `registry.py` makes the configured ones.

Gateway and workers import only the registry, so a new engine changes nothing in them.
"""
