"""Notifications: reports of a session that answer no request, and their delivery to listeners."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

import msgspec

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.absentees import Barrier
from pgdb.merge.classes import EquivalenceClass
from pgdb.proctable import World
from pgdb.ranks import RankSet
from pgdb.records import Event, Output, Running, Stop

Events = tuple[EquivalenceClass[Event], ...]

_NEUTRAL: dict[str, object] = {
    "classes": (),
    "answer": None,
    "ranks": RankSet(),
    "text": "",
    "hosts": {},
    "stream": "stdout",
    "data": b"",
    "code": 0,
}
"""Values of fields that a notification does not have, for scripts that read them all the same."""


class _Notification(msgspec.Struct, frozen=True):
    """The base of all notifications.

    Every notification once had all fields. A script that reads a field of another kind gets its
    neutral value; the type checker does not allow that.
    """

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            if name in _NEUTRAL:
                return _NEUTRAL[name]
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class Starting(_Notification, frozen=True):
    """Progress of the start."""

    kind: ClassVar[Literal["starting"]] = "starting"
    text: str = ""
    """The progress of the aggregators, in words."""
    hosts: Mapping[str, RankSet] = msgspec.field(default_factory=dict)
    """The ranks of each host, once they are known."""


class RankEvents(_Notification, frozen=True):
    """Events of ranks: stops, ends, output, runs."""

    kind: ClassVar[Literal["event"]] = "event"
    classes: Events


class LateAnswer(_Notification, frozen=True):
    """Further answers to a command that has returned."""

    kind: ClassVar[Literal["late"]] = "late"
    answer: Answer


class RanksLost(_Notification, frozen=True):
    """Ranks that the session cannot reach any longer."""

    kind: ClassVar[Literal["lost"]] = "lost"
    ranks: RankSet
    text: str
    """The reason."""


class RanksBack(_Notification, frozen=True):
    """Ranks that the session can reach again."""

    kind: ClassVar[Literal["joined"]] = "joined"
    ranks: RankSet
    text: str = ""
    """The reason."""


class WorldJoined(_Notification, frozen=True):
    """The ranks of a further MPI_COMM_WORLD that are in the session from now on."""

    kind: ClassVar[Literal["world"]] = "world"
    world: World
    """The world; its :attr:`~pgdb.proctable.World.ranks` are the numbers in the session."""

    @property
    def ranks(self) -> RankSet:
        """The numbers of its ranks in the session."""
        return self.world.ranks


BarrierEvent = Literal["met", "absent", "waiting"]
"""An event at a barrier: all ranks have come that can come; some will never come; the others have
not come for a while."""


class BarrierNews(_Notification, frozen=True):
    """An event at a barrier."""

    kind: ClassVar[Literal["barrier"]] = "barrier"
    event: BarrierEvent
    barrier: Barrier
    """The barrier, with the ranks that are not there and the reasons."""
    going: RankSet = RankSet()
    """The ranks that run on from it."""
    stepped: RankSet = RankSet()
    """The ranks that would run on, but have come by a step, which ends here."""

    @property
    def ranks(self) -> RankSet:
        """The ranks of the barrier."""
        return self.barrier.ranks


class SessionNotice(_Notification, frozen=True):
    """A fact about PGDB's own work that the user should know."""

    kind: ClassVar[Literal["notice"]] = "notice"
    text: str


class JobOutput(_Notification, frozen=True):
    """Output of the job."""

    kind: ClassVar[Literal["output"]] = "output"
    text: str
    """The output, decoded as UTF-8; other bytes as U+FFFD."""
    stream: Literal["stdout", "stderr"] = "stdout"
    data: bytes = b""
    """The output as it came."""


class JobEnded(_Notification, frozen=True):
    """The end of the job's launcher."""

    kind: ClassVar[Literal["ended"]] = "ended"
    code: int
    """Exit status of the launcher, negative for a signal."""


Notification = (
    Starting
    | RankEvents
    | LateAnswer
    | RanksLost
    | RanksBack
    | WorldJoined
    | BarrierNews
    | SessionNotice
    | JobOutput
    | JobEnded
)
"""Any of them; ``kind`` names its struct."""
Told = Notification
"""The name that scripts of earlier versions use."""
Listener = Callable[[Notification], None]
HidesStop = Callable[[Stop], bool]
"""A function that returns whether a stop is of no interest to the user."""


def was_interrupted(stop: Stop) -> bool:
    """Return whether a rank was stopped from outside, but not because others have stopped.

    A rank that stops with others stays stopped, also if PGDB has interrupted it for itself.
    """
    return stop.reason == "interrupted" and not stop.stopped_with


class _Hushed(msgspec.Struct):
    """Ranks of which some stops are not reported."""

    ranks: RankSet
    hides: HidesStop


class Notifier:
    """Caller of the listeners, in the order of the notifications.

    Before the session has started, all but the job's output waits: the answer that says where the
    ranks were stopped comes first.
    """

    def __init__(self) -> None:
        self.is_quiet = False
        """Whether no listener is called any longer."""
        self._hushed: list[_Hushed] = []
        self._unreported = RankSet()
        """Ranks whose last stop was an interrupt that was not reported."""
        self._listeners: list[Listener] = []
        self._held_back: list[Notification] | None = []

    @property
    def is_released(self) -> bool:
        """Whether the session has started."""
        return self._held_back is None

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call *listener* from now on; return the function that ends this."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def notify(self, notification: Notification) -> None:
        """Call the listeners, once the session has started."""
        if self.is_quiet:
            return
        if self._held_back is not None and not isinstance(notification, JobOutput):
            self._held_back.append(notification)
        else:
            self.notify_at_once(notification)

    def notify_at_once(self, notification: Notification) -> None:
        """Call the listeners, also before the session has started."""
        for listener in list(self._listeners):
            listener(notification)

    def release(self) -> None:
        """Deliver the notifications that waited for the start."""
        held_back, self._held_back = self._held_back or (), None
        for notification in held_back:
            self.notify(notification)

    @property
    def hushed(self) -> RankSet:
        """Ranks of which some stops, and all continuations, are not reported."""
        return RankSet.union(each.ranks for each in self._hushed)

    @contextlib.contextmanager
    def hush(self, ranks: RankSet, hides: HidesStop = was_interrupted) -> Iterator[None]:
        """Do not report continuations of *ranks*, and stops that *hides* is true of, within the
        context."""
        hushed = _Hushed(ranks, hides)
        self._hushed.append(hushed)
        try:
            yield
        finally:
            self._hushed = [each for each in self._hushed if each is not hushed]

    def end_hush(self, ranks: RankSet) -> None:
        """Report all of *ranks* again, the displays of their last stops too."""
        for each in self._hushed:
            each.ranks -= ranks
        self._unreported -= ranks

    def audible(self, news: Events) -> Events:
        """Return *news* without the continuations and stops of hushed ranks.

        The displays of an interrupt that is not reported are not reported either, also if they come
        after the hush.
        """
        if not self._hushed and not self._unreported:
            return news
        kept = []
        for each in news:
            event, ranks = each.record, each.ranks
            for hushed in self._hushed:
                if isinstance(event, Running) or (isinstance(event, Stop) and hushed.hides(event)):
                    ranks -= hushed.ranks
            if isinstance(event, Stop):
                self._unreported -= each.ranks
                if was_interrupted(event):
                    self._unreported |= each.ranks - ranks
            elif isinstance(event, Output) and event.of_stop:
                ranks -= self._unreported
            if ranks:
                kept.append(each if ranks == each.ranks else each.part(ranks))
        return tuple(kept)
