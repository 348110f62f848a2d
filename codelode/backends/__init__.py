"""Servers and engines behind the ports, one file each; `connect.py` chooses."""
