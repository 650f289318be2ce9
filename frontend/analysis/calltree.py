"""The merged call tree: the call paths of many ranks, sampled once or several times.

A tree is the union of call paths. Each path has the ranks, and the number of threads, at its end
for each sample. Merging trees is that union: associative, commutative and idempotent, with the
empty tree as identity (Arnold et al., Stack Trace Analysis for Large Scale Debugging, IPDPS 2007).
Consecutive frames without a branch between them share one node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pgdb.frontend.analysis.call_paths import CallPaths, Node, Place, TreeBy, base_name, plain
from pgdb.frontend.analysis.outliers import is_smallest
from pgdb.frontend.analysis.rich_display import RichDisplay
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.ranks import RankSet
from pgdb.records import Failure, Record, Stack, Threads, Various

if TYPE_CHECKING:
    import networkx

_NO_RANKS = RankSet()


class CallTree(RichDisplay):
    """Call paths of many ranks, with the ranks at every node; immutable."""

    def __init__(
        self,
        *,
        by: TreeBy = "function",
        paths: CallPaths | None = None,
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
        self._paths = paths if paths is not None else CallPaths()
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
        paths = CallPaths()
        failures: dict[str, RankSet] = {}
        for each in classes:
            record: object = each.record
            if isinstance(record, Various):
                record = record.template
            if isinstance(record, Stack) and record.frames:
                paths.add(each.ranks, [(record, 1)], by, at_s)
            elif isinstance(record, Threads) and record.stacks:
                paths.add(each.ranks, [(one.stack, one.count) for one in record.stacks], by, at_s)
                paths.has_tasks |= record.are_tasks
            else:
                filled = each.filled
                text = plain(filled.message) if isinstance(filled, Failure) else "no stack"
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
        paths = CallPaths()
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
    def unit(self) -> str:
        """Word for what the stacks are of: ``thread``, or ``task`` for tasks of asyncio."""
        return "task" if self._paths.has_tasks else "thread"

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
