"""Options, argument types, and exit statuses that several commands share."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from codelode.client.request import MOST, Filters
from codelode.environment import DEFAULT_SERVER, client_settings, variable
from codelode.errors import InvalidSettings

if TYPE_CHECKING:
    from codelode.client import Client

#: Exit statuses of commands that search; errors end with 2.
FOUND, NOTHING = 0, 1

PRESETS = ("fast", "balanced", "thorough")
MODES = ("hybrid", "staged")

Command = TypeVar("Command", bound=Callable[..., object])

#: Options of a search by stage and name, as the client takes them.
SearchOptions = dict[str, dict[str, object]]


class Name(click.types.StringParamType):
    """The type of a repository name that may be omitted to mean all repositories.

    An empty name is usually a variable that a script did not set, so it does not mean all.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not str(value).strip():
            self.fail("it is empty; name a repository, or leave it out for all", param, ctx)
        return str(value)


class Folder(click.Path):
    """The type of a folder. An empty name is refused: a script usually did not set a variable."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, file_okay=False)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        if not str(value).strip():
            self.fail("it is empty; name a folder", param, ctx)
        return super().convert(value, param, ctx)


# The gateway


_SERVER: dict[str, Any] = {
    "metavar": "[grpcs://]HOST:PORT",
    "help": "Call the gateway at this address; grpcs:// means TLS. Default: "
    "CODELODE_SERVER, else the cluster that `codelode up` runs on this machine: the one in "
    "CODELODE_DATA, else the last one started.",
}

#: Adds `--server`, which reaches the command as `server`: the address, or None.
address_option = click.option("--server", **_SERVER)


def server_option(command: Command) -> Command:
    """Add `--server`, which reaches the command as `client`, closed when the command ends."""
    return click.option("--server", "client", callback=_client, **_SERVER)(command)


def _client(context: click.Context, _: click.Parameter, address: str | None) -> Client:
    from codelode.client import Client

    return context.with_resource(Client(address or default_server()))


def default_server() -> str:
    """Return CODELODE_SERVER, else a running cluster of this user, else the default."""
    from codelode.cluster import found_cluster

    found = client_settings()
    if found.server is not None:
        return found.server
    cluster = found_cluster(found.data)
    return cluster.grpc if cluster is not None else DEFAULT_SERVER


# Options of searches

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object, for machines."
)
ref_option = click.option(
    "--ref", default="", help="Use this branch or tag. Default: each repository's default ref."
)
top_k_option = click.option(
    "--top-k",
    "-k",
    type=int,
    default=10,
    show_default=True,
    help=f"Return this many hits, 1 to {MOST['top_k']}.",
)
require_match_option = click.option(
    "--require-match",
    is_flag=True,
    help="End with status 1 if the hits are only similar, because the name that is the query, or "
    "every word of the query, is missing from the searched code.",
)
preset_option = click.option(
    "--preset",
    type=click.Choice(PRESETS, case_sensitive=False),
    default="balanced",
    show_default=True,
    help="Choose how much work a search may do; thorough adds more candidates, related files, "
    "import chains, and whole definitions, and collapses near-duplicates.",
)
mode_option = click.option(
    "--mode",
    type=click.Choice(MODES, case_sensitive=False),
    help="Choose how candidates are found; staged (experimental) first compares the query with "
    "file summaries, and then searches in the best files.",
)


def declared_file(given: Path | None, setting: str) -> Path:
    """Return the file of an argument, or the one that a variable names. Raises InvalidSettings."""
    if given is not None:
        return given
    if not (path := variable(setting)):
        raise InvalidSettings(f"name a file, or set {setting}")
    return Path(path).expanduser()


def repository_option(help: str) -> Callable[[Command], Command]:
    """Return the option `--repo` of a command that reads one repository."""
    return click.option("--repo", "-r", "repository", default="", metavar="NAME", help=help)


def _filter(*names: str, metavar: str, help: str) -> Callable[[Command], Command]:
    return click.option(*names, multiple=True, metavar=metavar, help=f"{help}; repeatable.")


def _language_option(*names: str) -> Callable[[Command], Command]:
    help = "Search only files in this language, for example python"
    return _filter(*names, "languages", metavar="NAME", help=help)


_REPO = _filter("--repo", "-r", "repositories", metavar="NAME", help="Search only this repository")
_LANGUAGE = _language_option("--language", "--lang", "-l")

#: The filters of every search, besides the repositories and the ref.
_FILTERS = (
    click.option(
        "--scope",
        default="",
        metavar="NAME",
        help="Search only in this scope; `codelode scopes` lists the scopes.",
    ),
    _filter("--not-repo", "not_repositories", metavar="NAME", help="Leave out this repository"),
    _LANGUAGE,
    _filter(
        "--not-language",
        "--not-lang",
        "not_languages",
        metavar="NAME",
        help="Leave out files in this language",
    ),
    _filter(
        "--path",
        "-p",
        "paths",
        metavar="GLOB",
        help="Search only files whose whole path matches this pattern",
    ),
    click.option(
        "--not-path",
        "not_paths",
        multiple=True,
        metavar="GLOB",
        help="Leave out files whose whole path matches this pattern, for example 'tests/**'; "
        "repeatable. `!` before the value of --path, --language, or --repo does the same.",
    ),
    _filter(
        "--kind",
        "kinds",
        metavar="KIND",
        help="Search only chunks of this kind (function, method, class, interface, struct, enum, "
        "trait, type, module, constant, macro, block, text)",
    ),
    _filter(
        "--symbol",
        "symbols",
        metavar="GLOB",
        help="Search only chunks whose symbol's name matches this pattern",
    ),
    _filter(
        "--category",
        "categories",
        metavar="CATEGORY",
        help="Search only files of this category (source, test, vendored, generated, docs, "
        "configuration)",
    ),
    _filter(
        "--block-type",
        "block_types",
        metavar="TYPE",
        help="Search only infrastructure blocks of this type, for example resource, job, service, "
        "stage, or Deployment",
    ),
)


def filter_options(command: Command) -> Command:
    """Add `--repo`, `--language`, … `--ref`."""
    return _REPO(narrowing_options(ref_option(command)))


def grep_filter_options(command: Command) -> Command:
    """Add the options of `filter_options`, without `-l`, which is another option of grep."""
    options = [
        _language_option("--language", "--lang"),
        *(one for one in _FILTERS if one is not _LANGUAGE),
    ]
    return _REPO(_with(options, ref_option(command)))


def narrowing_options(command: Command) -> Command:
    """Add the options of `filter_options` except `--repo` and `--ref`."""
    return _with(_FILTERS, command)


def _with(options: Sequence[Callable[[Command], Command]], command: Command) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def filters_of(values: dict[str, tuple[str, ...]]) -> Filters:
    """Return the values of `filter_options` as the client takes them."""
    found: Filters = {**values}  # type: ignore[typeddict-item]
    return found


# Search options of the API by name


def set_option(command: Command) -> Command:
    """Add `--set`, which reaches the command as `overrides`."""
    return click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="STAGE.NAME=VALUE",
        callback=_read_overrides,
        help="Set any search option of the API, for example rank.reranker=judge or "
        "expand.after_lines=5; overrides the preset and other options; repeatable.",
    )(command)


def merged(chosen: SearchOptions, overrides: SearchOptions) -> SearchOptions:
    """Merge two sets of options; `overrides` win."""
    stages = dict.fromkeys((*chosen, *overrides))
    return {stage: {**chosen.get(stage, {}), **overrides.get(stage, {})} for stage in stages}


def _read_overrides(
    _context: click.Context, _option: click.Parameter, given: Sequence[str]
) -> SearchOptions:
    overrides: SearchOptions = {}
    for one in given:
        name, equals, value = one.partition("=")
        stage, dot, option = name.strip().partition(".")
        if not (equals and dot and stage and option):
            raise click.BadParameter(
                f"{one!r} is not STAGE.NAME=VALUE, for example rank.reranker=judge"
            )
        overrides.setdefault(stage, {})[option] = _value(value.strip())
    return overrides


def _value(text: str) -> object:
    """Read JSON numbers and booleans as such; everything else is text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float) else text
