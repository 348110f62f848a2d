"""Turn the page of a ranking into the hits of the answer; no hits are a valid answer."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from codelode.definitions import Definition, definition, line_of
from codelode.model import Candidate, Chunk, Hit, Match
from gateway.assemble.named import asked_names, said_names, under_name
from gateway.state import Backends, Ranked, SearchState, estimated_tokens

#: Maximum number of tokens of all hits that most language models can read. Chosen by hand.
MAX_TOKENS = 100_000

#: Longest first line that stands for a chunk without a symbol, characters.
MAX_LINE_CHARS = 200


async def assemble(state: SearchState, _backends: Backends) -> SearchState:
    """Add the hits."""
    globs = state.query.filters.symbols
    is_compact = state.query.options.assemble.compact
    shown = (entry.candidate.chunk for entry in (state.ranking if is_compact else state.page))
    said = said_names(state.query.text, (name for chunk in shown for name in chunk.symbols))
    asked = (*asked_names(state.analysis.identifiers, globs), *said)
    if is_compact:
        state = replace(state, ranking=_merged(state.ranking, asked, globs))
    hits = tuple(hit(entry, asked, globs) for entry in state.page)
    if is_compact:
        hits = tuple(map(_compacted, hits))
    tokens = sum(estimated_tokens(hit.chunk.content) for hit in hits)
    tokens += sum(estimated_tokens(passage.content) for passage in state.passages.values())
    state = replace(state, hits=hits, tokens=tokens)
    return state.remarked(_too_much(tokens)) if tokens > MAX_TOKENS else state


def _merged(
    ranking: Sequence[Ranked], asked: Sequence[str], globs: Sequence[str]
) -> tuple[Ranked, ...]:
    """Merge the chunks of each definition into the best of them, and extend it to the last line.

    As compact hits, all of them would show the same line and the same signature.
    """
    best: dict[Hashable, Ranked] = {}
    for entry in ranking:
        chunk = under_name(entry.candidate.chunk, asked, globs)
        line = line_of(chunk)
        key = (chunk.repository, chunk.path, line) if line else chunk.id
        known = best.setdefault(key, entry)
        if known.candidate.chunk.end_line < chunk.end_line:
            best[key] = _reaching(known, chunk.end_line)
    return tuple(best.values())


def _reaching(entry: Ranked, end_line: int) -> Ranked:
    candidate = entry.candidate
    chunk = candidate.chunk._replace(end_line=end_line)
    return entry._replace(candidate=candidate._replace(chunk=chunk))


def hit(entry: Ranked, asked: Sequence[str], globs: Sequence[str]) -> Hit:
    """Return a ranked candidate as a hit, without the parts that add nothing to its score.

    Its symbol is the first of the names `asked` that it defines and that the globs match.
    """
    parts = tuple(part for part in zip(entry.names, entry.parts, strict=True) if part[1])
    candidate = entry.candidate
    chunk = under_name(candidate.chunk, asked, globs)
    return Hit(
        chunk,
        entry.score,
        match(candidate),
        line=line_of(chunk),
        keyword_score=candidate.keyword_score,
        similarity=candidate.similarity,
        explain=parts,
    )


def match(candidate: Candidate) -> Match:
    """Return whether keywords, vectors or both found the candidate."""
    if candidate.keyword_score is None:
        return Match.SEMANTIC
    return Match.KEYWORD if candidate.similarity is None else Match.BOTH


def _compacted(hit: Hit) -> Hit:
    """Return the hit with only the signature of its symbol as its code, starting at its line.

    Without a symbol, the code is the first line of the chunk.
    """
    line, text = definition(hit.chunk) or _first_line(hit.chunk)
    # A chunk of annotations ends before the name that they belong to.
    end = max(line, hit.chunk.end_line)
    return replace(hit, chunk=hit.chunk._replace(start_line=line, end_line=end, content=text))


def _first_line(chunk: Chunk) -> Definition:
    """Return the first line of the chunk that is not blank."""
    lines = enumerate(chunk.content.split("\n"), chunk.start_line)
    filled = ((number, line.strip()) for number, line in lines if line.strip())
    number, line = next(filled, (chunk.start_line, ""))
    return Definition(number, line[:MAX_LINE_CHARS])


def _too_much(tokens: int) -> str:
    return (
        f"the hits hold about {tokens:,} tokens, more than {MAX_TOKENS:,}: lower top_k, set "
        "options.assemble.compact, or ask for a context, which keeps to a budget"
    )
