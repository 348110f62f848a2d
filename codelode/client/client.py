"""The blocking client: one method per capability."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

import grpc

from codelode.client import calls
from codelode.client.calls import Call
from codelode.client.channel import DEFAULT_ADDRESS, ENVIRONMENT, Tls, connection
from codelode.client.failures import error
from codelode.client.request import Grep
from codelode.client.watching import OnSilence, Silence, ended_early
from codelode.errors import CodelodeError, Unavailable

if TYPE_CHECKING:
    from codelode.client.results import GrepSummary, MatchingFile
    from codelode.model import Run
    from codelode.reports import FileFailure

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def _method(
    call: Callable[Arguments, Call[Answer]],
) -> Callable[Concatenate[Client, Arguments], Answer]:
    """Make the method that sends the call and waits for its answer."""

    @wraps(call)
    def method(self: Client, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        return self._send(call(*args, **kwargs))

    return method


class Client:
    """A connection to one gateway; safe to share between threads, closed by `close` or `with`."""

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        token: str | None = None,
        timeout_s: float = 30.0,
        tls: Tls = ENVIRONMENT,
    ) -> None:
        """Connect on the first call. `timeout_s` bounds each call, but not a watch.

        `token` is the gateway's secret or an API key. With None, the client uses CODELODE_TOKEN,
        else CODELODE_TOKEN_FILE, else the token of the cluster that `codelode up` runs for this
        user at the address, else that of a `codelode login` there. The address of a gateway with
        TLS is grpcs://HOST:PORT; `tls` names the files for it if they are not those of the
        environment. Raises InvalidSettings for a malformed address, for a file that cannot be used,
        and for a token that would be sent to another machine without TLS.
        """
        self.address, self.timeout_s = address, timeout_s
        how = connection(address, token, tls)
        self._metadata = how.metadata
        self._channel = (
            grpc.insecure_channel(how.target, options=how.options)
            if how.credentials is None
            else grpc.secure_channel(how.target, how.credentials, options=how.options)
        )

    search = _method(calls.search)
    context = _method(calls.context)
    similar = _method(calls.similar)
    read = _method(calls.read)
    folder = _method(calls.folder)
    symbols = _method(calls.symbols)
    references = _method(calls.references)
    scopes = _method(calls.scopes)
    explain = _method(calls.explain)
    graph = _method(calls.graph)
    chunk_map = _method(calls.chunk_map)
    map_places = _method(calls.map_places)
    make_map = _method(calls.make_map)
    cancel = _method(calls.cancel)
    status = _method(calls.status)
    repositories = _method(calls.repositories)
    set_default = _method(calls.set_default)
    label = _method(calls.label)
    remove = _method(calls.remove)
    retry = _method(calls.retry)
    enrich = _method(calls.enrich)
    create_key = _method(calls.create_key)
    keys = _method(calls.keys)
    revoke_key = _method(calls.revoke_key)
    permissions = _method(calls.permissions)
    sync_permissions = _method(calls.sync_permissions)
    sources = _method(calls.sources)
    sync_sources = _method(calls.sync_sources)

    def index(
        self,
        url: str,
        *,
        name: str = "",
        ref: str = "",
        label: str = "",
        include: Iterable[str] | None = None,
        exclude: Iterable[str] | None = None,
        wait: bool = True,
        on_progress: Callable[[Run], None] | None = None,
    ) -> Run:
        """Bring the index of a repository at a ref up to date, registering it when it is new.

        With `wait`, return the run when it is over; it may have failed: see `Run.error`.
        Without it, return the run as it was created. An empty name is taken from the URL; an empty
        ref means the default one. `include`, `exclude`: patterns as in a .gitignore at the root.
        Only files that match a pattern of `include` are indexed; files that match one of `exclude`
        are left out, whatever the repository's own ignore files say. The gateway stores the
        patterns: None keeps the stored ones, an empty list clears them. `label` decides who sees
        the repository: see `codelode.access.Label`. Raises InvalidQuery with the invalid field.
        """
        call = calls.start_run(
            url, name=name, ref=ref, label=label, include=include, exclude=exclude
        )
        run = self._send(call)
        return self._until_over(run, on_progress) if wait else run

    def plan(
        self,
        url: str,
        *,
        name: str = "",
        ref: str = "",
        include: Iterable[str] | None = None,
        exclude: Iterable[str] | None = None,
        wait: bool = True,
        on_progress: Callable[[Run], None] | None = None,
    ) -> Run:
        """Find out what indexing a repository at a ref would do, without changing the index.

        The arguments are those of `index`, but patterns are accepted only for a repository that is
        not registered. With `wait`, return the run when it is over; if it is PLANNED, it has an
        `estimate`.
        """
        call = calls.start_run(
            url, name=name, ref=ref, include=include, exclude=exclude, plan_only=True
        )
        run = self._send(call)
        return self._until_over(run, on_progress) if wait else run

    def watch(self, run: Run | str, *, on_silence: OnSilence | None = None) -> Iterator[Run]:
        """Yield the run now and whenever it changes, until it is over.

        Continues where it stopped when the gateway restarts. Raises Unavailable after
        `WATCH_TIMEOUT_S` without an answer, NotFound if there is no such run. `on_silence` is
        called once in each period without an answer, after `WATCH_SILENCE_S`, with the last error.
        """
        call = calls.watch_run(run)
        seen: Run | None = None
        silence = Silence(on_silence)
        while seen is None or not seen.state.is_over:
            lost = ended_early(self.address)
            try:
                for state in self._stream(call):
                    silence.end()
                    if state != seen:
                        yield state
                    seen = state
            except Unavailable as exc:
                lost = exc
            if seen is None or not seen.state.is_over:
                time.sleep(silence.pause_s(lost))

    def grep(self, pattern: str, **given: Unpack[Grep]) -> Iterator[MatchingFile | GrepSummary]:
        """Yield each file that a pattern matches, in order of repository and path, and a summary.

        The pattern is a regular expression of RE2, or with `literal` a text. It matches within a
        line, with `multiline` also across line breaks. `limit` bounds the matching lines of all
        files, `limit_per_file` those of each; with `without_lines` they are only counted. The
        filters are those of `search`. The summary comes last; unless it is `complete`, its
        `notices` say where the search stopped. Raises InvalidQuery with the invalid field.
        """
        for part in self._stream(calls.grep(pattern, **given), self.timeout_s):
            yield from part

    def _until_over(self, run: Run, on_progress: Callable[[Run], None] | None) -> Run:
        latest = run
        for latest in self.watch(run):
            if on_progress is not None:
                on_progress(latest)
        return latest

    def failures(
        self,
        name: str | None = None,
        *,
        include_skipped: bool = False,
        include_partial: bool = False,
    ) -> Iterator[FileFailure]:
        """Yield the files of one or all repositories that are not in the index.

        `include_skipped` adds files that were skipped on purpose, `include_partial` indexed files
        that were not parsed completely.
        """
        page = ""
        while True:
            call = calls.failures(
                name, page, include_skipped=include_skipped, include_partial=include_partial
            )
            found, page = self._send(call)
            yield from found
            if not page:
                return

    def is_serving(self) -> bool:
        """Return whether the gateway answers and reports that it is ready; never raises."""
        try:
            return self._send(calls.health(), min(self.timeout_s, calls.HEALTH_TIMEOUT_S))
        except CodelodeError:
            return False

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, call: Call[Answer], timeout_s: float | None = None) -> Answer:
        send: Any = self._channel.unary_unary(
            call.method,
            request_serializer=type(call.request).SerializeToString,
            response_deserializer=call.response.FromString,
        )
        metadata = () if call.is_anonymous else self._metadata()
        with self._translated():
            answer = send(call.request, timeout=timeout_s or self.timeout_s, metadata=metadata)
        return call.read(answer)

    def _stream(self, call: Call[Answer], timeout_s: float | None = None) -> Iterator[Answer]:
        open_stream: Any = self._channel.unary_stream(
            call.method,
            request_serializer=type(call.request).SerializeToString,
            response_deserializer=call.response.FromString,
        )
        metadata = self._metadata()
        with self._translated():
            stream = open_stream(call.request, timeout=timeout_s, metadata=metadata)
            try:
                yield from map(call.read, stream)
            finally:
                stream.cancel()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except grpc.RpcError as exc:
            raise error(exc, address=self.address, timeout_s=self.timeout_s) from exc
