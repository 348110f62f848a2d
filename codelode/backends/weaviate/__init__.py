"""The clustered chunk store: a Weaviate server with any number of writers and readers."""

import warnings

from authlib.deprecate import AuthlibDeprecationWarning

# The client library's dependency would ask our users to install another HTTP library.
warnings.simplefilter("ignore", AuthlibDeprecationWarning)

from codelode.backends.weaviate.connection import Address
from codelode.backends.weaviate.schema import TenantIndex
from codelode.backends.weaviate.search import WeaviateChunkSearch
from codelode.backends.weaviate.shadow import WeaviateShadowIndex
from codelode.backends.weaviate.store import WeaviateChunkStore
from codelode.backends.weaviate.versions import published

__all__ = [
    "Address",
    "TenantIndex",
    "WeaviateChunkSearch",
    "WeaviateChunkStore",
    "WeaviateShadowIndex",
    "published",
]
