"""The open requests of one node: fan-out, gathering, deadlines, losses.

The router does no I/O and has no clock: the caller passes the time, and carries out the results.
Invariant: every rank of a request ends in exactly one class or in ``missing``, and the reply goes
up when the last rank does, or at the deadline. A later answer goes up in a reply marked late, like
the answer of a rank that was cut off and has reconnected.
"""

from __future__ import annotations

from collections import OrderedDict

from msgspec.structs import replace

from pgdb.merge.classes import EquivalenceClass, Merger, Missing
from pgdb.merge.graph import (
    AnswerGraph,
    PathTable,
    from_graph,
    merger_to_graph,
    read_graph,
    to_graph,
)
from pgdb.merge.partition_labels import Field
from pgdb.merge.record_visitor import is_long
from pgdb.overlay.messages import Reply, Request
from pgdb.ranks import RankSet
from pgdb.records import Record

LEVEL_MARGIN_S = 0.5
"""Seconds that a node waits longer than the level below it, whose partial reply is in flight."""
LARGE_RANKS = 4096
"""From this number of ranks on answers are kept as labels, and may take too long for the event
loop."""
NOTHING_MISSING = Missing()
_MAX_REMEMBERED = 256


def _are_many(ranks: RankSet) -> bool:
    return len(ranks) >= LARGE_RANKS and Field.suits(ranks)


def _may_come(missing: Missing) -> RankSet:
    """Return the ranks that may still answer; a rank lost with others may be asked already."""
    return missing.late | missing.lost


class Gathered:
    """The gathered answers to one request."""

    __slots__ = (
        "_classes",
        "_is_long",
        "_merger",
        "_table",
        "elapsed_s",
        "is_late",
        "missing",
        "request_id",
    )  # fmt: skip

    def __init__(
        self,
        request_id: int,
        classes: tuple[EquivalenceClass[Record], ...] | None = None,
        missing: Missing = NOTHING_MISSING,
        *,
        is_late: bool = False,
        merger: Merger[Record] | None = None,
        table: PathTable | None = None,
        is_long: bool = False,
        elapsed_s: float | None = None,
    ) -> None:
        self.request_id = request_id
        self.elapsed_s = elapsed_s
        """Time of a recorded answer; None for a live one."""
        self.missing = missing
        self.is_late = is_late
        """Whether these are further answers, after the deadline's reply."""
        self._classes = classes
        self._merger: Merger[Record] = merger or Merger()
        self._table = table
        self._is_long = is_long

    @property
    def classes(self) -> tuple[EquivalenceClass[Record], ...]:
        """The classes; those of many ranks are made at the first access."""
        if self._classes is None:
            self._classes = self._merger.classes
        return self._classes

    @property
    def rank_count(self) -> int:
        """Number of ranks that have answered or are missing."""
        if self._classes is None:
            answered = len(self._merger.ranks)
        else:
            answered = sum(len(each.ranks) for each in self._classes)
        return answered + len(self.missing.ranks)

    @property
    def is_large(self) -> bool:
        """Whether making the reply takes so long that a thread should do it."""
        return self._is_long or self.rank_count >= LARGE_RANKS

    @property
    def may_have_failures(self) -> bool:
        """Whether some ranks have failed, or so many have answered that it takes long to say."""
        return self.is_large or any(each.is_error for each in self.classes)

    def reply(self) -> Reply:
        """Return the message for the parent; call this only once.

        The answers of many ranks take megabytes, so they are released.
        """
        table = self._table or PathTable()
        if self._classes is None:
            graph = merger_to_graph(self._merger, self.missing, table)
            self._merger, self._table = Merger(), None
        else:
            graph = to_graph(self._classes, self.missing, table)
        return Reply(request_id=self.request_id, graph=graph.deflate(), late=self.is_late)


class Gathering:
    """The answers of one request at one node."""

    def __init__(self, request: Request, deadline_s: float) -> None:
        self.request = request
        self.deadline_s = deadline_s
        self.waiting = request.ranks
        self.missing = Missing()
        self.merger: Merger[Record] = Merger(request.ranks if _are_many(request.ranks) else None)
        self.table = PathTable(self.merger.templates)
        self._is_long = False

    def add(self, classes: tuple[EquivalenceClass[Record], ...], missing: Missing) -> None:
        """Add answers, and ranks that will not answer."""
        known = self.request.ranks
        if classes:
            if not all(each.ranks <= known for each in classes):
                classes = tuple(each.part(known) for each in classes)
            self.merger.add_classes(classes)
            self._is_long = self._is_long or any(is_long(each.record) for each in classes)
        # The latest reason why a rank is missing replaces the others, so it is missing for one
        # reason. An answer replaces an earlier reason.
        if missing or self.missing:
            missing = missing - (missing.ranks - known)
            self.missing = ((self.missing - missing.ranks) | missing) - self.merger.ranks
            self.waiting = self.waiting - self.missing.ranks
        self.waiting = self.waiting - self.merger.ranks

    def add_graph(self, graph: AnswerGraph) -> None:
        """Add a child's answers.

        :raises ProtocolError: if the graph is invalid.
        """
        answers = read_graph(graph, self.table)
        if answers.labels is not None and self.merger.add_labels(answers.labels, answers.said):
            self.add((), answers.missing)
        else:
            self.add(answers.classes, answers.missing)

    def lose(self, ranks: RankSet) -> None:
        """Note that *ranks* cannot answer any longer."""
        lost = ranks & self.waiting
        self.missing = self.missing | Missing(lost=lost)
        self.waiting = self.waiting - lost

    @property
    def is_complete(self) -> bool:
        """Whether all ranks have answered or are missing."""
        return not self.waiting

    def gathered(self) -> Gathered:
        """Return the answers so far; silent ranks count as late."""
        return Gathered(
            request_id=self.request.request_id,
            missing=self.missing | Missing(late=self.waiting),
            merger=self.merger,
            table=self.table,
            is_long=self._is_long,
        )


class Router:
    """The ranks of one node and of its children, and the open requests."""

    def __init__(self, *, height: int) -> None:
        self.own = RankSet()
        self._height = height
        self._children: dict[int, RankSet] = {}
        self._open: dict[int, Gathering] = {}
        # Requests with a partial reply: the ranks whose late answers must still go up.
        self._late: OrderedDict[int, RankSet] = OrderedDict()

    @property
    def ranks(self) -> RankSet:
        """All ranks that this node can reach."""
        return RankSet.union((self.own, *self._children.values()))

    def set_child(self, child: int, ranks: RankSet) -> None:
        """Set the ranks that are reached through *child*, and through no other child."""
        for other in self._children:
            self._children[other] = self._children[other] - ranks
        self._children[child] = ranks

    def child_ranks(self, child: int) -> RankSet:
        """Return the ranks that are reached through *child*."""
        return self._children.get(child, RankSet())

    def start(self, request: Request, now_s: float) -> tuple[dict[int, Request], RankSet]:
        """Open a request; return the request for each child, and the ranks to ask here."""
        margin_s = LEVEL_MARGIN_S * self._height
        gathering = Gathering(request, now_s + request.timeout_s + margin_s)
        self._open[request.request_id] = gathering
        onward = {}
        for child, ranks in self._children.items():
            if part := ranks & request.ranks:
                onward[child] = replace(request, ranks=part)
        gathering.lose(request.ranks - self.ranks)
        return onward, request.ranks & self.own

    def add_answer(self, request_id: int, said: EquivalenceClass[Record]) -> list[Gathered]:
        """Add the answer of ranks of this node; return the replies to send up now."""
        return self._add(request_id, (said,), Missing())

    def add_missing(self, request_id: int, missing: Missing) -> list[Gathered]:
        """Note that ranks of this node will not answer; return the replies to send up now."""
        return self._add(request_id, (), missing)

    def add_reply(self, reply: Reply) -> list[Gathered]:
        """Add a child's reply; return the replies to send up now.

        :raises ProtocolError: if its graph is invalid.
        """
        gathering = self._open.get(reply.request_id)
        if gathering is None:
            return self._add(reply.request_id, *from_graph(reply.graph))
        gathering.add_graph(reply.graph)
        return self._finished()

    def lose(self, child: int) -> tuple[RankSet, list[Gathered]]:
        """Remove *child*; return the ranks lost with it, and the replies that are complete now."""
        ranks = self._children.pop(child, RankSet())
        return ranks, self.lose_ranks(ranks)

    def lose_ranks(self, ranks: RankSet) -> list[Gathered]:
        """Stop waiting for *ranks*; return the replies that are complete now."""
        for gathering in self._open.values():
            gathering.lose(ranks)
        return self._finished()

    def expire(self, now_s: float) -> list[Gathered]:
        """Return the replies that are due although some ranks are silent."""
        replies = []
        for request_id, gathering in list(self._open.items()):
            if gathering.deadline_s <= now_s:
                replies.append(gathering.gathered())
                self._remember(request_id, gathering.waiting | _may_come(gathering.missing))
                del self._open[request_id]
        return replies

    def next_deadline_s(self) -> float | None:
        """Return the time at which :meth:`expire` is due, None if no request is open."""
        return min((each.deadline_s for each in self._open.values()), default=None)

    def _add(
        self, request_id: int, classes: tuple[EquivalenceClass[Record], ...], missing: Missing
    ) -> list[Gathered]:
        gathering = self._open.get(request_id)
        if gathering is not None:
            gathering.add(classes, missing)
            return self._finished()
        awaited = self._late.get(request_id, RankSet())
        late: Merger[Record] = Merger()
        late.add_classes(each.part(awaited) for each in classes)
        if not late:
            return []
        self._late[request_id] = awaited - late.ranks
        return [
            Gathered(
                request_id=request_id,
                classes=late.classes,
                is_late=True,
                is_long=any(is_long(each.record) for each in classes),
            )
        ]

    def _finished(self) -> list[Gathered]:
        replies = []
        for request_id, gathering in list(self._open.items()):
            if gathering.is_complete:
                replies.append(gathering.gathered())
                if late := _may_come(gathering.missing):
                    self._remember(request_id, late)
                del self._open[request_id]
        return replies

    def _remember(self, request_id: int, late: RankSet) -> None:
        self._late[request_id] = late
        while len(self._late) > _MAX_REMEMBERED:
            self._late.popitem(last=False)
