"""Start the aggregators of a session and end them: the overlay, seen from the front end."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from pgdb.errors import PgdbError, StartError, UsageError
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.startup.links import Links
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.shipping import Shipper, remote_command, ship_by_ssh
from pgdb.frontend.startup.site import AggregatorStart, GetRendezvous, Site, Starter
from pgdb.frontend.transport.overlay_root import Root
from pgdb.jobs import procfs
from pgdb.jobs.launchers import Family, Launcher
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay import addresses
from pgdb.overlay.archive_bootstrap import VARIABLE as SHIP_VARIABLE
from pgdb.overlay.bootstrap_env import AGGREGATOR_NAME, SYMBOL_PREFETCH_VARIABLE
from pgdb.overlay.channel import Listener, listen
from pgdb.overlay.credentials import make_credentials
from pgdb.overlay.messages import Find, Found, Hello, Joined, Lost, Notice, Shutdown, Table
from pgdb.overlay.rendezvous import CALL_WORD, MAX_HINTS, Rendezvous
from pgdb.overlay.router import Gathered
from pgdb.overlay.topology import Topology
from pgdb.records import Event

LOG = logging.getLogger(__name__)

LEAVE_TIMEOUT_S = 10.0
"""How long the aggregators may take to leave before what started them is ended, which ends those
that hang; the others then have as long once more."""
HUNG_TIMEOUT_S = 1.0
"""How long an aggregator of this host that was lost may take to leave before its place is filled
anew."""
TOGETHER_TIMEOUT_S = 40.0
"""How long one launcher may take to bring up the aggregators of several hosts before each host
gets a launcher of its own; at most half of the time for the whole start."""
STRAGGLER_S = 10.0
"""How much longer than the first one an aggregator may take where each host starts apart."""
COME_BACK_S = 10.0
"""How long an aggregator that answers may take to be in the tree again."""
MOST_STARTED = 64
"""Launchers that start aggregators in place of lost ones at a time."""

WireUp = Literal["mpi", "direct"]


class Place(msgspec.Struct, frozen=True):
    """Where aggregators are wanted, and what can start them there."""

    launcher: Launcher | None
    """None for ssh."""
    hosts: tuple[str, ...] = ()
    """As their launcher names them; empty for the site's own host alone."""
    slurm_job: str = ""
    job_pid: int = 0
    """Launcher of the job, 0 if it is not on the site's host."""
    job_command: tuple[str, ...] = ()
    local_pid: int = 0
    """Process of a rank on the site's host; 0 if there is none, or too few to begin early for."""


class Overlay:
    """The aggregators of one session."""

    def __init__(
        self,
        options: SessionOptions,
        directory: SessionDirectory,
        *,
        on_events: Callable[[tuple[EquivalenceClass[Event], ...]], None],
        on_late: Callable[[Gathered], None],
        on_lost: Callable[[Lost], None],
        on_notice: Callable[[Notice], None],
        on_progress: Callable[[int, int], None],
    ) -> None:
        self._on_progress = on_progress
        self._options = options
        self._directory = directory
        self._on_lost = on_lost
        self._starters: list[Starter] = []
        self._useless: set[asyncio.Task[None]] = set()  # the ends of starters that bring nobody
        self._listener: Listener | None = None
        self._shipper: Shipper | None = None
        self._credentials = b""
        self._opening: asyncio.Task[None] | None = None
        self._is_started = False
        self._changed = asyncio.Event()
        self._watchers: set[asyncio.Event] = set()
        self._site: Site | None = None
        self._place = Place(launcher=None)
        self._front_end = ""
        self._called: dict[int, str] = {}  # node -> address at which it waits to be called
        self._refused: dict[int, str] = {}  # node -> why it cannot take part
        self._found: dict[int, Found] = {}
        self._expected = options.aggregators
        self._silent: frozenset[str] = frozenset()
        self.failed: dict[str, str] = {}
        """Hosts without aggregators, and why."""
        self.root = Root(
            Topology(count=options.aggregators, fan_out=options.fan_out),
            on_events=on_events,
            on_late=on_late,
            on_lost=self._lost,
            on_notice=on_notice,
            on_joined=self._joined,
            on_asking=self._note,
            on_found=self._take_found,
        )
        self._links = Links(self.root, options)

    @property
    def launcher_pid(self) -> int:
        """Process id of the aggregators' launcher, 0 if there is none or it is elsewhere."""
        return self._starters[0].pid if self._starters else 0

    @property
    def nodes(self) -> dict[int, Hello]:
        """The aggregators that are in the tree."""
        return self.root.joined

    def progress(self) -> tuple[int, int]:
        """Return how many aggregators are in the tree, and how many there are to be."""
        return len(self.root.joined), self._expected

    def last_words(self) -> str:
        """Return the end of what the aggregators' launchers have said, on one line."""
        words = (starter.last_words() for starter in self._starters)
        return " | ".join(word for word in words if word)

    async def start(self, site: Site, place: Place) -> None:
        """Start the aggregators and wait until all are in the tree.

        One launcher starts them all; where their MPI does not come up, again without MPI; where
        that does not help, or a host does not answer, every host gets a launcher of its own, and
        those that stay away are in :attr:`failed`.

        :raises StartError: if none comes up; whoever waits brings the deadline.
        """
        self._site, self._place = site, place
        self._expected = self._options.aggregators * max(1, len(place.hosts))
        topology = Topology(count=self._expected, fan_out=self._options.fan_out)
        self.root.place(self.root.number, topology)
        address = ""
        if not self._options.calls:
            own = self._options.listen and addresses.check_own(self._options.listen)
            if own.startswith("127.") and set(place.hosts) - set(addresses.own_names()):
                raise UsageError(f"--listen {own}: other hosts cannot reach a loopback address")
            address = own or (
                addresses.address_towards(place.hosts) if place.hosts else "127.0.0.1"
            )
        # Launchers take their time to start, and what the key needs its own to be imported.
        opening = self._opening = asyncio.create_task(self._open(address))
        try:
            await self._start_all(site, place)
        finally:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
        await site.settle()
        self._is_started = True

    async def _open(self, address: str) -> None:
        """Make the session's key, and listen on *address* if it is not empty."""
        self._credentials = self._links.credentials = await asyncio.to_thread(make_credentials)
        if address:
            self._listener = await listen(address, self._credentials, self.root.serve_child)
            self._front_end = f"{address}:{self._listener.port}"

    async def _opened(self) -> None:
        assert self._opening is not None
        await asyncio.shield(self._opening)  # others wait for it, too

    async def _start_all(self, site: Site, place: Place) -> None:
        if self._options.ship:
            await self._start_shipping()
        first_error: StartError | None = None
        self._silent = await self._silent_hosts(place)
        for together, wire_up in self._attempts(place):
            try:
                await self._try(site, place, wire_up, together=together)
                break
            except StartError as error:
                LOG.info("aggregators (%s, together %s): %s", wire_up, together, error)
                first_error = first_error or error
                await self._begin_again()
        else:
            assert first_error is not None
            raise first_error

    def _attempts(self, place: Place) -> list[tuple[bool, WireUp]]:
        wanted = self._options.wire_up
        family = place.launcher.family if place.launcher is not None else None
        # An MPI among our own processes is of use where it is the launcher's.
        mpi: list[tuple[bool, WireUp]] = [(True, "mpi")]
        if family in (None, Family.SLURM) or wanted == "direct" or _hangs(place):
            mpi = []
        if wanted == "mpi":
            return mpi or [(True, "mpi")]
        apart: list[tuple[bool, WireUp]] = [(False, "direct")] if place.hosts else []
        if place.launcher is None:
            return apart
        if self._silent:
            return apart
        return [*mpi, (True, "direct"), *apart]

    async def _start_shipping(self) -> None:
        if self._options.calls:
            return  # over ssh, host by host
        await self._opened()
        self._shipper = Shipper()
        await self._shipper.start(self._front_end.rpartition(":")[0], self._credentials)

    # -- one attempt -------------------------------------------------------------------------

    async def _try(self, site: Site, place: Place, wire_up: WireUp, *, together: bool) -> None:
        options = self._options
        start = self._aggregator_start(place, wire_up)
        rendezvous = functools.partial(self._rendezvous, place.hosts)
        starts = [start]
        if not together:
            starts = [
                replace(
                    start,
                    hosts=(host,),
                    first_node=number * options.aggregators,
                    log=f"aggregators-{number}.log",
                )
                for number, host in enumerate(place.hosts)
            ]
        limit_s = None
        if together:
            limit_s = min(TOGETHER_TIMEOUT_S, options.start_timeout_s / 2)
        try:
            async with asyncio.timeout(limit_s):
                ended = [
                    asyncio.create_task(self._run_starter(site, each, rendezvous))
                    for each in starts
                ]
                try:
                    await self._gather(place, wire_up, ended, together=together)
                finally:
                    for task in ended:
                        task.cancel()
        except TimeoutError:
            got, wanted = self.progress()
            raise StartError(
                f"{got} of {wanted} aggregators within {limit_s:g} s. {self.last_words()}".rstrip()
            ) from None

    def _aggregator_start(self, place: Place, wire_up: WireUp) -> AggregatorStart:
        options = self._options
        return AggregatorStart(
            launcher=place.launcher,
            words=self._words(place),
            hosts=place.hosts,
            per_host=options.aggregators,
            wire_up=wire_up,
            slurm_job=place.slurm_job,
            job_pid=place.job_pid,
            job_command=place.job_command,
            python=options.remote_python,
            variables=self._variables(place),
            prints_addresses=options.calls,
        )

    async def _rendezvous(self, hosts: Sequence[str]) -> str:
        await self._opened()
        return Rendezvous(
            credentials=self._credentials.decode("ascii"),
            front_end=self._front_end,
            fan_out=self._options.fan_out,
            count=self._expected,
            grace_s=self._options.grace_s,
            hosts=tuple(hosts[:MAX_HINTS]),
        ).dump()

    def _variables(self, place: Place) -> dict[str, str]:
        options = self._options
        variables = {"PGDB_LOG_LEVEL": "INFO"} if options.verbose else {}
        if options.nursery and not options.sbd and not options.gdb_commands and place.local_pid:
            if (status := procfs.read_stat(place.local_pid)) is not None:
                hint = f"{place.local_pid}:{status.start_time_ticks}:{options.gdb}"
                variables[SYMBOL_PREFETCH_VARIABLE] = hint
        return variables

    def _words(self, place: Place) -> tuple[str, ...]:
        options = self._options
        if place.launcher is None:
            return options.overlay_launcher or options.ssh
        return options.overlay_launcher[1:]

    async def _run_starter(
        self, site: Site, start: AggregatorStart, rendezvous: GetRendezvous
    ) -> str:
        """Start one process that starts aggregators; return its last words when it has ended."""
        start = await self._with_ship(start)
        starter = await site.start(start, self._take_line, rendezvous)
        self._starters.append(starter)
        try:
            await starter.wait()
        except asyncio.CancelledError:
            # The session begins without those who have not come.
            if set(start.hosts) <= self.failed.keys() and start.hosts:
                self._starters.remove(starter)
                self._useless.add(asyncio.create_task(starter.end()))
            raise
        return explain(starter.last_words(), start.python or sys.executable)

    async def _with_ship(self, start: AggregatorStart) -> AggregatorStart:
        if not self._options.ship:
            return start
        python = self._options.remote_python or "python3"
        if self._shipper is not None and start.launcher is not None:
            told = {**start.variables, SHIP_VARIABLE: self._shipper.describe_environment()}
            return replace(start, program=remote_command(python), variables=told)
        if start.launcher is not None:
            return start  # on the site the archive is there already, see start.py
        addresses.check_host_names(start.hosts)
        path = await ship_by_ssh(start.hosts[0], start.words, python)
        return replace(start, python=python, python_path=path)

    async def _gather(
        self,
        place: Place,
        wire_up: WireUp,
        ended: Sequence[asyncio.Task[str]],
        *,
        together: bool,
    ) -> None:
        """Wait for the aggregators, give them their places, wait until they are in the tree."""
        loop = asyncio.get_running_loop()
        first_at: float | None = None
        begun = loop.time()
        wanted = set(range(self._expected))
        while True:
            here = self._here(wire_up)
            if first_at is None and here:
                first_at = loop.time()
            gone = self._gone(ended, together=together)
            if not wanted - here - gone.keys():
                break
            if together and self._refused:
                # A launcher that is to end with the others may never do so (Open MPI 4.1).
                break
            limit_s = None
            if not together and first_at is not None:
                limit_s = first_at + max(STRAGGLER_S, 2 * (first_at - begun)) - loop.time()
                if limit_s <= 0:
                    break
            changed = asyncio.ensure_future(self._changed.wait())
            still = [task for task in ended if not task.done()]
            try:
                await asyncio.wait(
                    (changed, *still), timeout=limit_s, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                changed.cancel()
            self._changed.clear()
        here = self._here(wire_up)
        for node in sorted(wanted - here, key=lambda each: (each not in gone, each)):
            host = place.hosts[node // self._options.aggregators] if place.hosts else ""
            why = gone.get(node, "it does not answer")
            if together or not here:
                raise StartError(f"{host}: {why}" if host and not together else why)
            if host in self._silent:
                why = f"nothing at {host} answers; is it up, and its link? ({why})"
            first = node - node % self._options.aggregators
            if here.isdisjoint(range(first, first + self._options.aggregators)):
                self.failed[host] = why
        await self._seat(wire_up, here)

    def _here(self, wire_up: WireUp) -> set[int]:
        """Return the aggregators that wait for their place, or need none."""
        if self._options.calls:
            return (
                set(range(self._expected)) if wire_up == "mpi" and self._called else {*self._called}
            )
        return set(self.root.joined if wire_up == "mpi" else self.root.asking)

    def _gone(self, ended: Sequence[asyncio.Task[str]], *, together: bool) -> dict[int, str]:
        """Return the aggregators that will not come, and why."""
        gone = dict(self._refused)
        per_host = self._options.aggregators
        for number, task in enumerate(ended):
            if not task.done():
                continue
            error = task.exception()
            if error is not None and not isinstance(error, StartError):
                raise error
            why = str(error) if error is not None else task.result() or "no message"
            nodes = range(self._expected)
            if not together:
                nodes = range(number * per_host, (number + 1) * per_host)
            else:
                why = f"the aggregators' launcher ended at once: {why}"
            gone.update({node: gone.get(node, why) for node in nodes})
        return gone

    async def _seat(self, wire_up: WireUp, nodes: set[int]) -> None:
        """Have the aggregators that came take their places in the tree."""
        if wire_up == "direct":
            self._expected = len(nodes)
            self.root.place(
                self.root.number, Topology(count=len(nodes), fan_out=self._options.fan_out)
            )
        link: asyncio.Task[None] | None = None
        if self._options.calls:
            called = [self._called[node] for node in sorted(self._called)]
            table = Table(
                node=0,
                count=self._expected,
                fan_out=self._options.fan_out,
                addresses=tuple(called) if wire_up == "direct" else (),
                is_parent=True,
            )
            link = self._links.keep(called[0], table, must_be_there=True)
            link.add_done_callback(lambda _: self._note())
        elif wire_up == "direct":
            self.root.seat()
        while len(self.root.joined) < self._expected:
            if self._refused:
                raise StartError(next(iter(self._refused.values())))
            if link is not None and link.done():
                link.result()
            await self._changed.wait()
            self._changed.clear()

    async def _begin_again(self) -> None:
        self.root.begin_again()
        await self._links.end()
        await asyncio.gather(*(starter.end() for starter in self._starters))
        self._starters.clear()
        self._called.clear()
        self._refused.clear()
        self.failed.clear()

    # -- after a loss ----------------------------------------------------------------------------

    async def revive(self, nodes: Collection[int]) -> dict[int, str]:
        """Have lost aggregators in the tree again; return why, for those that did not come.

        Those that live are called back, as they are; in place of the others new ones are started,
        which have been told nothing yet. Each hangs on the nearest one above it that is in the
        tree, and on the front end where none is.
        """
        await self._call_back(nodes)
        starting = asyncio.Semaphore(MOST_STARTED)

        async def revive(node: int) -> str:
            async with starting:
                return await self._revive(node)

        reasons: dict[int, str] = {}
        levels: dict[int, list[int]] = {}
        for node in sorted(nodes):
            levels.setdefault(len(self.root.topology.ancestors(node)), []).append(node)
        # From above: so most find the parent that they would have had.
        for _, level in sorted(levels.items()):
            reasons |= zip(level, await asyncio.gather(*map(revive, level)), strict=True)
        if self._site is not None:
            await self._site.settle()
        return {node: why for node, why in reasons.items() if why}

    async def _call_back(self, nodes: Collection[int]) -> None:
        """Have those that live, and have only lost who was above them, in the tree again.

        They would come by themselves, but may take their time; in their places others would stand
        meanwhile, who cannot get hold of the ranks.
        """
        root = self.root
        # Those below one that lives come back with it, and with nobody else.
        concerned = {each for node in nodes for each in (node, *root.topology.ancestors(node))}
        away = sorted(concerned & root.known.keys() - root.joined.keys())
        answers = await asyncio.gather(
            *(self._links.answers(root.known[node].address) for node in away)
        )
        living = {node for node, is_there in zip(away, answers, strict=True) if is_there}
        for node in living - root.joined.keys():
            self._links.keep_orphan(node)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(COME_BACK_S):
                with self._watching() as changed:
                    while living - root.joined.keys():
                        await changed.wait()
                        changed.clear()

    async def _revive(self, node: int) -> str:
        if node in self.root.joined:
            return ""
        site, hello = self._site, self.root.known.get(node)
        if site is None or hello is None:
            return "there was never one"
        host = _name_of(hello, self._place.hosts)
        place = replace(self._place, hosts=(host,) if self._place.hosts else ())
        if await self._silent_hosts(place):
            return f"nothing at {host} answers; is it up, and its link?"
        if not self._options.host and set(addresses.own_names()) & set(hello.names):
            # One that hangs has the ranks still.
            await _wait_gone(hello.pid, HUNG_TIMEOUT_S)
        self.root.revive(node)
        self._called.pop(node, None)
        start = replace(
            self._aggregator_start(place, "direct"),
            per_host=1,
            first_node=node,
            log=f"aggregator-{node}-again.log",
        )
        rendezvous = functools.partial(self._rendezvous, place.hosts)
        why = "it does not come up"
        starter: Starter | None = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(TOGETHER_TIMEOUT_S, self._options.start_timeout_s)):
                try:
                    starter = await site.start(
                        await self._with_ship(start), self._take_line, rendezvous
                    )
                    self._starters.append(starter)
                    if not (why := await self._seat_revived(node, starter)):
                        return ""
                except PgdbError as error:
                    why = str(error)
        if starter is not None:
            self._starters.remove(starter)
            await starter.end()
        return why

    async def _seat_revived(self, node: int, starter: Starter) -> str:
        """Wait until a node is in the tree again; return why if what was to start it has ended.

        Where it cannot call us, it is told its place.
        """
        root = self.root
        above = root.topology.ancestors(node)
        is_told = is_kept = False
        ended = asyncio.create_task(starter.wait())
        try:
            with self._watching() as changed:
                ended.add_done_callback(lambda _: changed.set())
                while node not in root.joined:
                    if ended.done():
                        return explain(starter.last_words()) or "its launcher has ended"
                    address = self._called.get(node, "")
                    has_parent = not root.joined.keys().isdisjoint(above)
                    if address and not has_parent and not is_kept:
                        # Also when the parent that it was told of has been lost since.
                        is_kept = True
                        table = root.table_for(node, address, is_parent=True)
                        self._links.keep(address, table)
                    elif address and has_parent and not (is_told or is_kept):
                        is_told = True
                        await self._links.tell(address, root.table_for(node, address))
                        continue  # others may have come or gone
                    await changed.wait()
                    changed.clear()
            return ""
        finally:
            ended.cancel()

    async def _silent_hosts(self, place: Place) -> frozenset[str]:
        """Return the hosts that no launcher would get through to soon."""
        launcher = place.launcher
        if self._site is None or (launcher is not None and launcher.family is Family.SLURM):
            # Slurm knows by itself which hosts are down, and need not let anybody in by ssh.
            return frozenset()
        return frozenset(await self._site.silent_hosts(place.hosts))

    # -- looking for ranks ---------------------------------------------------------------------

    async def find(self, find: Find) -> dict[int, Found]:
        """Have every aggregator look for ranks of the job on its host; wait for all of them.

        Whoever waits brings the deadline; one that is lost is not waited for.
        """
        self._found.clear()
        self.root.down(find)
        while self.root.joined.keys() - self._found.keys():
            await self._changed.wait()
            self._changed.clear()
        return dict(self._found)

    # -- leaving -------------------------------------------------------------------------------

    async def close(self) -> None:
        """Have all aggregators let their ranks go and leave; return when they are gone."""
        self._links.stop()
        # Process ids of other hosts say nothing here.
        here = set(addresses.own_names())
        known = self.root.known.values()
        daemons = {hello.pid for hello in known if here & set(hello.names)}
        self.root.down(Shutdown())
        if self.root.joined:
            # Those that are not in the tree hear of nothing; with what started them gone they
            # leave by themselves.
            try:
                async with asyncio.timeout(LEAVE_TIMEOUT_S):
                    await asyncio.gather(*(starter.wait() for starter in self._starters))
            except TimeoutError:
                LOG.warning("the aggregators do not leave; ending what started them")
        await asyncio.gather(*(starter.end() for starter in self._starters), *self._useless)
        if not self._options.host:
            await asyncio.gather(*(_wait_gone(pid, LEAVE_TIMEOUT_S) for pid in daemons))
        await self._links.end()
        if self._listener is not None:
            await self._listener.end()
        if self._shipper is not None:
            await self._shipper.close()

    # -- what comes ----------------------------------------------------------------------------

    @contextlib.contextmanager
    def _watching(self) -> Iterator[asyncio.Event]:
        """Set an event whenever something has come."""
        changed = asyncio.Event()
        self._watchers.add(changed)
        try:
            yield changed
        finally:
            self._watchers.discard(changed)

    def _note(self) -> None:
        self._changed.set()
        for watcher in self._watchers:
            watcher.set()

    def _take_line(self, line: str) -> None:
        words = line.split()
        is_call = len(words) == 3 and words[0] == CALL_WORD
        if is_call and words[1].isdecimal() and len(words[1]) < 10:
            self._called[int(words[1])] = words[2]
            self._note()

    def _take_found(self, found: Found) -> None:
        self._found[found.node] = found
        self._note()

    def _joined(self, message: Joined) -> None:
        del message
        self._on_progress(*self.progress())
        self._note()

    def _lost(self, message: Lost) -> None:
        if not self._is_started:
            self._refused.update(dict.fromkeys(message.nodes, message.why))
        self._note()
        self._on_lost(message)


def _name_of(hello: Hello, hosts: Sequence[str]) -> str:
    """Return what a host's launcher calls it."""
    named = (hello.host, *hello.names)
    for host in hosts:
        if host in named or addresses.resolve(host) in hello.names:
            return host
    return hello.host


def explain(words: str, python: str = "") -> str:
    """Return what an aggregators' launcher said last, with what to do about it where known."""
    hint = ""
    if "No module named" in words:
        hint = "PGDB is not there for that Python: --remote-python names another, --ship sends it"
    elif "cannot connect to" in words:
        hint = "--listen names an address of this host that it reaches, --connect calls it"
    elif python and python in words:
        hint = "--remote-python names the Python of the job's hosts"
    return f"{words}; {hint}" if hint else words


def _hangs(place: Place) -> bool:
    # MPICH 4.0 does not come out of MPI_Finalize between hosts (tried with Debian's 4.0.2).
    launcher = place.launcher
    return len(place.hosts) > 1 and launcher is not None and "MPICH 4.0" in launcher.version


async def _wait_gone(pid: int, timeout_s: float) -> None:
    """Wait until a process that is not our child has ended."""
    try:
        watched = os.pidfd_open(pid)
    except OSError:
        return
    # One that was lost long ago may have ended, and its number be another's.
    named = procfs.read_stat(pid)
    if named is None or named.comm != AGGREGATOR_NAME:
        os.close(watched)
        return
    loop = asyncio.get_running_loop()
    gone = asyncio.Event()
    loop.add_reader(watched, gone.set)
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await gone.wait()
        if not gone.is_set():
            LOG.warning("the aggregator with process id %d hangs, and is ended", pid)
            # Its GDBs see the end of their input, and let go of their ranks.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(watched, signal.SIGKILL)
    finally:
        loop.remove_reader(watched)
        os.close(watched)
