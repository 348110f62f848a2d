"""The heartbeat thread of a worker does not disturb the processes of its pool."""

from __future__ import annotations

import os
import subprocess
import sys

#: Starts and ends a worker without a pool, and prints what was imported outside the main thread.
SCRIPT = """
import sys
import threading

from celery.signals import worker_init, worker_shutdown

from workers.delivery import app


class Recorder:
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is not threading.main_thread():
            print(name)


sys.meta_path.insert(0, Recorder())
worker_init.send(sender=None)
worker_shutdown.send(sender=None)
"""


def test_the_heartbeat_thread_imports_nothing(redis_url, redis, tmp_path):
    """A pool process forked during an import would wait for ever when it imports that module."""
    variables = {"CODELODE_REDIS_URL": redis_url, "CODELODE_DATA": str(tmp_path)}

    imported = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert imported.stdout == ""
