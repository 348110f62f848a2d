"""Contradictions of the ledger are found and repaired; anything else is left alone."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from codelode import scopes, sources
from codelode.backends.local import LocalChunkStore
from codelode.backends.local.inventory import LocalInventory
from codelode.backends.redis.connection import connect
from codelode.backends.redis.graph import RedisGraph
from codelode.backends.redis.index_swap import RedisIndexSwap
from codelode.backends.redis.ledger import RedisLedger
from codelode.backends.redis.packages import RedisPackageIndex
from codelode.backends.redis.references import RedisReferences
from codelode.backends.redis.stage_outputs import RedisStageOutputs
from codelode.backends.redis.symbols import RedisSymbols
from codelode.backends.redis.table_inventory import RedisTableInventory
from codelode.declarations import problem_of
from codelode.errors import Corrupt
from codelode.ledger import FileManifest, WorkItem
from codelode.mirrors import folder_name
from codelode.model import (
    DEFAULT_REF,
    BlobId,
    Edge,
    EdgeKind,
    FileChunks,
    FileRecord,
    FileState,
    Kind,
    RefName,
    Repository,
    RepositoryName,
    Revision,
    RunId,
    RunState,
    Symbol,
)
from codelode.operations.doctor import Doctor, Trouble
from codelode.ports import PublishedPackages
from codelode.settings import load as load_settings
from tests.chunks import chunk

APP, LIB = RepositoryName("acme/app"), RepositoryName("acme/lib")
MAIN, DEV = RefName("main"), RefName("dev")
DIM = 4
FILES = ("a.py", "b.py", "c.py")


class NoIndexes:
    def left_over(self):
        return []


@dataclass
class World:
    """All stores, filled as the workers would."""

    url: str
    folder: Path

    def __post_init__(self):
        client = connect(self.url)
        self.ledger = RedisLedger(client, window=1000)
        self.store = LocalChunkStore(self.folder / "index", dim=DIM, identity="test")
        self.inventory = LocalInventory(self.folder / "index")
        self.graph = RedisGraph(client)
        self.symbols = RedisSymbols(client)
        self.references = RedisReferences(client)
        self.packages = RedisPackageIndex(client)
        self.stage_outputs = RedisStageOutputs(client)
        self.swap = RedisIndexSwap(client)
        self.mirrors = self.folder / "mirrors"

    def doctor(self, **options):
        return Doctor(
            ledger=self.ledger,
            inventory=self.inventory,
            store=lambda: self.store,
            graph=self.graph,
            symbols=self.symbols,
            references=self.references,
            packages=self.packages,
            table_inventory=RedisTableInventory(connect(self.url)),
            swap=self.swap,
            indexes=NoIndexes(),
            mirrors=self.mirrors,
            **options,
        )

    def found(self):
        return [
            (finding.trouble, finding.repository, finding.ref, finding.names)
            for finding in self.doctor()().findings
        ]

    def repaired(self):
        """Return the report of a repair; check that only runs are left to do afterwards."""
        report = self.doctor(is_repairing=True)()
        assert report.is_healthy
        return report

    def index(self, name=APP, files=FILES, ref=MAIN, default=MAIN):
        """Index these files in a complete run."""
        self.ledger.register(Repository(name, "https://example.org/x", default))
        run = self.planned(name, files, ref=ref)
        refs = (ref, DEFAULT_REF) if ref == default else (ref,)
        self.write(name, files, refs=refs)
        self.ledger.done(run, [record(path) for path in files])
        return run

    def planned(self, name=APP, files=FILES, ref=MAIN):
        run = self.ledger.create(name, ref).id
        items = tuple(WorkItem(path, blob(path)) for path in files)
        manifest = FileManifest(Revision("1" * 40), items)
        self.ledger.plan(run, manifest, ref=ref, fingerprint="test")
        return run

    def write(self, name=APP, files=FILES, refs=(MAIN, DEFAULT_REF)):
        self.store.replace([chunks(name, path, refs) for path in files])
        self.graph.replace(
            name, refs, {path: [Edge(path, "os", EdgeKind.IMPORTS, True)] for path in files}
        )
        self.symbols.replace(name, refs, {path: [symbol(path)] for path in files})
        self.references.replace(name, refs, {path: ["load"] for path in files})

    def lose(self, *paths, name=APP, refs=(MAIN, DEFAULT_REF)):
        self.store.replace([FileChunks(name, path, refs) for path in paths])

    def mirror(self, name):
        made = self.mirrors / folder_name(name)
        made.mkdir(parents=True)
        return made


def blob(path):
    return BlobId(path.encode().hex().ljust(40, "0"))


def record(path, state=FileState.INDEXED, count=2):
    return FileRecord(path, blob(path), state, chunks=count if state is FileState.INDEXED else 0)


def symbol(path):
    return Symbol(f"in_{path[0]}", path, Kind.FUNCTION, "def", 1, 2, True)


def chunks(name, path, refs):
    made = tuple(
        chunk(
            path,
            path,
            repository=name,
            start_line=line,
            refs=tuple(sorted(refs)),
            kind=Kind.BLOCK,
        )
        for line in (1, 2)
    )
    return FileChunks(name, path, refs, made, np.array([[1, 0, 0, 0]] * 2, np.float32))


@pytest.fixture
def world(redis, redis_url, tmp_path):
    made = World(redis_url, tmp_path)
    yield made
    made.store.close()


def test_the_error_in_a_sources_file_names_its_line(tmp_path):
    file = tmp_path / "sources.yaml"
    assert problem_of(load_settings().sources, sources.read) == ""
    settings = load_settings(sources=str(file))
    assert "cannot read" in problem_of(settings.sources, sources.read)
    file.write_text("connections:\n- {name: work}\n")
    assert problem_of(settings.sources, sources.read) == f"{file}:2: the connection lacks kind"
    file.write_text("connections: []\n")
    assert problem_of(settings.sources, sources.read) == ""


def test_the_error_in_a_scopes_file_names_its_line(tmp_path):
    file = tmp_path / "scopes.yaml"
    settings = load_settings(scopes=str(file))
    assert "cannot read the scopes file" in problem_of(settings.scopes, scopes.read)
    file.write_text("scopes:\n  a: 1\n")
    assert problem_of(settings.scopes, scopes.read).startswith(f"{file}:2: 'a' must be a mapping")


def test_an_undamaged_index_has_no_findings(world):
    world.index()
    world.index(ref=DEV)
    world.index(LIB)
    world.mirror(APP)

    assert world.found() == []


def test_files_that_the_index_lost_are_indexed_by_a_new_run(world):
    world.index()
    world.index(ref=DEV, files=("a.py",))
    world.lose("a.py", "b.py")
    generation = world.ledger.generation()

    assert world.found() == [(Trouble.LOST, APP, MAIN, ("a.py", "b.py"))]
    report = world.repaired()

    (run,) = map(world.ledger.run, report.runs)
    assert (run.repository, run.ref, run.state) == (APP, MAIN, RunState.PULLING)
    states = {path: one.state for path, one in world.ledger.records(APP, MAIN, FILES).items()}
    assert states == {
        "a.py": FileState.PENDING,
        "b.py": FileState.PENDING,
        "c.py": FileState.INDEXED,
    }
    main, _ = world.ledger.refs(APP)
    assert not main.is_clean
    assert world.ledger.generation() > generation


def test_a_file_due_again_may_have_chunks_that_its_record_does_not_list(world):
    world.index()
    run = world.planned(files=("a.py", "b.py"))
    one = chunks(APP, "a.py", (MAIN, DEFAULT_REF))
    world.store.replace([replace(one, chunks=one.chunks[:1], vectors=one.vectors[:1])])
    world.ledger.end(run, RunState.CANCELLED)

    assert world.found() == []
    world.lose("c.py")
    assert world.found() == [(Trouble.LOST, APP, MAIN, ("c.py",))]


def test_a_file_with_too_few_chunks_or_too_many_is_lost_too(world):
    world.index()
    one = chunks(APP, "a.py", (MAIN, DEFAULT_REF))
    world.store.replace([replace(one, chunks=one.chunks[:1], vectors=one.vectors[:1])])
    world.lose("b.py", refs=(DEFAULT_REF,))

    assert world.found() == [(Trouble.LOST, APP, MAIN, ("a.py", "b.py"))]


def test_chunks_that_the_ledger_does_not_know_are_removed(world):
    world.index()
    world.write(files=("gone.py",), refs=(MAIN, DEV))

    assert world.found() == [
        (Trouble.STRAY, APP, DEV, ("gone.py",)),
        (Trouble.STRAY, APP, MAIN, ("gone.py",)),
        (Trouble.ENTRIES, APP, DEV, ("gone.py",)),
        (Trouble.ENTRIES, APP, MAIN, ("gone.py",)),
    ]
    assert world.repaired().runs == []
    assert set(world.inventory.counts(APP)) == set(FILES)
    assert world.symbols.lookup("in_g", repositories=[APP], ref=DEFAULT_REF) == ()
    assert world.found() == []


def test_removing_a_surplus_ref_keeps_the_chunk_at_its_other_refs(world):
    """The situation after a run that changed the default branch and was cancelled."""
    world.index(default=DEV)
    world.lose(*FILES, refs=(DEFAULT_REF,))
    world.write(files=("a.py",), refs=(MAIN, DEFAULT_REF))

    assert world.found() == [
        (Trouble.STRAY, APP, DEFAULT_REF, ("a.py",)),
        (Trouble.ENTRIES, APP, DEFAULT_REF, ("a.py",)),
    ]
    world.repaired()
    assert world.inventory.counts(APP, ["a.py"]) == {"a.py": {MAIN: 2}}
    assert world.references.names(APP, MAIN, ["a.py"]) == {"a.py": ("load",)}
    assert world.references.names(APP, DEFAULT_REF, ["a.py"]) == {"a.py": ()}


def test_leftovers_of_a_removed_repository_are_removed(world):
    world.index()
    world.write(LIB)
    world.packages.publish(LIB, [DEFAULT_REF], PublishedPackages({"npm:lib": ""}, {}))
    world.mirror(APP)
    stray = world.mirror(LIB)

    assert world.found() == [
        (Trouble.REMOVED, LIB, "", ("graph", "index", "packages", "references", "symbols")),
        (Trouble.MIRROR, "", "", (stray.name,)),
    ]
    world.repaired()
    assert world.inventory.repositories() == {APP}
    assert world.found() == []
    assert [path.name for path in world.mirrors.glob("*.git")] == [folder_name(APP)]
    assert world.ledger.being_removed() == frozenset()


def test_a_repository_that_is_being_removed_is_left_to_the_workers(world):
    world.index()
    world.ledger.unregister(APP)

    assert world.found() == []


def test_stage_outputs_of_a_run_that_ended_long_ago_are_removed(world):
    over, going = world.index(), world.planned(LIB)
    for run in (over, going, RunId("never")):
        world.stage_outputs.put(run, {"a.py": {"parsed": b"x"}})

    assert world.found() == [(Trouble.HANDOVER, "", "", ("never",))]
    later = world.doctor(clock=lambda: world.ledger.run(over).finished_at + 3600, is_repairing=True)
    assert later().findings[0].names == tuple(sorted(("never", over)))
    assert world.stage_outputs.get(going, ["a.py"], ["parsed"]) == ({"parsed": b"x"},)
    assert world.stage_outputs.get(over, ["a.py"], ["parsed"]) == ({},)


def test_a_repository_that_is_being_indexed_is_left_out_and_named(world):
    world.index()
    world.write(files=("new.py",))
    world.planned(files=("new.py",))

    report = world.doctor(is_repairing=True)()
    assert (report.findings, report.busy) == ([], [APP])
    assert "new.py" in world.inventory.counts(APP)


def test_files_left_pending_by_a_cancelled_run_are_not_damage(world):
    world.index()
    run = world.planned(files=("a.py", "new.py"))
    world.write(files=("new.py",))
    world.ledger.end(run, RunState.CANCELLED)

    assert world.found() == []


def test_a_run_that_begins_during_a_repair_keeps_its_files(world):
    """Suspicious files are checked again while no worker writes; by then a run has begun."""
    world.index()
    world.write(files=("new.py",))
    doctor = world.doctor(is_repairing=True)
    counts, begun = world.inventory.counts, []

    def then_a_run_begins(name, paths=None):
        found = counts(name, paths)
        if not begun:
            begun.append(world.planned(files=("new.py",)))
        return found

    world.inventory.counts = then_a_run_begins
    report = doctor()

    assert (report.findings, report.busy) == ([], [APP])
    assert "new.py" in counts(APP)


def test_entries_of_a_ref_indexed_during_the_examination_are_kept(world, monkeypatch):
    world.index()
    world.graph.replace(APP, [DEV], {"new.py": [Edge("new.py", "os", EdgeKind.IMPORTS, True)]})
    alone = world.swap.alone

    def alone_after_a_run():
        world.index(files=("new.py",), ref=DEV)
        return alone()

    with monkeypatch.context() as patched:
        patched.setattr(world.swap, "alone", alone_after_a_run)
        world.doctor(is_repairing=True)()
    assert world.graph.outgoing(APP, DEV, ["new.py"])["new.py"]
    assert world.found() == []


def test_a_batch_that_is_being_stored_is_waited_for(world):
    """Its chunks are there, its records not yet: without waiting it would look stray."""
    world.index(files=("a.py",))
    run = world.planned(files=("b.py",))
    world.ledger.heartbeat("worker")
    reports = []
    with world.swap.writing("worker"):
        world.write(files=("b.py",))
        world.ledger.end(run, RunState.CANCELLED)  # the doctor thinks nobody works here
        asking = threading.Thread(target=lambda: reports.append(world.doctor(is_repairing=True)()))
        world.write(files=("stray.py",))
        asking.start()
        asking.join(0.5)
        assert asking.is_alive()
        world.lose("stray.py")
        world.graph.replace(APP, [MAIN, DEFAULT_REF], {"stray.py": ()})
        world.symbols.replace(APP, [MAIN, DEFAULT_REF], {"stray.py": ()})
        world.references.replace(APP, [MAIN, DEFAULT_REF], {"stray.py": ()})
    asking.join(30)

    assert [report.findings for report in reports] == [[]]
    assert "b.py" in world.inventory.counts(APP)


def test_an_empty_ledger_does_not_remove_everything(world):
    world.write()

    with pytest.raises(Corrupt, match="the ledger has no repository"):
        world.doctor(is_repairing=True)()
    assert set(world.inventory.counts(APP)) == set(FILES)


def test_more_lost_files_than_one_look_are_all_found(world):
    files = [f"{number}.py" for number in range(700)]
    world.index(files=files)
    world.lose(*files)

    (finding,) = world.repaired().findings
    assert len(finding.names) == 700
