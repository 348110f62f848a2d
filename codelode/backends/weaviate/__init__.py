"""The clustered chunk store: a Weaviate server, any number of writing and reading processes."""

import warnings

from authlib.deprecate import AuthlibDeprecationWarning

# It comes with the client library and would ask our users for another HTTP library.
warnings.simplefilter("ignore", AuthlibDeprecationWarning)

from codelode.backends.weaviate.connection import Address
from codelode.backends.weaviate.glance import published
from codelode.backends.weaviate.schema import TenantIndex
from codelode.backends.weaviate.search import WeaviateChunkSearch
from codelode.backends.weaviate.shadow import WeaviateShadowIndex
from codelode.backends.weaviate.store import WeaviateChunkStore

__all__ = [
    "Address",
    "TenantIndex",
    "WeaviateChunkSearch",
    "WeaviateChunkStore",
    "WeaviateShadowIndex",
    "published",
]
