"""Kills a worker at the very call by which it hands work over, when a test has ordered that.

Python imports a module of this name as it starts, so the product needs no hook for it: a cluster
finds this one by PYTHONPATH. An order is a file `WORKER MOMENT METHOD NUMBER` in the folder DEATHS.
Of the calls that fit it the first one renames it, to the same with the id of the process that the
order is about, its own or the worker's, and dies of it.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

#: `workers.call_server.SHOWN`: a process of that name, and its children, work for the worker above.
SERVER = "call"


def run_the_hidden_one():
    """The module of this name that the environment has, if any: this one stands before it."""
    here = str(Path(__file__).parent)
    spec = PathFinder.find_spec("sitecustomize", [path for path in sys.path if path != here])
    if spec is not None:
        spec.loader.exec_module(module_from_spec(spec))


def worker_name():
    """Return the NAME of the `python -P -m workers NAME` that this is or works for, or "".

    It is asked for at each call, because a worker gets its name when it is forked.
    """
    pid = os.getpid()
    while pid:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        _, is_worker, arguments = command.partition(" -m workers ")
        if is_worker and arguments.split()[0] != SERVER:
            return arguments.split()[0]
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return ""


def lie_in_wait():
    """From now on the calls that hand work over look for orders."""
    from codelode.backends.redis.ledger import RedisLedger
    from workers.delivery.outbox import CeleryOutbox

    for owner, name in (
        (RedisLedger, "plan"),
        (RedisLedger, "pass_on"),
        (RedisLedger, "done"),
        (CeleryOutbox, "push"),
    ):
        setattr(owner, name, mortal(getattr(owner, name)))


def mortal(method):
    @functools.wraps(method)
    def called(*args, **kwargs):
        worker = worker_name()
        die_if_ordered(f"{worker} before {method.__name__}")
        result = method(*args, **kwargs)
        die_if_ordered(f"{worker} after {method.__name__}")
        return result

    return called


def die_if_ordered(moment):
    for order in Path(os.environ["DEATHS"]).glob(f"{moment} *"):
        if not order.suffix:  # else it was taken
            die_by(order)


def die_by(order):
    """Die unless another process takes the order first."""
    try:
        is_alone = order.read_text() == "process"
        dies = os.getpid() if is_alone else os.getpgrp()  # a worker leads its group
        order.rename(order.with_suffix(f".{dies}"))  # one of several processes succeeds
    except FileNotFoundError:
        return
    if is_alone:
        os.kill(dies, signal.SIGKILL)
    os.killpg(dies, signal.SIGKILL)


run_the_hidden_one()
if worker_name():
    lie_in_wait()
