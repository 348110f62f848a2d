"""The collection: its schema, its versions, its tenants.

A version is a collection of its own, named after everything that makes indexes incompatible:
schema, embedder and dimensions, which its description spells out. Both sides find the current one
behind an alias, so that a new one can be built beside it and take its place in one step.

Vectors are indexed in 8 bits (half the memory, recall@10 .973 against .975 on 50,000 chunks) and
compared exactly in the end. EF is fixed because the server's own choice follows the number of
hits: it made searches twice as slow for a recall that differed by less than .01.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from weaviate.classes.config import (
    Configure,
    DataType,
    Property,
    StopwordsPreset,
    Tokenization,
    VectorDistances,
)

#: Grows with every change of the properties or of how their text is made.
SCHEMA_VERSION = 5

EF = 128
EF_CONSTRUCTION = 128
MAX_CONNECTIONS = 32

#: The name of the vector.
VECTOR = "code"


@dataclass(frozen=True, slots=True)
class TenantIndex:
    """Which index of a server, and whose.

    `alias`: the name the index is known by. `tenant`: the organisation. `replicas`: copies of each
    chunk, on as many nodes, in an index that is created here.
    """

    alias: str = "CodeChunk"
    tenant: str = "default"
    replicas: int = 1

    @property
    def own_alias(self) -> str:
        """The alias of this organisation alone, which comes before the one of all.

        It is made when the organisation changes its embedder and others stay with the old one.
        """
        return f"{self.alias}_of_{blake2b(self.tenant.encode(), digest_size=5).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Version:
    """What wrote an index. Vectors of two embedders never mix, so neither do their versions."""

    embedder: str
    dim: int
    schema: int = SCHEMA_VERSION

    def describe(self, choice: Mapping[str, object] | None = None) -> str:
        """As stored with the collection: JSON, which `from_description` reads.

        `choice`: the settings that name the embedder, where a rebuild chose them.
        """
        values = {"schema": self.schema, "embedder": self.embedder, "dim": self.dim}
        chosen = {"settings": dict(choice)} if choice else {}
        return json.dumps({"codelode": values, **chosen}, ensure_ascii=False)

    def collection(self, alias: str) -> str:
        """The name of this version's collection."""
        return f"{alias}_{blake2b(self.describe().encode(), digest_size=5).hexdigest()}"

    def __str__(self) -> str:
        return f"schema {self.schema}, embedder {self.embedder}, dim {self.dim}"


def from_description(description: str | None) -> Version | None:
    """The version a collection's description tells of; None: it is none of ours."""
    try:
        values = json.loads(description or "")["codelode"]
        return Version(values["embedder"], values["dim"], values["schema"])
    except (ValueError, KeyError, TypeError):
        return None


def choice_from(description: str | None) -> Mapping[str, object]:
    """The settings that name the embedder; empty: it is that of everybody's own settings."""
    try:
        return dict(json.loads(description or "")["settings"])
    except (ValueError, KeyError, TypeError):
        return {}


def definition(
    version: Version, *, replicas: int, choice: Mapping[str, object] | None = None
) -> dict[str, Any]:
    """The collection of a version, as arguments of the library's `create`."""
    hnsw = Configure.VectorIndex.hnsw(
        distance_metric=VectorDistances.COSINE,
        ef=EF,
        ef_construction=EF_CONSTRUCTION,
        max_connections=MAX_CONNECTIONS,
        quantizer=Configure.VectorIndex.Quantizer.rq(bits=8),
    )
    return {
        "description": version.describe(choice),
        "properties": _properties(),
        "vector_config": [Configure.Vectors.self_provided(name=VECTOR, vector_index_config=hnsw)],
        "inverted_index_config": Configure.inverted_index(
            stopwords_preset=StopwordsPreset.NONE,
            index_timestamps=False,
            index_null_state=False,
            index_property_length=False,
        ),
        "multi_tenancy_config": Configure.multi_tenancy(
            enabled=True, auto_tenant_creation=False, auto_tenant_activation=True
        ),
        "replication_config": Configure.replication(factor=replicas),
    }


def _properties() -> list[Property]:
    return [
        *map(_filtered, ("repository", "path", "basename", "extension", "bucket")),
        *map(_filtered, ("language", "kind", "category", "block_type")),
        _filtered("folders", DataType.TEXT_ARRAY),
        _filtered("names", DataType.TEXT_ARRAY),
        _filtered("refs", DataType.TEXT_ARRAY),
        Property(name="depth", data_type=DataType.INT, index_filterable=True),
        *map(_searched, ("name_terms", "terms", "summary_terms")),
        *map(_kept, ("content", "facts")),
    ]


def _filtered(name: str, kind: DataType = DataType.TEXT) -> Property:
    return Property(
        name=name,
        data_type=kind,
        tokenization=Tokenization.FIELD,
        index_filterable=True,
        index_searchable=False,
    )


def _searched(name: str) -> Property:
    """Terms are indexed as `tokens.terms` made them: split at spaces only, no stop words."""
    return Property(
        name=name,
        data_type=DataType.TEXT,
        tokenization=Tokenization.WHITESPACE,
        index_filterable=False,
        index_searchable=True,
    )


def _kept(name: str) -> Property:
    return Property(
        name=name, data_type=DataType.TEXT, index_filterable=False, index_searchable=False
    )
