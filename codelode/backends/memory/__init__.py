"""Twins of the ports in plain Python: for tests, and to read what a port promises."""
