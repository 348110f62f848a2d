"""The `codelode` command: its table of subcommands and its exit statuses.

A subcommand's module is imported only when it runs, because importing the libraries of all
subcommands takes longer than a search. The table therefore contains what the help lists.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, NamedTuple

import click

from codelode import __version__, garbage
from codelode.cli.fields import in_own_terms
from codelode.environment import wants_colours
from codelode.errors import CodelodeError, InvalidQuery

ERROR = 2
INTERRUPTED = 130

#: The option that names a repository where the argument of a command does not.
_REPOSITORY_OPTIONS = frozenset({"--repo", "-r"})


class Subcommand(NamedTuple):
    """The module that defines a subcommand, and its line in the help."""

    module: str  # in this package
    summary: str  # the first sentence of the command's own help
    function: str = ""  # empty: the name of the command


#: The subcommands by section of the help.
SECTIONS = {
    "Search": {
        "search": Subcommand(
            "search", "Search all indexed code for words, an identifier, or a piece of code."
        ),
        "context": Subcommand(
            "context", "Print the code that answers QUERY as one Markdown text, for an agent."
        ),
        "grep": Subcommand("grep", "Print the lines of indexed files that PATTERN matches."),
        "symbols": Subcommand(
            "names", "List the definitions whose name matches GLOB, with kind and signature."
        ),
        "definitions": Subcommand(
            "names", "List the definitions of NAME in all repositories, in exactly this spelling."
        ),
        "references": Subcommand(
            "names",
            "List the lines that use NAME in all repositories, the most certain ones first.",
        ),
        "callers": Subcommand(
            "names",
            "List the definitions that call NAME in all repositories, the most certain ones first.",
        ),
        "similar": Subcommand(
            "search",
            "Find code like the code at PATH:LINE, or with `-` like the code on standard input.",
        ),
        "read": Subcommand("read", "Print an indexed file, or lines of it, such as PATH:10-20."),
        "ls": Subcommand(
            "ls", "List the folders and files in a folder, or in the root of the repository."
        ),
        "explain": Subcommand(
            "graph", "Show what is known about a file or a symbol; SUBJECT is its path or name."
        ),
        "graph": Subcommand(
            "graph",
            "Show what a file or a symbol depends on, or with --reverse what depends on it.",
        ),
        "mcp": Subcommand(
            "mcp", "Serve agents on stdin and stdout over the Model Context Protocol."
        ),
    },
    "Index": {
        "index": Subcommand(
            "index", "Bring the index of git repositories up to date, registering new ones."
        ),
        "plan": Subcommand(
            "plan",
            "Show what indexing repositories would do: files, chunks, tokens, time, and cost.",
        ),
        "watch": Subcommand(
            "watch",
            "Keep the checkout at PATH searchable with its uncommitted changes, until Ctrl-C.",
        ),
        "hooks": Subcommand("hooks", "Index each commit of a checkout through git hooks."),
        "default": Subcommand(
            "index", "Make REF the default ref of the repository NAME, and index it."
        ),
        "repos": Subcommand("status", "List the repositories and their indexed refs."),
        "failures": Subcommand(
            "failures", "List the files that could not be indexed, each with its reason."
        ),
        "retry": Subcommand(
            "index", "Try failed files again, those of the repository NAME or of all repositories."
        ),
        "enrich": Subcommand(
            "index", "Write missing summaries, for the repository NAME or for all repositories."
        ),
        "cancel": Subcommand(
            "index", "End the run with the id RUN; what it has indexed so far stays in the index."
        ),
        "label": Subcommand(
            "index",
            "Decide who sees the repository NAME, which may be a glob such as 'payments/*'.",
        ),
        "remove": Subcommand(
            "index", "Remove the repository NAME and everything that is indexed of it."
        ),
    },
    "Operate": {
        "up": Subcommand(
            "up",
            "Run the whole cluster on this machine until Ctrl-C: Redis, workers, gateway, Flower.",
        ),
        "web": Subcommand(
            "web",
            "Open the web page of the cluster that `codelode up` runs on this machine, signed in.",
        ),
        "status": Subcommand(
            "status",
            "Show repositories, parse results by language, recent runs, queues, and workers.",
        ),
        "login": Subcommand(
            "login",
            "Log in at an OpenID Connect issuer in the browser, for a gateway that accepts its "
            "tokens.",
        ),
        "logout": Subcommand(
            "login", "Forget the login at a gateway, and have the issuer forget it too."
        ),
        "settings": Subcommand(
            "settings", "List every setting: its environment variable, default, range, and meaning."
        ),
        "keys": Subcommand("keys", "Create, list, and revoke the API keys of a gateway."),
        "scopes": Subcommand(
            "scopes", "List the scopes, named sets of repositories, refs, and paths."
        ),
        "sources": Subcommand("sources", "Follow the repositories of code hosts."),
        "permissions": Subcommand(
            "permissions", "Show the permissions that are read from code hosts, or read them now."
        ),
        "doctor": Subcommand(
            "doctor",
            "Compare ledger, chunk index, graph, symbol table, and mirrors; report differences.",
        ),
        "reindex": Subcommand(
            "reindex", "Rebuild the index for another embedding model while searches go on."
        ),
        "regroup": Subcommand(
            "regroup",
            "Rewrite the repositories whose groups no longer match the current rights.",
        ),
        "backup": Subcommand(
            "backup",
            "Save index, ledger, graph, and symbol table to FOLDER, which must be new or empty.",
        ),
        "restore": Subcommand(
            "backup", "Restore what `codelode backup` saved to FOLDER; the cluster must be stopped."
        ),
        "eval": Subcommand(
            "evaluate", "Measure the answers to the judged queries of FILE.", "evaluate"
        ),
        "demo": Subcommand(
            "demo", "Index a repository on a fresh cluster, search it three times, clean up."
        ),
    },
}
SUBCOMMANDS = {name: one for section in SECTIONS.values() for name, one in section.items()}


class ReaderGone(Exception):
    """The reader of the output has closed it, as in `codelode search … | head -1`."""


class Commands(click.Group):
    """The group of subcommands, each of which is imported when it is used.

    Raises ReaderGone where Click would end the process with status 1, which means nothing found.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*SUBCOMMANDS, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = SUBCOMMANDS.get(cmd_name)
        if found is None:
            return super().get_command(ctx, cmd_name)
        with garbage.postponed():
            module = import_module(f"codelode.cli.{found.module}")
        command: click.Command = getattr(module, found.function or cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as exc:
            from difflib import get_close_matches

            close = get_close_matches(args[0], self.list_commands(ctx), n=1)
            if not close:
                raise
            raise click.UsageError(f"{exc.message} Did you mean {close[0]!r}?", ctx) from exc

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name, one.summary) for name, one in commands.items()])

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _reader_may_go():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        with _reader_may_go():
            try:
                return super().invoke(ctx)
            except InvalidQuery as exc:
                command = self.get_command(ctx, ctx.invoked_subcommand or "")
                raise in_own_terms(exc, command or self) from exc


@contextmanager
def _reader_may_go() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as exc:
        raise ReaderGone from exc


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__)
@click.pass_context
def codelode(context: click.Context) -> None:
    """Find code across all the repositories of an organisation.

    \b
    Try it:
      codelode up                          start the cluster; leave it running
      codelode index . --wait              in another terminal: index this repository
      codelode search "retry with back-off"

    On a terminal, matches are highlighted and long output is shown in $PAGER (PAGER=cat turns that
    off). There are no colours if NO_COLOR is set.
    """
    if not wants_colours():
        context.color = False


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit status."""
    status = _status_of(list(sys.argv[1:] if args is None else args))
    _discard_output()
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
    except click.NoSuchOption as exc:
        return _complain(_unknown_option(exc), hint=_help_of(exc))
    except click.ClickException as exc:
        return _complain(exc.format_message(), hint=_help_of(exc))
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except CodelodeError as exc:
        return _complain(str(exc))
    except Exception as exc:  # noqa: BLE001  the outermost handler of the process
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


def _unknown_option(exc: click.NoSuchOption) -> str:
    """Return the message; for --repo, it says that the command takes the name as an argument.

    `--help` is never suggested: it resembles every short option, and the hint names it anyway.
    """
    command = exc.ctx.command if exc.ctx else codelode
    argument = next((one for one in command.params if isinstance(one, click.Argument)), None)
    if exc.option_name in _REPOSITORY_OPTIONS and argument and argument.name == "name":
        return f"{exc.message} The repository is the argument {argument.human_readable_name}."
    return exc.message if exc.possibilities == ["--help"] else exc.format_message()


def _help_of(exc: click.ClickException) -> str:
    context = getattr(exc, "ctx", None)
    return f"see `{context.command_path} --help`" if context is not None else ""


def _complain(message: str, *, hint: str = "") -> int:
    from codelode.cli.printing import complain

    with suppress(BrokenPipeError):
        complain(f"{message} ({hint})" if hint else message)
    return ERROR


def _discard_output() -> None:
    """Discard buffered output; Python would try to write it at exit and print an error."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
