"""A place whose aggregators run in this process, and an overlay that is raised on it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, cast

import msgspec
import pytest

from pgdb.backend.node.aggregator import Aggregator
from pgdb.backend.node.aggregator import Place as AggregatorPlace
from pgdb.errors import StartError
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.startup import aggregator_recovery, first_start, places
from pgdb.frontend.startup import overlay as overlay_module
from pgdb.frontend.startup.local_site import LocalSite
from pgdb.frontend.startup.overlay import Overlay
from pgdb.frontend.startup.places import Place
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.site import AggregatorStart, GetRendezvous
from pgdb.jobs.launchers import Family, Launcher
from pgdb.overlay import addresses
from pgdb.overlay.channel import Listener, listen_on
from pgdb.overlay.messages import Find, Hello, Lost
from pgdb.overlay.rendezvous import Rendezvous
from pgdb.overlay.topology import Topology
from tests.fakes.canned_debugger import CannedOpener

DEADLINE_S = 20.0
OPEN_MPI = Launcher(Path("/mpi/bin/mpirun"), Family.OPEN_MPI_4, "Open MPI 4.1.4")
HOSTS = ("a", "b", "c")


class FakeStarter:
    """A launcher of aggregators in this process."""

    pid = 4711

    def __init__(self, site: FakeSite, start: AggregatorStart) -> None:
        self.words = ""
        self.was_ended = False
        self._site = site
        self._start = start
        self._ended = asyncio.Event()
        self._running: list[asyncio.Task[None]] = []
        self._listeners: list[Listener] = []
        self.aggregators: dict[int, Aggregator] = {}

    async def raise_up(self, on_line: Callable[[str], None], rendezvous_read: Rendezvous) -> None:
        site, start = self._site, self._start
        count = start.per_host * max(1, len(start.hosts))
        nodes = range(start.first_node, start.first_node + count)
        sockets = {node: socket.create_server(("127.0.0.1", 0)) for node in nodes}
        at = {node: f"127.0.0.1:{each.getsockname()[1]}" for node, each in sockets.items()}
        for node in nodes:
            host = start.hosts[(node - start.first_node) // start.per_host] if start.hosts else ""
            if host in site.silent:
                sockets[node].close()
                continue
            place = AggregatorPlace(
                node=node,
                topology=Topology(count=rendezvous_read.count, fan_out=rendezvous_read.fan_out),
                credentials=rendezvous_read.credentials.encode("ascii"),
                front_end=rendezvous_read.front_end,
                own_address=at[node],
                grace_s=rendezvous_read.grace_s,
                addresses=tuple(at.values()) if start.wire_up == "mpi" else (),
            )
            one = FakeHost(place, host, site.releases.get(host))
            self.aggregators[node] = one
            listening = sockets[node]
            credentials = place.credentials
            self._listeners.append(await listen_on(listening, credentials, one.serve_link))
            self._running.append(asyncio.create_task(one.run()))
            if start.prints_addresses and (node == 0 or start.wire_up == "direct"):
                on_line(f"pgdb-aggregator {node} {at[node]}")
        if site.silent.isdisjoint(start.hosts):
            self._running.append(asyncio.create_task(self._end_with_them(list(self._running))))

    async def _end_with_them(self, running: list[asyncio.Task[None]]) -> None:
        await asyncio.gather(*running)
        self._ended.set()

    def fail(self, words: str) -> None:
        self.words = words
        self._ended.set()

    async def wait(self) -> int:
        await self._ended.wait()
        return 1

    async def end(self) -> None:
        self.was_ended = True
        for one in self.aggregators.values():
            one.leave()
        self._ended.set()
        await asyncio.gather(*self._running)
        for listener in self._listeners:
            await listener.close()

    def last_words(self) -> str:
        return self.words


class FakeHost(Aggregator):
    """An aggregator that says it is on another host, with another release perhaps."""

    def __init__(self, place: AggregatorPlace, host: str, release: str | None) -> None:
        super().__init__(place, CannedOpener())
        self._host = host
        self._release = release

    def _hello(self, *, wants_table: bool = False) -> Hello:
        hello = super()._hello(wants_table=wants_table)
        release = self._release or hello.release
        return msgspec.structs.replace(hello, host=self._host, names=(), release=release)


@dataclass
class FakeSite:
    """A site whose launchers fail as a test says."""

    fails: dict[tuple[str, int], str] = field(default_factory=dict)
    """Last words of a launcher that ends at once, by wire-up and number of hosts."""
    dead: dict[str, str] = field(default_factory=dict)
    """The same for one that is for this host alone."""
    unstartable: frozenset[str] = frozenset()
    silent: frozenset[str] = frozenset()
    """Hosts whose aggregators never come, while their launcher waits."""
    releases: dict[str, str] = field(default_factory=dict)
    starts: list[AggregatorStart] = field(default_factory=list)
    starters: list[FakeStarter] = field(default_factory=list)
    rendezvous_read: Rendezvous | None = None

    async def start(
        self, start: AggregatorStart, on_line: Callable[[str], None], rendezvous: GetRendezvous
    ) -> FakeStarter:
        self.starts.append(start)
        alone = start.hosts[0] if len(start.hosts) == 1 else ""
        if alone in self.unstartable:
            raise StartError("cannot start ssh: No such file or directory")
        starter = FakeStarter(self, start)
        self.starters.append(starter)
        words = self.dead.get(alone) or self.fails.get((start.wire_up, len(start.hosts)))
        if words is not None:
            starter.fail(words)
        else:
            self.rendezvous_read = Rendezvous.parse(await rendezvous())
            await starter.raise_up(on_line, self.rendezvous_read)
        return starter

    @property
    def tried(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(each.wire_up, each.hosts) for each in self.starts]

    async def silent_hosts(self, hosts: Sequence[str]) -> tuple[str, ...]:
        return await LocalSite.silent_hosts(cast("LocalSite", self), hosts)

    async def settle(self) -> None:
        pass

    async def find(self, target: str) -> NoReturn:
        raise AssertionError("the overlay finds no jobs")

    async def find_pids(self, entries: object) -> NoReturn:
        raise AssertionError("the overlay finds no jobs")

    async def jobs(self) -> NoReturn:
        raise AssertionError("the overlay finds no jobs")

    async def examine(self, *, as_json: bool, gdb: str) -> NoReturn:
        raise AssertionError("the overlay asks no doctor")

    async def choose_launcher(self, words: object, located: object) -> NoReturn:
        raise AssertionError("the launcher is in the place")

    async def close(self) -> None:
        pass


class Raised:
    """An overlay, and its reports."""

    def __init__(self, overlay: Overlay, site: FakeSite) -> None:
        self.overlay = overlay
        self.site = site
        self.lost: list[Lost] = []
        self.progress: list[tuple[int, int]] = []

    @property
    def hosts(self) -> dict[int, str]:
        return {node: hello.host for node, hello in sorted(self.overlay.nodes.items())}


@contextmanager
def alone() -> Iterator[None]:
    """Ask no name service, no route and no port of this machine; have short times."""

    async def gone(pid: int, timeout_s: float) -> None:
        """The aggregators are in this process."""

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(places, "wait_gone", gone)
        monkeypatch.setattr(addresses, "resolve", lambda host: None)
        monkeypatch.setattr(addresses, "address_towards", lambda hosts: "127.0.0.1")
        monkeypatch.setattr(first_start, "STRAGGLER_S", 0.3)
        # Only who waits in vain is to give up soon: a busy machine is no reason to.
        monkeypatch.setattr(first_start, "TOGETHER_TIMEOUT_S", DEADLINE_S)
        monkeypatch.setattr(aggregator_recovery, "START_TIMEOUT_S", DEADLINE_S)
        monkeypatch.setattr(overlay_module, "LEAVE_TIMEOUT_S", 0.5)
        yield


def run(
    site: FakeSite,
    test: Callable[[Raised], Coroutine[Any, Any, None]],
    *,
    launcher: Launcher | None = OPEN_MPI,
    hosts: tuple[str, ...] = HOSTS,
    **options: Any,
) -> Raised:
    """Raise the overlay of a place on *site*, run *test* and take it down."""

    async def bounded() -> Raised:
        directory = SessionDirectory()
        raised: Raised
        overlay = Overlay(
            SessionOptions(**options),
            directory,
            on_events=lambda classes: None,
            on_announced=lambda classes: None,
            on_late=lambda gathered: None,
            on_lost=lambda lost: raised.lost.append(lost),
            on_notice=lambda notice: None,
            on_progress=lambda got, wanted: raised.progress.append((got, wanted)),
        )
        raised = Raised(overlay, site)
        async with asyncio.timeout(DEADLINE_S):
            try:
                await overlay.start(site, Place(launcher=launcher, hosts=hosts))
                await test(raised)
            finally:
                await overlay.close()
                directory.remove()
        assert all(each.was_ended for each in site.starters)
        return raised

    return asyncio.run(bounded())


async def nothing(raised: Raised) -> None:
    pass


def whole(*hosts: str) -> Callable[[Raised], Coroutine[Any, Any, None]]:
    """Return a test that these hosts are in the tree, and that all of them answer."""

    async def test(raised: Raised) -> None:
        assert raised.hosts == dict(enumerate(hosts))
        found = await raised.overlay.find(Find(selector="none:such"))
        assert found.keys() == set(range(len(hosts)))

    return test


BOTH = pytest.mark.parametrize("connect", [False, True], ids=["listens", "calls"])
