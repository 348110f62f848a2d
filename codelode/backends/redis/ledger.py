"""The job ledger in Redis: catalog, runs, the feeder's window, and file records.

Every step that must not be seen half-done is one Lua script (`ledger.lua`, which lists the keys),
so progress, completion and failures are exact however often a message is delivered. Broker and
ledger live in the same append-only file, so a crash of the server takes both back to the same
moment.
"""

from __future__ import annotations

import json
import random
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import redis

from codelode import estimates
from codelode.access import Label, Visibility
from codelode.backends.redis import scripts
from codelode.backends.redis.connection import translated
from codelode.backends.redis.ledger_codec import (
    flat_records,
    parse_advance,
    parse_groups,
    parse_item,
    parse_label,
    parse_record,
    parse_refs,
    parse_repository,
    parse_run,
    parse_url,
    pinned,
    rows,
)
from codelode.covers import Grouped, Groups
from codelode.errors import NotFound
from codelode.estimates import Estimate
from codelode.ledger import (
    AHEAD_MS,
    BULK_DEBT_MS,
    BULK_SHARE,
    SAVED_MS,
    SUPERSEDE_S,
    Advance,
    FileManifest,
    WorkItem,
)
from codelode.model import (
    FileRecord,
    FileState,
    RefName,
    RefStatus,
    Repository,
    RepositoryName,
    RepositoryRef,
    Reprocess,
    Revision,
    Run,
    RunId,
    RunKind,
    RunState,
)
from codelode.stages import FILE_STAGES, Stage, begins_at

#: Elements per script call: long calls block every other client of the server.
BATCH = 500

#: Hashes by repository name: its registration, its patterns, and its label.
_CATALOG = ("repositories", "include", "exclude", "labels")

#: Number of ended runs that are kept, the newest ones.
RUNS_KEPT = 1000

#: Number of older runs that are examined, to be forgotten, whenever a run is created.
RUNS_TRIMMED = 5

T = TypeVar("T")


class RedisLedger:
    """Implements the port Ledger.

    `window`: files in flight per run. `requeue_s`, `lease_s`: see `codelode.settings`.
    `worker_ttl_s`: a worker without a heartbeat for this long counts as dead. `supersede_s`: see
    SUPERSEDE_S.
    """

    def __init__(
        self,
        client: redis.Redis,
        *,
        prefix: str = "codelode:",
        window: int = 128,
        requeue_s: float = 20.0,
        lease_s: float = 300.0,
        worker_ttl_s: float = 9.0,
        supersede_s: float = SUPERSEDE_S,
        stages: Sequence[Stage] = FILE_STAGES,
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._window = window
        self._requeue_ms = int(requeue_s * 1000)
        self._lease_ms = int(lease_s * 1000)
        self._worker_ttl_ms = int(worker_ttl_s * 1000)
        self._supersede_ms = int(supersede_s * 1000)
        entries = [begins_at(is_removal=one, stages=stages).name for one in (False, True)]
        names = "local first, last = '{}', '{}'\n".format(*entries)
        numbers = f"{AHEAD_MS}, {BULK_SHARE}, {BULK_DEBT_MS}"
        names += f"local ahead_ms, bulk_share, bulk_debt_ms = {numbers}\n"
        sources = scripts.load("ledger.lua")
        self._scripts = {
            name: client.register_script(names + text) for name, text in sources.items()
        }
        self._snapshot = scripts.Snapshot(client)

    # Catalog

    def register(self, repository: Repository) -> None:
        value = json.dumps([repository.url, repository.default_ref, pinned(repository)])
        with translated():
            self._client.hset(self._key("repositories"), repository.name, value)

    def set_patterns(
        self,
        name: RepositoryName,
        *,
        include: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
    ) -> None:
        given = {"include": include, "exclude": exclude}
        lists = {side: json.dumps(list(some)) for side, some in given.items() if some is not None}
        self._run_script("limit", name, *(part for pair in lists.items() for part in pair))

    def set_label(self, name: RepositoryName, label: Label | None) -> None:
        self._run_script("limit", name, "labels", label or "")

    def labels(self) -> Mapping[RepositoryName, Label | None]:
        with translated():
            names, flat = self._snapshot(
                ("HKEYS", self._key("repositories")), ("HGETALL", self._key("labels"))
            )
        labels = scripts.pairs(flat)
        return {RepositoryName(name.decode()): parse_label(labels.get(name)) for name in names}

    def urls(self) -> Mapping[RepositoryName, str]:
        with translated():
            found: Any = self._client.hgetall(self._key("repositories"))
        return {RepositoryName(name.decode()): parse_url(value) for name, value in found.items()}

    def set_access_globs(self, lists: Sequence[tuple[str, ...]]) -> None:
        with translated():
            self._client.set(self._key("access_globs"), json.dumps(lists))

    def access_globs(self) -> tuple[tuple[str, ...], ...]:
        with translated():
            found: Any = self._client.get(self._key("access_globs"))
        return tuple(map(tuple, json.loads(found or b"[]")))

    def groups(self) -> Mapping[RepositoryName, Grouped]:
        with translated():
            found: Any = self._client.hgetall(self._key("groups"))
        return {RepositoryName(name.decode()): parse_groups(value) for name, value in found.items()}

    def groups_of(self, name: RepositoryName) -> Groups:
        with translated():
            found: Any = self._client.hget(self._key("groups"), name)
        return parse_groups(found or b"").written

    def suspend_groups(self, names: Sequence[RepositoryName]) -> None:
        for some in _batches(names):
            self._run_script("suspend_groups", *some)

    def set_groups(self, name: RepositoryName, groups: Groups) -> None:
        self._run_script("set_groups", name, " ".join(groups))

    def settle_groups(self, name: RepositoryName, groups: Groups) -> bool:
        return bool(self._run_script("settle_groups", name, " ".join(groups)))

    def get(self, name: RepositoryName) -> Repository | None:
        (found,) = self.get_all([name])
        return found

    def get_all(self, names: Sequence[RepositoryName]) -> tuple[Repository | None, ...]:
        return tuple(found for some in _batches(names) for found in self._some(some))

    def _some(self, names: Sequence[RepositoryName]) -> Iterator[Repository | None]:
        with translated():
            columns = self._snapshot(*(("HMGET", self._key(table), *names) for table in _CATALOG))
        for name, value, *rest in zip(names, *columns, strict=True):
            yield parse_repository(name, value, *rest) if value else None

    def names(self) -> tuple[RepositoryName, ...]:
        with translated():
            found = cast("list[bytes]", self._client.hkeys(self._key("repositories")))
        return tuple(sorted(RepositoryName(name.decode()) for name in found))

    def repositories(self) -> tuple[Repository, ...]:
        with translated():
            tables = self._snapshot(*(("HGETALL", self._key(table)) for table in _CATALOG))
        found, *rest = map(scripts.pairs, tables)
        return tuple(
            parse_repository(RepositoryName(name.decode()), value, *(one.get(name) for one in rest))
            for name, value in sorted(found.items())
        )

    def refs(self, name: RepositoryName) -> tuple[RefStatus, ...]:
        (found,) = self.refs_of([name])
        return found

    def refs_of(self, names: Sequence[RepositoryName]) -> tuple[tuple[RefStatus, ...], ...]:
        with translated():
            pipe = self._client.pipeline(transaction=False)
            for name in names:
                pipe.hget(self._key("repositories"), name)
                pipe.hgetall(self._key(f"refs:{name}"))
            heads = list(zip(names, rows(pipe.execute(), 2), strict=True))
            for name, (_, refs) in heads:
                for ref in refs:
                    pipe.hgetall(self._key(f"counts:{name}:{ref.decode()}"))
            counts = iter(pipe.execute())
        return tuple(parse_refs(name, head, counts) for name, head in heads)

    def ref_counts(self, names: Sequence[RepositoryName]) -> Mapping[RefName, int]:
        found = Counter[RefName]()
        for some in _batches(names):
            rows = iter(self._run_script("ref_counts", *some))
            found.update(
                {RefName(ref.decode()): count for ref, count in zip(rows, rows, strict=True)}
            )
        return found

    def unregister(self, name: RepositoryName) -> None:
        self._run_script("leave", name)
        with translated():
            for run in self._run_ids(f"runs:{name}", 0, -1):
                self.end(run, RunState.CANCELLED, "the repository was removed")
                self._client.zrem(self._key("runs"), run)
                self._client.unlink(*self._run_keys(run))
            refs = cast("list[bytes]", self._client.hkeys(self._key(f"refs:{name}")))
            places = [f"{name}:{ref.decode()}" for ref in refs]
            leaving = [f"{name}:{ref}" for of, ref in self.refs_being_removed() if of == name]
            places += leaving
            keys = [f"refs:{name}", f"runs:{name}", f"queue:{name}"]
            keys += [f"files:{at}" for at in places] + [f"counts:{at}" for at in places]
            self._client.unlink(*map(self._key, keys))
            if leaving:
                self._client.srem(self._key("leaving_refs"), *leaving)
        self._run_script("forget", name, *_CATALOG, "groups")

    def mark_for_removal(self, name: RepositoryName) -> bool:
        return bool(self._run_script("mark_for_removal", name))

    def being_removed(self) -> frozenset[RepositoryName]:
        with translated():
            found = cast("set[bytes]", self._client.smembers(self._key("leaving")))
        return frozenset(RepositoryName(name.decode()) for name in found)

    def removal_finished(self, name: RepositoryName) -> None:
        self._run_script("removal_finished", name)

    def remove_ref(self, name: RepositoryName, ref: RefName) -> bool:
        return bool(self._run_script("remove_ref", name, ref))

    def refs_being_removed(self) -> frozenset[RepositoryRef]:
        with translated():
            found = cast("set[bytes]", self._client.smembers(self._key("leaving_refs")))
        places = (place.decode().partition(":") for place in found)
        return frozenset((RepositoryName(name), RefName(ref)) for name, _, ref in places)

    def ref_removal_finished(self, name: RepositoryName, ref: RefName) -> None:
        at = f"{name}:{ref}"
        with translated():
            self._client.unlink(self._key(f"files:{at}"), self._key(f"counts:{at}"))
            self._client.srem(self._key("leaving_refs"), at)
            self._client.incr(self._key("generation"))

    def generation(self) -> int:
        with translated():
            return int(cast("bytes | None", self._client.get(self._key("generation"))) or 0)

    def restamp(self, before: str, after: str) -> None:
        """See `Ledger`."""
        self._run_script("restamp", before, after)

    def recover(self, *, generation: int) -> None:
        """Repair a restored ledger; see `Ledger`."""
        for repository in self.repositories():
            for status in self.refs(repository.name):
                self._recount(f"{repository.name}:{status.ref}")
        self._run_script("recover", generation)

    def _recount(self, at: str) -> None:
        """Count the records again. `at`: `repository:ref`."""
        with translated():
            self._client.delete(self._key(f"counts:{at}"))
            records = dict(self._client.hscan_iter(self._key(f"files:{at}"), count=1000))
        for some in _batches([value.decode() for value in records.values()]):
            self._run_script("recount", at, *some)

    # Runs

    def create(
        self,
        repository: RepositoryName,
        ref: RefName,
        *,
        reprocess: Collection[Reprocess] = (),
        kind: RunKind = RunKind.INDEX,
    ) -> Run:
        new = uuid.uuid4().hex[:16]
        run = RunId(self._run_script("create", new, repository, ref, kind, *reprocess).decode())
        self._trim_runs()
        return self._existing(run)

    def run(self, run: RunId) -> Run | None:
        with translated():
            fields = cast("dict[bytes, bytes]", self._client.hgetall(self._key(f"run:{run}")))
        return parse_run(fields) if fields else None

    def recent(self, visible: Visibility, *, limit: int = 20) -> tuple[Run, ...]:
        indexes = (
            ["runs"] if visible.is_everything else [f"runs:{name}" for name in visible.ordered]
        )
        with translated():
            pipe = self._client.pipeline(transaction=False)
            for index in indexes:
                pipe.zrevrange(self._key(index), 0, limit - 1, withscores=True)
            found = [(at, id.decode()) for part in pipe.execute() for id, at in part]
            for _, run in sorted(found, reverse=True)[:limit]:
                pipe.hgetall(self._key(f"run:{run}"))
            return tuple(parse_run(fields) for fields in pipe.execute() if fields)

    def claim(self, run: RunId, *, worker: str) -> int:
        return int(self._run_script("claim", run, worker))

    def unclaim(self, run: RunId, *, worker: str, for_s: float, reason: str) -> None:
        self._run_script("unclaim", run, worker, int(for_s * 1000), reason)

    def end(
        self, run: RunId, state: RunState, error: str = "", *, withdraws: bool = False
    ) -> RunId | None:
        following = self._run_script("stop", run, state, error, int(withdraws))
        return RunId(following.decode()) if following else None

    def end_planned(
        self, run: RunId, estimate: Estimate, *, revision: Revision, ref: RefName
    ) -> RunId | None:
        given = (estimates.dump(estimate), revision, ref)
        following = self._run_script("end_planned", run, *given)
        return RunId(following.decode()) if following else None

    def active(self, repository: RepositoryName) -> RunId | None:
        with translated():
            found = cast("bytes | None", self._client.hget(self._key("active"), repository))
        return RunId(found.decode()) if found else None

    def stalled(self) -> tuple[RunId, ...]:
        found = self._run_script("stalled", self._requeue_ms)
        return tuple(RunId(run.decode()) for run in found)

    def supersede(self) -> tuple[RunId, ...]:
        found = self._run_script("supersede", self._supersede_ms)
        return tuple(RunId(run.decode()) for run in found)

    def successor(self, run: RunId) -> RunId | None:
        with translated():
            found: Any = self._client.hget(self._key(f"run:{run}"), "successor")
        return RunId(found.decode()) if found else None

    # Feeder

    def plan(
        self, run: RunId, manifest: FileManifest, *, ref: RefName, fingerprint: str
    ) -> Advance:
        notices = json.dumps(manifest.notices)
        described = (manifest.patterns, notices, int(manifest.committed_at))
        opening = (manifest.revision, ref, fingerprint, *described, " ".join(manifest.groups))
        if not self._run_script("plan_open", run, *opening):
            return Advance()
        is_rebuild = int(manifest.is_rebuild)
        for items in _batches(manifest.items):
            flat = [part for item in items for part in (item.path, item.blob, item.size_bytes)]
            self._run_script("plan_items", run, is_rebuild, *flat)
        for records in _batches(manifest.skipped):
            self._run_script("plan_records", run, *flat_records(records))
        chosen = (pinned(manifest), manifest.replaces or "")
        becomes = chosen if manifest.makes_default else ("", "")
        counts = (self._window, len(manifest.skipped))
        share = ("1" if manifest.is_bulk else "", manifest.share.weight)
        return self._advance("plan_commit", run, *counts, is_rebuild, *becomes, *share)

    def unsent(self, run: RunId) -> Advance | None:
        found = self._run_script("unsent", run)
        return parse_advance(found) if found else None

    def mark_sent(self, run: RunId) -> None:
        self._run_script("mark_sent", run)

    def begin(
        self,
        run: RunId,
        paths: Sequence[str],
        *,
        worker: str,
        stage: str,
        yields: bool = False,
    ) -> tuple[int, ...]:
        turn = (int(yields), SAVED_MS)
        return tuple(self._run_script("begin", run, worker, stage, self._lease_ms, *turn, *paths))

    def owes(self, stage: str) -> bool:
        return bool(self._run_script("owes", stage))

    def pass_on(self, run: RunId, paths: Sequence[str], *, stage: str) -> None:
        if paths:
            self._run_script("pass_on", run, stage, *paths)

    def put_off(
        self, run: RunId, paths: Sequence[str], *, worker: str, for_s: float, reason: str
    ) -> None:
        if paths:
            self._run_script("put_off", run, worker, int(for_s * 1000), reason, *paths)

    def done(self, run: RunId, records: Sequence[FileRecord]) -> Advance:
        return self._advance("done", run, self._window, *flat_records(records))

    def heartbeat(self, worker: str) -> None:
        self._run_script("heartbeat", worker, self._worker_ttl_ms)

    def retire(self, worker: str) -> None:
        with translated():
            self._client.unlink(self._key(f"worker:{worker}"))

    def reap(self, *, waiting: Mapping[str, int]) -> Mapping[RunId, tuple[WorkItem, ...]]:
        busy = [stage for stage, messages in waiting.items() if messages]
        flat = self._run_script("reap", self._requeue_ms, self._lease_ms, *busy)
        found: dict[RunId, list[WorkItem]] = {}
        for run, *item in rows(flat, 5):
            found.setdefault(RunId(run.decode()), []).append(parse_item(item))
        return {run: tuple(items) for run, items in found.items()}

    # Files

    def all(self, repository: RepositoryName, ref: RefName) -> Iterator[FileRecord]:
        with translated():
            key = self._key(f"files:{repository}:{ref}")
            for path, value in self._client.hscan_iter(key, count=1000):
                yield parse_record(path.decode(), value)

    def with_state(
        self, repository: RepositoryName, *states: FileState
    ) -> Iterable[tuple[RefName, FileRecord]]:
        found = [
            (status.ref, record)
            for status in self.refs(repository)
            for record in self.all(repository, status.ref)
            if record.state in states
        ]
        return sorted(found, key=lambda pair: (pair[0], pair[1].path))

    def exists(
        self, repository: RepositoryName, ref: RefName, paths: Sequence[str]
    ) -> frozenset[str]:
        records = self.records(repository, ref, paths)
        return frozenset(path for path, record in records.items() if record.blob)

    def records(
        self, repository: RepositoryName, ref: RefName, paths: Sequence[str]
    ) -> Mapping[str, FileRecord]:
        if not paths:
            return {}
        with translated():
            values = cast(
                "list[bytes | None]",
                self._client.hmget(self._key(f"files:{repository}:{ref}"), list(paths)),
            )
        return {
            path: parse_record(path, value)
            for path, value in zip(paths, values, strict=True)
            if value is not None
        }

    def invalidate(self, repository: RepositoryName, ref: RefName, paths: Sequence[str]) -> bool:
        batches = list(_batches(paths)) or [()]
        return all(self._run_script("invalidate", repository, ref, *some) for some in batches)

    # Keys and scripts

    def _key(self, name: str) -> str:
        return self._prefix + name

    def _run_keys(self, run: RunId) -> list[str]:
        return [self._key(f"run:{run}{part}") for part in ("", ":todo", ":inflight")]

    def _run_ids(self, index: str, start: int, stop: int) -> list[RunId]:
        found = cast("list[bytes]", self._client.zrevrange(self._key(index), start, stop))
        return [RunId(run.decode()) for run in found]

    def _run_script(self, name: str, *args: str | int) -> Any:
        with translated():
            return self._scripts[name](keys=[self._prefix], args=list(args))

    def _advance(self, script: str, *args: str | int) -> Advance:
        return parse_advance(self._run_script(script, *args))

    def _existing(self, run: RunId) -> Run:
        found = self.run(run)
        if found is None:
            raise NotFound(f"run {run} does not exist")
        return found

    def _trim_runs(self) -> None:
        """Forget ended runs beyond RUNS_KEPT, a few at a time from a random position.

        Thousands of runs may be queued at once, when the repositories of a code host are found.
        """
        with translated():
            extra = self._client.zcard(self._key("runs")) - RUNS_KEPT
            start = RUNS_KEPT + random.randrange(max(1, extra - RUNS_TRIMMED + 1))
            for run in self._run_ids("runs", start, start + RUNS_TRIMMED - 1) if extra > 0 else ():
                self._forget_if_over(run)

    def _forget_if_over(self, run: RunId) -> None:
        old = self.run(run)
        if old is not None and not old.state.is_over:
            return
        self._client.zrem(self._key("runs"), run)
        if old is not None:
            self._client.zrem(self._key(f"runs:{old.repository}"), run)
        self._client.unlink(*self._run_keys(run))


def _batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(values), BATCH):
        yield values[start : start + BATCH]
