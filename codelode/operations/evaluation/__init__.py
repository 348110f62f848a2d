"""Measure how well searches answer judged queries, beside the baseline of a grep."""
