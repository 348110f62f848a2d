"""The faces of the pipeline. Thin: check the request, ask, convert the answer."""
