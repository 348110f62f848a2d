"""Measure how well searches answer judged queries, next to a grep baseline."""
