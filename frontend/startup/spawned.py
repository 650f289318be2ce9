"""Ranks that MPI_Comm_spawn has started: the search for them, and their way into a session."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any

import msgspec

from pgdb.errors import CommandError, PgdbError, UsageError
from pgdb.frontend.api.notifications import Notification, RankEvents
from pgdb.frontend.api.session import Session
from pgdb.frontend.discovery import worlds
from pgdb.frontend.discovery.found_job import describe_world
from pgdb.frontend.startup.attach_shares import found_parts, is_partial, nodes_among, nodes_of
from pgdb.frontend.startup.held import HeldWorld
from pgdb.frontend.startup.overlay import Overlay
from pgdb.frontend.system import deadline
from pgdb.frontend.transport.overlay_transport import OverlayTransport
from pgdb.jobs import world_keys
from pgdb.overlay.topology import share_out
from pgdb.proctable import RankProcess, World
from pgdb.ranks import RankSet
from pgdb.records import Stop

LEAST_PAUSE_S = 2.0
"""Time between two searches, for which each host lists its processes."""
_MOST_OF_TIME = 50
"""Time between two searches, as a multiple of the time that one takes."""


def names_of(known: Sequence[World]) -> str:
    """Return a note about the numbers of the ranks of several worlds in a session."""
    listed = ", ".join(
        f"[{each.ranks}] are {each.number}.0-{each.span - 1} (@world{each.number})"
        for each in known
    )
    return f"the ranks of {len(known)} worlds are numbered on: {listed}"


class SpawnedWorlds:
    """The worlds below the launcher of a session's job."""

    def __init__(self, session: Session, overlay: Overlay) -> None:
        self._session = session
        self._overlay = overlay
        self.launcher_pid = 0
        """The job's launcher."""
        self._number_of: dict[tuple[str, int], int] = {}  # host and process -> world
        self._reported: set[int] = set()
        self._held: set[int] = set()
        self._joining: set[asyncio.Task[None]] = set()
        self._unsearched: dict[str, str] = {}  # host -> why it has no aggregator
        self._next_s = 0.0
        self._search: asyncio.Task[None] | None = None
        self._is_search_wanted = False
        self._incomplete: dict[int, int] = {}  # world -> number of processes, as last seen
        self._looking = asyncio.Lock()
        session.all_worlds.source = self

    async def begin(self, timeout_s: float) -> None:
        """Name the worlds that are there so far, within a time, and watch for further ones."""
        await asyncio.wait((self._begin(self.report()),), timeout=timeout_s)
        self.watch()

    def watch(self) -> None:
        """Look for further worlds when ranks have stopped."""
        self._session.subscribe(self._on_notification)
        self._session.ending.add(self._stop_looking())

    async def _stop_looking(self) -> None:
        if self._search is not None:
            self._search.cancel()

    async def look(self) -> tuple[World, ...]:
        """Return the worlds that the session does not have, as they are now."""
        async with self._looking:
            return await self._look()

    async def _look(self) -> tuple[World, ...]:
        session, overlay = self._session, self._overlay
        assert overlay.site is not None
        places = await overlay.site.world_places(self.launcher_pid)
        if not places.family:
            return ()
        # A host whose aggregators are lost gets others in their places by 'reattach', not further
        # ones beside them.
        further = [
            host
            for host in places.hosts
            if host not in self._unsearched and not nodes_among(host, overlay.root.known)
        ]
        if further:
            failed = await overlay.add_hosts(further, job_pid=self.launcher_pid)
            self._unsearched.update(failed)
            for host, why in failed.items():
                session.note(f"ranks of MPI_Comm_spawn on {host} cannot be seen: {why}")
        has_first = not session.all_worlds.first_number
        kind = world_keys.SPAWNED if has_first else world_keys.ALL
        found = worlds.assemble(await found_parts(overlay, kind + places.family))
        own = {(each.host, each.pid) for each in session.table.processes}
        for each in session.all_worlds.known:
            self._number_of.update(((one.host, one.pid), each.number) for one in each.processes)
        result = []
        for each in found:
            processes = [(one.host, one.pid) for one in each.processes]
            if own.isdisjoint(processes):
                result.append(msgspec.structs.replace(each, number=self._number(each)))
        return tuple(result)

    def _number(self, world: World) -> int:
        """Return the number of a world, which stays the same although others end."""
        processes = [(each.host, each.pid) for each in world.processes]
        taken = {*self._number_of.values(), self._session.all_worlds.first_number}
        known = [self._number_of[each] for each in processes if each in self._number_of]
        number = known[0] if known else world.number
        if not known and number in taken:
            number = max(taken) + 1
        self._number_of.update(dict.fromkeys(processes, number))
        return number

    async def of_job(self, target: str) -> World:
        """Return the ranks of another job as a world with a number of its own.

        :raises DiscoveryError: if there is no such job.
        :raises UsageError: if the session has ranks of it.
        :raises CommandError: if PGDB cannot attach to it.
        """
        session, overlay = self._session, self._overlay
        assert overlay.site is not None
        located = await overlay.site.find(target)
        if is_partial(located):
            raise CommandError(
                f"job {target}: only a search on all of its hosts finds its ranks; "
                f"'pgdb attach {target}' is a session of its own"
            )
        job = located.job
        its_own = {*_places(job.table.processes)}
        known = (one.rank for one in session.table.processes if (one.host, one.pid) in its_own)
        if ranks := RankSet(known):
            raise UsageError(f"ranks [{ranks}] of the session are those of job {target}")
        if located.refusals:
            raise CommandError(f"job {target} cannot be attached to: {located.refusals[0]}")
        further = [host for host in job.table.hosts if not nodes_of(host, overlay)]
        if further and (failed := await overlay.add_hosts(further, job_pid=job.launcher_pid)):
            host, why = next(iter(failed.items()))
            raise CommandError(f"job {target}: there is no aggregator on {host}: {why}")
        own = session.all_worlds.in_session
        number = 1 + max((*self._number_of.values(), *(each.number for each in own)))
        self._number_of.update(dict.fromkeys(its_own, number))
        return World(
            number=number, size=job.job_size or 0, processes=job.table.processes, job=target
        )

    def take_known(self, worlds: Sequence[World]) -> None:
        """Report these worlds to the user no more."""
        self._reported.update(each.number for each in worlds)

    def assign(self, world: World) -> None:
        """Assign the ranks of a world, by their numbers in the session, to aggregators.

        :raises CommandError: if a host of theirs has no aggregator.
        """
        hosts: dict[str, dict[int, RankProcess]] = {}
        for each in world.in_session:
            hosts.setdefault(each.host, {})[each.rank] = each
        parts: dict[int, list[RankProcess]] = {}
        for host, members in hosts.items():
            nodes = nodes_of(host, self._overlay)
            if not nodes:
                raise CommandError(f"there is no aggregator on {host}; 'reattach' starts it again")
            shares = share_out(RankSet(members), len(nodes))
            for node, ranks in zip(nodes, shares, strict=True):
                if ranks:
                    parts[node] = [members[rank] for rank in ranks]
        transport = self._session.transport
        assert isinstance(transport, OverlayTransport)
        transport.add(parts, self._session.table, is_held=world.number in self._held)

    # -- reports -----------------------------------------------------------------------------

    async def report(self, *, defers_parts: bool = False) -> None:
        """Look for further worlds, and name those that are new, or attach to them.

        :param defers_parts: whether the next look decides about a world that lacks ranks, since its
            launcher may still be starting them.
        """
        session = self._session
        begun_s = time.monotonic()
        try:
            found = await self.look()
        except PgdbError as error:
            session.note(f"further ranks of MPI_Comm_spawn cannot be looked for: {error}")
            return
        finally:
            now_s = time.monotonic()
            self._next_s = now_s + max(LEAST_PAUSE_S, _MOST_OF_TIME * (now_s - begun_s))
        new = [each for each in found if each.number not in self._reported]
        if defers_parts:
            new = [each for each in new if self._is_whole(each)]
        if not new or session.has_ended:
            return
        self.take_known(new)
        if session.options.spawned != "notify":
            await self._join(new)
            return
        listed = "; ".join(map(describe_world, new))
        number = new[0].number
        session.note(
            f"not in this session, for MPI_Comm_spawn makes worlds of their own: {listed}; "
            f"'worlds add {number}' attaches to one of them, 'worlds add all' to all"
        )

    def _is_whole(self, world: World) -> bool:
        """Return whether all ranks of a world are there, or no more have come since the last look.

        Otherwise another look follows.
        """
        here = len(world.processes)
        if here >= world.size or self._incomplete.get(world.number) == here:
            return True
        self._incomplete[world.number] = here
        self._is_search_wanted = True
        return False

    async def _join(self, new: Sequence[World]) -> None:
        try:
            await self._session.all_worlds.join(new)
        except PgdbError as error:
            self._session.note(f"ranks of MPI_Comm_spawn are not in the session: {error}")

    def take_held(self, held: HeldWorld) -> None:
        """Attach to the ranks of a world that are held, which then stop in ``main``."""
        self._begin(self._take_held(held))

    async def _take_held(self, held: HeldWorld) -> None:
        session = self._session
        pids = {*held.pids.values()}
        try:
            found = await self.look()
            wanted = [each for each in found if pids == {*each.pids}]
            if not wanted:
                raise CommandError("their processes are not found on the hosts of the launcher")
            processes = tuple(
                msgspec.structs.replace(each, executable=held.program)
                for each in wanted[0].processes
            )
            self._held.add(wanted[0].number)
            world = msgspec.structs.replace(wanted[0], processes=processes)
            if not (await session.all_worlds.join([world])).ranks:
                held.release()  # a command has attached to them meanwhile
        except PgdbError as error:
            session.note(f"ranks of MPI_Comm_spawn run on without a debugger: {error}")
            held.release()

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        # No command's time limit is that of this work.
        with deadline.unlimited():
            task = asyncio.get_running_loop().create_task(work)
        self._joining.add(task)
        task.add_done_callback(self._joining.discard)
        return task

    def _on_notification(self, notification: Notification) -> None:
        if not isinstance(notification, RankEvents) or self._session.has_ended:
            return
        if any(isinstance(each.record, Stop) for each in notification.classes):
            # No further stop may follow one that comes during a search or the pause behind it.
            self._is_search_wanted = True
            if self._search is None or self._search.done():
                self._search = self._begin(self._look_while_wanted())

    async def _look_while_wanted(self) -> None:
        while self._is_search_wanted and not self._session.has_ended:
            await asyncio.sleep(max(0.0, self._next_s - time.monotonic()))
            self._is_search_wanted = False
            await self.report(defers_parts=True)


def _places(processes: Sequence[RankProcess]) -> Iterator[tuple[str, int]]:
    """Yield host and pid of each process."""
    return ((each.host, each.pid) for each in processes)
