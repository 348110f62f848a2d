"""The thread that reports a worker as alive, beside which the processes of its pool are forked."""

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


def test_the_heartbeat_imports_nothing_beside_the_main_thread(redis_url, redis, tmp_path):
    """A process forked during an import would wait for ever at its own import of that module."""
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
