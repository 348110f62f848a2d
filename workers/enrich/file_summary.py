"""A file in a few sentences: what it says of itself, what it defines, what it builds on.

Without a language model it is put together from the path, the comment at its top, exported
symbols and imports; with one, the sentences about its chunks stand in the middle, those about
definitions that it shows to others first. Same input, same text; `codelode.summaries` words it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from codelode import summaries
from codelode.model import Kind, ParsedFile, RepositoryName, Symbol, locate
from workers.enrich.wanted import exported


def file_summary(path: str, parsed: ParsedFile, sentences: Sequence[str] = ()) -> str:
    """A bounded text about the file; `sentences` in the order of `locate`, or none."""
    first = parsed.pieces[0] if parsed.pieces else None
    return summaries.compose(
        path,
        head=summaries.head(first.content, parsed.language, first.kind) if first else "",
        sentences=_ordered(parsed, sentences),
        names=_names(parsed.symbols),
        imports=(found.module for found in parsed.imports),
    )


def _ordered(parsed: ParsedFile, sentences: Sequence[str]) -> Iterable[str]:
    """The sentences about its chunks, of exported definitions first, each once."""
    if not sentences:
        return ()
    shown = exported(parsed)
    chunks = locate(parsed, repository=RepositoryName(""), path="", refs=())
    pairs = [pair for pair in zip(chunks, sentences, strict=True) if pair[1]]
    pairs.sort(key=lambda pair: (pair[0].symbol not in shown, pair[0].kind is Kind.BLOCK))
    return dict.fromkeys(text for _, text in pairs)


def _names(symbols: Sequence[Symbol]) -> Iterable[str]:
    """What it shows to others; all top-level names where nothing is marked."""
    found = [symbol for symbol in symbols if symbol.is_exported] or list(symbols)
    found.sort(key=lambda symbol: symbol.qualified_name.count("."))
    return (symbol.qualified_name for symbol in found)
