"""IndexService: runs and repositories over gRPC.

The ledger is synchronous because the workers are; every call to it leaves the event loop for a
thread. Starting a run writes it to the ledger first and tells the workers second: when the
second step fails the run ends as failed, so nobody waits for a run that nobody will do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

from codelode import __version__, addresses
from codelode.access import EVERYTHING
from codelode.errors import InvalidQuery, InvalidSettings, NotFound, Unavailable
from codelode.ledger import Ledger
from codelode.model import (
    DEFAULT_REF,
    FileRecord,
    FileState,
    RefName,
    Repository,
    RepositoryName,
    Reprocess,
    Run,
    RunId,
    RunState,
)
from codelode.ports import ChunkSearch
from codelode.v1 import index_pb2, index_pb2_grpc
from gateway.api import convert, paging, validate
from gateway.api.interceptors import Context, note
from gateway.api.jobs import Jobs

#: How long after a change a watched run is looked at again, and the most, seconds.
WATCH_S = (0.05, 0.2)

RECENT_RUNS = 20


Failure = tuple[RepositoryName, RefName, FileRecord]


@dataclass(frozen=True, slots=True)
class IndexService(index_pb2_grpc.IndexServiceServicer):
    """Registers repositories and keeps their index up to date."""

    ledger: Ledger
    jobs: Jobs
    chunks: ChunkSearch
    embedder: str  # identity
    store: str
    local_paths: str  # see `codelode.settings`
    language_model: str = "none"  # the kind that the workers use
    draining: asyncio.Event = field(default_factory=asyncio.Event)  # set: end the streams

    async def StartRun(  # noqa: N802 - gRPC's name
        self, request: index_pb2.StartRunRequest, context: Context
    ) -> index_pb2.StartRunResponse:
        """Starts indexing a repository at a ref, registering it when it is new."""
        run = await asyncio.to_thread(self._start, request)
        note(run=run.id, repository=run.repository)
        return index_pb2.StartRunResponse(run=convert.run(run))

    async def WatchRun(  # noqa: N802 - gRPC's name
        self, request: index_pb2.WatchRunRequest, context: Context
    ) -> AsyncIterator[index_pb2.WatchRunResponse]:
        """The state of a run now and whenever it changes, until it is over."""
        note(run=request.run_id)
        last: Run | None = None
        pause_s = WATCH_S[0]
        while last is None or not last.state.is_over:
            run = await asyncio.to_thread(self._run, request.run_id)
            if run != last:
                last, pause_s = run, WATCH_S[0]
                yield index_pb2.WatchRunResponse(run=convert.run(run))
            elif await self._is_draining_within(pause_s):
                raise Unavailable("the gateway is shutting down; watch the run again")
            else:
                pause_s = min(WATCH_S[1], 1.2 * pause_s)

    async def CancelRun(  # noqa: N802 - gRPC's name
        self, request: index_pb2.CancelRunRequest, context: Context
    ) -> index_pb2.CancelRunResponse:
        """Ends a run; what it has indexed so far stays."""
        note(run=request.run_id)
        run = await asyncio.to_thread(self._cancel, request.run_id)
        return index_pb2.CancelRunResponse(run=convert.run(run))

    async def ListRepositories(  # noqa: N802 - gRPC's name
        self, request: index_pb2.ListRepositoriesRequest, context: Context
    ) -> index_pb2.ListRepositoriesResponse:
        """All repositories, by name."""
        found = await asyncio.to_thread(self._repositories)
        return index_pb2.ListRepositoriesResponse(repositories=found)

    async def GetStatus(  # noqa: N802 - gRPC's name
        self, request: index_pb2.GetStatusRequest, context: Context
    ) -> index_pb2.GetStatusResponse:
        """Repositories, recent runs, queues and workers in one picture."""
        repositories, runs, queues, chunks = await asyncio.gather(
            asyncio.to_thread(self._repositories),
            asyncio.to_thread(self.ledger.recent, EVERYTHING, limit=RECENT_RUNS),
            asyncio.to_thread(self.jobs.queues),
            self.chunks.count(EVERYTHING),
        )
        return index_pb2.GetStatusResponse(
            version=__version__,
            repositories=repositories,
            runs=[convert.run(run) for run in runs],
            chunks=chunks,
            queues=[convert.queue(queue) for queue in queues],
            embedder=self.embedder,
            store=self.store,
        )

    async def RemoveRepository(  # noqa: N802 - gRPC's name
        self, request: index_pb2.RemoveRepositoryRequest, context: Context
    ) -> index_pb2.RemoveRepositoryResponse:
        """Forgets a repository and everything indexed of it."""
        note(repository=request.name)
        await asyncio.to_thread(self._remove, request.name)
        return index_pb2.RemoveRepositoryResponse()

    async def ListFailures(  # noqa: N802 - gRPC's name
        self, request: index_pb2.ListFailuresRequest, context: Context
    ) -> index_pb2.ListFailuresResponse:
        """Files that are not in the index, each with its reason."""
        return await asyncio.to_thread(self._failures, request)

    async def RetryFailures(  # noqa: N802 - gRPC's name
        self, request: index_pb2.RetryFailuresRequest, context: Context
    ) -> index_pb2.RetryFailuresResponse:
        """Tries the failed files of one or all repositories again."""
        runs = await asyncio.to_thread(self._retry, request.repository)
        note(runs=len(runs))
        return index_pb2.RetryFailuresResponse(runs=[convert.run(run) for run in runs])

    async def EnrichRepository(  # noqa: N802 - gRPC's name
        self, request: index_pb2.EnrichRepositoryRequest, context: Context
    ) -> index_pb2.EnrichRepositoryResponse:
        """Makes the summaries that earlier runs left out."""
        runs = await asyncio.to_thread(self._enrich, request.repository)
        return index_pb2.EnrichRepositoryResponse(runs=[convert.run(run) for run in runs])

    def _start(self, request: index_pb2.StartRunRequest) -> Run:
        repository = self._registered(request)
        ref = addresses.check_ref(request.ref) if request.ref else DEFAULT_REF
        include, exclude = validate.included(request), validate.excluded(request)
        self.ledger.register(repository)
        self.ledger.set_patterns(repository.name, include=include, exclude=exclude)
        return self._begin(repository.name, ref)

    def _registered(self, request: index_pb2.StartRunRequest) -> Repository:
        """The repository to register, checked against the one that has its name."""
        url = addresses.check_url(request.url, local_paths=self.local_paths)
        name = addresses.check_name(request.name) if request.name else addresses.default_name(url)
        known = self.ledger.get(name)
        if known is None:
            return Repository(name, url)
        if known.url != url:
            raise InvalidQuery(
                "name",
                f"{name!r} is already the name of {known.url}; "
                "pass another name, or remove that repository first",
            )
        return known

    def _begin(
        self, name: RepositoryName, ref: RefName, *, reprocess: Collection[Reprocess] = ()
    ) -> Run:
        """A new run that the workers know of; a queued one starts when its time comes."""
        run = self.ledger.create(name, ref, reprocess=reprocess)
        if run.state is not RunState.PULLING:
            return run
        try:
            self.jobs.pull(run)
        except Unavailable as exc:
            self.ledger.end(run.id, RunState.FAILED, str(exc))
            raise
        return run

    def _run(self, run_id: str) -> Run:
        run = self.ledger.run(RunId(run_id))
        if run is None:
            raise NotFound(f"there is no run {run_id[:100]!r}; `status` lists the recent ones")
        return run

    def _cancel(self, run_id: str) -> Run:
        run = self._run(run_id)
        following = self.ledger.end(run.id, RunState.CANCELLED, "cancelled by request")
        if following is not None:
            self.jobs.pull(self._run(following))
        return self._run(run_id)

    def _repositories(self) -> list[index_pb2.Repository]:
        known = self.ledger.repositories()
        refs = self.ledger.refs_of([repository.name for repository in known])
        return list(map(convert.repository, known, refs))

    def _remove(self, name: str) -> None:
        """Forget it at once; the workers clear up when they can, told now or by their reaper."""
        repository = self._known(name)
        self.ledger.unregister(repository.name)
        with suppress(Unavailable):
            self.jobs.remove(repository.name)

    def _known(self, name: str) -> Repository:
        repository = self.ledger.get(RepositoryName(name))
        if repository is None:
            raise NotFound(validate.unknown("repository", name, self._names()))
        return repository

    def _names(self) -> list[str]:
        return [repository.name for repository in self.ledger.repositories()]

    def _asked_for(self, name: str) -> list[str]:
        """The named repository, or all of them when none is named."""
        return [self._known(name).name] if name else self._names()

    def _failures(self, request: index_pb2.ListFailuresRequest) -> index_pb2.ListFailuresResponse:
        size = validate.page_size(request.page_size)
        after = paging.read(request.page_token)
        states = (FileState.FAILED, FileState.SKIPPED)[: 1 + request.include_skipped]
        found = self._with_state(
            self._asked_for(request.repository),
            states,
            after=after,
            include_partial=request.include_partial,
        )
        page = list(islice(found, size + 1))
        return index_pb2.ListFailuresResponse(
            failures=[convert.file_failure(*failure) for failure in page[:size]],
            next_page_token=paging.token(_place(page[size - 1])) if len(page) > size else "",
        )

    def _with_state(
        self,
        names: Iterable[str],
        states: Iterable[FileState],
        *,
        after: paging.Place,
        include_partial: bool = False,
    ) -> Iterator[Failure]:
        """Records in one of the states by repository, ref and path, from behind a place on.

        `include_partial`: and indexed ones that something is wrong with.
        """
        wanted = (*states, FileState.INDEXED) if include_partial else tuple(states)
        for name in sorted(names):
            if after and name < after[0]:
                continue
            for ref, record in self.ledger.with_state(RepositoryName(name), *wanted):
                failure = (RepositoryName(name), ref, record)
                is_fine = record.state is FileState.INDEXED and not record.reason
                if _place(failure) > after and not is_fine:
                    yield failure

    def _retry(self, name: str) -> list[Run]:
        """One run for every ref that has failed files."""
        failed = self._with_state(self._asked_for(name), (FileState.FAILED,), after=())
        refs = dict.fromkeys((repository, ref) for repository, ref, _ in failed)
        return [
            self._begin(repository, ref, reprocess=[Reprocess.FAILED]) for repository, ref in refs
        ]

    def _enrich(self, name: str) -> list[Run]:
        """One run for every indexed ref."""
        if self.language_model == "none":
            raise InvalidSettings(
                "no language model is configured; set CODELODE_LANGUAGE_MODEL for the cluster"
            )
        refs = [
            (repository, status.ref)
            for repository in map(RepositoryName, self._asked_for(name))
            for status in self.ledger.refs(repository)
            if status.indexed
        ]
        return [
            self._begin(repository, ref, reprocess=[Reprocess.SUMMARIES])
            for repository, ref in refs
        ]

    async def _is_draining_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self.draining.wait(), seconds)
        except TimeoutError:
            return False
        return True


def _place(failure: Failure) -> paging.Place:
    repository, ref, record = failure
    return (repository, ref, record.path)
