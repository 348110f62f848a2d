"""Measure the cost per file of imports, references, and their storage, and of the other stages.

    python tests/bench/linking.py GIT_DIR... [--files 300]

Runs the parts of the chain that need no broker over files of real repositories, with and without
the parts that the graph needs. Figures are processor time of this process and of the Redis server.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from codelode import languages
from codelode.backends.redis.connection import connect
from codelode.backends.redis.graph import RedisGraph
from codelode.backends.redis.references import RedisReferences
from codelode.backends.redis.symbols import RedisSymbols
from codelode.cli import redis_server
from codelode.model import DEFAULT_REF, RepositoryName
from workers import wire
from workers.parse import grammars, imports, parse, uses
from workers.parse.language_rules import rules_of
from workers.pull import tree
from workers.pull.objects import Objects

MAX_FILE_BYTES = 200_000
BATCH = 64


def main(argv=None):
    arguments = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    arguments.add_argument("mirrors", nargs="+", type=Path)
    arguments.add_argument("--files", type=int, default=300)
    options = arguments.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder, server(Path(folder)) as client:
        report = {
            "machine": f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
            **{path.parent.name: figures(path, options.files, client) for path in options.mirrors},
        }
    json.dump(report, sys.stdout, indent=2)
    print()


@contextmanager
def server(folder):
    with redis_server.place_in(folder) as place:
        command = redis_server.command(place, binary=redis_server.locate())
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            try:
                redis_server.wait_ready(redis_server.url(place))
                with connect(redis_server.url(place)) as client:
                    yield client
            finally:
                process.terminate()


def figures(mirror, limit, client):
    git = ("git", "--git-dir", str(mirror), "rev-parse", "HEAD")
    revision = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    for key in client.scan_iter():
        client.delete(key)
    with Objects(mirror) as objects:
        listing = list(tree.listing(mirror, revision))
        spent = Spent(client)
        with spent("layout, whole repository"):
            layout = imports.read_layout(listing, lambda blob: objects.read(blob) or b"")
            layout.ending("x")
        files = chosen(listing, limit)
        contents = {file.path: objects.read(file.blob) for file in files}
    contents = {path: data for path, data in contents.items() if data is not None}
    return measured(contents, layout, spent)


def chosen(listing, limit):
    source = [
        file
        for file in listing
        if 0 < file.size_bytes <= MAX_FILE_BYTES and languages.detect(file.path).grammar
    ]
    return source[:: max(1, len(source) // limit)][:limit]


def measured(contents, layout, spent):  # noqa: C901 - one measurement after the other
    parsed = {}
    with spent("parse, all"):
        for path, data in contents.items():
            parsed[path] = parse(data, path=path)
    trees = {}
    for path, data in contents.items():
        language = languages.detect(path)
        trees[path] = language, grammars.tree(language.grammar, data), data
    with spent("parse, of it queries and uses"):
        for language, found, data in trees.values():
            query = grammars.query(language.name, language.grammar or "")
            if found and query:
                uses.distinct(query.run(found.root_node)[1], data, None)
    with spent("parse, of it references of texts"):
        for path, data in contents.items():
            rules = rules_of(parsed[path].language)
            imports.references(data.decode("utf-8", "replace"), rules)
    bare = {path: replace(file, references=()) for path, file in parsed.items()}
    for name, some in (("without", bare), ("with", parsed)):
        with spent(f"wire {name} references"):
            dumped = [wire.dump_parsed(file, max_file_bytes=1_000_000) for file in some.values()]
            for data in dumped:
                wire.load_parsed(data)
        spent.bytes[f"wire {name} references"] = sum(map(len, dumped)) // len(dumped)
    linked = {}
    with spent("links"):
        for path, file in parsed.items():
            linked[path] = imports.links(path, file, layout=layout)
    stored(parsed, linked, spent)
    return {
        "files": len(contents),
        "bytes_per_file": sum(map(len, contents.values())) // len(contents),
        "edges_per_file": mean(len(one.edges) for one in linked.values()),
        "names_per_file": mean(len(one.names) for one in linked.values()),
        "cpu_ms_per_file": spent.per_file(len(contents)),
        "bytes_per_file_of": spent.bytes,
    }


def stored(parsed, linked, spent):
    client, name = spent.client, RepositoryName("bench")
    graph, table, index = RedisGraph(client), RedisSymbols(client), RedisReferences(client)
    for label, port, values in (
        ("store edges", graph, {path: one.edges for path, one in linked.items()}),
        ("store symbols", table, {path: file.symbols for path, file in parsed.items()}),
        ("store references", index, {path: one.names for path, one in linked.items()}),
    ):
        before = client.info("memory")["used_memory"]
        paths = list(values)
        with spent(label):
            for start in range(0, len(paths), BATCH):
                some = paths[start : start + BATCH]
                port.replace(name, [DEFAULT_REF], {path: values[path] for path in some})
        spent.bytes[label] = (client.info("memory")["used_memory"] - before) // len(paths)
        with spent(f"{label} again"):
            for start in range(0, len(paths), BATCH):
                some = paths[start : start + BATCH]
                port.replace(name, [DEFAULT_REF], {path: values[path] for path in some})


class Spent:
    """Processor time by label, of this process and of the server, seconds."""

    def __init__(self, client):
        self.client = client
        self.own = defaultdict(float)
        self.servers = defaultdict(float)
        self.bytes = {}

    @contextmanager
    def __call__(self, label):
        own, servers = time.process_time(), self._server()
        yield
        self.own[label] += time.process_time() - own
        self.servers[label] += self._server() - servers

    def _server(self):
        info = self.client.info("cpu")
        return info["used_cpu_user"] + info["used_cpu_sys"]

    def per_file(self, count):
        return {
            label: {
                "own": round(1000 * seconds / (1 if "whole" in label else count), 3),
                "redis": round(1000 * self.servers[label] / count, 3),
            }
            for label, seconds in self.own.items()
        }


def mean(values):
    values = list(values)
    return round(sum(values) / len(values), 1)


if __name__ == "__main__":
    main()
