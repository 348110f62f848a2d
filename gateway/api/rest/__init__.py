"""The REST face: JSON → requests, one service function, answers → JSON, errors → problems."""
