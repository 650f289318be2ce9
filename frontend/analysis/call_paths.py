"""Call paths of many ranks as a trie, and the nodes of the tree that it makes."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from pgdb.frontend.analysis.function_names import STARTS
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import PLACEHOLDER, SLOT, Frame, Stack

TreeBy = Literal["function", "line", "pc"]
"""Property that distinguishes frames: function, function and source line, or exact address."""

Counts = Mapping[int, RankSet]
"""Ranks by number of threads; each rank is in one set."""

MPI_CALL = pattern(r"P?MPI_|p?mpi_|MPI::")
_ROOT = -1


class Source(NamedTuple):
    """A line of a source file."""

    file: str
    line: int


class Place(NamedTuple):
    """The part of a frame that distinguishes it from other frames."""

    function: str
    file: str = ""
    """Empty in a tree by function."""
    line: int = 0
    offset: str = ""
    """Offset in *function*, such as ``+31``; only in a tree by pc."""
    dying: str = ""
    """The way in which the ranks die in *function*."""
    language: str = ""
    """``python`` for a Python frame."""


class Node(msgspec.Struct, frozen=True):
    """A branching point or a leaf, with the frames between its parent and it."""

    number: int
    """Number from 1 on, parents before children; ``@3`` names the ranks of node 3."""
    parent: int
    """Number of the parent; 0 for a node at the top."""
    frames: tuple[Place, ...]
    """Frames, outermost first; empty for ranks whose innermost frame is the parent's last frame."""
    sources: tuple[Source, ...]
    """For a branching point, the lines of its last frame. For a leaf, the lines of its innermost
    frame, or those at which the program has called the libraries inside."""
    is_leaf: bool
    """Whether its ranks are an equivalence class: their stacks end here."""
    seen: tuple[RankSet, ...]
    """Ranks of the node in each sample."""
    steady: RankSet
    """Ranks that were here in every sample that contains them."""
    threads: int
    """Maximum number of threads here in one sample, on all ranks together."""
    threads_per_rank: tuple[int, int]
    """Minimum and maximum number of threads of a rank here; (1, 1) for single threads."""
    threads_by_rank: tuple[tuple[int, RankSet], ...]
    """Maximum number of threads of a rank over all samples, in ascending order, with the ranks that
    have that number."""

    @property
    def ranks(self) -> RankSet:
        """All ranks that were here in some sample."""
        return RankSet.union(self.seen)

    @property
    def samples(self) -> int:
        """Number of samples in which a rank was here."""
        return sum(map(bool, self.seen))


class CallPaths:
    """A trie of call paths without recursion; a node's number is larger than its parent's."""

    def __init__(self) -> None:
        self.has_threads = self.has_tasks = False
        self._numbers: dict[tuple[int, Place], int] = {}
        self._sources: list[set[Source]] = []
        self._ends: dict[int, dict[float, Counts]] = {}
        self._end_sources: dict[int, set[Source]] = {}

    def add(
        self, ranks: RankSet, stacks: Iterable[tuple[Stack, int]], by: TreeBy, at_s: float
    ) -> None:
        """Add the stacks of *ranks*, each with its number of threads."""
        ends: Counter[int] = Counter()
        for stack, count in stacks:
            at = _ROOT
            for frame in reversed(stack.frames):
                at = self._child(at, _place(frame, by))
                if frame.line:
                    self._sources[at].add(Source(plain(frame.file), frame.line))
            source = _end_source(stack.frames)
            if source is not None:
                self._end_sources.setdefault(at, set()).add(source)
            ends[at] += count
        self.has_threads |= ends.total() > 1
        for at, count in ends.items():
            self._end(at, at_s, {count: ranks})

    def absorb(self, other: CallPaths) -> None:
        """Add all paths of another trie."""
        ours: list[int] = []
        for (parent, place), number in other._numbers.items():
            at = self._child(ours[parent] if parent != _ROOT else _ROOT, place)
            ours.append(at)
            self._sources[at] |= other._sources[number]
        for number, times in other._ends.items():
            for at_s, counts in times.items():
                self._end(ours[number], at_s, counts)
        for number, sources in other._end_sources.items():
            self._end_sources.setdefault(ours[number], set()).update(sources)
        self.has_threads |= other.has_threads
        self.has_tasks |= other.has_tasks

    def seen(self, times_s: Iterable[float]) -> list[RankSet]:
        """Return the ranks in each sample."""
        found: dict[float, list[RankSet]] = {}
        for times in self._ends.values():
            for at_s, counts in times.items():
                found.setdefault(at_s, []).extend(counts.values())
        return [RankSet.union(found.get(at_s, ())) for at_s in times_s]

    def nodes(self, times_s: tuple[float, ...]) -> tuple[Node, ...]:
        """Return the nodes; consecutive trie nodes without a branch become one."""
        children: dict[int, list[int]] = {_ROOT: []}
        places: list[Place] = []
        parents: list[int] = []
        for (parent, place), number in self._numbers.items():
            children[number] = []
            children[parent].append(number)
            places.append(place)
            parents.append(parent)
        through: list[dict[float, Counts]] = [
            dict(self._ends.get(n, {})) for n in range(len(places))
        ]
        for number in range(len(places) - 1, -1, -1):
            if parents[number] != _ROOT:
                above = through[parents[number]]
                for at_s, counts in through[number].items():
                    above[at_s] = _combine(above.get(at_s, {}), counts, operator.add)
        ranks = [RankSet.union(r for c in times.values() for r in c.values()) for times in through]
        everyone = self.seen(times_s)

        def in_order(number: int) -> tuple[int, int, Place]:
            return (ranks[number].first, -len(ranks[number]), places[number])

        made: list[Node] = []
        # Number of a trie node, number of its parent in the tree, and whether it is only its end.
        pending = [(n, 0, False) for n in sorted(children[_ROOT], key=in_order, reverse=True)]
        while pending:
            number, parent, is_end = pending.pop()
            chain = [] if is_end else [number]
            while not is_end and len(children[number]) == 1 and number not in self._ends:
                number = children[number][0]
                chain.append(number)
            is_leaf = is_end or not children[number]
            times = self._ends[number] if is_leaf else through[number]
            sources = self._end_sources.get(number, ()) if is_leaf else self._sources[number]
            made.append(
                _node(
                    len(made) + 1,
                    parent,
                    frames=tuple(places[each] for each in chain),
                    sources=tuple(sorted(sources)),
                    is_leaf=is_leaf,
                    times=[times.get(at_s, {}) for at_s in times_s],
                    everyone=everyone,
                )
            )
            if not is_leaf:
                here = len(made)
                below = sorted(children[number], key=in_order, reverse=True)
                pending += [(child, here, False) for child in below]
                if number in self._ends:
                    pending.append((number, here, True))
        return tuple(made)

    def _child(self, parent: int, place: Place) -> int:
        number = self._numbers.setdefault((parent, place), len(self._sources))
        if number == len(self._sources):
            self._sources.append(set())
        return number

    def _end(self, number: int, at_s: float, counts: Counts) -> None:
        times = self._ends.setdefault(number, {})
        times[at_s] = _combine(times.get(at_s, {}), counts, max)


def _node(
    number: int,
    parent: int,
    *,
    frames: tuple[Place, ...],
    sources: tuple[Source, ...],
    is_leaf: bool,
    times: list[Counts],
    everyone: list[RankSet],
) -> Node:
    seen = tuple(RankSet.union(counts.values()) for counts in times)
    elsewhere = RankSet.union(now - here for now, here in zip(everyone, seen, strict=True))
    per_rank = {count for counts in times for count in counts}
    most: Counts = {}
    for counts in times:
        most = _combine(most, counts, max)
    return Node(
        number=number,
        parent=parent,
        frames=frames,
        sources=sources,
        is_leaf=is_leaf,
        seen=seen,
        steady=RankSet.union(seen) - elsewhere,
        threads=max(sum(count * len(ranks) for count, ranks in each.items()) for each in times),
        threads_per_rank=(min(per_rank), max(per_rank)),
        threads_by_rank=tuple(sorted(most.items())),
    )


def _combine(one: Counts, other: Counts, how: Callable[[int, int], int]) -> Counts:
    """Return the counts of the ranks of both; *how* combines the two counts of a rank in both."""
    if not one:
        return other
    here, there = RankSet.union(one.values()), RankSet.union(other.values())
    found: dict[int, list[RankSet]] = {}
    for counts, others in ((one, there), (other, here)):
        for count, ranks in counts.items():
            found.setdefault(count, []).append(ranks - others)
    if not here.isdisjoint(there):
        for count, ranks in one.items():
            for another, more in other.items():
                found.setdefault(how(count, another), []).append(ranks & more)
    merged = {count: RankSet.union(sets) for count, sets in sorted(found.items())}
    return {count: ranks for count, ranks in merged.items() if ranks}


def _end_source(frames: Sequence[Frame]) -> Source | None:
    """Return the line at which a stack ends: that of its innermost frame, or the one of the program
    that has called the libraries inside.

    A program's function without line information has none, whatever has called it. Lines of the
    code that starts programs and threads say nothing. Debian builds its libraries in directories
    without a name (./time/…): with their debug information installed, such lines would hide the
    program's own.
    """
    inner = None
    for at, frame in enumerate(frames):
        is_own = frame.fullname[:1] in ("", "/") and not STARTS.match(frame.function)
        if frame.line and (is_own or at == 0):
            line = Source(plain(frame.file), frame.line)
            if is_own:
                return line
            inner = line
        elif not (frame.library or frame.line or MPI_CALL.match(frame.function)):
            break
    return inner


def _place(frame: Frame, by: TreeBy) -> Place:
    # An address that is in no object file has been normalized.
    function = plain(frame.function.replace(SLOT, "??"))
    if function == "??" and frame.library:
        # Unknown functions of two libraries are different functions.
        function = f"?? ({plain(base_name(frame.library))})"
    if by == "function":
        if frame.language and function.startswith("<") and frame.file:
            # Each module has a frame <module>.
            function = f"{function} ({plain(frame.file)})"
        return Place(function, dying=frame.dying, language=frame.language)
    offset = frame.offset if by == "pc" else ""
    file = plain(frame.file) if frame.line else ""
    return Place(function, file, frame.line, offset, frame.dying, frame.language)


def plain(text: str) -> str:
    """Return *text* with ``…`` for the parts that differ from rank to rank."""
    return text.replace(PLACEHOLDER, "…")


def base_name(path: str) -> str:
    """Return the last component of a path, with or without a trailing slash."""
    return path.rstrip("/").rpartition("/")[2]
