"""The garbage collector is off while a program is loaded, and on afterwards."""

from __future__ import annotations

import gc

import pytest

from codelode import garbage


def test_nothing_is_collected_during_imports_and_everything_else_later():
    with garbage.postponed():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_garbage_collection_resumes_if_an_import_fails():
    with pytest.raises(ImportError), garbage.postponed():
        raise ImportError
    assert gc.isenabled()
