"""Measure retrieval quality end to end: NDCG@10 of annotated queries over real repositories.

    python tests/bench/quality.py --eval DIR --corpora FOLDER [--scope root,whole,all]

Every repository is indexed at its annotated revision by the real job chain, and every query goes
through the Python client, so the result shows a loss at any stage from git to ranking. The
annotations are a JSON list of {repo, url, revision, benchmark_root, language, queries: [{query,
category, relevant, secondary}]}; a target is a path or {path, start_line, end_line}.

There are three scopes, because `root` alone would be too easy: `root` filters by the annotated
source folder, as for published figures; `whole` is the repository with its tests and documents, as
users search it; `all` has no repository filter, so all other repositories compete.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import embedded

from codelode.client import Client, Hit
from codelode.operations.evaluation.metrics import (
    Judged,
    SourceLocation,
    macro_mean,
    macro_means,
    ndcg_at_k,
    percentile,
    recall_at_k,
    target_ranks,
)

TOP_K = 10
SCOPES = ("root", "whole", "all")
INDEX_LIMIT_S = 1_800


@dataclass(frozen=True, slots=True)
class Query:
    text: str
    category: str
    targets: tuple[SourceLocation, ...]


@dataclass(frozen=True, slots=True)
class Corpus:
    """An annotated repository, and the git folder from which it is indexed."""

    name: str
    language: str
    git_dir: Path
    revision: str
    root: str  # the annotated folder; empty for the whole repository
    queries: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class Indexed:
    name: str
    seconds: float
    files: int
    failed: int
    skipped: int
    chunks: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one query."""

    corpus: Corpus
    query: Query
    hits: tuple[Hit, ...]
    seconds: float

    def places(self) -> list[SourceLocation]:
        """Return the locations of the hits; one in another repository matches no target."""
        return [SourceLocation(self._label(hit), hit.start_line, hit.end_line) for hit in self.hits]

    def ranks(self) -> tuple[int | None, ...]:
        return target_ranks(self.places(), self.query.targets)

    def _label(self, hit: Hit) -> str:
        return hit.path if hit.repository == self.corpus.name else f"{hit.repository}:{hit.path}"


def main(arguments: Sequence[str] | None = None) -> None:
    options = read_options(arguments)
    corpora = list(read_corpora(options))
    if not corpora:
        raise SystemExit(f"no annotated repository below {options.corpora}")
    facts = embedded.machine()
    with gateway_of(options) as address, Client(address) as client:
        indexed = [index_corpus(client, corpus) for corpus in corpora]
        status = client.status()
        facts |= {"store": status.store, "embedder": status.embedder, "chunks": status.chunks}
        for scope in options.scope:
            answers = _ask_all(client, corpora, scope)
            report = _report(answers, indexed, facts | {"scope": scope})
            print(_text(report), flush=True)
            _print_misses(answers, options.misses)
            if options.out:
                _write(_out_path(options, scope), answers, report)


def read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--eval", type=Path, required=True, help="annotations, or their folder")
    parser.add_argument("--corpora", type=Path, required=True, help="folder of git repositories")
    parser.add_argument("--server", help="a running gateway; default: an embedded cluster")
    parser.add_argument("--data", type=Path, help="data folder to keep; default: a temporary one")
    parser.add_argument("--workers", type=int, default=0, help="of the embedded cluster")
    parser.add_argument("--scope", type=_scopes, default=("root", "whole"), help=",".join(SCOPES))
    parser.add_argument("--repos", type=lambda text: text.split(","), help="only these")
    parser.add_argument("--misses", type=int, default=0, help="print this many worst queries")
    parser.add_argument("--out", type=Path, help="JSON with all hits and figures, one per scope")
    return parser.parse_args(arguments)


def _scopes(text: str) -> tuple[str, ...]:
    scopes = tuple(text.split(","))
    if not set(scopes) <= set(SCOPES):
        raise argparse.ArgumentTypeError(f"{text!r}: choose from {', '.join(SCOPES)}")
    return scopes


def judged_entries(evaluation: Path, corpora: Path | None = None) -> list[dict[str, Any]]:
    """Return the entries of a file or folder; with `corpora`, at the revisions that exist there."""
    source = evaluation / "dev.json" if evaluation.is_dir() else evaluation
    entries = json.loads(source.read_text())
    if corpora is None:
        return list(entries)
    found = [(entry, _git_dir(corpora, entry)) for entry in entries]
    for entry in (entry for entry, git_dir in found if git_dir is None):
        print(f"{entry['repo']}: not below {corpora}; left out", file=sys.stderr)
    return [
        entry | {"revision": _revision(git_dir, entry), "git_dir": git_dir}
        for entry, git_dir in found
        if git_dir is not None
    ]


def read_corpora(options: argparse.Namespace) -> Iterator[Corpus]:
    for entry in judged_entries(options.eval, options.corpora):
        if options.repos and entry["repo"] not in options.repos:
            continue
        yield Corpus(
            name=entry["repo"],
            language=entry["language"],
            git_dir=entry["git_dir"],
            revision=entry["revision"],
            root=entry.get("benchmark_root") or "",
            queries=tuple(map(_query, entry["queries"])),
        )


def _git_dir(folder: Path, entry: dict[str, Any]) -> Path | None:
    """Return FOLDER/<name>, or FOLDER/<owner>+<name>/repo, of any owner because projects move."""
    owner, project = entry["url"].removesuffix(".git").split("/")[-2:]
    choices = [
        folder / entry["repo"],
        folder / f"{owner}+{project}" / "repo",
        *sorted(folder.glob(f"*+{project}/repo")),
    ]
    return next((path.resolve() for path in choices if path.is_dir()), None)


def _revision(git_dir: Path, entry: dict[str, Any]) -> str:
    """Return the annotated commit, or HEAD if the clone does not have it."""
    for wanted in (entry["revision"], "HEAD"):
        found = subprocess.run(
            ["git", "-C", str(git_dir), "rev-parse", "--verify", "-q", f"{wanted}^{{commit}}"],
            capture_output=True,
            text=True,
            check=False,
        )
        if found.returncode == 0:
            if wanted == "HEAD":
                print(
                    f"{entry['repo']}: no {entry['revision'][:10]}; HEAD instead", file=sys.stderr
                )
            return found.stdout.strip()
    raise SystemExit(f"{git_dir} is not a git repository with a commit")


def _query(entry: dict[str, Any]) -> Query:
    targets = [*entry["relevant"], *entry["secondary"]]
    return Query(entry["query"], entry["category"], tuple(map(_target, targets)))


def _target(entry: str | dict[str, Any]) -> SourceLocation:
    if isinstance(entry, str):
        return SourceLocation(entry)
    return SourceLocation(entry["path"], entry.get("start_line"), entry.get("end_line"))


@contextmanager
def gateway_of(options: argparse.Namespace) -> Iterator[str]:
    """Yield the address of the gateway to measure."""
    if options.server:
        yield options.server
        return
    with tempfile.TemporaryDirectory(prefix="codelode-quality-") as scratch:
        data = (options.data or Path(scratch) / "data").resolve()
        data.mkdir(parents=True, exist_ok=True)
        local = str(options.corpora.resolve())
        with embedded.running(data, workers=options.workers, local_paths=local) as cluster:
            yield cluster.address


def index_corpus(client: Client, corpus: Corpus) -> Indexed:
    started = time.perf_counter()
    run = embedded.index(
        client,
        str(corpus.git_dir),
        name=corpus.name,
        ref=corpus.revision,
        limit_s=INDEX_LIMIT_S,
    )
    seconds = time.perf_counter() - started
    refs = next(r.refs for r in client.repositories() if r.repository.name == corpus.name)
    chunks = next((ref.chunks for ref in refs if ref.ref == corpus.revision), 0)
    one = Indexed(corpus.name, seconds, run.total, run.failed, run.skipped, chunks)
    print(f"indexed {_line(asdict(one))}", file=sys.stderr, flush=True)
    return one


def _ask_all(client: Client, corpora: Sequence[Corpus], scope: str) -> list[Answer]:
    first = corpora[0]
    _ask(client, first, first.queries[0], scope)  # loads the model, so it is not timed
    return [_ask(client, corpus, query, scope) for corpus in corpora for query in corpus.queries]


def _ask(client: Client, corpus: Corpus, query: Query, scope: str) -> Answer:
    in_root = scope == "root" and corpus.root
    started = time.perf_counter()
    result = client.search(
        query.text,
        repositories=() if scope == "all" else (corpus.name,),
        paths=(f"{corpus.root}/**",) if in_root else (),
        ref="" if scope == "all" else corpus.revision,
        top_k=TOP_K,
        skip_cache=True,
    )
    return Answer(corpus, query, result.hits, time.perf_counter() - started)


def _report(
    answers: Sequence[Answer], indexed: Sequence[Indexed], facts: dict[str, object]
) -> dict[str, Any]:
    judged = _judged(answers, ndcg_at_k)
    milliseconds = [answer.seconds * 1_000 for answer in answers]
    seconds, files = sum(one.seconds for one in indexed), sum(one.files for one in indexed)
    return {
        "facts": facts | {"repositories": len(indexed), "queries": len(answers)},
        "ndcg@10": macro_mean(judged),
        "recall@10": macro_mean(_judged(answers, recall_at_k)),
        "by_category": macro_means(judged, by="category"),
        "by_language": macro_means(judged, by="language"),
        "by_repository": macro_means(judged, by="repository"),
        "search_ms": {f"p{p}": percentile(milliseconds, p) for p in (50, 95, 99)},
        "index": {"seconds": seconds, "files": files, "files_per_s": files / max(seconds, 1e-9)},
        "indexed": [asdict(one) for one in indexed],
    }


def _judged(answers: Sequence[Answer], metric: Any) -> list[Judged]:
    return [
        Judged(one.corpus.name, one.query.category, one.corpus.language, metric(one.ranks(), TOP_K))
        for one in answers
    ]


def _text(report: dict[str, Any]) -> str:
    facts = report["facts"]
    rows: dict[str, object] = {
        f"NDCG@10 (chunks, {facts['scope']})": f"{report['ndcg@10']:.4f}",
        "recall@10": f"{report['recall@10']:.4f}",
        "by category": _line(report["by_category"]),
        "by language": _line(report["by_language"]),
        "by repository": _line(
            dict(sorted(report["by_repository"].items(), key=lambda item: item[1]))
        ),
        "search, ms (cache off)": _line(report["search_ms"]),
        "index": _line(report["index"]),
        "measured on": _line(facts),
    }
    return embedded.table(rows)


def _line(values: dict[str, Any]) -> str:
    return "  ".join(
        f"{key} {value:.3f}" if isinstance(value, float) else f"{key} {value}"
        for key, value in values.items()
    )


def _print_misses(answers: Sequence[Answer], count: int) -> None:
    """Print the queries with the greatest loss, with their targets and hits."""
    worst = sorted(answers, key=lambda one: ndcg_at_k(one.ranks(), TOP_K))
    for one in worst[:count]:
        print(f"\n{one.corpus.name} {one.query.category}: {one.query.text}")
        for target, rank in zip(one.query.targets, one.ranks(), strict=True):
            print(f"  wanted {target.path}: {f'rank {rank}' if rank else 'missing'}")
        for rank, hit in enumerate(one.hits, 1):
            print(
                f"  {rank:>2} {hit.path}:{hit.start_line}-{hit.end_line} {hit.symbol} {hit.match}"
            )


def _out_path(options: argparse.Namespace, scope: str) -> Path:
    out: Path = options.out
    if len(options.scope) == 1:
        return out
    return out.with_name(f"{out.stem}-{scope}{out.suffix or '.json'}")


def _write(path: Path, answers: Sequence[Answer], report: dict[str, Any]) -> None:
    run: dict[str, dict[str, list[list[object]]]] = {}
    for one in answers:
        run.setdefault(one.corpus.name, {})[one.query.text] = [
            [place.path, place.start_line, place.end_line] for place in one.places()
        ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"run": run, "report": report}, indent=1))


if __name__ == "__main__":
    main()
