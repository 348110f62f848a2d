"""Measure precision and recall of imports and calls against facts that were checked by hand.

    python tests/bench/resolution.py FOLDER    (with clones OWNER+NAME/repo of the repositories)

The facts are in files next to this one. Each line of `imports.tsv` has an import and its target, of
`calls.tsv` a use of a name in a file and the files whose definition is meant, and of `uses.tsv` a
line with a name before parentheses and whether it is a call. A clone at another commit may lack
some of these places; they are left out and counted.
"""

from __future__ import annotations

import argparse
import json
import posixpath
import subprocess
import sys
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

from codelode import languages
from codelode.backends.memory.graph import MemoryGraph
from codelode.backends.memory.references import MemoryReferences
from codelode.backends.memory.symbols import MemorySymbols
from codelode.model import DEFAULT_REF, EdgeKind, ReferenceKind, RepositoryName
from codelode.name_resolution import Confidence, reexports, resolve_use
from gateway.expand.aliases import uses_in
from workers.parse import imports, parse
from workers.parse.imports.links import resolve
from workers.pull import tree
from workers.pull.objects import Objects

FACTS = Path(__file__).parent
MAX_FILE_BYTES = 1_000_000
NAME = RepositoryName("bench")
NOT_RIGHT = ("wrong", "invented", "unresolved")


def main(argv=None):
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("clones", type=Path)
    options = arguments.parse_args(argv)
    report = {
        "imports": import_figures(options.clones),
        "calls": call_figures(options.clones),
        "uses": use_figures(options.clones),
    }
    json.dump(report, sys.stdout, indent=2)
    print()


def facts(name):
    for line in (FACTS / name).read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line.split("\t")


class Clone:
    """One repository at its newest commit."""

    def __init__(self, folder, name):
        git = folder / name.replace("/", "+") / "repo"
        asked = ("git", "--git-dir", str(git), "rev-parse", "HEAD")
        found = subprocess.run(asked, capture_output=True, text=True, check=False)
        listed = [] if found.returncode else tree.listing(git, found.stdout.strip())
        self.files = {file.path: file for file in listed}  # empty without a clone
        self._objects = Objects(git)
        self.layout = imports.read_layout(
            self.files.values(), lambda blob: self._objects.read(blob) or b"", name=name
        )
        self._parsed = {}

    def parsed(self, path):
        """Return the parsed file; None if the clone lacks it."""
        if path not in self._parsed:
            file = self.files.get(path)
            data = self._objects.read(file.blob) if file else None
            self._parsed[path] = None if data is None else parse(data, path=path)
        return self._parsed[path]


@cache
def clone(folder, name):
    return Clone(folder, name)


def import_figures(folder):
    total, by_language = Counter(), defaultdict(Counter)
    wrong = []
    for name, path, line, module, expected in facts("imports.tsv"):
        at = clone(folder, name)
        parsed = at.parsed(path)
        written = parsed and next((i for i in parsed.imports if i.module == module), None)
        if not written:
            total["missing"] += 1
            continue
        found = resolve(written, path=path, language=parsed.language, layout=at.layout).targets
        verdict = judged_import(found, expected, path)
        total[verdict] += 1
        by_language[parsed.language][verdict] += 1
        if verdict in NOT_RIGHT:
            wrong.append(f"{name} {path}:{line} {module} → {' '.join(found[:3]) or '-'}")
    return {
        **scores(total),
        "by_language": {
            language: dict(sorted(counts.items())) for language, counts in by_language.items()
        },
        "not_right": wrong,
    }


def judged_import(found, expected, path):
    if expected in ("-", "(itself)"):
        return "invented" if set(found) - {path} else "external"
    if not found:
        return "unresolved"
    if expected.endswith("/"):
        tail = "/".join(expected.rstrip("/").split("/")[-2:])
        is_right = all(posixpath.dirname(one).endswith(tail) or expected == "/" for one in found)
        return "right" if is_right else "wrong"
    return "right" if set(found) == {expected} else "wrong"


def call_figures(folder):
    total, by_confidence, by_language = Counter(), defaultdict(Counter), defaultdict(Counter)
    wrong = []
    for name, path, kind, used, expected in facts("calls.tsv"):
        index = indexed(folder, name)
        if path not in index.paths:
            total["missing"] += 1
            continue
        found = index.meant(path, used, ReferenceKind(kind))
        targets = {one.definition.path for one in found}
        wanted = set() if expected == "-" else set(expected.split(" "))
        verdict = judged_call(targets, wanted)
        total[verdict] += 1
        by_language[languages.detect(path).name][verdict] += 1
        for confidence in {one.confidence for one in found}:
            by_confidence[confidence][verdict] += 1
        if verdict in NOT_RIGHT:
            wrong.append(f"{name} {path} {kind} {used} → {' '.join(sorted(targets)[:3]) or '-'}")
    sure = sum((by_confidence[one] for one in (Confidence.EXACT, Confidence.IMPORTED)), Counter())
    return {
        **scores(total),
        "precision_of_exact_and_imported": scores(sure)["precision"],
        "by_confidence": {str(one): dict(by_confidence[one]) for one in Confidence},
        "by_language": {
            language: brief(scores(counts)) for language, counts in sorted(by_language.items())
        },
        "not_right": wrong,
    }


def judged_call(targets, wanted):
    if not wanted:
        return "invented" if targets else "external"
    if not targets:
        return "unresolved"
    return "right" if targets & wanted else "wrong"


def use_figures(folder):
    """Return precision and recall of the lines of calls."""
    total, by_language, not_right = Counter(), defaultdict(Counter), []
    for name, path, line, used, expected in facts("uses.tsv"):
        parsed = clone(folder, name).parsed(path)
        if parsed is None:
            total["missing"] += 1
            continue
        found = any(used == one.name and int(line) in one.lines for one in parsed.references)
        verdict = ("right" if found else "missed") if expected == "call" else ""
        verdict = verdict or ("invented" if found else "left out")
        total[verdict] += 1
        by_language[languages.detect(path).name][verdict] += 1
        if verdict in ("missed", "invented"):
            not_right.append(f"{name} {path}:{line} {used} {verdict}")
    return {
        **total,
        **lines(total),
        "by_language": {one: lines(counts) for one, counts in sorted(by_language.items())},
        "not_right": not_right,
    }


def lines(total):
    right = total["right"]
    return {
        "facts": sum(total.values()) - total["missing"],
        "precision": round(right / max(right + total["invented"], 1), 3),
        "recall": round(right / max(right + total["missed"], 1), 3),
    }


class Indexed:
    """All source files of a repository, in the in-memory symbol table and graph."""

    def __init__(self, at):
        self.symbols, self.graph, self.paths = MemorySymbols(), MemoryGraph(), set()
        self.references = MemoryReferences()
        for path, file in at.files.items():
            if not 0 < file.size_bytes <= MAX_FILE_BYTES:
                continue
            parsed = at.parsed(path)
            if parsed is None or not (parsed.symbols or parsed.references):
                continue
            linked = imports.links(path, parsed, layout=at.layout)
            self.paths.add(path)
            self.references.replace(NAME, [DEFAULT_REF], {path: linked.names})
            self.symbols.replace(NAME, [DEFAULT_REF], {path: parsed.symbols})
            self.graph.replace(NAME, [DEFAULT_REF], {path: linked.edges})

    def meant(self, path, written, kind):
        """Return the definitions to which a name in a file, or a member of that name, resolves."""
        found = {}
        kinds = (kind, ReferenceKind.OWN) if kind is ReferenceKind.MEMBER else (kind,)
        for _, use, source in uses_in(NAME, DEFAULT_REF, [path], kinds, self.references):
            if written in (use.written, use.name):
                meanings = resolve_use(
                    use,
                    path=path,
                    imported=self.imported(path),
                    definitions=self.symbols.lookup(use.name, repositories=[NAME], ref=DEFAULT_REF),
                    source=source,
                )
                found |= {(one.definition.path, one.confidence): one for one in meanings}
        return tuple(found.values())

    def imported(self, path):
        own = self._targets(path)
        return own | {t for one in own if reexports(one) for t in self._targets(one)}

    def _targets(self, path):
        edges = self.graph.outgoing(NAME, DEFAULT_REF, [path])[path]
        return {e.target for e in edges if e.kind is EdgeKind.IMPORTS and not e.is_external}


@cache
def indexed(folder, name):
    return Indexed(clone(folder, name))


def scores(total):
    """Return precision over the resolved facts, and recall over all facts."""
    right, wrong, unresolved = total["right"], total["wrong"], total["unresolved"]
    invented = total["invented"]
    return {
        "facts": sum(total.values()) - total["missing"],
        "missing": total["missing"],
        "internal_right": right,
        "internal_wrong": wrong,
        "external_taken_for_internal": invented,
        "unresolved": unresolved,
        "external_right": total["external"],
        "precision": round(right / max(right + wrong + invented, 1), 3),
        "recall": round(right / max(right + wrong + unresolved, 1), 3),
    }


def brief(found):
    return {name: found[name] for name in ("facts", "precision", "recall")}


if __name__ == "__main__":
    main()
