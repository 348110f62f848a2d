"""Compare the speed of parsing with that of the grammar alone, and sum up the results by language.

    python tests/bench/parsing.py CORPORA [--only NAME] [--max-mb 20] [--json FILE]

CORPORA has one folder per repository: a git repository, or a folder with one in its subfolder
`repo`. Every file at HEAD is read beforehand; those that `guard` leaves out are only counted. Then
each file is parsed in two ways in turn, on one core: by tree-sitter alone, and by `parse`, which
builds the same tree and extracts chunks, symbols, and imports. Seconds are processor time, the
better of ROUNDS. The ratio is the time of the grammar divided by that of `parse`, for files that
have a grammar; the target is 0.4. Grammars that may loop for ever are left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from codelode import languages
from codelode.model import HealthStatus, Kind, ParsedFile
from workers.parse import decode, grammars, guard, parse

ROUNDS = 2
MAX_FILE_BYTES = 1_000_000
TARGET = 0.4
LOOPS = frozenset({"cobol", "perl"})


@dataclass(slots=True)
class Tally:
    """Sums over files; seconds of processor time."""

    files: int = 0
    size_bytes: int = 0
    grammar_bytes: int = 0  # of files with a grammar
    plain_s: float = 0.0  # tree-sitter alone
    tree_s: float = 0.0  # `parse` over the same files
    parse_s: float = 0.0  # `parse` over all files
    chunks: int = 0
    symbols: int = 0
    health: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        for name in self.__slots__:
            if name == "health":
                self.health.update(other.health)
            else:
                setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def ratio(self) -> float:
        return self.plain_s / self.tree_s if self.tree_s else 0.0

    def summary(self) -> dict[str, object]:
        return {
            "files": self.files,
            "mb": round(self.size_bytes / 1e6, 2),
            "files_per_s": round(self.files / self.parse_s) if self.parse_s else 0,
            "mb_per_s": round(self.size_bytes / 1e6 / self.parse_s, 2) if self.parse_s else 0,
            "ratio": round(self.ratio, 3),
            "chunks": self.chunks,
            "symbols": self.symbols,
            **{status.value: self.health[status.value] for status in HealthStatus},
        }


def repositories(corpora: Path, only: str) -> Iterator[Path]:
    for folder in sorted(corpora.iterdir()):
        at = folder / "repo" if (folder / "repo").is_dir() else folder
        if only in folder.name and at.is_dir() and _git(at, "rev-parse", "HEAD"):
            yield at


def files(repository: Path, max_mb: float) -> Iterator[tuple[str, bytes]]:
    """Yield paths and contents at HEAD, up to a total size."""
    left = max_mb * 1e6
    listing = _git(repository, "ls-tree", "-r", "-z", "-l", "--full-tree", "HEAD")
    entries = [entry.partition(b"\t") for entry in listing.split(b"\0") if entry]
    wanted = [
        (facts.split()[2], path.decode("utf-8", "backslashreplace"))
        for facts, _, path in entries
        if facts.startswith(b"100") and _size(facts.split()[3]) <= MAX_FILE_BYTES
    ]
    reader = subprocess.Popen(
        ["git", "-C", str(repository), "cat-file", "--batch"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert reader.stdin
    assert reader.stdout
    with reader:
        for blob, path in wanted:
            reader.stdin.write(blob + b"\n")
            reader.stdin.flush()
            size = int(reader.stdout.readline().split()[2])
            data = reader.stdout.read(size + 1)[:-1]
            left -= size
            if left < 0:
                break
            yield path, data
        reader.stdin.close()


def measure(path: str, data: bytes) -> tuple[str, Tally]:
    """Return the language and the figures of one file."""
    text = decode(data)[0]
    language = languages.detect(path, text[:4_096].encode())
    utf8 = text.encode("utf-8", "surrogatepass")
    plain_s, parse_s, parsed = 0.0, 1e9, None
    if language.grammar:
        plain_s = min(_timed(lambda: grammars.tree(language.grammar, utf8)) for _ in range(ROUNDS))
    for _ in range(ROUNDS):
        started = time.process_time()
        parsed = parse(data, path=path)
        parse_s = min(parse_s, time.process_time() - started)
    check(path, data, parsed)
    return parsed.language, Tally(
        files=1,
        size_bytes=len(data),
        grammar_bytes=len(data) if language.grammar else 0,
        plain_s=plain_s,
        tree_s=parse_s if language.grammar else 0.0,
        parse_s=parse_s,
        chunks=len(parsed.pieces),
        symbols=len(parsed.symbols),
        health=Counter({parsed.health.status.value: 1}),
    )


def check(path: str, data: bytes, parsed: ParsedFile) -> None:
    """Raise unless the chunks partition the file; name symbols that are not on their lines."""
    at, line = 0, 1
    for piece in parsed.pieces:
        if (piece.start_byte, piece.start_line) != (at, line) or len(
            piece.content.encode()
        ) > 4_000:
            raise AssertionError(f"{path}:{piece.start_line}: chunk")
        at, line = piece.end_byte, line + piece.content.count("\n")
    text = decode(data)[0]
    if text and (at != len(data) or "".join(piece.content for piece in parsed.pieces) != text):
        raise AssertionError(f"{path}: the chunks are not the file")
    lines = text.split("\n")
    for symbol in parsed.symbols:
        named = "\n".join(lines[symbol.start_line - 1 : symbol.end_line])
        # Blanks are removed from names, such as those that contain a macro.
        name = "".join(symbol.name.split())
        if name not in "".join(named.split()) and symbol.kind is not Kind.BLOCK:
            print(f"{path}:{symbol.start_line}: {symbol.qualified_name}", file=sys.stderr)


def _timed(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def _size(listed: bytes) -> int:
    """Return the size of a blob; a clone without the blob prints `BAD`."""
    return int(listed) if listed.isdigit() else sys.maxsize


def _git(repository: Path, *arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", str(repository), *arguments], capture_output=True)
    return done.stdout if done.returncode == 0 else b""


def main() -> None:
    arguments = _arguments()
    by_language: dict[str, Tally] = defaultdict(Tally)
    skipped: Counter[str] = Counter()
    count = 0
    for repository in repositories(arguments.corpora, arguments.only):
        count += 1
        whole = Tally()
        for path, data in files(repository, arguments.max_mb):
            reason = guard(data, path=path, max_bytes=MAX_FILE_BYTES)
            if reason or languages.detect(path, data[:4_096]).name in LOOPS:
                skipped[(reason or "may loop").split(":")[0]] += 1
                continue
            language, tally = measure(path, data)
            by_language[language].add(tally)
            whole.add(tally)
        print(f"{repository.parent.name:40} {_line(whole)}", file=sys.stderr, flush=True)
    total = Tally()
    for tally in by_language.values():
        total.add(tally)
    for name, tally in sorted(by_language.items(), key=lambda pair: -pair[1].size_bytes):
        print(f"{name:16} {_line(tally)}")
    print(f"{'all':16} {_line(total)}")
    print(f"{count} repositories; left out: {dict(skipped)}")
    if arguments.json:
        results = {name: tally.summary() for name, tally in [*by_language.items(), ("all", total)]}
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(total.ratio < TARGET)


def _line(tally: Tally) -> str:
    return " ".join(f"{name}={value}" for name, value in tally.summary().items())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--only", default="", help="repositories with this in their name")
    parser.add_argument("--max-mb", type=float, default=20, help="of each repository")
    parser.add_argument("--json", type=Path, help="where the figures go")
    return parser.parse_args()


if __name__ == "__main__":
    main()
