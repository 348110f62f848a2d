"""Measure how often the first hit for a pasted message, key, or flag is the place it comes from.

    python tests/bench/verbatim.py --eval DIR --corpora FOLDER [--data DATA] [--repos a,b]

Messages are literals of four or more words; keys are joined words in quotes (`--list-steps`). Both
are drawn from source files, and occur only once in all repositories, including documents and tests.
Each is searched in its repository, and among all.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import embedded
import quality

from codelode.client import Client

SEED = 7
#: Maximum number of messages, and of keys, that are drawn from one repository.
MESSAGES, KEYS = 8, 6
MAX_BYTES = 300_000
MAX_LINE_CHARS = 300

_READ = re.compile(
    r"\.(py|go|rs|js|ts|tsx|c|h|cs|ex|exs|rb|php|zig|lua|hs|sh|md|rst|txt|toml|yml|yaml|json)$"
)
_SOURCE = re.compile(r"\.(py|go|rs|js|ts|tsx|c|h|cs|ex|rb|php|zig|lua|hs|sh)$")
_SECONDARY = re.compile(
    r"(^|/)(test|tests|docs?|examples?|bench|vendor|spec|fixtures|node_modules|www)(/|s/)"
    r"|_test\.|\.test\.|test_|README|CHANGE|\.min\.",
    re.IGNORECASE,
)
_LITERAL = re.compile(r'"([^"\\\n]{18,140})"|\'([^\'\\\n]{18,140})\'')
_MARKUP = re.compile(r"[{}%<>$#=]|\(\)")
_KEY = re.compile(
    r"[\"'`](--[a-z][a-z0-9]*(?:-[a-z0-9]+)+|[a-z][a-z0-9]*(?:[-.][a-z0-9]+){1,4})[\"'`=]"
)
_FILE_NAME = re.compile(r"\.(js|ts|py|json|md|com|org|css|html|go|rs|lua|yml|toml|h|c)$")


@dataclass(frozen=True, slots=True)
class Pasted:
    """A text, and the place from which it was copied."""

    kind: str  # message or key
    repository: str
    path: str
    line: int
    text: str


def main(arguments: Sequence[str] | None = None) -> None:
    options = quality.read_options(arguments)
    corpora = list(quality.read_corpora(options))
    drawn = list(draw(corpora))
    with quality.gateway_of(options) as address, Client(address) as client:
        for corpus in corpora:
            quality.index_corpus(client, corpus)
        print(embedded.machine(), file=sys.stderr)
        for kind, count in Counter(one.kind for one in drawn).items():
            asked = [one for one in drawn if one.kind == kind]
            named = sum(is_first(client, one, named=True) for one in asked)
            among = sum(is_first(client, one, named=False) for one in asked)
            print(f"{kind}: {count}, first in its repository {named}, among all {among}")


def draw(corpora: Sequence[quality.Corpus]) -> Iterator[Pasted]:
    """Yield some messages and keys of each repository that occur once in all."""
    texts = {(one.name, path): text for one in corpora for path, text in files(one)}
    everything = "\0".join(texts.values())
    found: defaultdict[tuple[str, str], list[Pasted]] = defaultdict(list)
    for (repository, path), text in texts.items():
        if _SOURCE.search(path) and not _SECONDARY.search(path):
            for one in pasted(repository, path, text):
                found[repository, one.kind].append(one)
    chosen = random.Random(SEED)
    for (_, kind), some in sorted(found.items()):
        chosen.shuffle(some)
        unique = (one for one in some if everything.count(one.text) == 1)
        most = MESSAGES if kind == "message" else KEYS
        yield from (one for one, _ in zip(unique, range(most), strict=False))


def pasted(repository: str, path: str, text: str) -> Iterator[Pasted]:
    """Yield the texts of a file that a person may paste."""
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > MAX_LINE_CHARS:
            continue
        for found in _LITERAL.finditer(line):
            said = (found[1] or found[2]).strip()
            if is_message(said):
                yield Pasted("message", repository, path, number, said)
        for found in _KEY.finditer(line):
            if not _FILE_NAME.search(found[1]):
                yield Pasted("key", repository, path, number, found[1])


def is_message(text: str) -> bool:
    words = text.split()
    letters = sum(word.isalpha() for word in words)
    return 4 <= len(words) <= 14 and not _MARKUP.search(text) and letters >= 0.7 * len(words)


def files(corpus: quality.Corpus) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each file of the revision that may contain such a text."""
    git = ["git", "-C", str(corpus.git_dir)]
    listed = subprocess.run(
        [*git, "ls-tree", "-r", "-z", "--name-only", corpus.revision],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    with subprocess.Popen(
        [*git, "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        for path in filter(_READ.search, listed):
            reader.stdin.write(f"{corpus.revision}:{path}\n".encode())
            reader.stdin.flush()
            header = reader.stdout.readline().split()
            if len(header) != 3 or header[1] != b"blob":
                continue
            content = reader.stdout.read(int(header[2]) + 1)[:-1]
            if len(content) <= MAX_BYTES:
                yield path, content.decode("utf-8", "replace")
        reader.stdin.close()


def is_first(client: Client, one: Pasted, *, named: bool) -> bool:
    """Return whether the first hit of the text is its place."""
    chosen = [one.repository] if named else []
    hits = client.search(one.text, top_k=1, repositories=chosen, skip_cache=True).hits
    return any(
        (hit.repository, hit.path) == (one.repository, one.path)
        and hit.start_line <= one.line <= hit.end_line
        for hit in hits
    )


if __name__ == "__main__":
    main()
