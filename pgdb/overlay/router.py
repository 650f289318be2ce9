"""What one node of the tree knows of requests under way: fan out, gather, deadlines, losses.

No I/O and no clock of its own: the caller passes the time in and carries out what is returned.
Invariant: every rank of a request ends in exactly one class or in ``missing``, and the reply
goes up when the last one has, or at the deadline. A rank whose answer comes later goes up then,
in a reply marked late; so does that of a rank that was cut off, and has found another way here.
"""

from __future__ import annotations

from collections import OrderedDict

from msgspec.structs import replace

from pgdb.merge.classes import EquivalenceClass, Merger, Missing
from pgdb.merge.graph import (
    AnswerGraph,
    Known,
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
"""A node waits this much longer than the level below it, whose partial reply is on its way."""
LARGE_RANKS = 4096
"""What so many ranks say is kept as labels, and may take too long for the event loop in one go."""
NOTHING_MISSING = Missing()
_MAX_REMEMBERED = 256


def _are_many(ranks: RankSet) -> bool:
    return len(ranks) >= LARGE_RANKS and Field.suits(ranks)


def _may_come(missing: Missing) -> RankSet:
    """Return the ranks whose answer may come yet: who was lost with others may be asked already."""
    return missing.late | missing.lost


class Gathered:
    """What has come back for one request."""

    __slots__ = (
        "_classes", "_is_long", "_known", "_merger",
        "elapsed_s", "is_late", "missing", "request_id",
    )  # fmt: skip

    def __init__(
        self,
        request_id: int,
        classes: tuple[EquivalenceClass[Record], ...] | None = None,
        missing: Missing = NOTHING_MISSING,
        *,
        is_late: bool = False,
        merger: Merger[Record] | None = None,
        known: Known | None = None,
        is_long: bool = False,
        elapsed_s: float | None = None,
    ) -> None:
        self.request_id = request_id
        self.elapsed_s = elapsed_s
        """The time of a recorded answer; None for a live one."""
        self.missing = missing
        self.is_late = is_late
        """Whether it comes after the deadline: further answers of a request that was answered."""
        self._classes = classes
        self._merger: Merger[Record] = merger or Merger()
        self._known = known
        self._is_long = is_long

    @property
    def classes(self) -> tuple[EquivalenceClass[Record], ...]:
        """The answers; of many ranks they are put together when they are first asked for."""
        if self._classes is None:
            self._classes = self._merger.classes
        return self._classes

    @property
    def rank_count(self) -> int:
        """How many ranks have answered or are missing."""
        if self._classes is None:
            answered = len(self._merger.ranks)
        else:
            answered = sum(len(each.ranks) for each in self._classes)
        return answered + len(self.missing.ranks)

    @property
    def is_large(self) -> bool:
        """Whether it takes so long to make the reply that it is better done in a thread."""
        return self._is_long or self.rank_count >= LARGE_RANKS

    def reply(self) -> Reply:
        """Return the message that takes it up.

        What was gathered of many ranks takes megabytes, and is let go: it can be had once.
        """
        known = self._known or Known()
        if self._classes is None:
            graph = merger_to_graph(self._merger, self.missing, known)
            self._merger, self._known = Merger(), None
        else:
            graph = to_graph(self._classes, self.missing, known)
        return Reply(request_id=self.request_id, graph=graph.deflate(), late=self.is_late)


class Gathering:
    """The answers of one request at one node."""

    def __init__(self, request: Request, deadline_s: float) -> None:
        self.request = request
        self.deadline_s = deadline_s
        self.waiting = request.ranks
        self.missing = Missing()
        self.merger: Merger[Record] = Merger(request.ranks if _are_many(request.ranks) else None)
        self.known = Known(self.merger.templates)
        self._is_long = False

    def add(self, classes: tuple[EquivalenceClass[Record], ...], missing: Missing) -> None:
        """Take answers, and ranks that will not answer."""
        known = self.request.ranks
        if classes:
            if not RankSet.union(each.ranks for each in classes) <= known:
                classes = tuple(each.part(known) for each in classes)
            self.merger.add_classes(classes)
            self._is_long = self._is_long or any(is_long(each.record) for each in classes)
        # The last word on why a rank is missing holds, so that it is missing for one reason, and
        # an answer beats an earlier word that there would be none.
        if missing or self.missing:
            missing = missing - (missing.ranks - known)
            self.missing = ((self.missing - missing.ranks) | missing) - self.merger.ranks
            self.waiting = self.waiting - self.missing.ranks
        self.waiting = self.waiting - self.merger.ranks

    def add_graph(self, graph: AnswerGraph) -> None:
        """Take a child's answers.

        :raises ProtocolError: if the graph is none.
        """
        answers = read_graph(graph, self.known)
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
        """Whether nobody is waited for."""
        return not self.waiting

    def gathered(self) -> Gathered:
        """Return what is known now; who is still silent counts as late."""
        return Gathered(
            request_id=self.request.request_id,
            missing=self.missing | Missing(late=self.waiting),
            merger=self.merger,
            known=self.known,
            is_long=self._is_long,
        )


class Router:
    """One node: its own ranks, its children's, and the requests that are under way."""

    def __init__(self, *, height: int) -> None:
        self.own = RankSet()
        self._height = height
        self._children: dict[int, RankSet] = {}
        self._open: dict[int, Gathering] = {}
        # Requests answered in part: the ranks whose late answers are still to go up.
        self._late: OrderedDict[int, RankSet] = OrderedDict()

    @property
    def ranks(self) -> RankSet:
        """All ranks that can be reached from here."""
        return RankSet.union((self.own, *self._children.values()))

    def set_child(self, child: int, ranks: RankSet) -> None:
        """Say which ranks are reached through *child*; they are reached through no other."""
        for other in self._children:
            self._children[other] = self._children[other] - ranks
        self._children[child] = ranks

    def child_ranks(self, child: int) -> RankSet:
        """Return the ranks that are reached through *child*."""
        return self._children.get(child, RankSet())

    def start(self, request: Request, now_s: float) -> tuple[dict[int, Request], RankSet]:
        """Begin to gather; return the request for each child, and the ranks to ask here."""
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
        """Take the answer of ranks of this node; return what is to go up now."""
        return self._add(request_id, (said,), Missing())

    def add_missing(self, request_id: int, missing: Missing) -> list[Gathered]:
        """Take that ranks of this node will not answer; return what is to go up now."""
        return self._add(request_id, (), missing)

    def add_reply(self, reply: Reply) -> list[Gathered]:
        """Take a child's reply; return what is to go up now.

        :raises ProtocolError: if its graph is none.
        """
        gathering = self._open.get(reply.request_id)
        if gathering is None:
            return self._add(reply.request_id, *from_graph(reply.graph))
        gathering.add_graph(reply.graph)
        return self._finished()

    def lose(self, child: int) -> tuple[RankSet, list[Gathered]]:
        """Forget *child*; return the ranks lost with it, and the replies that completes."""
        ranks = self._children.pop(child, RankSet())
        return ranks, self.lose_ranks(ranks)

    def lose_ranks(self, ranks: RankSet) -> list[Gathered]:
        """Wait for *ranks* no longer; return the replies that completes."""
        for gathering in self._open.values():
            gathering.lose(ranks)
        return self._finished()

    def expire(self, now_s: float) -> list[Gathered]:
        """Return the replies that must go up now although somebody is silent."""
        replies = []
        for request_id, gathering in list(self._open.items()):
            if gathering.deadline_s <= now_s:
                replies.append(gathering.gathered())
                self._remember(request_id, gathering.waiting | _may_come(gathering.missing))
                del self._open[request_id]
        return replies

    def next_deadline_s(self) -> float | None:
        """Return when :meth:`expire` is due next, None while nothing is gathered."""
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
