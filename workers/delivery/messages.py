"""The messages of per-file jobs, as Celery writes them.

Celery takes 0.3 to 0.7 ms for one, and each file needs three: a sixteenth of all the work of
indexing. Nearly all of a message is the same for every file of a stage, so Celery writes one as a
sample, into a transport that keeps it, and the others are made from that.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from functools import cache
from typing import Any
from uuid import uuid4

from celery import Celery
from kombu import Connection


def message(app: Celery, queue: str, arguments: Mapping[str, object], *, about: str) -> str:
    """The message that calls the queue's task with these arguments; `about` is what Flower shows.

    It belongs to no other task, whichever one sends it.
    """
    sample, options = _sample(app, queue)
    own = str(uuid4())
    body = json.dumps([[], arguments, options]).encode()
    headers = {"id": own, "root_id": own, "parent_id": None, "kwargsrepr": about}
    properties = {"correlation_id": own, "kwargsrepr": about, "delivery_tag": str(uuid4())}
    return json.dumps(
        {
            **sample,
            "body": b64encode(body).decode(),
            "headers": {**sample["headers"], **headers},
            "properties": {**sample["properties"], **properties},
        }
    )


@cache
def _sample(app: Celery, queue: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A message that calls the queue's task, and what its body says besides the arguments."""
    with Connection("memory://") as connection, connection.channel() as channel:
        producer = app.amqp.Producer(channel, auto_declare=False)
        task = f"workers.{queue}"
        app.send_task(task, queue=queue, producer=producer, argsrepr="", kwargsrepr="")
        sample = channel._get(queue)
    _, _, options = json.loads(b64decode(sample["body"]))
    return sample, options
