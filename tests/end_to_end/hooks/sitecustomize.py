"""Change the behaviour of the product's processes when a test has ordered it.

Python imports a module of this name at startup, so the product needs no hook: a process finds this
one by PYTHONPATH.

With DEATHS, a worker is killed exactly at a call that hands work over. An order is a file
`WORKER MOMENT METHOD NUMBER` in the folder DEATHS. The first call that matches it appends to its
name the id of the process to kill, which is its own or that of the worker, and kills it.

With BATCH_FILES, a rebuild of the index has batches of so many files.
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
    """Run the module of this name that the environment has, if any; this one hides it."""
    here = str(Path(__file__).parent)
    spec = PathFinder.find_spec("sitecustomize", [path for path in sys.path if path != here])
    if spec is not None:
        spec.loader.exec_module(module_from_spec(spec))


def command_line(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


def worker_name():
    """Return the NAME of the `python -P -m workers NAME` that this is or works for, or "".

    Called at each hand-over, because a worker gets its name only after the fork.
    """
    pid = os.getpid()
    while pid:
        command = command_line(pid)
        _, is_worker, arguments = command.partition(" -m workers ")
        if is_worker and arguments.split()[0] != SERVER:
            return arguments.split()[0]
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return ""


def watch_for_orders():
    """Make the calls that hand work over look for orders."""
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
        if not order.suffix:  # else another process has taken it
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


def set_batch_size():
    from workers.reindex import build

    build.BATCH_FILES = int(os.environ["BATCH_FILES"])


run_the_hidden_one()
if "DEATHS" in os.environ and worker_name():
    watch_for_orders()
if "BATCH_FILES" in os.environ and " -m workers.reindex" in command_line(os.getpid()):
    set_batch_size()
