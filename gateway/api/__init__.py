"""The faces: each parses its own format, calls one service function, and formats the result."""
