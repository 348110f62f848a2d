"""Checks before a backup in Weaviate replaces an index, on a real server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codelode.backends.weaviate import versions
from codelode.backends.weaviate.backup import WeaviateBackup
from codelode.backends.weaviate.connection import connect
from codelode.errors import InvalidSettings, NotFound, NotIndexed, SchemaMismatch


@pytest.fixture
def backup(weaviate_address, own_place):
    made = WeaviateBackup(weaviate_address, own_place)
    yield made
    made.close()


@pytest.fixture
def facts(open_weaviate, weaviate_address, own_place, chunk_of, file_of, backup):
    """Return the facts of a backup of an index with one chunk."""
    open_weaviate(weaviate_address, own_place).store.replace([file_of(chunk_of())])
    return backup.begin()


def test_nothing_can_be_saved_before_anything_is_indexed(backup):
    with pytest.raises(NotIndexed, match="there is no index"):
        backup.begin()


def test_a_backup_can_replace_the_index_it_was_made_from(backup, facts):
    backup.check(facts)
    backup.restore(None, facts)
    assert backup.chunks() == 1


def test_a_backup_that_the_server_lacks_is_reported_with_its_folder(backup, facts):
    with pytest.raises(NotFound, match=r"no backup codelode-gone: put it back into .*BACKUP_"):
        backup.check({**facts, "backup": "codelode-gone"})


def test_a_backup_of_another_schema_or_collection_is_refused(backup, facts):
    with pytest.raises(SchemaMismatch, match="restore it with the version that made it"):
        backup.check({**facts, "schema": facts["schema"] - 1})
    with pytest.raises(InvalidSettings, match="CODELODE_WEAVIATE_COLLECTION=Other"):
        backup.check({**facts, "alias": "Other"})


def test_other_organisations_in_the_collection_are_not_overwritten(
    backup, facts, weaviate_address, own_place
):
    with connect(weaviate_address) as client:
        versions.add_tenant(client, facts["collection"], replace(own_place, tenant="other"))
    with pytest.raises(InvalidSettings, match=r"other organisations are in .* \(1\)"):
        backup.check(facts)
    assert backup.chunks() == 1
