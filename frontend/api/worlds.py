"""The worlds of a session: its ranks by MPI_COMM_WORLD, and ranks that join a running session.

MPI_Comm_spawn makes further worlds. The ranks of a world that joins are numbered on behind those of
the worlds before.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from pgdb.errors import CommandError, RankSetError, UsageError
from pgdb.frontend.analysis.answers import Answer, failures_text
from pgdb.frontend.api.core import Core
from pgdb.frontend.api.named_sets import NamedSets
from pgdb.frontend.api.notifications import RankEvents, WorldJoined
from pgdb.frontend.api.recovery import Recovery, stops_in
from pgdb.frontend.system import deadline
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.messages import Acquire
from pgdb.patterns import pattern
from pgdb.proctable import ProcTable, World
from pgdb.ranks import RankSet
from pgdb.records import Exit, Failure, Record, Stop

_OF_WORLD = pattern(r"(?<![\w.@])(\d{1,5})\.(\d{1,9})(?:-(\d{1,9}))?(?![\w.])")
_SET_OF_WORLD = pattern(r"world(\d{1,5})\Z")
ALL_WORLDS = "all"


class WorldSource(Protocol):
    """The search for worlds of the job, and the assignment of their ranks to aggregators."""

    async def look(self) -> tuple[World, ...]:
        """Return the worlds that the session does not have, as they are now."""
        ...

    async def of_job(self, target: str) -> World:
        """Return the ranks of another job as a world with a number of its own.

        :raises DiscoveryError: if there is no such job.
        :raises UsageError: if the session has ranks of it.
        :raises CommandError: if PGDB cannot attach to it.
        """
        ...

    def take_known(self, worlds: Sequence[World]) -> None:
        """Report these worlds to the user no more."""
        ...

    def assign(self, world: World) -> None:
        """Assign the ranks of a world, by their numbers in the session, to aggregators.

        :raises CommandError: if a host of theirs has no aggregator.
        """
        ...


class Worlds:
    """The worlds of one session."""

    def __init__(self, core: Core, recovery: Recovery, sets: Callable[[], NamedSets]):
        self._core = core
        self._recovery = recovery
        self._sets = sets
        self.source: WorldSource | None = None
        """The search for further worlds; None if the launcher is unknown."""
        self.first_number = 0
        """The number of the world that the session began with."""
        self.ended = RankSet()
        """The ranks of a job of one world that had ended when the session began."""
        self.headless = RankSet()
        """Ranks of :attr:`ended` whose processes have lost their first threads only."""
        self.headless_text = ""
        """The state of such a rank, behind "has"."""
        recovery.worlds = self._spawned
        self._known: dict[int, World] = {}
        self._turn = asyncio.Lock()
        """Held while a world joins."""
        self._next = 0  # number of the next rank that joins; numbers are not used twice

    @property
    def ranks(self) -> dict[int, RankSet]:
        """The ranks of each world in the session, by its number; empty if there is one world."""
        return {number: each.ranks for number, each in self._known.items()}

    @property
    def known(self) -> tuple[World, ...]:
        """The worlds in the session; empty if there is only one."""
        return tuple(self._known.values())

    @property
    def in_session(self) -> tuple[World, ...]:
        """The worlds in the session, also if it is one alone."""
        return self.known or (self._own(),)

    def begin(self, worlds: Sequence[World]) -> None:
        """Set the worlds that the session begins with; one alone needs no names."""
        if len(worlds) > 1:
            for each in worlds:
                self._name(each)

    def numbered_on(self, text: str) -> str:
        """Return a rank set with the session's numbers for ``1.0-3``, ranks 0 to 3 of world 1.

        :raises RankSetError: if the session does not have the world, or the world these ranks.
        """

        def number(match: re.Match[str]) -> str:
            which = int(match[1])
            world = self._known.get(which)
            if world is None and not self._known and which == self.first_number:
                return match[0].partition(".")[2]  # this world alone, with its own numbers
            if world is None:
                raise RankSetError(f"no rank {match[0]}: {_not_here(which)}")
            low, high = int(match[2]), int(match[3] or match[2])
            if not low <= high < world.span:
                raise RankSetError(f"no rank {match[0]}; world {match[1]} has 0-{world.span - 1}")
            return f"{world.first + low}-{world.first + high}"

        return _OF_WORLD.sub(number, text)

    def named(self, name: str) -> RankSet | None:
        """Return the ranks of ``world1``, where no set has the name; None for other names.

        :raises RankSetError: if the session does not have the world.
        """
        if (match := _SET_OF_WORLD.match(name)) is None:
            return None
        if not self._known and int(match[1]) == self.first_number:
            return self._own().ranks  # this world alone
        raise RankSetError(f"no set @{name}: {_not_here(int(match[1]))}")

    async def look(self) -> tuple[World, ...]:
        """Return the worlds of the job that are not in the session.

        :raises UsageError: if PGDB does not know the job's launcher.
        """
        if self._core.transport.is_recorded:
            raise UsageError("this is a recording; there is no job to look at")
        if self.source is None:
            raise UsageError(
                "the job's launcher is unknown, and with it the ranks that MPI_Comm_spawn has "
                "started; 'pgdb attach' with the pid of the launcher finds them"
            )
        return await self.source.look()

    async def add_job(self, target: str) -> Answer:
        """Attach to the ranks of another job, as one that has connected by MPI_Comm_connect.

        They are a further world. The session detaches from them where it kills its own job.

        :raises UsageError: if PGDB does not know the launcher of its own job, or has ranks of the
            other one.
        :raises PgdbError: if PGDB cannot find the other job, or attach to it.
        """
        await self.look()  # the numbers of the worlds that MPI_Comm_spawn has made are taken
        assert self.source is not None
        world = await self.source.of_job(target)
        answer = await self.join([world])
        if not answer.ranks and (ranks := self._here(world)):
            raise UsageError(f"job {target} is in the session: [{ranks}]")
        return answer

    async def add(self, word: str) -> Answer:
        """Attach to the ranks of a world, given by its number, or of all further worlds.

        :raises UsageError: if there is no such world, or it is in the session.
        :raises CommandError: if PGDB can attach to none of its ranks.
        """
        if word in map(str, self._known):
            raise UsageError(_in_session({int(word): self._known[int(word)].ranks}))
        found = await self.look()
        wanted = [each for each in found if word in (ALL_WORLDS, str(each.number))]
        if not wanted:
            if word == ALL_WORLDS:
                here = f"; {_in_session(self.ranks)}" if self._known else ""
                raise UsageError(f"there is no further world{here}")
            numbers = ", ".join(str(each.number) for each in found)
            raise UsageError(
                f"there is no world {word!r} to attach to; "
                + (f"further worlds are {numbers}" if numbers else "no further world is there")
            )
        assert self.source is not None
        # A search can end before the last of them is in the session.
        self.source.take_known(wanted)
        answer = await self.join(wanted)
        if not answer.ranks and all(map(self._here, wanted)):
            raise UsageError(_in_session({each.number: self._here(each) for each in wanted}))
        return answer

    async def join(self, worlds: Sequence[World], *, timeout_s: float | None = None) -> Answer:
        """Attach to the ranks of worlds; they get the session's settings and breakpoints.

        A world that has joined meanwhile, as with the option ``spawned``, is no part of the answer.
        A notification reports each world. Work that is not complete within the time of a start goes
        on.

        :raises CommandError: if PGDB can attach to none of the ranks.
        """
        core = self._core
        begun_s = time.monotonic()
        answers: list[Answer] = []
        with deadline.within(deadline.answers_s(core.options.start_timeout_s, timeout_s)):
            joining = core.begin(self._join_all(worlds, answers))
            if not await core.ends_in_time(joining):
                core.note("the ranks of a further world are still being attached to")
        classes = tuple(each for answer in answers for each in answer.classes)
        if answers and not classes:
            raise CommandError("no rank of these worlds could be attached to")
        return Answer(
            command="worlds add",
            ranks=RankSet.union(answer.ranks for answer in answers),
            classes=tuple(sorted(classes, key=lambda each: each.ranks.first)),
            elapsed_s=time.monotonic() - begun_s,
        )

    async def _join_all(self, worlds: Sequence[World], answers: list[Answer]) -> None:
        for each in worlds:
            async with self._turn:
                if not self._here(each):
                    answers.append(await self._join(each))

    async def _join(self, world: World) -> Answer:
        core, source = self._core, self.source
        assert source is not None
        if not self._known:
            self._name(self._own())
        world = world.numbered_from(self._next)
        self._next += world.span
        if world.job:
            # The session may end while they join, and must not kill them.
            core.guests |= world.ranks
        source.assign(world)
        before = core.state.live or core.state.ranks
        gathered = await core.transport.ask(
            core.transport.next_id(), world.ranks, Acquire(), core.options.start_timeout_s, "attach"
        )
        stopped = RankSet.union(
            each.ranks for each in gathered.classes if isinstance(each.record, Stop | Exit)
        )
        if not stopped:
            raise CommandError(f"world {world.number}: {_reasons(gathered.classes)}")
        core.table = ProcTable(
            processes=(*core.table.processes, *world.in_session), source=core.table.source
        )
        core.state.add(world.ranks)
        core.state.lose(world.ranks - stopped)
        self._name(world)
        news = core.state.apply(
            stops_in(gathered.classes, core.transport.out_of_reach), are_announced=True
        )
        await self._recovery.extend(before, core.state.live & world.ranks)
        core.notifier.notify(WorldJoined(world=world))
        core.notifier.notify(RankEvents(classes=news))
        if core.state.running - world.ranks and (held := core.state.stopped & world.ranks):
            core.note(
                f"[{held}] stopped: ranks that wait for them, as in MPI_Comm_spawn, go on when "
                f"they run ('proc @world{world.number} continue')"
            )
        failed = [each for each in gathered.classes if isinstance(each.record, Failure)]
        if failed:
            core.note(f"world {world.number}: {_reasons(failed)}; 'reattach' tries again")
        core.record_soon()
        core.wake()
        return Answer(
            command="worlds add",
            ranks=world.ranks,
            classes=gathered.classes,
            missing=gathered.missing,
            request_id=gathered.request_id,
            elapsed_s=0.0,
        )

    def _here(self, world: World) -> RankSet:
        """Return the ranks of the session that are processes of a world."""
        places = {(each.host, each.pid) for each in world.processes}
        processes = self._core.table.processes
        return RankSet(each.rank for each in processes if (each.host, each.pid) in places)

    def _spawned(self) -> dict[int, RankSet]:
        return {each.number: each.ranks for each in self.in_session if each.number}

    def _own(self) -> World:
        """Return the world that the session began with."""
        table = self._core.table
        size = max(self._core.state.ranks, default=-1) + 1
        return World(
            number=self.first_number, size=size, processes=table.processes, ranks=table.ranks
        )

    def _name(self, world: World) -> None:
        self._known[world.number] = world
        self._next = max(self._next, world.first + world.span)
        # Not an assignment: the job may have none of its ranks yet.
        self._sets().take_over({f"world{world.number}": world.ranks})


def _in_session(worlds: Mapping[int, RankSet]) -> str:
    """Return the words for worlds whose ranks are in the session."""
    return "; ".join(f"world {number} is in the session: [{worlds[number]}]" for number in worlds)


def _not_here(world: int) -> str:
    return (
        f"world {world} is not in the session; 'info worlds' lists all worlds, 'worlds add' "
        "attaches to one"
    )


def _reasons(classes: Sequence[EquivalenceClass[Record]]) -> str:
    return failures_text(classes) or "no rank has answered"
