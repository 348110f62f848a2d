"""A test that starts what tests start and does not end; `test_terminated.py` terminates it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest


@pytest.mark.parametrize("store", ["local"], indirect=True)
def test_that_does_not_end(cluster, weaviate_address, bare_ollama):
    Path(os.environ["UNENDING"]).write_text(cluster.facts["redis"])
    threading.Event().wait()
