"""Where a file is cut: split then merge over its syntax tree (cAST, Zhang et al., 2025).

A node that fits is never divided; one that does not is divided before those of its children that
begin a line; neighbours that are small together are merged. Cuts fall on line starts, so that a
chunk reads as an editor shows it and blank lines end the chunk before. Size is ink, bytes that
are not whitespace, so that deep indentation does not make chunks smaller.
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

#: Ink of a chunk, bytes: about 50 lines of code.
TARGET_INK = 1_500

#: What holds together stays whole up to here.
WHOLE_INK = TARGET_INK * 3 // 2

#: A smaller chunk joins a neighbour: a closing brace, a class line cut from its first method.
RUNT_INK = 200

#: What opens a definition goes with the first part of it up to here.
HEADED_INK = WHOLE_INK + RUNT_INK

#: No chunk is longer, whitespace included, bytes.
MAX_BYTES = 4_000

#: Cuts nested deeper divide data, not code; deeper text is cut by lines.
MAX_DEPTH = 100

#: Nodes that belong to what follows them.
_ATTRIBUTES = frozenset(
    {"attribute_item", "inner_attribute_item", "attribute_list", "decorator", "annotation"}
    | {"attribute", "signature", "template_parameter_list", "modifiers", "attributes"}
)


class _Segment(NamedTuple):
    """Rows [first, last) that one cut at `depth` opens. A tuple because files have thousands."""

    first: int
    last: int
    size: int  # bytes
    ink: int
    depth: int  # of the cut before it: how many nodes the cut divides
    nodes: Sequence[Node | Composed] = ()  # over several rows: where it can be divided further
    opens_next: bool = False  # too small to stand alone, and what follows is inside it


def spans(root: Node | Composed, lines: Lines, comments: Comments) -> list[Span]:
    """Byte ranges that partition the file, in order; none for an empty file."""
    out: list[Span] = []
    for segment in _join_runts(_leaves(root, lines, comments)):
        start, end = lines.start(segment.first), lines.start(segment.last)
        bounds = [start, *_hard_cuts(segment, lines), end]
        out += [Span(a, b, continues=a > start) for a, b in pairwise(bounds) if a < b]
    return out


def _hard_cuts(segment: _Segment, lines: Lines) -> Iterator[int]:
    """Cuts in what no line start of the grammar divides: a long string, a long line."""
    if _fits(segment, HEADED_INK):
        return iter(())
    start, end = lines.start(segment.first), lines.start(segment.last)
    return prose.cuts(lines.data, start, end, size_bytes=TARGET_INK)


def _leaves(root: Node | Composed, lines: Lines, comments: Comments) -> Iterator[_Segment]:
    """The segments that fit or cannot be divided, in order. Iterative: trees can be 10⁵ deep.

    A file stays whole up to TARGET_INK only: its definitions hold less together than one's parts.
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
    """The segment divided and its small parts merged, last first."""
    return _merge(_divide(segment, lines, comments))[::-1]


def _fits(segment: _Segment, limit_ink: int = WHOLE_INK) -> bool:
    return segment.ink <= limit_ink and segment.size <= MAX_BYTES


def _divide(segment: _Segment, lines: Lines, comments: Comments) -> list[_Segment]:
    """The segment cut before each child that begins a line, at the first level that has one."""
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
    """Rows where a part starts, and the children over several rows in each part."""
    rows, members = [segment.first], [list[Node | Composed]()]
    row, next_row = 0, 0  # of the child, and the offset of the one below
    begins = belongs_to_next = False
    for node in nodes:
        for child in node.children:
            start = child.start_byte
            if start >= next_row:
                row = lines.row(start)
                next_row = lines.start(row + 1)
                begins = lines.begins(start, row)
            elif begins:  # again only behind a node without text
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
    if node.type == "unary_operator":  # Elixir: `@doc "…"` before `def`
        return lines.data[node.start_byte : node.start_byte + 1] == b"@"
    return node.type in _ATTRIBUTES


def _merge(segments: Sequence[_Segment]) -> list[_Segment]:
    """Runs of neighbours that fit, merged into evenly sized ones of at most about TARGET_INK."""
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
    first = 0  # of those that become one
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
    """Each runt joined to what it opens (a class line), else to the next, else to the one before.

    A class line never ends the chunk before it: a reader would not look for the class there.
    """
    opened = _join_openings(list(segments))
    forward = _join(opened, lambda a, b: _is_runt(a) and b.depth >= a.depth)
    return _join(forward, lambda a, b: _is_runt(b) and not b.opens_next)


def _join_openings(segments: Sequence[_Segment]) -> list[_Segment]:
    """Each runt before a deeper cut joined to the part that the cut begins, inner ones first."""
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
    """Neighbours joined from the left where they belong together and fit."""
    out: list[_Segment] = []
    for segment in segments:
        if out and belong(out[-1], segment) and _fits(joined := _joined(out[-1], segment)):
            out[-1] = joined
        else:
            out.append(segment)
    return out


def _is_runt(segment: _Segment) -> bool:
    return segment.ink < RUNT_INK
