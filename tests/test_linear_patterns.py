"""Every regular expression of the code base takes time linear in its input.

A pattern that backtracks lets one hostile file or query occupy a process for minutes, and holds the
interpreter lock meanwhile. Each pattern is parsed, and each of its unbounded repetitions is fed
with long runs of what it may and may not match, before an end that does not match. If a run of 8
times the length takes more than GROWTH times as long, the pattern is not linear.
"""

from __future__ import annotations

import ast
import functools
import importlib
import pkgutil
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("codelode", "workers", "gateway", "deploy")

#: Lengths of the inputs. The first finds exponential patterns without taking for ever.
SIZES = (24, 500, 4_000)
#: Maximum growth of the time from one length to the next, 8 times longer; 64 is quadratic.
GROWTH = 24
#: Times below this are not compared, seconds. A linear pattern takes about 0.1 ms.
FLOOR_S = 0.005
#: Repeated measurements of a pattern that seems slow, because the machine may be busy.
ATTEMPTS = 20

#: Maximum number of rounds of a repetition that counts as bounded.
UNBOUNDED = 100

#: Patterns that see at most this many characters, and are only fast enough for so many.
BOUNDED = {
    "codelode.languages._MARKER": 300,  # the columns of a line that are read
    "workers.parse.imports.statements._DECLARING": 300,  # the window before an import
    "deploy.static_embedder.corpus._VERSION": 255,  # a name in the file system
}

#: Characters with a meaning in most formats; the literals of a pattern are added.
POOL = "\n \ta A1_.-/\"'`(<[{:=,#@"
#: Ends that most patterns do not match.
ENDS = ("", "\x01")

#: The standard library's parser of patterns. There is no public one.
parser = importlib.import_module("re._parser")


@dataclass(frozen=True)
class Used:
    """A pattern, where it was found, and whether it is only matched at the start of a text."""

    name: str
    pattern: re.Pattern[Any]
    is_anchored: bool

    @property
    def sizes(self) -> tuple[int, ...]:
        most = BOUNDED.get(self.name)
        return SIZES if most is None else (SIZES[0], most)

    def consume(self, text: str | bytes) -> None:
        if self.is_anchored:
            self.pattern.match(text)
            self.pattern.fullmatch(text)
        else:
            for _ in self.pattern.finditer(text):
                pass


# Finding the patterns


def modules() -> Iterator[ModuleType]:
    """Import every module; those whose dependencies are not installed are read by `inline` only."""
    for package in PACKAGES:
        for found in pkgutil.walk_packages([str(ROOT / package)], f"{package}."):
            if "_pb2" in found.name or found.name.endswith("__main__"):
                continue
            try:
                yield importlib.import_module(found.name)
            except ModuleNotFoundError as exc:
                if exc.name and exc.name.split(".")[0] in PACKAGES:
                    raise


def held(value: object, seen: set[int], depth: int = 0) -> Iterator[re.Pattern[Any]]:
    """Yield the patterns in a value: containers, dataclasses, classes, closures, and partials."""
    if isinstance(value, re.Pattern):
        yield value
        return
    if id(value) in seen or depth > 8:
        return
    seen.add(id(value))
    for part in parts(value):
        yield from held(part, seen, depth + 1)


def parts(value: object) -> Iterable[object]:
    match value:
        case Mapping():
            return [*value.keys(), *value.values()]
        case tuple() | list() | frozenset() | set():
            return list(value)
        case functools.partial():
            return [value.func, *value.args, *value.keywords.values()]
        case FunctionType():
            cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
            return [*cells, *(value.__defaults__ or ())]
        case type() if value.__module__.startswith(PACKAGES):
            return list(vars(value).values())
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None) for field in fields(value)]
    return ()


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty cell raises
    except ValueError:
        return False
    return True


METHODS = ("match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")
ANCHORED = {"match", "fullmatch"}


def methods_by_name(trees: Mapping[str, ast.Module]) -> dict[tuple[str, str], set[str]]:
    """Return the methods of patterns that each module calls on each name.

    Public names may be used by any module; the name `*` stands for all local variables, which hold
    the patterns of tables.
    """
    used: dict[tuple[str, str], set[str]] = defaultdict(set)
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.attr in METHODS
                and node.value.id != "re"
            ):
                name = node.value.id
                is_local = not name.isupper()
                if is_local and node.attr == "split":  # of a text
                    continue
                used[module, "*" if is_local else name].add(node.attr)
                if not name.startswith("_"):
                    used["", name].add(node.attr)
    return used


def inline(tree: ast.Module, module: ModuleType | None) -> Iterator[tuple[str, str, Any]]:
    """Yield name (or line), method and pattern of calls such as `re.sub(r"…", …)`.

    Values that are known only when the call is made are replaced by a word.
    """
    names = {
        node.value: ast.unparse(node.targets[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.func.attr in (*METHODS, "compile")
            and node.args
        ):
            source = _text(node.args[0], module)
            if source is not None:
                name = names.get(node, f"line {node.lineno}")
                yield name, node.func.attr, re.compile(source, _flags(node, module))


def _text(node: ast.expr, module: ModuleType | None) -> str | bytes | None:
    match node:
        case ast.Constant(value=str() | bytes() as text):
            return text
        case ast.JoinedStr():
            return "".join(str(_text(part, module) or "") for part in node.values)
        case ast.FormattedValue():
            found = _value(node.value, module)
            return found if isinstance(found, str) else "name"
    found = _value(node, module)
    return found if isinstance(found, (str, bytes)) else None


def _flags(call: ast.Call, module: ModuleType | None) -> re.RegexFlag:
    written = [*call.args[1:], *(k.value for k in call.keywords if k.arg == "flags")]
    found = (_value(one, module) for one in written)
    return next((one for one in found if isinstance(one, re.RegexFlag)), re.RegexFlag(0))


def _value(node: ast.expr, module: ModuleType | None) -> object:
    """Evaluate an expression of constants of the module; None if it has other names."""
    names = vars(module) if module else {"re": re}
    try:
        return eval(ast.unparse(node), dict(names))
    except (NameError, TypeError, AttributeError):
        return None


class Collection:
    """Return the distinct patterns, each under the first name by which it was found."""

    def __init__(self) -> None:
        self.found: dict[tuple[Any, int, bool], Used] = {}

    def add(self, name: str, pattern: re.Pattern[Any], methods: Iterable[str]) -> None:
        called = set(methods)
        is_anchored = bool(called) and called <= ANCHORED
        key = (pattern.pattern, pattern.flags, is_anchored)
        self.found.setdefault(key, Used(name, pattern, is_anchored))

    def has(self, pattern: re.Pattern[Any]) -> bool:
        return any(key[:2] == (pattern.pattern, pattern.flags) for key in self.found)


def patterns() -> list[Used]:
    loaded = {module.__name__: module for module in modules()}
    trees = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): ast.parse(path.read_text())
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }
    called = methods_by_name(trees)
    collection = Collection()
    for module in loaded.values():
        _add_values(module, called, collection)
    for name, tree in trees.items():
        _add_calls(name, tree, loaded.get(name), called, collection)
    return list(collection.found.values())


_Called = Mapping[tuple[str, str], set[str]]


def _add_values(module: ModuleType, called: _Called, collection: Collection) -> None:
    for name, value in vars(module).items():
        full = f"{module.__name__}.{name}"
        own = getattr(value, "__module__", module.__name__)
        if isinstance(value, re.Pattern):
            methods = called.get((module.__name__, name), set()) | called.get(("", name), set())
            collection.add(full, value, methods)
        elif not name.startswith("__") and isinstance(own, str) and own.startswith(PACKAGES):
            for pattern in held(value, set()):
                collection.add(full, pattern, called.get((own, "*"), set()))


def _add_calls(
    name: str,
    tree: ast.Module,
    module: ModuleType | None,
    called: _Called,
    collection: Collection,
) -> None:
    for target, method, pattern in inline(tree, module):
        if method != "compile":
            collection.add(f"{name}.{target}", pattern, {method})
        elif not collection.has(pattern):
            collection.add(f"{name}.{target}", pattern, called.get((name, target), set()))


# Hostile inputs


@dataclass(frozen=True)
class Sampler:
    """Makes short texts that parts of a parsed pattern match, and finds its repetitions."""

    alphabet: str
    branch: int = 0  # which alternative is taken

    def sample(self, items: Iterable[tuple[Any, Any]]) -> str:
        return "".join(self._one(str(op), value) for op, value in items)

    def _one(self, op: str, value: Any) -> str:
        if op == "LITERAL":
            return chr(value)
        if op == "ANY":
            return "a"
        if op in ("IN", "NOT_LITERAL"):
            members = value if op == "IN" else [("NEGATE", None), ("LITERAL", value)]
            return next((char for char in self.alphabet if _holds(members, char)), "a")
        if op == "BRANCH":
            return self.sample(value[1][min(self.branch, len(value[1]) - 1)])
        if op.endswith("REPEAT"):
            return self.sample(value[2]) * max(value[0], 1)
        return "".join(map(self.sample, _inside(op, value)))  # nothing for assertions

    def repeats(
        self, items: Iterable[tuple[Any, Any]], before: str = ""
    ) -> Iterator[tuple[str, str]]:
        """Yield what may stand before each unbounded repetition, and one round of it."""
        for op, value in items:
            name = str(op)
            if name.endswith("REPEAT") and int(value[1]) >= UNBOUNDED:
                yield before, self.sample(value[2])
            for part in _nested(name, value):
                yield from self.repeats(part, before)
            before += self._one(name, value)


def _nested(op: str, value: Any) -> list[Any]:
    """Return all parts of a parsed pattern that this one consists of."""
    if op.endswith("REPEAT"):
        return [value[2]]
    if op in ("ASSERT", "ASSERT_NOT"):
        return [value[1]]
    return list(value[1]) if op == "BRANCH" else _inside(op, value)


def _inside(op: str, value: Any) -> list[Any]:
    """Return the part that a group encloses, which every match of the pattern passes."""
    match op:
        case "SUBPATTERN":
            return [value[3]]
        case "ATOMIC_GROUP":
            return [value]
    return []


def _holds(members: Iterable[tuple[Any, Any]], char: str) -> bool:
    found = negated = False
    for op, value in members:
        match str(op):
            case "NEGATE":
                negated = True
            case "LITERAL":
                found |= ord(char) == value
            case "RANGE":
                found |= value[0] <= ord(char) <= value[1]
            case "CATEGORY":
                found |= _is_in(str(value), char)
    return found != negated


def _is_in(category: str, char: str) -> bool:
    expressions = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}
    expression = expressions[category.rpartition("_")[2]]
    return bool(re.match(expression, char)) != ("NOT" in category)


def sets(items: Iterable[tuple[Any, Any]]) -> Iterator[list[tuple[Any, Any]]]:
    """Yield the members of each set of characters that a parsed pattern compares with."""
    for op, value in items:
        name = str(op)
        if name in ("LITERAL", "NOT_LITERAL"):
            yield [("LITERAL", value)]
        elif name == "IN":
            yield value
        for part in _nested(name, value):
            yield from sets(part)


def told_apart(alphabet: str, parsed: Iterable[tuple[Any, Any]]) -> list[str]:
    """Return the first of the characters between which a pattern sees no difference.

    Patterns also see line ends, ends of words, and the other case of a letter.
    """
    compared = list(sets(parsed))
    first: dict[tuple[bool, ...], str] = {}
    for char in alphabet:
        cases = (char, char.lower(), char.upper())
        seen = (_holds(members, case) for members in compared for case in cases)
        first.setdefault((char == "\n", _is_in("WORD", char), *seen), char)
    return list(first.values())


def inputs(pattern: re.Pattern[Any]) -> list[tuple[str, str, str]]:
    """Return starts, rounds and ends of texts that may make the pattern backtrack."""
    source = pattern.pattern
    text = source if isinstance(source, str) else source.decode("latin-1")
    literals = [char for char in dict.fromkeys(text) if not char.isalnum() and char not in "\\?|^$"]
    words = re.findall(r"(?<!\\)[A-Za-z]{2,}", text)
    alphabet = "".join(dict.fromkeys([*"a A1\n_", *POOL, *literals]))
    parsed = parser.parse(source, pattern.flags & ~re.DEBUG)
    single = told_apart(alphabet, parsed)
    found: dict[tuple[str, str], None] = {}
    samplers = (Sampler(alphabet), Sampler(alphabet, 1), Sampler(alphabet, 99))
    for sampler in samplers:
        for before, body in sampler.repeats(parsed):
            for start in dict.fromkeys((before, before + body, "\x01" + before)):
                for cycle in (*single, body, body + " ", body + "\n", " " + body):
                    found[start, cycle] = None
            for cycle in (before + body, before + body + "\n", before, before + " "):
                found["", cycle] = None
    for cycle in (*words[:12], "<parent>", "api", '\\"', "a.", "a "):
        found["", cycle] = None
    return [(start, cycle, end) for start, cycle in found if cycle for end in ENDS]


def slowness(used: Used, start: str, cycle: str, end: str) -> str:
    """Return why the pattern is not linear in runs of `cycle`; empty if it is."""
    before_s = FLOOR_S
    for size in used.sizes:
        text: str | bytes = start + cycle * (size // len(cycle)) + end
        if isinstance(used.pattern.pattern, bytes):
            text = text.encode("latin-1", "replace") if isinstance(text, str) else text
        took_s = fastest(functools.partial(used.consume, text), above_s=FLOOR_S)
        if took_s > FLOOR_S and (size < SIZES[1] or took_s > GROWTH * before_s):
            return (
                f"{used.name}: {size} characters of {start!r} + {cycle!r} × n + {end!r} take "
                f"{took_s:.3f} s"
            )
        before_s = max(min(took_s, FLOOR_S), FLOOR_S / GROWTH)
    return ""


def fastest(call: Callable[[], None], *, above_s: float) -> float:
    """Return the minimum processor time of several calls, or of one call if it is fast enough."""
    least = float("inf")
    for _ in range(ATTEMPTS):
        started = time.thread_time()
        call()
        least = min(least, time.thread_time() - started)
        if least <= above_s:
            break
    return least


@pytest.fixture(scope="module")
def found() -> list[Used]:
    """Return all patterns; finding them takes too long to do it in every process that collects."""
    return patterns()


@pytest.mark.parametrize("package", PACKAGES)
def test_the_time_of_a_pattern_grows_with_the_length_of_its_input(
    found: list[Used], package: str
) -> None:
    own = [used for used in found if used.name.startswith(f"{package}.")]
    assert own
    firsts = (next(filter(None, slow_runs(used)), "") for used in own)
    assert list(filter(None, firsts)) == []


def slow_runs(used: Used) -> Iterator[str]:
    return (slowness(used, *case) for case in inputs(used.pattern))


def test_every_pattern_is_of_a_package(found: list[Used]) -> None:
    assert {used.name.partition(".")[0] for used in found} == set(PACKAGES)


def test_a_quadratic_and_an_exponential_pattern_are_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(globals(), "ATTEMPTS", 1)  # more attempts would only take longer
    for source in (r"^\s*x", r"(?:\w+\s*)+!", r"/\*.*?\*/", r"a\s*=?\s*b"):
        used = Used(source, re.compile(source, re.MULTILINE | re.DOTALL), is_anchored=False)
        assert any(slow_runs(used)), source


def test_patterns_in_tables_closures_and_calls_are_found(found: list[Used]) -> None:
    names = {used.name for used in found}
    assert {
        "codelode.infrastructure._BY_PATH",
        "workers.parse.ecosystems.go.statements",
        "gateway.analyze.query._CODE",
        "deploy.static_embedder.pairs._MARKUP",
    } <= names
    assert any(name.startswith("workers.parse.ecosystems.manifests.line ") for name in names)
    assert set(BOUNDED) <= names
