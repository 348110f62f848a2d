"""In-memory implementations of the ports in plain Python, for tests and as a readable reference."""
