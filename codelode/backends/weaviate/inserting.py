"""Objects to insert as messages of the server's gRPC interface.

The library brings these messages along, sends them and sends them again when nobody answers. But it
looks at each value what it is and copies each message into the one around it, which takes five
times as long: longer than making the objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from weaviate.collections import Collection
from weaviate.proto.v1 import base_pb2, batch_pb2

from codelode.model import Vector

#: How often the library sends a request again that met no server, as in its own `insert_many`.
RETRIES = 2


class Made(NamedTuple):
    """An object that was made, with its vectors by name."""

    uuid: UUID
    properties: Mapping[str, str | int | Sequence[str]]
    vector: Mapping[str, Vector]


def insert(objects: Collection[Any, Any], made: Sequence[Made]) -> Mapping[int, str]:
    """Send the objects, for QUORUM to take; what the server did not take: position → why."""
    # Not public: the version of the library is bounded for that.
    connection = objects._connection
    refused: Mapping[int, str] = connection.grpc_batch_objects(
        request(made, collection=objects.name, tenant=objects.tenant),
        timeout=connection.timeout_config.insert,
        max_retries=RETRIES,
    )
    return refused


def request(
    made: Sequence[Made], *, collection: str, tenant: str | None
) -> batch_pb2.BatchObjectsRequest:
    """As the library makes it."""
    asked = batch_pb2.BatchObjectsRequest(consistency_level=base_pb2.CONSISTENCY_LEVEL_QUORUM)
    for one in made:
        message = asked.objects.add(uuid=str(one.uuid), collection=collection, tenant=tenant)
        _fill(message.properties, one.properties)
        for name, vector in one.vector.items():
            message.vectors.add(
                name=name,
                vector_bytes=np.asarray(vector, "<f4").tobytes(),
                type=base_pb2.Vectors.VECTOR_TYPE_SINGLE_FP32,
            )
    return asked


def _fill(
    message: batch_pb2.BatchObject.Properties, properties: Mapping[str, str | int | Sequence[str]]
) -> None:
    plain = message.non_ref_properties.fields
    for name, value in properties.items():
        if isinstance(value, str):
            plain[name].string_value = value
        elif isinstance(value, int):
            plain[name].number_value = value
        elif value:
            message.text_array_properties.add(prop_name=name, values=value)
        else:
            message.empty_list_props.append(name)
