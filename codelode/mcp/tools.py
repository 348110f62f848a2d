"""The tools: one row each, with the function that calls the gateway.

There are few tools with short descriptions, because an agent reads all of them in every session,
whether it uses them or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from codelode.client.request import MOST
from codelode.client.results import matches_of
from codelode.errors import InvalidQuery, Unavailable
from codelode.mcp import arguments, text
from codelode.mcp.answers import MAX_BYTES, Answer, structured_answer, text_answer
from codelode.model import RunState
from codelode.text.runs import run_line

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from codelode.client import FileFailure
    from codelode.client.async_methods import AsyncMethods
    from codelode.model import Run

#: Reports progress: the amount of work that is done, the total, and a message.
Report = Callable[[float, float | None, str], Awaitable[None]]

#: Largest budget of `context` that fits into an answer, in tokens of four characters, as the
#: gateway estimates them.
MAX_CONTEXT_TOKENS = MAX_BYTES // 4 - 100
#: Maximum number of files that are not indexed in one answer.
MAX_FAILURES = 1_000
#: Maximum number of lines of a hit's passage that the gateway may return.
MAX_PASSAGE_LINES = 1_000


@dataclass(frozen=True, slots=True)
class Tool:
    """The description of a tool for agents, and the function that answers its calls."""

    name: str
    description: str  # at most 300 characters
    arguments: type[arguments.Arguments]
    answer: Callable[[AsyncMethods, Any, Report], Awaitable[Answer]]
    is_reading: bool = True


async def search(client: AsyncMethods, given: arguments.Search, _: Report) -> Answer:
    if given.compact and given.context_lines:
        raise InvalidQuery("compact", "shows no code, context_lines shows more; give one of them")
    if given.exact and given.names:
        raise InvalidQuery("names", "cannot be combined with exact; give only one of them")
    if given.names:
        return await _names(client, given)
    if given.exact:
        return await _exact(client, given)
    found = await client.search(
        given.query,
        top_k=given.top_k,
        page=given.page,
        preset=given.preset,
        options=_options(given),
        **given.filters(),
    )
    lines = text.search_lines(found, given.query, context=given.context_lines or None)
    return _answer(given, found, lines, narrow=text.NARROW_SEARCH)


async def _exact(client: AsyncMethods, given: arguments.Search) -> Answer:
    parts = client.grep(
        given.query,
        limit=given.top_k,
        before_lines=given.context_lines,
        after_lines=given.context_lines,
        **given.filters(),
    )
    found = matches_of([part async for part in parts])
    return _answer(given, found, text.matching_lines(found), narrow=text.NARROW_EXACT)


async def _names(client: AsyncMethods, given: arguments.Search) -> Answer:
    if given.names == "symbols":
        defined = await client.symbols(given.query, limit=given.top_k, **given.filters())
        return _answer(given, defined, text.symbol_lines(defined), narrow=text.NARROW_EXACT)
    used = await client.references(given.query, limit=given.top_k, **given.filters())
    return _answer(given, used, text.reference_lines(used), narrow=text.NARROW_EXACT)


def _options(given: arguments.Search) -> dict[str, dict[str, object]]:
    """Return the options by stage and name; `options` takes precedence over other arguments."""
    stages: dict[str, dict[str, object]] = {"expand": {}, "assemble": {}}
    if given.context_lines:
        around = {"before_lines": given.context_lines, "after_lines": given.context_lines}
        stages["expand"] = {**around, "max_lines": MAX_PASSAGE_LINES}
    if given.compact:
        stages["assemble"] = {"compact": True}
    for name, value in given.options.items():
        stage, dot, option = name.partition(".")
        if not dot:
            raise InvalidQuery("options", f"{name!r} is not STAGE.NAME, such as expand.related")
        stages.setdefault(stage, {})[option] = value
    return stages


async def context(client: AsyncMethods, given: arguments.Context, _: Report) -> Answer:
    fits = given.tokens > MOST["budget_tokens"] or given.tokens <= MAX_CONTEXT_TOKENS
    made = await client.context(
        given.query,
        budget_tokens=given.tokens if fits else MAX_CONTEXT_TOKENS,
        top_k=given.top_k,
        options={"assemble": {"reserved_tokens": 0}},
        **given.filters(),
    )
    notices = [*made.search.notices]
    if not fits:
        notices.append(f"one answer has at most {MAX_CONTEXT_TOKENS:,} tokens")
    if made.left_out:
        notices.append(f"{made.left_out} of {len(made.search)} hits left out")
    lines = [made.text or text.NOTHING, *text.notes(notices, made.search.coverage)]
    return _answer(given, made, lines, narrow="ask for fewer tokens")


async def similar(client: AsyncMethods, given: arguments.Similar, _: Report) -> Answer:
    found = await client.similar(
        given.path,
        given.line,
        repository=given.repository,
        snippet=given.snippet,
        top_k=given.top_k,
        **given.filters(),  # the ref is one of them
    )
    lines = text.search_lines(found, given.snippet)
    return _answer(given, found, lines, narrow=text.NARROW_SEARCH)


async def read(client: AsyncMethods, given: arguments.Read, _: Report) -> Answer:
    found = await client.read(
        given.path,
        repository=given.repository,
        ref=given.ref,
        start_line=given.start_line,
        end_line=given.end_line,
    )
    return _answer(given, found, text.file_lines(found), narrow="ask for fewer lines")


async def explain(client: AsyncMethods, given: arguments.Subject, _: Report) -> Answer:
    about = await client.explain(given.subject, repository=given.repository, ref=given.ref)
    return _answer(given, about, text.about_lines(about), narrow="name the repository")


async def graph(client: AsyncMethods, given: arguments.Graph, _: Report) -> Answer:
    found = await client.graph(
        given.subject,
        repository=given.repository,
        depth=given.depth,
        reverse=given.reverse,
        relations=given.relations,
        limit=given.limit,
        ref=given.ref,
    )
    narrow = "ask for a smaller depth or limit, or for one relation"
    return _answer(given, found, text.graph_lines(found), narrow=narrow)


async def status(client: AsyncMethods, given: arguments.Status, _: Report) -> Answer:
    name = given.repository
    # This call also checks the name: for an unknown one, the gateway suggests similar names.
    failures = await _failures(client, given) if name or given.failures else ()
    state = await client.status()
    scopes = () if name else await client.scopes()
    if name:
        repositories = tuple(one for one in state.repositories if one.repository.name == name)
        runs = tuple(run for run in state.runs if run.repository == name)
        state = replace(state, repositories=repositories, runs=runs)
    shown = failures if given.failures else ()
    narrow = "name one `repository`"
    if given.structured:
        fields = {
            **asdict(state),
            "failures": [asdict(one) for one in shown],
            "scopes": [asdict(one) for one in scopes],
        }
        return structured_answer(fields, narrow=narrow)
    return text_answer(text.status_lines(state, shown, scopes), narrow=narrow)


async def _failures(client: AsyncMethods, given: arguments.Status) -> tuple[FileFailure, ...]:
    found: list[FileFailure] = []
    include_skipped = given.failures == "all"
    async for one in client.failures(given.repository or None, include_skipped=include_skipped):
        found.append(one)
        if len(found) >= MAX_FAILURES:
            break
    return tuple(found)


async def index(client: AsyncMethods, given: arguments.Index, report: Report) -> Answer:
    run = await client.index(
        given.url,
        name=given.name,
        ref=given.ref,
        include=given.include,
        exclude=given.exclude,
        wait=False,
    )
    if given.wait_s > 0:
        run = await _watched(client, run, given.wait_s, report)
    lines = [run_line(run), *text.notes(run.notices)]
    if not run.state.is_over:
        lines += text.notes([f"waits: {run.waits_for}"] if run.waits_for else [])
        lines.append("note: the run goes on in the cluster; `status` shows its state")
    is_failed = run.state in (RunState.FAILED, RunState.CANCELLED)
    if is_failed:
        lines.append(run.error or f"the run was {run.state}")
    return replace(_answer(given, run, lines, narrow="see `status`"), is_error=is_failed)


async def _watched(client: AsyncMethods, run: Run, wait_s: float, report: Report) -> Run:
    """Report the progress of the run, and return it when it is over.

    Return its last state after `wait_s`, or if the gateway shuts down.
    """
    with suppress(TimeoutError, Unavailable):
        async with asyncio.timeout(wait_s), aclosing(client.watch(run)) as states:
            async for run in states:
                await report(run.done + run.failed, run.total or None, run_line(run))
    return run


def _answer(
    given: arguments.Arguments, value: DataclassInstance, lines: Iterable[str], *, narrow: str
) -> Answer:
    if given.structured:
        return structured_answer(asdict(value), narrow=narrow)
    return text_answer(lines, narrow=narrow)


TOOLS = {
    tool.name: tool
    for tool in (
        Tool(
            "search",
            "Find code in all indexed repositories by meaning, words, name, or snippet. Returns "
            "path:start-end, symbol, and the lines that match, best first. Start here.",
            arguments.Search,
            search,
        ),
        Tool(
            "similar",
            "Find code like the code at a line of a file, or like a snippet: copies, other "
            "implementations of the same thing, places that need the same change.",
            arguments.Similar,
            similar,
        ),
        Tool(
            "context",
            "Get the code that answers a question as one text within a token budget. Use it in "
            "place of search when you want to read much code at once.",
            arguments.Context,
            context,
        ),
        Tool(
            "read",
            "Read an indexed file, or lines of it, as of the indexed commit. Use it for the lines "
            "around a result of the other tools.",
            arguments.Read,
            read,
        ),
        Tool(
            "explain",
            "Describe a file or a symbol: its definitions with signatures, what it imports, what "
            "imports it, and its tests.",
            arguments.Subject,
            explain,
        ),
        Tool(
            "graph",
            "Follow dependencies of a file, a symbol, or a repository, across repositories: "
            "imports, calls, inheritance. With reverse: what a change would affect.",
            arguments.Graph,
            graph,
        ),
        Tool(
            "status",
            "List the repositories with their indexed commits, the scopes, the latest runs, and on "
            "request the files that are not indexed and why.",
            arguments.Status,
            status,
        ),
        Tool(
            "index",
            "Index a git repository, or bring its index up to date after new commits. Waits for "
            "the end of the run, which goes on if it takes longer.",
            arguments.Index,
            index,
            is_reading=False,
        ),
    )
}
