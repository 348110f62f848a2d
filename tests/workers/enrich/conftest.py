"""Make parsed files like those of the parser, without parsing."""

from __future__ import annotations

import pytest

from codelode.model import (
    Category,
    FileHealth,
    HealthStatus,
    Kind,
    ParsedFile,
    Piece,
    Symbol,
)


@pytest.fixture
def piece():
    """Return a function that makes a piece from its content and kind."""

    def build(content, kind=Kind.FUNCTION, symbol="", line=1):
        return Piece(
            start_line=line,
            end_line=line + content.count("\n"),
            start_byte=0,
            end_byte=len(content),
            content=content,
            kind=kind,
            symbol=symbol,
        )

    return build


@pytest.fixture
def parsed():
    """Return a function that makes a parsed file from pieces; `exports` are exported names."""

    def build(*pieces, exports=(), language="python", category=Category.SOURCE):
        return ParsedFile(
            language=language,
            category=category,
            health=FileHealth(HealthStatus.OK),
            pieces=pieces,
            symbols=tuple(
                Symbol(name, name, Kind.FUNCTION, f"def {name}()", 1, 2, is_exported=True)
                for name in exports
            ),
        )

    return build
