"""Kills a worker at the very call by which it hands work over, when a test has ordered that.

Python imports a module of this name as it starts, so the product needs no hook for it: a cluster
finds this one by PYTHONPATH. An order is a file `WORKER MOMENT METHOD` in the folder DEATHS. Of the
calls that fit it the first one renames it, to the same with the id of its process, and dies of it.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path


def run_the_hidden_one():
    """The module of this name that the environment has, if any: this one stands before it."""
    here = str(Path(__file__).parent)
    spec = PathFinder.find_spec("sitecustomize", [path for path in sys.path if path != here])
    if spec is not None:
        spec.loader.exec_module(module_from_spec(spec))


def worker_name():
    """Which worker this process is, as in `python -P -m workers NAME`; empty: none."""
    _, is_worker, arguments = " ".join(sys.orig_argv).partition(" -m workers ")
    return arguments.split()[0] if is_worker else ""


def lie_in_wait(worker):
    """From now on the calls that hand work over look for orders."""
    from codelode.backends.redis.ledger import RedisLedger
    from workers.delivery.outbox import CeleryOutbox

    for owner, name in (
        (RedisLedger, "plan"),
        (RedisLedger, "pass_on"),
        (RedisLedger, "done"),
        (CeleryOutbox, "push"),
    ):
        setattr(owner, name, mortal(getattr(owner, name), worker))


def mortal(method, worker):
    @functools.wraps(method)
    def called(*args, **kwargs):
        die_if_ordered(f"{worker} before {method.__name__}")
        result = method(*args, **kwargs)
        die_if_ordered(f"{worker} after {method.__name__}")
        return result

    return called


def die_if_ordered(moment):
    order = Path(os.environ["DEATHS"], moment)
    taken = order.with_suffix(f".{os.getpid()}")
    try:
        order.rename(taken)  # one of several processes succeeds
    except FileNotFoundError:
        return
    if taken.read_text() == "process":
        os.kill(os.getpid(), signal.SIGKILL)
    os.killpg(0, signal.SIGKILL)  # a worker and its pool are one group


run_the_hidden_one()
if worker := worker_name():
    lie_in_wait(worker)
