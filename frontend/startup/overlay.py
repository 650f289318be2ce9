"""The overlay, seen from the front end: start and end of the aggregators of a session."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec.structs import replace

from pgdb.bootstrap_env import SYMBOL_PREFETCH_VARIABLE
from pgdb.errors import UsageError
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.startup import places
from pgdb.frontend.startup.aggregator_recovery import AggregatorRecovery
from pgdb.frontend.startup.first_start import FirstStart, WireUp
from pgdb.frontend.startup.links import Links
from pgdb.frontend.startup.places import Place
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.shipping import Shipper, remote_command, ship_by_ssh
from pgdb.frontend.startup.site import AggregatorStart, Site, Starter
from pgdb.frontend.transport.overlay_root import Root
from pgdb.jobs import procfs
from pgdb.jobs.launchers import Family
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay import addresses
from pgdb.overlay.archive_bootstrap import VARIABLE as SHIP_VARIABLE
from pgdb.overlay.channel import Listener, listen
from pgdb.overlay.credentials import make_credentials
from pgdb.overlay.messages import Find, Found, Hello, Joined, Lost, Notice, Shutdown
from pgdb.overlay.rendezvous import CALL_WORD, MAX_HINTS, Rendezvous
from pgdb.overlay.router import Gathered
from pgdb.overlay.topology import Topology
from pgdb.records import Event

LOG = logging.getLogger(__name__)

LEAVE_TIMEOUT_S = 10.0
"""Time for the aggregators to leave, before their launchers are ended, which ends those that hang.
After that, the others have the same time once more."""


class Overlay:
    """The aggregators of one session."""

    def __init__(
        self,
        options: SessionOptions,
        directory: SessionDirectory,
        *,
        on_events: Callable[[tuple[EquivalenceClass[Event], ...]], None],
        on_announced: Callable[[tuple[EquivalenceClass[Event], ...]], None],
        on_late: Callable[[Gathered], None],
        on_lost: Callable[[Lost], None],
        on_notice: Callable[[Notice], None],
        on_progress: Callable[[int, int], None],
    ) -> None:
        self._on_progress = on_progress
        self.options = options
        self._directory = directory
        self._on_lost = on_lost
        self.starters: list[Starter] = []
        self.useless: set[asyncio.Task[None]] = set()  # the ends of starters that bring nobody
        self._listener: Listener | None = None
        self._further_listeners: list[Listener] = []
        self._shipper: Shipper | None = None
        self._credentials = b""
        self._opening: asyncio.Task[None] | None = None
        self._is_started = False
        self._watchers: set[asyncio.Event] = set()
        self.site: Site | None = None
        self.place = Place(launcher=None)
        self._front_end = ""
        self.called: dict[int, str] = {}  # node -> address at which it waits to be called
        self.refused: dict[int, str] = {}  # node -> why it cannot take part
        self._found: dict[int, Found] = {}
        self._finding = asyncio.Lock()
        self.expected = options.aggregators
        self.failed: dict[str, str] = {}
        """Hosts without aggregators, and the reasons."""
        self.root = Root(
            Topology(count=options.aggregators, fan_out=options.fan_out),
            on_events=on_events,
            on_announced=on_announced,
            on_late=on_late,
            on_lost=self._lost,
            on_notice=on_notice,
            on_joined=self._joined,
            on_asking=self._note,
            on_found=self._take_found,
        )
        self.links = Links(self.root, options)

    @property
    def launcher_pid(self) -> int:
        """Process id of the aggregators' launcher, 0 if there is none or it is elsewhere."""
        return self.starters[0].pid if self.starters else 0

    @property
    def nodes(self) -> dict[int, Hello]:
        """The aggregators that are in the tree."""
        return self.root.joined

    def progress(self) -> tuple[int, int]:
        """Return the number of aggregators in the tree, and the number that is expected."""
        return len(self.root.joined), self.expected

    def last_words(self) -> str:
        """Return the last output of the aggregators' launchers, on one line."""
        words = (starter.last_words() for starter in self.starters)
        return " | ".join(word for word in words if word)

    async def start(self, site: Site, place: Place) -> None:
        """Start the aggregators and wait until all are in the tree.

        One launcher starts them all. If their MPI fails, a second attempt does without MPI. If that
        fails, or a host does not answer, every host gets a launcher of its own, and :attr:`failed`
        names the hosts without aggregators. The caller sets the deadline.

        :raises StartError: if no aggregator starts.
        """
        self.site, self.place = site, place
        self.expected = self.options.aggregators * max(1, len(place.hosts))
        topology = Topology(count=self.expected, fan_out=self.options.fan_out)
        self.root.place(self.root.number, topology)
        address = ""
        if not self.options.calls:
            own = self.options.listen and addresses.check_own(self.options.listen)
            if own.startswith("127.") and set(place.hosts) - set(addresses.own_names()):
                raise UsageError(f"--listen {own}: other hosts cannot reach a loopback address")
            address = own or (
                addresses.address_towards(place.hosts) if place.hosts else "127.0.0.1"
            )
        # Launchers take their time to start, and the modules for the key take theirs to be
        # imported.
        opening = self._opening = asyncio.create_task(self._open(address))
        try:
            if self.options.ship:
                await self._start_shipping()
            silent = await self.silent_hosts(place)
            with self.changes() as changed:
                await FirstStart(self, site, place, silent=silent, changed=changed).run()
        finally:
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
        await site.settle()
        self._is_started = True

    async def _open(self, address: str) -> None:
        """Make the session's key, and listen on *address* if it is not empty."""
        self._credentials = self.links.credentials = await asyncio.to_thread(make_credentials)
        if address:
            self._listener = await listen(address, self._credentials, self.root.serve_child)
            self._front_end = f"{address}:{self._listener.port}"

    async def _opened(self) -> None:
        assert self._opening is not None
        await asyncio.shield(self._opening)  # others wait for it, too

    async def _start_shipping(self) -> None:
        if self.options.calls:
            return  # over ssh, host by host
        await self._opened()
        self._shipper = Shipper()
        await self._shipper.start(self._front_end.rpartition(":")[0], self._credentials)

    def aggregator_start(self, place: Place, wire_up: WireUp) -> AggregatorStart:
        """Return the start of all aggregators at a place."""
        options = self.options
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

    async def rendezvous(self, hosts: Sequence[str]) -> str:
        """Return the input of new aggregators: credentials, and the way to the front end."""
        await self._opened()
        return Rendezvous(
            credentials=self._credentials.decode("ascii"),
            front_end=self._front_end,
            fan_out=self.options.fan_out,
            count=self.expected,
            grace_s=self.options.grace_s,
            hosts=tuple(hosts[:MAX_HINTS]),
        ).dump()

    def _variables(self, place: Place) -> dict[str, str]:
        options = self.options
        variables = {"PGDB_LOG_LEVEL": "INFO"} if options.verbose else {}
        if options.nursery and not options.sbd and not options.gdb_commands and place.local_pid:
            if (status := procfs.read_stat(place.local_pid)) is not None:
                hint = f"{place.local_pid}:{status.start_time_ticks}:{options.gdb}"
                variables[SYMBOL_PREFETCH_VARIABLE] = hint
        return variables

    def _words(self, place: Place) -> tuple[str, ...]:
        options = self.options
        if place.launcher is None:
            return options.overlay_launcher or options.ssh
        return options.overlay_launcher[1:]

    async def with_ship(self, start: AggregatorStart) -> AggregatorStart:
        """Return *start* with PGDB itself on board, for ``--ship``."""
        if not self.options.ship:
            return start
        python = self.options.remote_python or "python3"
        if self._shipper is not None and start.launcher is not None:
            variables = {**start.variables, SHIP_VARIABLE: self._shipper.describe_environment()}
            return replace(start, program=remote_command(python), variables=variables)
        if start.launcher is not None:
            return start  # on the site the archive is there already, see start.py
        addresses.check_host_names(start.hosts)
        path = await ship_by_ssh(start.hosts[0], start.words, python)
        return replace(start, python=python, python_path=path)

    # -- after a loss ----------------------------------------------------------------------------

    async def recover(self, nodes: Collection[int]) -> dict[int, str]:
        """Bring lost aggregators back into the tree; return the reasons of those that stay away.

        Living ones are called; new ones, which know nothing yet, replace the others. The parent of
        each is its nearest ancestor in the tree, or else the front end.
        """
        return await AggregatorRecovery(self).recover(nodes)

    async def add_hosts(self, hosts: Sequence[str], *, job_pid: int) -> dict[str, str]:
        """Start aggregators on further hosts of the job; return the reasons of those without any.

        :param job_pid: the job's launcher, whose way to other hosts is used; 0 for none.
        """
        if not self.options.calls and self._front_end.startswith("127."):
            if self.options.listen:
                return dict.fromkeys(hosts, f"--listen {self.options.listen} is a loopback address")
            # The session has begun on this host alone.
            address = addresses.address_towards(hosts)
            listener = await listen(address, self._credentials, self.root.serve_child)
            self._further_listeners.append(listener)
            self._front_end = f"{address}:{listener.port}"
        self.place = replace(self.place, job_pid=self.place.job_pid or job_pid)
        return await AggregatorRecovery(self).add_hosts(hosts)

    async def silent_hosts(self, place: Place) -> frozenset[str]:
        """Return the hosts that no launcher would reach soon."""
        launcher = place.launcher
        if self.site is None or (launcher is not None and launcher.family is Family.SLURM):
            # Slurm itself knows the hosts that are down, and its hosts need not allow ssh.
            return frozenset()
        return frozenset(await self.site.silent_hosts(place.hosts))

    # -- looking for ranks ---------------------------------------------------------------------

    async def find(self, find: Find) -> dict[int, Found]:
        """Make every aggregator search for ranks of the job on its host; wait for all answers.

        The caller sets the deadline. Lost aggregators are not waited for.
        """
        async with self._finding:
            self._found.clear()
            with self.changes() as changed:
                self.root.down(find)
                while self.root.joined.keys() - self._found.keys():
                    await changed.wait()
                    changed.clear()
            return dict(self._found)

    # -- leaving -------------------------------------------------------------------------------

    async def close(self) -> None:
        """Make all aggregators detach from their ranks and leave; return after their end."""
        self.links.stop()
        # Process ids of other hosts mean nothing here.
        here = set(addresses.own_names())
        known = self.root.known.values()
        daemons = {hello.pid for hello in known if here & set(hello.names)}
        self.root.down(Shutdown())
        if self.root.joined:
            # Aggregators outside the tree get no message; they leave after their launcher's end.
            try:
                async with asyncio.timeout(LEAVE_TIMEOUT_S):
                    await asyncio.gather(*(starter.wait() for starter in self.starters))
            except TimeoutError:
                LOG.warning("the aggregators do not leave; ending what started them")
        await asyncio.gather(*(starter.end() for starter in self.starters), *self.useless)
        if not self.options.host:
            await asyncio.gather(*(places.wait_gone(pid, LEAVE_TIMEOUT_S) for pid in daemons))
        await self.links.end()
        if self._listener is not None:
            await self._listener.end()
        for listener in self._further_listeners:
            await listener.end()
        if self._shipper is not None:
            await self._shipper.close()

    # -- what comes ----------------------------------------------------------------------------

    @contextlib.contextmanager
    def changes(self) -> Iterator[asyncio.Event]:
        """Set an event at every change, within the context."""
        changed = asyncio.Event()
        self._watchers.add(changed)
        try:
            yield changed
        finally:
            self._watchers.discard(changed)

    def _note(self) -> None:
        for watcher in self._watchers:
            watcher.set()

    def on_line(self, line: str) -> None:
        """Accept a line from an aggregator that cannot call us: its address."""
        words = line.split()
        is_call = len(words) == 3 and words[0] == CALL_WORD
        if is_call and words[1].isdecimal() and len(words[1]) < 10:
            self.called[int(words[1])] = words[2]
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
            self.refused.update(dict.fromkeys(message.nodes, message.why))
        self._note()
        self._on_lost(message)
