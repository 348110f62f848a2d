"""Files pass all stages, even if messages are repeated or lost, or work fails; in memory."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import sys
import threading
import time
import types
from collections import Counter, defaultdict, deque
from functools import partial

import pytest

from codelode.backends.memory.derivations import MemoryDerivations
from codelode.backends.memory.graph import MemoryGraph
from codelode.backends.memory.ledger import MemoryLedger
from codelode.backends.memory.references import MemoryReferences
from codelode.backends.memory.stage_outputs import MemoryStageOutputs
from codelode.backends.memory.symbols import MemorySymbols
from codelode.cli.children import worker_children
from codelode.errors import CodelodeError, NotFound, Unavailable
from codelode.jobs import Priority
from codelode.ledger import BULK_FILES, FileManifest, Share, WorkItem
from codelode.model import (
    BlobId,
    FileRecord,
    FileState,
    RefName,
    Repository,
    RepositoryName,
    Revision,
    RunState,
)
from codelode.settings import load
from codelode.stages import FILE_STAGES, STAGES, Stage, passed, queues
from tests.waiting import wait_until
from workers import layouts
from workers import services as process
from workers.delivery.configuration import configured
from workers.delivery.files import ALONE_S, LOOKS_AGAIN_AFTER_S, Delivery
from workers.services import Services
from workers.stages import Onward, Stored

APP = RepositoryName("acme/app")
MAIN = RefName("main")
LONG_S = 10
SHARE = Share()


class Blobs(dict):
    """The contents of a repository by blob id; its tree is empty."""

    def add(self, text):
        blob = BlobId(hashlib.sha1(text.encode()).hexdigest())
        self[blob] = text.encode()
        return blob

    def read(self, repository, blob):
        if blob not in self:
            raise NotFound(f"no blob {blob}")
        return self[blob]

    def files(self, repository, revision, paths, *, max_bytes):
        return ()

    def listing(self, repository, revision):
        return iter(())


class Queues:
    """The queues of the stages in memory: implements the port Outbox."""

    def __init__(self):
        self.waiting = deque()
        self.late = deque()
        self.sent = Counter()
        self.priorities = defaultdict(set)

    def push(self, stage, files, *, priority):
        line = self.late if priority.is_late else self.waiting
        line.extend((stage, job) for job in files)
        self.priorities[stage].add(priority)
        self.sent[stage] += len(files)

    def has_waiting(self, stage, *, before):
        return any(stage == one for one, _ in self.waiting)

    def hold_back(self, stage, run, *, is_bulk):
        moved = [one for one in self.waiting if one[0] == stage and one[1].run == run]
        for one in moved:
            self.waiting.remove(one)
        self.late.extend(moved)

    def let_in(self, stage, most):
        pass

    def pull(self, run, *, in_s=0.0, retries=0):
        pass

    def maintain(self):
        pass


class Lines(Queues):
    """Queues whose messages are taken by their priority."""

    def __init__(self):
        super().__init__()
        self.lines = {priority: deque() for priority in Priority}

    def push(self, stage, files, *, priority):
        self.lines[priority].extend((stage, job, priority) for job in files)

    def has_waiting(self, stage, *, before):
        lines = (line for priority, line in self.lines.items() if priority < before)
        return any(stage == one for line in lines for one, _, _ in line)

    def hold_back(self, stage, run, *, is_bulk):
        usual, late = (Priority.of(is_bulk=is_bulk, is_late=one) for one in (False, True))
        moved = [one for one in self.lines[usual] if one[0] == stage and one[1].run == run]
        for one in moved:
            self.lines[usual].remove(one)
        self.lines[late].extend((stage, job, late) for _, job, _ in moved)

    def let_in(self, stage, most):
        for priority in (Priority.BULK, Priority.LATE_BULK):
            moved = [one for one in self.lines[priority] if one[0] == stage][:most]
            for one in moved:
                self.lines[priority].remove(one)
            self.lines[Priority.FIRST].extendleft(moved[::-1])

    def next(self):
        return next(filter(None, self.lines.values())).popleft()


class NoSwap:
    """A swap that never replaces the index."""

    writing = staticmethod(contextlib.nullcontext)


class World:
    """A worker for all stages, on in-memory twins and the embedded store."""

    def __init__(self, folder, stages=FILE_STAGES, *, queues=Queues, now=time.time):
        self.stages = {stage.name: stage for stage in stages}
        self.services = Services(load(data=folder))
        self.blobs = Blobs()
        self.ledger = MemoryLedger(stages=passed(self.services.settings, stages), now=now)
        vars(self.services).update(
            ledger=self.ledger,
            stage_outputs=MemoryStageOutputs(),
            derivations=MemoryDerivations(max_bytes=1 << 20),
            graph=MemoryGraph(),
            symbols=MemorySymbols(),
            references=MemoryReferences(),
            blobs=self.blobs,
            swap=NoSwap(),
        )
        self.queues = queues()
        self.delivery = Delivery(self.services, self.queues, stages=stages, now=now)
        self.ledger.register(Repository(APP, "https://example.org/app", MAIN))
        self.ledger.heartbeat("this")

    def start(self, files, repository=APP, share=SHARE):
        """Start a run of these files, by path; None: the file was deleted from the ref."""
        items = [
            WorkItem(path, BlobId("") if text is None else self.blobs.add(text))
            for path, text in files.items()
        ]
        run = self.ledger.create(repository, MAIN).id
        manifest = FileManifest(Revision("1" * 40), tuple(items), share=share)
        layouts.read(repository, manifest.revision, self.services)
        self.delivery.publish(run, self.ledger.plan(run, manifest, ref=MAIN, fingerprint="f"))
        return run

    def take(self, name=""):
        """Process the next message, or the next one of a stage."""
        at = next(n for n, (stage, _) in enumerate(self.queues.waiting) if name in ("", stage))
        stage, job = self.queues.waiting[at]
        del self.queues.waiting[at]
        self.handle(stage, job)

    def take_late(self):
        """Process the next late message, which may have been fetched before others arrived."""
        stage, job = self.queues.late.popleft()
        self.handle(stage, job, priority=Priority.LATE)

    def handle_next(self):
        """Process the next message of queues that are `Lines`."""
        stage, job, priority = self.queues.next()
        self.handle(stage, job, priority=priority)

    def handle(self, stage, job, **more):
        row = self.stages[stage]
        try:
            self.delivery.handle(job, lambda job: self.delivery.work_alone(row, job, **more))
        except Unavailable:
            self.queues.push(stage, [job], priority=Priority.FIRST)
        except CodelodeError as exc:
            self.delivery.fail(job, str(exc), stage=row)

    def drain(self):
        while self.queues.waiting:
            self.take()

    def index(self, files):
        run = self.start(files)
        self.drain()
        return self.ledger.run(run)

    def record(self, path):
        return self.ledger.records(APP, MAIN, [path]).get(path)

    def chunks(self):
        return list(self.services.index.store.ids(APP, MAIN))


@pytest.fixture
def make(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "_identity", "this")
    made = []

    def world(stages=FILE_STAGES, **more):
        made.append(World(tmp_path / str(len(made)), stages, **more))
        return made[-1]

    yield world
    for one in made:
        one.services.close()


@pytest.fixture
def world(make):
    return make()


@pytest.fixture
def written(monkeypatch):
    """`written(**functions)` makes a module of these functions, as a row names it."""

    def write(**functions):
        module = types.ModuleType("stage_under_test")
        vars(module).update(functions)
        monkeypatch.setitem(sys.modules, module.__name__, module)

    return write


SEEN = Stage(
    name="look", work="stage_under_test:look", needs=("parsed",), pool="threads", concurrency=2
)


def with_row(row, *, after):
    at = [stage.name for stage in FILE_STAGES].index(after) + 1
    return (*FILE_STAGES[:at], row, *FILE_STAGES[at:])


def test_a_row_in_the_table_adds_a_stage_that_files_pass(make, written):
    seen = []

    def look(run, files, services):
        seen.extend((run.repository, file.path, sorted(file.parts)) for file in files)
        return [Onward({"looked": b"1"}) for _ in files]

    written(look=look)
    world = make(with_row(SEEN, after="parse"))
    end = world.index({"a.py": "def a(): pass\n"})

    assert end.state is RunState.COMPLETE
    assert seen == [(APP, "a.py", ["parsed"])]
    assert list(world.queues.sent) == ["parse", "look", "embed", "store"]
    assert len(world.chunks()) == 1


def test_a_run_that_ends_before_its_file_is_written_writes_nothing(world):
    run = world.start({"a.py": "def a(): pass\n"})
    world.take("parse")
    world.take("embed")
    ((_, job),) = world.queues.waiting
    world.delivery.claim(world.stages["store"], [job])
    world.ledger.end(run, RunState.CANCELLED, "its ref was removed")
    world.delivery.work(world.stages["store"], [job])

    assert world.chunks() == []


def test_a_row_in_the_table_has_a_queue_and_a_worker_process(tmp_path):
    settings = load(data=tmp_path)
    stages = (STAGES[0], *with_row(SEEN, after="parse"))
    app = configured(settings, stages)
    children = [child.name for child in worker_children(settings, parsers=1, stages=stages)]
    app.close()
    assert queues(stages).index("look") == queues(stages).index("parse") + 1
    assert "look" in app.amqp.queues
    assert children == ["store", "embed", "look", "parse", "pull", "beat"]


def test_every_row_names_functions_that_exist():
    from pkgutil import resolve_name

    for stage in STAGES:
        for name in filter(None, (stage.work, stage.known, stage.prepare)):
            assert callable(resolve_name(name)), name


def test_a_file_passes_all_stages_and_is_counted_once(world):
    end = world.index({"a.py": "import b\n", "b.py": "def b(): pass\n"})
    assert (end.state, end.done, end.total) == (RunState.COMPLETE, 2, 2)
    assert world.record("a.py").state is FileState.INDEXED
    assert len(world.chunks()) == 2
    assert world.services.stage_outputs._parts == {}


def test_a_file_of_known_content_goes_straight_to_the_store(world):
    world.index({"a.py": "def a(): pass\n"})
    world.queues.sent.clear()
    end = world.index({"a.py": "def a(): pass\n"})
    assert end.done == 1
    assert world.queues.sent == {"store": 1}


def test_a_removed_file_and_a_binary_one_leave_the_index_through_the_last_stage(world):
    world.index({"a.py": "def a(): pass\n", "b.py": "def b(): pass\n"})
    end = world.index({"a.py": None, "b.py": "\0\0\0"})
    assert (end.state, end.skipped) == (RunState.COMPLETE, 1)
    assert world.record("a.py") is None
    assert world.record("b.py").state is FileState.SKIPPED
    assert world.chunks() == []


def test_a_file_that_fails_is_recorded_and_leaves_the_index(world):
    world.index({"a.py": "def a(): pass\n"})
    run = world.start({"a.py": "def other(): pass\n"})
    world.blobs.clear()
    world.drain()
    end = world.ledger.run(run)
    assert (end.state, end.failed) == (RunState.COMPLETE, 1)
    assert world.record("a.py").state is FileState.FAILED
    assert "no blob" in world.record("a.py").reason
    assert world.chunks() == []


def test_a_file_whose_parts_were_lost_starts_over(world):
    run = world.start({"a.py": "def a(): pass\n"})
    world.take("parse")
    world.services.stage_outputs.drop(run, ["a.py"])
    world.drain()
    assert world.queues.sent["parse"] == 2
    assert world.ledger.run(run).done == 1


def test_a_message_that_comes_twice_counts_its_file_once(world):
    run = world.start({"a.py": "def a(): pass\n", "b.py": "def b(): pass\n"})
    world.queues.waiting.extend(list(world.queues.waiting))
    world.drain()
    end = world.ledger.run(run)
    assert (end.state, end.done) == (RunState.COMPLETE, 2)
    assert len(world.chunks()) == 2


def test_a_message_that_comes_again_while_its_file_is_at_work_is_dropped(make, written):
    begun, ends, calls = threading.Event(), threading.Event(), []

    def look(run, files, services):
        calls.append(1)
        begun.set()
        assert ends.wait(LONG_S)
        return [Onward() for _ in files]

    written(look=look)
    world = make(with_row(SEEN, after="parse"))
    run = world.start({"a.py": "def a(): pass\n"})
    world.take("parse")
    ((stage, job),) = world.queues.waiting
    world.queues.waiting.clear()
    at_work = threading.Thread(target=world.handle, args=(stage, job))
    at_work.start()
    assert begun.wait(LONG_S)
    for _ in range(world.services.settings.max_attempts + 1):
        world.handle(stage, job)
    ends.set()
    at_work.join(LONG_S)
    world.drain()

    assert calls == [1]
    assert (world.ledger.run(run).done, world.ledger.run(run).failed) == (1, 0)


def test_a_run_that_is_ahead_waits_while_others_have_files(make):
    world, now = make(), [0.0]
    world.ledger._now = lambda: now[0]
    read = world.blobs.read

    def slowly(repository, blob):
        now[0] += 2.0 if repository == "slow" else 0.001
        return read(repository, blob)

    world.blobs.read = slowly
    slow = world.start({f"{n}.py": f"s = {n}\n" for n in range(9)}, RepositoryName("slow"))
    world.take("parse")
    world.start({f"{n}.py": f"a = {n}\n" for n in range(3)})
    world.drain()
    assert len(world.queues.late) == 8
    assert world.record("2.py").state is FileState.INDEXED
    while world.queues.late:
        world.take_late()
        world.drain()
    assert world.ledger.run(slow).state is RunState.COMPLETE


@pytest.mark.parametrize("name", ["embed", "store"])
def test_files_of_a_run_that_is_ahead_wait_at_the_stages_that_work_in_batches(make, name):
    world, now = make(), [0.0]
    world.ledger._now = lambda: now[0]
    work = world.delivery.work

    def slowly(stage, batch):
        now[0] += 2.0 if stage.name == name and batch[0].repository == "slow" else 0.001
        work(stage, batch)

    world.delivery.work = slowly
    slow = world.start({f"{n}.py": f"s = {n}\n" for n in range(9)}, RepositoryName("slow"))
    while world.ledger.run(slow).done == 0 and not world.queues.late and now[0] < 2.0:
        world.take(world.queues.waiting[-1][0])
    quick = world.start({f"{n}.py": f"a = {n}\n" for n in range(3)})
    world.drain()
    assert [stage for stage, _ in world.queues.late] == [name] * 8
    assert world.ledger.run(quick).state is RunState.COMPLETE
    while world.queues.late:
        world.take_late()
        world.drain()
    assert world.ledger.run(slow).state is RunState.COMPLETE


def test_a_late_file_waits_again_if_others_came_meanwhile(make):
    world, now = make(), [0.0]
    world.ledger._now = lambda: now[0]
    world.start({"s.py": "s = 1\n", "t.py": "t = 1\n"}, RepositoryName("slow"))
    world.start({"a.py": "a = 1\n"})
    stage, job = world.queues.waiting.popleft()
    world.ledger.begin(job.run, [job.path], worker="this", stage="parse")
    now[0] += 5.0
    world.ledger.pass_on(job.run, [job.path], stage="parse")
    world.handle(stage, job)
    assert [one.path for _, one in world.queues.late] == ["s.py", "t.py"]
    world.take_late()
    assert [one.path for _, one in world.queues.late] == ["t.py", "s.py"]
    world.drain()
    assert [one.path for _, one in world.queues.late] == ["t.py", "s.py"]
    world.take_late()
    world.take_late()
    assert not world.queues.late


def test_late_files_check_only_occasionally_for_other_files(make, monkeypatch):
    now, looks = [0.0], []
    world = make(now=lambda: now[0])
    has_waiting = world.queues.has_waiting

    def look(stage, **more):
        looks.append(now[0])
        return has_waiting(stage, **more)

    monkeypatch.setattr(world.queues, "has_waiting", look)
    world.start({f"{n}.py": f"s = {n}\n" for n in range(3)})
    messages = list(world.queues.waiting)
    world.handle(*messages[0], priority=Priority.LATE)
    assert looks == [0.0]
    world.queues.waiting.clear()
    world.handle(*messages[1], priority=Priority.LATE)  # others waited a moment ago
    world.handle(*messages[2], priority=Priority.LATE)  # none waited a moment ago
    assert looks == [0.0, 0.0]
    now[0] += ALONE_S
    world.handle(*messages[0], priority=Priority.LATE)
    assert looks == [0.0, 0.0, ALONE_S]


def test_a_stage_may_send_a_file_to_itself(make, written):
    from workers.stages import Again

    answers = [Again(), Onward()]
    taken = threading.Event()

    def look(run, files, services):
        return [answers.pop(0)]

    written(look=look)
    world = make(with_row(SEEN, after="parse"))
    run = world.start({"a.py": "def a(): pass\n"})
    world.take("parse")

    def push(stage, files, *, plain=world.queues.push, **more):
        """Deliver at once, before the sender returns."""
        if stage == "look" and len(answers) == 1:
            other = threading.Thread(target=world.handle, args=(stage, *files))
            other.start()
            other.join(LONG_S)
            taken.set()
        else:
            plain(stage, files, **more)

    world.queues.push = push
    world.drain()
    assert taken.is_set()
    assert world.ledger.run(run).done == 1


def test_a_file_that_kills_its_worker_again_and_again_fails(world):
    run = world.start({"a.py": "def a(): pass\n"})
    for _ in range(world.services.settings.max_attempts):
        world.ledger.begin(run, ["a.py"], worker="this", stage="parse")
    world.drain()
    assert world.ledger.run(run).failed == 1
    assert "died 3 times at stage parse" in world.record("a.py").reason


def test_a_file_that_another_worker_holds_is_left_to_it(world):
    run = world.start({"a.py": "def a(): pass\n"})
    world.ledger.heartbeat("another")
    world.ledger.begin(run, ["a.py"], worker="another", stage="parse")
    world.drain()
    assert world.ledger.run(run).done == 0
    assert world.queues.sent == {"parse": 1}


def test_a_file_of_a_cancelled_run_leaves_nothing_behind(world):
    run = world.start({"a.py": "def a(): pass\n"})
    world.take("parse")
    world.ledger.end(run, RunState.CANCELLED)
    world.drain()
    assert world.services.stage_outputs._parts == {}
    assert world.chunks() == []


def test_an_index_that_is_replaced_is_closed_when_the_last_write_is_through(world):
    index = world.services.index
    world.index({"a.py": "def a(): pass\n"})
    inside, leave = threading.Event(), threading.Event()

    def write():
        with index.in_use():
            inside.set()
            assert leave.wait(LONG_S)
            index.store.maintain()
            done.append(1)

    done = []
    writer = threading.Thread(target=write)
    writer.start()
    assert inside.wait(LONG_S)
    index.retire()
    assert index.store._connection is not None
    leave.set()
    writer.join(LONG_S)
    assert done
    wait_until(lambda: index.store._connection is None, "the index to be closed", seconds=LONG_S)


def test_files_of_a_large_run_are_sent_after_those_of_others(world):
    other = RepositoryName("acme/other")
    world.ledger.register(Repository(other, "https://example.org/other", MAIN))
    many = {f"{number}.py": f"x = {number}\n" for number in range(BULK_FILES + 1)}
    world.start(many)
    world.take()
    assert world.queues.priorities == {"parse": {Priority.BULK}, "embed": {Priority.BULK}}

    world.queues.priorities.clear()
    world.start({"a.py": "a = 1\n"}, other)
    assert world.queues.priorities == {"parse": {Priority.FIRST}}
    world.take("parse")  # is of the large run, and waits now
    assert world.queues.priorities == {"parse": {Priority.FIRST, Priority.LATE_BULK}}


@pytest.fixture
def trivial(make, written):
    """A world whose stages do nothing, and whose clock advances each time it is read."""

    def work(run, files, services):
        return [Onward() for _ in files]

    def last(run, files, services):
        return [Stored(FileRecord(one.path, one.blob, FileState.INDEXED)) for one in files]

    written(work=work, last=last)
    shape = {"pool": "threads", "concurrency": 2}
    stages = [
        Stage(name=name, work=f"stage_under_test:{name}", **shape) for name in ("work", "last")
    ]
    ticks = itertools.count()
    return make(stages, queues=Lines, now=lambda: next(ticks) / 20)


def begun(world, files, share=SHARE):
    """Begin a run of so many files of a new repository."""
    name = RepositoryName(f"acme/{len(world.ledger.names())}")
    world.ledger.register(Repository(name, f"https://example.org/{name}", MAIN))
    contents = {f"{at}.py": f"x = '{name} {at}'\n" for at in range(files)}
    return world.start(contents, name, share=share)


def test_files_are_processed_even_if_those_of_a_large_run_are_held_back(trivial, monkeypatch):
    asked, small = defaultdict(list), []

    def let_in(stage, most):
        asked[stage].append(trivial.delivery._now())
        raise Unavailable("Redis has reached its maxmemory")

    monkeypatch.setattr(trivial.queues, "let_in", let_in)
    begun(trivial, BULK_FILES + 1)
    for _ in range(1_500):
        if not trivial.queues.lines[Priority.FIRST]:
            small.append(begun(trivial, 15))
        stage, job, priority = trivial.queues.next()
        row = trivial.stages[stage]
        work = partial(trivial.delivery.work_alone, row, priority=priority)
        trivial.delivery.handle(job, work)
    assert set(done_of(trivial, small[:-1])) == {15}
    assert max(map(len, asked.values())) > 1
    for looks in asked.values():
        pauses = [later - before for before, later in itertools.pairwise(looks)]
        assert all(pause >= LOOKS_AGAIN_AFTER_S for pause in pauses)


def done_of(world, runs):
    return [world.ledger.run(run).done for run in runs]


def test_a_run_of_many_files_goes_on_while_smaller_ones_keep_every_stage_busy(trivial):
    world, lines = trivial, trivial.queues.lines
    large, small = begun(world, BULK_FILES + 1), []
    for _ in range(1_500):
        if len(lines[Priority.FIRST]) + len(lines[Priority.LATE]) < 15:
            small.append(begun(world, 15))
        world.handle_next()
    (done,), others = done_of(world, [large]), sum(done_of(world, small))
    assert others / 16 < done < others / 4, f"{done} beside {others}"


@pytest.mark.parametrize("files", [250, 1_000], ids=["small", "bulk"])
def test_runs_share_the_workers_in_proportion_to_their_weights(trivial, files):
    runs = [begun(trivial, files, Share(weight)) for weight in (3, 1)]
    while sum(done_of(trivial, runs)) < files:
        trivial.handle_next()
    heavy, light = done_of(trivial, runs)
    assert 2.4 < heavy / light < 3.6, f"{heavy} and {light}"
