"""The `codelode` command: its subcommands, and how every one of them ends."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import click

from codelode.cli.asking import context, explain, similar
from codelode.cli.backup import backup, restore
from codelode.cli.demo import demo
from codelode.cli.doctor import doctor
from codelode.cli.evaluate import evaluate
from codelode.cli.graph import graph
from codelode.cli.index import cancel, enrich, failures, index, remove, retry
from codelode.cli.printing import complain
from codelode.cli.reindex import reindex
from codelode.cli.search import search
from codelode.cli.status import repos, settings, status
from codelode.cli.up import up
from codelode.errors import CodelodeError

ERROR = 2
INTERRUPTED = 130


class ReaderGone(Exception):
    """Whoever read the output has seen enough: `codelode search … | head -1`."""


class Commands(click.Group):
    """Raises ReaderGone where Click would end the process with status 1, "nothing found"."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _reader_may_go():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _reader_may_go():
            return super().invoke(ctx)


@contextmanager
def _reader_may_go() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as exc:
        raise ReaderGone from exc


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="codelode")
def codelode() -> None:
    """Find code across all the repositories of an organisation.

    \b
    Try it:
      codelode up                          start the cluster; leave it running
      codelode index . --wait              elsewhere: index the repository you are in
      codelode search "retry with back-off"
    """


COMMANDS = (
    *(up, index, search, context, similar, explain, graph),
    *(repos, status, failures, retry, enrich, cancel, remove, reindex, settings, evaluate, demo),
    *(doctor, backup, restore),
)
for command in COMMANDS:
    codelode.add_command(command)


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit status."""
    status = _status_of(list(sys.argv[1:] if args is None else args))
    _forget_unread()
    sys.exit(status)


def _status_of(args: list[str]) -> int:
    try:
        _check_text(args)
        return int(codelode.main(args, prog_name="codelode", standalone_mode=False) or 0)
    except ReaderGone:
        return 0
    except click.exceptions.NoArgsIsHelpError as exc:
        with suppress(BrokenPipeError):
            exc.show()
        return ERROR
    except click.ClickException as exc:
        return _complain(exc.format_message(), hint=_help_of(exc))
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except CodelodeError as exc:
        return _complain(str(exc))
    except Exception as exc:  # noqa: BLE001  a process meets the world here
        where = traceback.extract_tb(exc.__traceback__)[-1]
        return _complain(
            f"unexpected {type(exc).__name__}: {exc} ({where.filename}:{where.lineno})",
            hint="this is a defect of codelode",
        )


def _check_text(args: list[str]) -> None:
    for arg in args:
        try:
            arg.encode()
        except UnicodeEncodeError as exc:
            raise click.UsageError(f"the argument {arg!a} is not valid UTF-8") from exc


def _help_of(exc: click.ClickException) -> str:
    context = getattr(exc, "ctx", None)
    return f"see `{context.command_path} --help`" if context is not None else ""


def _complain(message: str, *, hint: str = "") -> int:
    with suppress(BrokenPipeError):
        complain(f"{message} ({hint})" if hint else message)
    return ERROR


def _forget_unread() -> None:
    """Drop what nobody reads any more: Python would try once more to write it, and complain."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
