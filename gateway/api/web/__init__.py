"""The web face: requests of browsers → one service function → HTML. Errors are pages, too."""
