"""What a session tells unasked, and to whom."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import msgspec

from pgdb.frontend.analysis.answers import Answer
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Event, Running, Stop


class Told(msgspec.Struct, frozen=True):
    """Something that the session tells unasked; which fields count depends on the kind."""

    kind: Literal["starting", "event", "late", "lost", "joined", "notice", "output", "ended"]
    classes: tuple[EquivalenceClass[Event], ...] = ()
    """``event``: what ranks have told."""
    answer: Answer | None = None
    """``late``: further answers to an earlier command."""
    ranks: RankSet = RankSet()
    """``lost``, ``joined``: the ranks it is about."""
    text: str = ""
    """``starting``: what has got on; ``lost``: why; ``notice``: what the user should know
    of our own work; ``output``: what the job has printed."""
    hosts: Mapping[str, RankSet] = msgspec.field(default_factory=dict)
    """``starting``: the ranks of each host, once they are known."""
    stream: Literal["stdout", "stderr"] = "stdout"
    data: bytes = b""
    """``output``: the same, as bytes."""
    code: int = 0
    """``ended``: exit status of the job's launcher, negative for a signal."""


Listener = Callable[[Told], None]
Events = tuple[EquivalenceClass[Event], ...]


class Teller:
    """Calls the listeners in the order of what comes.

    Until the session has started, what is not the job's output is held back: where the ranks were
    stopped is told first.
    """

    def __init__(self) -> None:
        self.is_quiet = False
        """Whether nobody is told anything any longer."""
        self._hushed: list[RankSet] = []
        self._listeners: list[Listener] = []
        self._held_back: list[Told] | None = []

    @property
    def is_released(self) -> bool:
        """Whether the session has started."""
        return self._held_back is None

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Have *listener* called from now on; return how to stop that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def tell(self, told: Told) -> None:
        """Tell something, once the session has started."""
        if self.is_quiet:
            return
        if self._held_back is not None and told.kind != "output":
            self._held_back.append(told)
        else:
            self.tell_at_once(told)

    def tell_at_once(self, told: Told) -> None:
        """Tell how the start gets on."""
        for listener in list(self._listeners):
            listener(told)

    def release(self) -> None:
        """Tell what was held back, now that the session has started."""
        held_back, self._held_back = self._held_back or (), None
        for told in held_back:
            self.tell(told)

    @property
    def hushed(self) -> RankSet:
        """Ranks of which nobody is told that they are interrupted and set running again."""
        return RankSet.union(self._hushed)

    @contextlib.contextmanager
    def hush(self, ranks: RankSet) -> Iterator[None]:
        """Tell nobody for a while that *ranks* are interrupted and set running again."""
        self._hushed.append(ranks)
        try:
            yield
        finally:
            self._hushed.remove(ranks)

    def audible(self, news: Events) -> Events:
        """Leave out what hushed ranks tell of being interrupted and going on."""
        if not (hushed := self.hushed):
            return news
        kept = []
        for each in news:
            event = each.record
            if isinstance(event, Running) or (
                isinstance(event, Stop) and event.reason == "interrupted"
            ):
                each = EquivalenceClass(each.ranks - hushed, event, each.slots)
            if each.ranks:
                kept.append(each)
        return tuple(kept)
