"""A test that starts servers and does not end; `test_terminated.py` terminates it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from codelode.files import replace_text


@pytest.mark.parametrize("store", ["local"], indirect=True)
def test_that_does_not_end(cluster, weaviate_address, bare_ollama):
    replace_text(Path(os.environ["UNENDING"]), cluster.facts["redis"])
    threading.Event().wait()
