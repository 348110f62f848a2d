"""The clustered chunk store: a Weaviate server, any number of writing and reading processes."""

from codelode.backends.weaviate.beside import WeaviateBeside
from codelode.backends.weaviate.connection import Address
from codelode.backends.weaviate.glance import published
from codelode.backends.weaviate.index import Place
from codelode.backends.weaviate.search import WeaviateChunkSearch
from codelode.backends.weaviate.store import WeaviateChunkStore

__all__ = [
    "Address",
    "Place",
    "WeaviateBeside",
    "WeaviateChunkSearch",
    "WeaviateChunkStore",
    "published",
]
