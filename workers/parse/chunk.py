"""Cut a file into chunks: split, then merge, its syntax tree (cAST, Zhang et al., 2025).

A node that fits is never divided. A larger node is divided before each child that begins a line,
and small neighbours are merged. Cuts are at line starts, so that a chunk reads as in an
editor; blank lines belong to the chunk before them. Sizes are in ink, the number of bytes that are
not whitespace, so that deep indentation does not make chunks smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from tree_sitter import Node

from workers.parse import prose
from workers.parse.comments import Comments
from workers.parse.lines import Lines
from workers.parse.prose import Span
from workers.parse.sections import Composed

#: Usual ink of a chunk, bytes: about 50 lines of code.
TARGET_INK = 1_500

#: Ink up to which a node is not divided.
WHOLE_INK = TARGET_INK * 3 // 2

#: Ink below which a chunk joins a neighbour: a closing brace, the first line of a class.
RUNT_INK = 200

#: Ink up to which the line that opens a definition is joined with the definition's first part.
HEADED_INK = WHOLE_INK + RUNT_INK

#: Maximum size of a chunk including whitespace, bytes.
MAX_BYTES = 4_000

#: Maximum nesting of cuts; deeper text is data and is cut by lines.
MAX_DEPTH = 100

#: Types of nodes that belong to the node after them.
_ATTRIBUTES = frozenset(
    {"attribute_item", "inner_attribute_item", "attribute_list", "decorator", "annotation"}
    | {"attribute", "signature", "template_parameter_list", "modifiers", "attributes"}
)


class _Segment(NamedTuple):
    """Rows [first, last) after one cut at `depth`. A tuple, because files have thousands."""

    first: int
    last: int
    size: int  # bytes
    ink: int
    depth: int  # number of nodes that the preceding cut divides
    nodes: Sequence[Node | Composed] = ()  # nodes over several rows, where it can be divided
    opens_next: bool = False  # too small to stand alone, and the next segment is inside it


def spans(root: Node | Composed, lines: Lines, comments: Comments) -> list[Span]:
    """Return byte ranges that partition the file, in order; none for an empty file."""
    out: list[Span] = []
    for segment in _join_runts(_leaves(root, lines, comments)):
        start, end = lines.start(segment.first), lines.start(segment.last)
        bounds = [start, *_hard_cuts(segment, lines), end]
        out += [Span(a, b, continues=a > start) for a, b in pairwise(bounds) if a < b]
    return out


def _hard_cuts(segment: _Segment, lines: Lines) -> Iterator[int]:
    """Return cuts inside a long string or a long line, which no node divides at a line start."""
    if _fits(segment, HEADED_INK):
        return iter(())
    start, end = lines.start(segment.first), lines.start(segment.last)
    return prose.cuts(lines.data, start, end, size_bytes=TARGET_INK)


def _leaves(root: Node | Composed, lines: Lines, comments: Comments) -> Iterator[_Segment]:
    """Yield the segments that fit or cannot be divided, in order.

    Iterative, because trees can be 10⁵ deep. A file stays whole only up to TARGET_INK, because
    separate definitions are less related than the parts of one.
    """
    whole = _Segment(0, lines.count, len(lines.data), lines.ink(0, lines.count), 0, (root,))
    if _fits(whole, TARGET_INK):
        yield whole
        return
    stack = _parts(whole, lines, comments)
    while stack:
        segment = stack.pop()
        if _fits(segment) or not segment.nodes or segment.depth > MAX_DEPTH:
            yield segment
        else:
            stack += _parts(segment, lines, comments)


def _parts(segment: _Segment, lines: Lines, comments: Comments) -> list[_Segment]:
    """Divide the segment and merge its small parts; the last part comes first."""
    return _merge(_divide(segment, lines, comments))[::-1]


def _fits(segment: _Segment, limit_ink: int = WHOLE_INK) -> bool:
    return segment.ink <= limit_ink and segment.size <= MAX_BYTES


def _divide(segment: _Segment, lines: Lines, comments: Comments) -> list[_Segment]:
    """Cut the segment before each child that begins a line, at the first level that has one."""
    nodes = segment.nodes
    depth = segment.depth
    while nodes:
        depth += 1
        rows, members = _cut_rows(nodes, segment, lines, comments)
        if len(rows) > 1:
            bounds = [*rows, segment.last]
            return [
                _Segment(
                    first,
                    last,
                    lines.start(last) - lines.start(first),
                    lines.ink(first, last),
                    depth if first > segment.first else segment.depth,
                    inside,
                )
                for (first, last), inside in zip(pairwise(bounds), members, strict=True)
            ]
        nodes = members[0]
    return [segment._replace(nodes=())]


def _cut_rows(
    nodes: Sequence[Node | Composed], segment: _Segment, lines: Lines, comments: Comments
) -> tuple[list[int], list[list[Node | Composed]]]:
    """Return the rows where parts start, and the children over several rows in each part."""
    rows, members = [segment.first], [list[Node | Composed]()]
    row, next_row = 0, 0  # row of the child, offset of the row below
    begins = belongs_to_next = False
    for node in nodes:
        for child in node.children:
            start = child.start_byte
            if start >= next_row:
                row = lines.row(start)
                next_row = lines.start(row + 1)
                begins = lines.begins(start, row)
            elif begins:  # still true only if the node before it is empty
                begins = lines.begins(start, row)
            if begins and not belongs_to_next and rows[-1] < row < segment.last:
                cut = comments.start(row)
                if rows[-1] < cut:
                    rows.append(cut)
                    members.append([])
            if child.child_count and child.end_byte > next_row:
                members[-1].append(child)
            belongs_to_next = begins and _is_attribute(child, lines)
    return rows, members


def _is_attribute(node: Node | Composed, lines: Lines) -> bool:
    if node.type == "unary_operator":  # `@doc "…"` before `def` in Elixir
        return lines.data[node.start_byte : node.start_byte + 1] == b"@"
    return node.type in _ATTRIBUTES


def _merge(segments: Sequence[_Segment]) -> list[_Segment]:
    """Merge runs of neighbours that fit into evenly sized segments of about TARGET_INK at most."""
    out: list[_Segment] = []
    run: list[_Segment] = []
    for segment in segments:
        if _fits(segment):
            run.append(segment)
            continue
        out += _merge_run(run)
        out.append(segment)
        run = []
    return out + _merge_run(run)


def _merge_run(run: Sequence[_Segment]) -> list[_Segment]:
    total = sum(segment.ink for segment in run)
    goal = total / max(1, -(-total // TARGET_INK))
    out: list[_Segment] = []
    first = 0  # first segment of the current group
    size = ink = 0
    for at, segment in enumerate(run):
        size += segment.size
        ink += segment.ink
        is_far = ink - segment.ink / 2 > goal
        if at > first and (is_far or ink > WHOLE_INK or size > MAX_BYTES):
            out.append(_united(run[first:at]))
            first, size, ink = at, segment.size, segment.ink
    return [*out, _united(run[first:])] if run else out


def _united(run: Sequence[_Segment]) -> _Segment:
    if len(run) == 1:
        return run[0]
    return _Segment(
        run[0].first,
        run[-1].last,
        sum(segment.size for segment in run),
        sum(segment.ink for segment in run),
        run[0].depth,
    )


def _joined(a: _Segment, b: _Segment) -> _Segment:
    return _Segment(a.first, b.last, a.size + b.size, a.ink + b.ink, a.depth)


def _join_runts(segments: Iterable[_Segment]) -> list[_Segment]:
    """Join each segment that is too small with the part that it opens, or else with a neighbour.

    The first line of a class is never joined with the chunk before it, which is not about the
    class.
    """
    opened = _join_openings(list(segments))
    forward = _join(opened, lambda a, b: _is_runt(a) and b.depth >= a.depth)
    return _join(forward, lambda a, b: _is_runt(b) and not b.opens_next)


def _join_openings(segments: Sequence[_Segment]) -> list[_Segment]:
    """Join each small segment before a deeper cut to the part after the cut, inner ones first."""
    out: list[_Segment] = []
    for segment in reversed(segments):
        if not (out and _is_runt(segment) and out[-1].depth > segment.depth):
            out.append(segment)
            continue
        joined = _joined(segment, out[-1])
        if _fits(joined, HEADED_INK) or not _fits(out[-1], HEADED_INK):
            out[-1] = joined
        else:
            out.append(segment._replace(opens_next=True))
    return out[::-1]


def _join(
    segments: Iterable[_Segment], belong: Callable[[_Segment, _Segment], bool]
) -> list[_Segment]:
    """Join neighbours from the left if they belong together and fit."""
    out: list[_Segment] = []
    for segment in segments:
        if out and belong(out[-1], segment) and _fits(joined := _joined(out[-1], segment)):
            out[-1] = joined
        else:
            out.append(segment)
    return out


def _is_runt(segment: _Segment) -> bool:
    return segment.ink < RUNT_INK
