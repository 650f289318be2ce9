"""The merged call tree: the call paths of many ranks, sampled once or several times.

A tree is the union of call paths. Each path has the ranks, and the number of threads, at its end
for each sample. Merging trees is that union: associative, commutative and idempotent, with the
empty tree as identity (Arnold et al., Stack Trace Analysis for Large Scale Debugging, IPDPS 2007).
Consecutive frames without a branch between them share one node.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from pgdb.frontend.analysis.outliers import is_smallest
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import PLACEHOLDER, SLOT, Failure, Frame, Record, Stack, Threads, Various

if TYPE_CHECKING:
    import networkx

TreeBy = Literal["function", "line", "pc"]
"""Property that distinguishes frames: function, function and source line, or exact address."""

Counts = Mapping[int, RankSet]
"""Ranks by number of threads; each rank is in one set."""

_START = pattern(r"__libc_start_|_start\Z|start_thread\Z|_*clone3?\Z")
"""Names of the functions that start programs and threads."""
_MPI_CALL = pattern(r"P?MPI_|p?mpi_|MPI::")
_ROOT = -1
_NO_RANKS = RankSet()


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


class CallTree:
    """Call paths of many ranks, with the ranks at every node; immutable."""

    def __init__(
        self,
        *,
        by: TreeBy = "function",
        paths: _Paths | None = None,
        times_s: Iterable[float] = (),
        failures: Mapping[str, RankSet] | None = None,
        missing: Missing | None = None,
        idle: RankSet = _NO_RANKS,
        halted: RankSet = _NO_RANKS,
    ) -> None:
        self.by = by
        """Property that distinguishes frames."""
        self.times_s = tuple(sorted(set(times_s)))
        """Time of each sample, in seconds after the first."""
        self.failures: Mapping[str, RankSet] = dict(sorted((failures or {}).items()))
        """Ranks without a stack, by the text of their answer."""
        self.idle = idle
        """Ranks that were stopped from the first sample to the last."""
        self.halted = halted
        """Ranks that stopped on their own, or ended, between the samples."""
        self._paths = paths if paths is not None else _Paths()
        self._all_missing = missing if missing is not None else Missing()
        self.nodes: tuple[Node, ...] = self._paths.nodes(self.times_s)
        """All nodes, parents before children, siblings ordered by least rank."""

    @classmethod
    def from_classes(
        cls,
        classes: Iterable[EquivalenceClass[Record]],
        *,
        by: TreeBy = "function",
        at_s: float = 0.0,
        missing: Missing | None = None,
        idle: RankSet = _NO_RANKS,
        halted: RankSet = _NO_RANKS,
    ) -> CallTree:
        """Return the tree of the answers to one request for stacks; other records are failures."""
        paths = _Paths()
        failures: dict[str, RankSet] = {}
        for each in classes:
            record: object = each.record
            if isinstance(record, Various):
                record = record.template
            if isinstance(record, Stack) and record.frames:
                paths.add(each.ranks, [(record, 1)], by, at_s)
            elif isinstance(record, Threads) and record.stacks:
                paths.add(each.ranks, [(one.stack, one.count) for one in record.stacks], by, at_s)
            else:
                filled = each.filled
                text = _plain(filled.message) if isinstance(filled, Failure) else "no stack"
                failures[text] = failures.get(text, _NO_RANKS) | each.ranks
        return cls(
            by=by,
            paths=paths,
            times_s=[at_s],
            failures=failures,
            missing=missing,
            idle=idle,
            halted=halted,
        )

    @classmethod
    def union(cls, trees: Iterable[CallTree]) -> CallTree:
        """Merge trees.

        :raises ValueError: if the trees distinguish frames by different properties.
        """
        parts = tuple(trees)
        kinds = {part.by for part in parts if part}
        if len(kinds) > 1:
            raise ValueError(f"trees by {' and '.join(sorted(kinds))} cannot be merged")
        paths = _Paths()
        failures: dict[str, RankSet] = {}
        for part in parts:
            paths.absorb(part._paths)
            for text, ranks in part.failures.items():
                failures[text] = failures.get(text, _NO_RANKS) | ranks
        missing = Missing()
        for part in parts:
            missing = missing | part._all_missing
        return cls(
            by=kinds.pop() if kinds else "function",
            paths=paths,
            times_s=[time_s for part in parts for time_s in part.times_s],
            failures=failures,
            missing=missing,
            idle=RankSet.union(part.idle for part in parts),
            halted=RankSet.union(part.halted for part in parts),
        )

    def __or__(self, other: CallTree) -> CallTree:
        return CallTree.union((self, other))

    def __bool__(self) -> bool:
        return bool(self.times_s)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CallTree) and self._contents() == other._contents()

    __hash__ = None  # type: ignore[assignment]  # compared by its contents, which are large

    def __str__(self) -> str:
        from pgdb.frontend.analysis import calltree_text

        return calltree_text.text(self)

    def __repr__(self) -> str:
        return f"<CallTree of ranks [{self.ranks}], {len(self.nodes)} nodes>"

    def __getitem__(self, number: int) -> Node:
        """Return the node with a number.

        :raises IndexError: if there is no such node.
        """
        if not 1 <= number <= len(self.nodes):
            raise IndexError(f"the tree has nodes 1 to {len(self.nodes)}, no {number}")
        return self.nodes[number - 1]

    def _contents(self) -> tuple[object, ...]:
        return (
            self.by if self else "",
            self.times_s,
            self.nodes,
            self.failures,
            self._all_missing,
            self.idle,
            self.halted,
        )

    @property
    def ranks(self) -> RankSet:
        """Ranks whose stacks are in the tree."""
        return RankSet.union(each.ranks for each in self.nodes if not each.parent)

    @property
    def missing(self) -> Missing:
        """Ranks that never answered, by reason; each rank has one reason."""
        found = self._all_missing - (self.ranks | RankSet.union(self.failures.values()))
        late = found.late - found.lost
        return Missing(lost=found.lost, late=late, running=found.running - found.lost - late)

    @property
    def samples(self) -> int:
        """Number of samples."""
        return len(self.times_s)

    @property
    def has_threads(self) -> bool:
        """Whether the tree has all threads of its ranks."""
        return self._paths.has_threads

    @property
    def leaves(self) -> tuple[Node, ...]:
        """Leaves: the equivalence classes. In one sample of single threads, each rank is in one
        leaf."""
        return tuple(each for each in self.nodes if each.is_leaf)

    @property
    def moved(self) -> RankSet:
        """Ranks that were in different leaves in different samples."""
        return RankSet.union(each.ranks - each.steady for each in self.leaves)

    @property
    def stayed(self) -> RankSet:
        """Ranks that ran all the time, for at least two samples, always in the same leaves."""
        once, often = _NO_RANKS, _NO_RANKS
        for now in self._paths.seen(self.times_s):
            often, once = often | (once & now), once | now
        return often - self.moved - self.idle - self.halted

    @property
    def odd(self) -> Node | None:
        """The smallest leaf, if exactly one leaf is smaller than all others.

        Among several samples, only ranks that stay in their leaf count.
        """
        leaves = [each for each in self.leaves if each.steady]
        sizes = [len(each.steady) for each in leaves]
        return next((each for each in leaves if is_smallest(len(each.steady), sizes)), None)

    def children(self) -> list[list[int]]:
        """Return the numbers of the children of every node; entry 0 has the nodes at the top."""
        found: list[list[int]] = [[] for _ in range(len(self.nodes) + 1)]
        for each in self.nodes:
            found[each.parent].append(each.number)
        return found

    def to_networkx(self) -> networkx.DiGraph[Any]:
        """Return the tree for analysis and export; node 0 is the parent of the nodes at the top.

        Nodes have ``label``, ``ranks``, ``leaf``, ``threads`` and ``samples``, edges ``ranks``.
        """
        import networkx  # takes at least 0.1 s to import

        result: networkx.DiGraph[Any] = networkx.DiGraph()
        result.add_node(
            0, label="", ranks=str(self.ranks), leaf=False, threads=0, samples=self.samples
        )
        for each in self.nodes:
            ranks = str(each.ranks)
            result.add_node(
                each.number,
                label=" > ".join(map(label, each.frames)),
                ranks=ranks,
                leaf=each.is_leaf,
                threads=each.threads,
                samples=each.samples,
            )
            result.add_edge(each.parent, each.number, ranks=ranks)
        return result


def label(place: Place) -> str:
    """Return the label of a frame: ``main``, ``main ring.c:41`` or ``main+31``."""
    dying = f", {place.dying}" if place.dying else ""
    if place.offset:
        return f"{place.function}{place.offset}{dying}"
    if place.line:
        return f"{place.function} {base_name(place.file)}:{place.line}{dying}"
    return f"{place.function}{dying}"


def base_name(path: str) -> str:
    """Return the last component of a path, with or without a trailing slash."""
    return path.rstrip("/").rpartition("/")[2]


# -- inside ------------------------------------------------------------------------------------


class _Paths:
    """A trie of call paths without recursion; a node's number is larger than its parent's."""

    def __init__(self) -> None:
        self.has_threads = False
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
                    self._sources[at].add(Source(_plain(frame.file), frame.line))
            source = _end_source(stack.frames)
            if source is not None:
                self._end_sources.setdefault(at, set()).add(source)
            ends[at] += count
        self.has_threads |= ends.total() > 1
        for at, count in ends.items():
            self._end(at, at_s, {count: ranks})

    def absorb(self, other: _Paths) -> None:
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
        is_own = frame.fullname[:1] in ("", "/") and not _START.match(frame.function)
        if frame.line and (is_own or at == 0):
            line = Source(_plain(frame.file), frame.line)
            if is_own:
                return line
            inner = line
        elif not (frame.library or frame.line or _MPI_CALL.match(frame.function)):
            break
    return inner


def _place(frame: Frame, by: TreeBy) -> Place:
    # An address that is in no object file has been normalized.
    function = _plain(frame.function.replace(SLOT, "??"))
    if function == "??" and frame.library:
        # Unknown functions of two libraries are different functions.
        function = f"?? ({_plain(base_name(frame.library))})"
    if by == "function":
        return Place(function, dying=frame.dying)
    offset = frame.offset if by == "pc" else ""
    file = _plain(frame.file) if frame.line else ""
    return Place(function, file, frame.line, offset, frame.dying)


def _plain(text: str) -> str:
    """Return *text* with ``…`` for the parts that differ from rank to rank."""
    return text.replace(PLACEHOLDER, "…")
