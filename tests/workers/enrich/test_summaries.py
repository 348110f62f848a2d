"""Reuse, order, budget, and a model that fails: summaries are missing, files never."""

from __future__ import annotations

import pytest
import structlog

from codelode.backends.memory.budget import MemoryBudget
from codelode.backends.memory.derivations import MemoryDerivations
from codelode.backends.memory.language_model import MemoryLanguageModel
from codelode.errors import InvalidSettings, Rejected, TimedOut, Unavailable
from codelode.ledger import WorkItem
from codelode.model import Category, Kind
from workers.enrich import Enricher, by_priority, unasked
from workers.enrich.priority import CENTRAL_IMPORTERS
from workers.enrich.summaries import ATTEMPTS

BODY = "result = load first second third then return every value"


@pytest.fixture
def enricher():
    """Return a function from an answering function and limits to an enricher that never waits."""

    def build(answer=lambda _: "Returns every value.", per_run=1_000, per_day=1_000, **kwargs):
        pauses = []
        built = Enricher(
            kwargs.pop("model", None) or MemoryLanguageModel(answer),
            kwargs.pop("derivations", None) or MemoryDerivations(max_bytes=1 << 20),
            MemoryBudget(per_run=per_run, per_day=per_day),
            concurrency=kwargs.pop("concurrency", 1),
            sleep=pauses.append,
            **kwargs,
        )
        return built, pauses

    return build


def alone(parsed, *pieces, **kwargs):
    """Return a file for each piece. A file of one chunk needs no summary of its own."""
    return [(f"{n}.py", parsed(piece, **kwargs)) for n, piece in enumerate(pieces)]


def sums(found):
    """Return the numbers of made and missing summaries of all files."""
    return sum(one.summaries.made for one in found), sum(one.summaries.missing for one in found)


def fails(error, *, at=""):
    """Answer every question, but fail for one that contains `at`."""

    def answer(prompt):
        if at in prompt:
            raise error
        return "Returns every value."

    return answer


def test_every_chunk_gets_its_sentence_in_order(enricher, piece, parsed):
    enrich, _ = enricher(lambda prompt: f"Loads the number {prompt.count('@')} twice.")
    file = parsed(piece(f"@ {BODY}"), piece(f"@@ {BODY}", line=2), piece(f"@@@ {BODY}", line=3))
    (found,) = enrich("run", [("a.py", file)], importers={})
    assert found.summaries.chunks == tuple(f"Loads the number {n} twice." for n in (1, 2, 3))
    assert found.summaries.file == "Loads the number 6 twice."
    assert found.summaries.missing == 0
    assert found.summaries.made == 4


def test_a_file_with_one_chunk_needs_no_file_summary(enricher, piece, parsed):
    enrich, _ = enricher()
    (found,) = enrich("run", [("a.py", parsed(piece(BODY), piece("x = 1", line=2)))], importers={})
    assert (found.summaries.chunks, found.summaries.file) == (("Returns every value.", ""), "")
    assert (len(enrich.model.prompts), found.summaries.missing) == (1, 0)


def test_the_same_content_is_summarised_separately_as_chunk_and_as_file(enricher, piece, parsed):
    enrich, _ = enricher(lambda prompt: "Is a file." if "outline" in prompt else "Is a chunk.")
    whole = f"{BODY}\n{BODY} again\n"
    halves = [piece(f"{line}\n", line=n) for n, line in enumerate(whole.splitlines(), 1)]
    files = [("a.py", parsed(piece(whole))), ("b.py", parsed(*halves))]
    one, both = enrich("run", files, importers={})
    assert (one.summaries.chunks, one.summaries.file) == (("Is a chunk.",), "")
    assert (both.summaries.chunks, both.summaries.file) == (("Is a chunk.",) * 2, "Is a file.")
    again, _ = enricher(derivations=enrich.derivations, answer=fails(Unavailable("gone")))
    assert again("other", files[::-1], importers={}) == (both, one)


def test_if_a_file_summary_fails_its_chunk_summaries_are_kept(enricher, piece, parsed):
    enrich, _ = enricher(fails(TimedOut("slow"), at="outline"))
    pieces = piece(f"1 {BODY}"), piece(f"2 {BODY}", line=2)
    file = [("a.py", parsed(*pieces))]
    (found,) = enrich("run", file, importers={})
    assert found.summaries.chunks == ("Returns every value.",) * 2
    assert (found.summaries.file, found.summaries.missing) == ("", 1)
    mended, _ = enricher(derivations=enrich.derivations)
    (found,) = mended("other", file, importers={})
    assert (found.summaries.file, found.summaries.missing) == ("Returns every value.", 0)
    assert len(mended.model.prompts) == 1


def test_a_file_without_answers_counts_as_many_missing_summaries_as_are_made_later(
    enricher, piece, parsed
):
    file = parsed(piece(f"1 {BODY}"), piece("x = 1", line=2), piece(f"2 {BODY}", line=3))
    enrich, _ = enricher()
    (made,) = enrich("run", [("a.py", file)], importers={})
    assert unasked("a.py", file).summaries.missing == made.summaries.made == 3


def test_a_copy_of_a_summarised_file_needs_no_model_call(enricher, piece, parsed):
    enrich, _ = enricher()
    file = parsed(*(piece(f"{n} {BODY} " + "word " * 400, line=n) for n in range(5)))
    (first,) = enrich("run", [("a.py", file)], importers={})
    assert first.summaries.made == 6
    again, _ = enricher(derivations=enrich.derivations, answer=fails(Unavailable("gone")))
    assert again("run", [("other/b.py", file)], importers={}) == (first,)


def test_blank_pieces_get_no_summary(enricher, piece, parsed):
    enrich, _ = enricher()
    (found,) = enrich("run", [("a.py", parsed(piece("  \n"), piece(BODY)))], importers={})
    assert found.summaries.chunks == ("Returns every value.",)


def test_a_self_explanatory_chunk_is_not_summarised(enricher, piece, parsed):
    enrich, _ = enricher()
    (found,) = enrich("run", [("a.py", parsed(piece("x = 1")))], importers={})
    assert (found.summaries.chunks, found.summaries.missing) == (("",), 0)
    assert enrich.model.prompts == []


def test_an_empty_batch_gives_no_summaries(enricher):
    enrich, _ = enricher()
    assert enrich("run", [], importers={}) == ()


def test_equal_contents_are_asked_for_once(enricher, piece, parsed):
    enrich, _ = enricher()
    files = [(f"{n}.py", parsed(piece(BODY))) for n in range(5)]
    found = enrich("run", files, importers={})
    assert {file.summaries.chunks for file in found} == {("Returns every value.",)}
    assert len(enrich.model.prompts) == 1


def test_a_cached_summary_needs_no_model_call(enricher, piece, parsed):
    enrich, _ = enricher()
    file = [("a.py", parsed(piece(BODY)))]
    first = enrich("run", file, importers={})
    again, _ = enricher(derivations=enrich.derivations, answer=fails(Unavailable("gone")))
    assert again("other", [("moved/b.py", file[0][1])], importers={}) == first
    assert again.model.prompts == []


def test_another_model_writes_its_own_summaries(enricher, piece, parsed):
    enrich, _ = enricher()
    file = [("a.py", parsed(piece(BODY)))]
    enrich("run", file, importers={})
    model = MemoryLanguageModel(lambda _: "Says it another way.", identity="other")
    again, _ = enricher(derivations=enrich.derivations, model=model)
    assert again("run", file, importers={})[0].summaries.chunks == ("Says it another way.",)


def test_the_budget_goes_to_the_most_important_chunks(enricher, piece, parsed):
    enrich, _ = enricher(lambda prompt: "Loads " + prompt.split("@")[1] + " twice.", per_run=6)
    file = parsed(
        piece(f"@block@ {BODY}", Kind.BLOCK),
        piece(f"@inner@ {BODY}", symbol="inner", line=2),
        piece(f"@shown@ {BODY}", symbol="shown", line=3),
        exports=["shown"],
    )
    test = parsed(piece(f"@test@ {BODY}", symbol="test"), category=Category.TEST)
    hub = parsed(piece(f"@hub@ {BODY}", symbol="hub"))
    files = [("test.py", test), ("a.py", file), ("hub.py", hub)]
    for _ in range(2):
        enrich("run", files, importers={"hub.py": CENTRAL_IMPORTERS})
    asked = [prompt.split("@")[1] for prompt in enrich.model.prompts]
    assert asked == ["hub", "shown", "block", "inner"]
    assert ["outline" in prompt for prompt in enrich.model.prompts] == [False, False, True, False]


def test_part_of_the_budget_is_reserved_for_definitions_in_central_files(enricher, piece, parsed):
    enrich, _ = enricher(lambda prompt: "Loads " + prompt.split("@")[1] + " twice.", per_run=10)
    shown = [f"f{n}" for n in range(50)]
    file = parsed(
        *(piece(f"@{name}@ {BODY}", symbol=name, line=n) for n, name in enumerate(shown, 1)),
        exports=shown,
    )
    for name in ("a.py", "b.py"):
        enrich("run", [(name, file)], importers={name: CENTRAL_IMPORTERS - 1})
    assert len(enrich.model.prompts) == 9
    late = parsed(piece(f"@late@ {BODY}", symbol="inner"))
    enrich("run", [("hub.py", late)], importers={"hub.py": CENTRAL_IMPORTERS})
    assert [prompt.split("@")[1] for prompt in enrich.model.prompts[9:]] == ["late"]


def test_a_spent_budget_leaves_summaries_missing_for_the_next_run(enricher, piece, parsed):
    enrich, _ = enricher(per_run=2)
    file = parsed(
        *(piece(f"{n} {BODY}", symbol=f"f{n}", line=n) for n in range(1, 6)),
        exports=[f"f{n}" for n in range(1, 6)],
    )
    central = {"a.py": CENTRAL_IMPORTERS}
    found = [enrich(run, [("a.py", file)], importers=central) for run in ("a", "b", "c")]
    assert [one.summaries.missing for (one,) in found] == [4, 2, 0]
    assert [one.summaries.file for (one,) in found] == ["", "", "Returns every value."]
    assert len(enrich.model.prompts) == 6


@pytest.mark.parametrize(
    "error",
    [Unavailable("gone"), TimedOut("slow"), Rejected("too long"), InvalidSettings("bad key")],
    ids=lambda error: type(error).__name__,
)
def test_a_failing_model_leaves_summaries_missing(enricher, piece, parsed, error):
    enrich, _ = enricher(fails(error))
    (found,) = enrich("run", [("a.py", parsed(piece(BODY)))], importers={})
    assert (found.summaries.chunks, found.summaries.missing) == (("",), 1)


def rejects(_):
    raise Rejected("too long")


@pytest.mark.parametrize("poor", [lambda _: "no", rejects], ids=["useless", "rejected"])
def test_a_chunk_without_a_useful_answer_is_neither_made_nor_missing_nor_asked_again(
    enricher, piece, parsed, poor
):
    def answer(prompt):
        return poor(prompt) if "poor" in prompt else "Returns every value."

    enrich, _ = enricher(answer)
    pieces = piece(f"poor {BODY}"), piece(BODY, line=2)
    first = enrich("run", alone(parsed, *pieces), importers={})
    assert [one.summaries.chunks for one in first] == [("",), ("Returns every value.",)]
    assert (sums(first), first[0].is_finished) == ((1, 0), True)
    again, _ = enricher(derivations=enrich.derivations)
    assert again("other", alone(parsed, *pieces), importers={}) == first
    (poor_one,) = again("other", [("c.py", parsed(pieces[0]))], importers={})
    assert (poor_one.summaries.chunks, poor_one.summaries.missing) == (("",), 0)
    assert again.model.prompts == []


def test_a_model_that_returns_nothing_is_asked_again(enricher, piece, parsed):
    enrich, _ = enricher(rejects)
    file = [("a.py", parsed(*(piece(f"{n} {BODY}", line=n) for n in range(1, 12))))]
    (found,) = enrich("run", file, importers={})
    assert (found.summaries.made, found.summaries.missing) == (0, 12)
    mended, _ = enricher(derivations=enrich.derivations)
    assert mended("other", file, importers={})[0].summaries.made == 12


SLOW_AT_TIMES = fails(TimedOut("slow"), at="slow")


def test_a_failed_summary_is_not_cached_as_an_empty_one(enricher, piece, parsed):
    enrich, _ = enricher(SLOW_AT_TIMES)
    files = alone(parsed, piece(f"slow {BODY}"), piece(BODY, line=2))
    assert sums(enrich("run", files, importers={})) == (1, 1)
    mended, _ = enricher(derivations=enrich.derivations)
    assert sums(mended("other", files, importers={})) == (2, 0)


def test_useless_answers_alone_leave_summaries_missing(enricher, piece, parsed):
    enrich, _ = enricher(lambda _: "```python\nx = 1\n```")
    (found,) = enrich("run", [("a.py", parsed(piece(BODY)))], importers={})
    assert (found.summaries.chunks, found.summaries.missing) == (("",), 1)


def test_three_batches_of_failures_stop_the_run_and_no_other(enricher, piece, parsed):
    enrich, pauses = enricher(fails(Unavailable("gone")))
    files = [[("a.py", parsed(piece(f"{n} {BODY}")))] for n in range(6)]
    with structlog.testing.capture_logs() as logs:
        found = [enrich("run", batch, importers={})[0] for batch in files]
    assert [file.summaries.missing for file in found] == [1] * 6
    assert asked(enrich, "0 1 2 3 4 5") == [ATTEMPTS, ATTEMPTS, 1, 0, 0, 0]
    assert len(pauses) == 2 * ATTEMPTS
    stops = [line for line in logs if line["event"] == "enrichment_stopped"]
    assert [line["reason"] for line in stops] == ["gone"]
    enrich("other", files[3], importers={})
    assert asked(enrich, "3") == [ATTEMPTS]


def test_three_unanswered_attempts_stop_the_summaries_of_a_run(enricher, piece, parsed):
    enrich, pauses = enricher(fails(Unavailable("gone")))
    pieces = [piece(f"{n} {BODY}", line=n) for n in range(1, 3)]
    found = enrich("run", alone(parsed, *pieces), importers={})
    assert (sums(found), found[0].is_finished) == ((0, 2), True)
    assert asked(enrich, "1 2") == [3, 3]
    assert len(pauses) == 2
    assert enrich.budget.is_stopped("run")


def asked(enrich, names):
    """Return how often each content was asked about, by its first word."""
    return [
        sum(f"{name} {BODY}" in each for each in enrich.model.prompts) for name in names.split()
    ]


POISONED = fails(Unavailable("out of memory"), at="poison")


def test_a_content_that_always_fails_is_missing_but_does_not_stop_the_run(enricher, piece, parsed):
    enrich, _ = enricher(POISONED)
    names = ["poison", "second", "third"]
    files = [[(f"{name}.py", parsed(piece(f"{name} {BODY}")))] for name in names]
    found = [enrich("run", file, importers={})[0] for file in files]
    assert [one.summaries.missing for one in found] == [1, 0, 0]
    assert [one.is_finished for one in found] == [True] * 3
    assert asked(enrich, "poison second third") == [ATTEMPTS, 1, 1]
    assert not enrich.budget.is_stopped("run")


@pytest.mark.parametrize("at", [0, 8], ids=["with others", "the ninth"])
def test_a_content_that_always_fails_in_a_large_file_does_not_stop_the_run(
    enricher, piece, parsed, at
):
    enrich, _ = enricher(POISONED, concurrency=4)
    names = ["good"] * 9
    names[at] = "poison"
    pieces = [piece(f"{name} {BODY}  # {n}", line=n) for n, name in enumerate(names, 1)]
    found = enrich("run", alone(parsed, *pieces), importers={})
    assert (sums(found), found[at].is_finished) == ((8, 1), True)
    assert asked(enrich, "poison") == [ATTEMPTS]
    later = [("b.py", parsed(piece(f"later {BODY}")))]
    assert enrich("run", later, importers={})[0].summaries.missing == 0


def test_contents_that_always_fail_do_not_stop_a_run_whose_other_calls_succeed(
    enricher, piece, parsed
):
    enrich, _ = enricher(POISONED)
    for n in range(6):
        names = [f"poison{n}"] if n % 2 else [f"poison{n}", f"good{n}", f"best{n}"]
        pieces = [piece(f"{name} {BODY}", line=line) for line, name in enumerate(names, 1)]
        enrich("run", alone(parsed, *pieces), importers={})
    assert not enrich.budget.is_stopped("run")
    assert asked(enrich, "poison0 poison5 good0 best4") == [ATTEMPTS, ATTEMPTS, 1, 1]


def test_no_summary_is_missing_if_the_model_returns_in_time(enricher, piece, parsed):
    failures = iter([True, True])

    def answer(_):
        if next(failures, False):
            raise Unavailable("restarting")
        return "Returns every value."

    enrich, pauses = enricher(answer)
    file = parsed(*(piece(f"{n} {BODY}", line=n) for n in range(1, 8)))
    (found,) = enrich("run", [("a.py", file)], importers={})
    assert (found.summaries.made, found.summaries.missing) == (8, 0)
    assert pauses


def test_single_failed_calls_are_repeated(enricher, piece, parsed):
    failures = iter([True, False, True, True])

    def answer(_):
        if next(failures, False):
            raise Unavailable("left alone")
        return "Returns every value."

    enrich, pauses = enricher(answer, concurrency=2)
    file = parsed(*(piece(f"{n} {BODY}", line=n) for n in range(1, 5)))
    (found,) = enrich("run", [("a.py", file)], importers={})
    assert (found.summaries.made, found.summaries.missing) == (5, 0)
    assert pauses == []


def test_a_question_that_is_too_slow_is_not_asked_again(enricher, piece, parsed):
    enrich, pauses = enricher(SLOW_AT_TIMES)
    files = alone(parsed, piece(f"slow {BODY}"), piece(BODY, line=2))
    assert sums(enrich("run", files, importers={})) == (1, 1)
    assert (len(enrich.model.prompts), pauses) == (2, [])


def test_useless_answers_do_not_stop_the_run(enricher, piece, parsed):
    enrich, pauses = enricher(lambda prompt: "no" if "poor" in prompt else "Returns a value.")
    files = [[(f"{n}.py", parsed(piece(f"poor {n} {BODY}")))] for n in range(6)]
    for batch in files:
        enrich("run", batch, importers={})
    (found,) = enrich("run", [("a.py", parsed(piece(BODY)))], importers={})
    assert found.summaries.missing == 0
    assert pauses == []


def test_a_stopped_run_still_uses_what_is_known(enricher, piece, parsed):
    enrich, _ = enricher()
    file = [("a.py", parsed(piece(BODY)))]
    first = enrich("run", file, importers={})
    for _ in range(3):
        enrich.budget.settle("run", made=0, failed=1)
    assert enrich("run", file, importers={}) == first


def test_a_model_that_cannot_be_reached_at_all_stops_the_run_too(enricher, piece, parsed):
    class Gone:
        @property
        def identity(self):
            raise Unavailable("gone")

    enrich, pauses = enricher(model=Gone())
    file = [("a.py", parsed(piece(BODY)))]
    found = [enrich("run", file, importers={})[0].summaries.missing for _ in range(5)]
    assert found == [1] * 5
    assert len(pauses) == 2
    assert enrich.budget.is_stopped("run")


def test_one_bad_chunk_does_not_spoil_the_others(enricher, piece, parsed):
    def answer(prompt):
        if "poison" in prompt:
            raise Rejected("too long")
        return "Returns every value."

    enrich, pauses = enricher(answer, concurrency=4)
    file = parsed(piece(f"poison {BODY}"), piece(BODY, line=2))
    (found,) = enrich("run", [("a.py", file)], importers={})
    assert found.summaries.chunks == ("", "Returns every value.")
    assert pauses == []


def test_when_the_time_is_up_the_rest_is_left_for_the_next_call(enricher, piece, parsed):
    seconds = iter(range(0, 10_000, 40))
    enrich, _ = enricher(clock=lambda: next(seconds), time_limit_s=60)
    file = parsed(*(piece(f"{n} {BODY}", symbol=f"f{n}", line=n) for n in range(1, 101)))
    small = parsed(piece(f"first {BODY}"), exports=[""])
    found = enrich("run", [("a.py", file), ("small.py", small)], importers={})
    assert [one.is_finished for one in found] == [False, True]
    assert found[0].summaries.missing > 0
    calls = [len(enrich.model.prompts)]
    while not found[0].is_finished:
        found = enrich("run", [("a.py", file)], importers={})
        calls.append(len(enrich.model.prompts))
    assert found[0].summaries.missing == 0
    assert calls == sorted(set(calls))
    assert calls[-1] == 102


def test_source_comes_before_everything_else():
    paths = ["tests/test_a.py", "README.md", "src/b.py", "vendor/c.py", "src/a.py"]
    ordered = by_priority([WorkItem(path, "a" * 40) for path in paths])
    assert [item.path for item in ordered] == [
        "src/b.py",
        "src/a.py",
        "tests/test_a.py",
        "README.md",
        "vendor/c.py",
    ]


def test_central_source_comes_before_what_was_changed_lately():
    paths = ["tests/hub.py", "src/a.py", "src/late.py", "src/almost.py", "src/hub.py"]
    ordered = by_priority(
        [WorkItem(path, "a" * 40) for path in paths],
        recent=["src/late.py"],
        importers={
            "src/hub.py": CENTRAL_IMPORTERS,
            "src/almost.py": CENTRAL_IMPORTERS - 1,
            "tests/hub.py": 99,
        },
    )
    assert [item.path for item in ordered] == [
        "src/hub.py",
        "src/late.py",
        "src/a.py",
        "src/almost.py",
        "tests/hub.py",
    ]


def test_recently_changed_files_come_first_among_central_source():
    ordered = by_priority(
        [WorkItem(path, "a" * 40) for path in ("src/a.py", "src/b.py")],
        recent=["src/b.py"],
        importers={"src/a.py": 99, "src/b.py": CENTRAL_IMPORTERS},
    )
    assert [item.path for item in ordered] == ["src/b.py", "src/a.py"]


def test_recently_changed_source_comes_first():
    paths = ["src/b.py", "tests/test_a.py", "src/a.py", "src/c.py", "README.md"]
    ordered = by_priority(
        [WorkItem(path, "a" * 40) for path in paths],
        recent=["tests/test_a.py", "src/c.py", "gone.py", "src/a.py"],
    )
    assert [item.path for item in ordered] == [
        "src/c.py",
        "src/a.py",
        "src/b.py",
        "tests/test_a.py",
        "README.md",
    ]
