"""The clustered chunk store: a Weaviate server with any number of writers and readers."""

import warnings

# The client library changes the warning filters of the whole process, so that more warnings are
# shown. One of them, of a dependency, would tell our users to install another HTTP library.
with warnings.catch_warnings():
    from authlib.deprecate import AuthlibDeprecationWarning

    warnings.simplefilter("ignore", AuthlibDeprecationWarning)
    import weaviate  # noqa: F401  # imported here because of its filters

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
