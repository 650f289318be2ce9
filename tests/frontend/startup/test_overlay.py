"""Start of the overlay: the attempts, the hosts that are left out, the links that are kept.

The site and its launchers are played; the aggregators are the real ones, in this process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, cast

import msgspec
import pytest

from pgdb.backend.node import aggregator as aggregator_module
from pgdb.backend.node.aggregator import Aggregator
from pgdb.backend.node.aggregator import Place as AggregatorPlace
from pgdb.errors import StartError
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.startup import aggregator_recovery, local_site, places
from pgdb.frontend.startup import links as links_module
from pgdb.frontend.startup import overlay as overlay_module
from pgdb.frontend.startup.local_site import LocalSite
from pgdb.frontend.startup.overlay import Overlay
from pgdb.frontend.startup.places import Place, explain
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.site import AggregatorStart, GetRendezvous
from pgdb.jobs.launchers import Family, Launcher
from pgdb.overlay import addresses
from pgdb.overlay import channel as channel_module
from pgdb.overlay.channel import Channel, Listener, listen_on
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


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask no name service, no route and no port of this machine; have short times."""

    async def gone(pid: int, timeout_s: float) -> None:
        """The aggregators are in this process."""

    monkeypatch.setattr(places, "wait_gone", gone)
    monkeypatch.setattr(addresses, "resolve", lambda host: None)
    monkeypatch.setattr(addresses, "address_towards", lambda hosts: "127.0.0.1")
    monkeypatch.setattr(overlay_module, "STRAGGLER_S", 0.3)
    # Only who waits in vain is to give up soon: a busy machine is no reason to.
    monkeypatch.setattr(overlay_module, "TOGETHER_TIMEOUT_S", DEADLINE_S)
    monkeypatch.setattr(aggregator_recovery, "START_TIMEOUT_S", DEADLINE_S)
    monkeypatch.setattr(overlay_module, "LEAVE_TIMEOUT_S", 0.5)


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


# -- together ------------------------------------------------------------------------------------


@BOTH
def test_one_launcher_with_mpi_is_enough(connect: bool) -> None:
    async def test(raised: Raised) -> None:
        await whole(*HOSTS)(raised)
        assert raised.lost == []

    raised = run(FakeSite(), test, connect=connect, fan_out=1)
    assert raised.site.tried == [("mpi", HOSTS)]
    assert raised.overlay.failed == {}
    assert raised.progress[-1] == (3, 3)
    (start,) = raised.site.starts
    assert start.launcher is OPEN_MPI and start.prints_addresses is connect
    rendezvous_read = raised.site.rendezvous_read
    assert (rendezvous_read.count, rendezvous_read.fan_out, rendezvous_read.hosts) == (3, 1, HOSTS)
    assert bool(rendezvous_read.front_end) is not connect


@BOTH
def test_several_aggregators_of_this_host_need_no_hosts(connect: bool) -> None:
    raised = run(FakeSite(), whole("", "", ""), hosts=(), aggregators=3, connect=connect)
    assert raised.site.tried == [("mpi", ())]


@BOTH
@pytest.mark.parametrize("words", ["MPI_Init failed", ""])
def test_where_mpi_does_not_come_up_it_is_done_without(connect: bool, words: str) -> None:
    site = FakeSite(fails={("mpi", 3): words})
    raised = run(site, whole(*HOSTS), connect=connect)
    assert raised.site.tried == [("mpi", HOSTS), ("direct", HOSTS)]
    assert raised.overlay.failed == {}


@BOTH
def test_a_launcher_that_gets_nowhere_is_given_up(
    monkeypatch: pytest.MonkeyPatch, connect: bool
) -> None:
    monkeypatch.setattr(overlay_module, "TOGETHER_TIMEOUT_S", 0.5)
    monkeypatch.setattr(aggregator_recovery, "START_TIMEOUT_S", 0.5)
    site = FakeSite(silent=frozenset("b"))

    async def test(raised: Raised) -> None:
        await whole("a", "c")(raised)
        assert raised.lost == [], "nobody is lost who was of an earlier attempt"

    raised = run(site, test, connect=connect)
    assert site.tried[:2] == [("mpi", HOSTS), ("direct", HOSTS)]
    assert raised.overlay.failed.keys() == {"b"}
    assert "does not answer" in raised.overlay.failed["b"]


def test_the_time_for_all_of_the_start_counts_too() -> None:
    with pytest.raises(StartError, match=r"^0 of 3 aggregators within 0\.05 s"):
        run(FakeSite(silent=frozenset(HOSTS)), nothing, wire_up="mpi", start_timeout_s=0.1)


# -- apart ---------------------------------------------------------------------------------------

TOGETHER_FAILS = {("mpi", 3): "no route", ("direct", 3): "no route either"}


@BOTH
def test_each_host_gets_a_launcher_of_its_own_last(connect: bool) -> None:
    site = FakeSite(fails=TOGETHER_FAILS)
    run(site, whole(*("a", "a", "b", "b", "c", "c")), connect=connect, aggregators=2)
    apart = site.starts[2:]
    assert [(each.wire_up, each.hosts) for each in apart] == [
        ("direct", ("a",)),
        ("direct", ("b",)),
        ("direct", ("c",)),
    ]
    assert [each.first_node for each in apart] == [0, 2, 4]
    assert len({each.log for each in site.starts}) == 4, "starts at the same time share no file"


@BOTH
def test_hosts_without_aggregators_are_named_with_the_reason(connect: bool) -> None:
    words = "ssh: connect to host b port 22: No route to host"
    site = FakeSite(fails=TOGETHER_FAILS, dead={"b": words})
    raised = run(site, whole("a", "c"), connect=connect)
    assert raised.overlay.failed == {"b": words}
    assert raised.overlay.root.topology.count == 2


@BOTH
def test_a_host_whose_launcher_cannot_be_run_costs_only_itself(connect: bool) -> None:
    site = FakeSite(fails=TOGETHER_FAILS, unstartable=frozenset("a"))
    raised = run(site, whole("b", "c"), connect=connect)
    assert raised.overlay.failed == {"a": "cannot start ssh: No such file or directory"}


@BOTH
def test_a_host_that_says_nothing_is_not_waited_for_long(connect: bool) -> None:
    site = FakeSite(fails=TOGETHER_FAILS, silent=frozenset("ac"))
    raised = run(site, whole("b"), connect=connect)
    assert raised.overlay.failed.keys() == {"a", "c"}


def test_leaving_does_not_wait_for_the_launcher_of_a_host_that_never_came(
    caplog: pytest.LogCaptureFixture,
) -> None:
    site = FakeSite(fails=TOGETHER_FAILS, silent=frozenset("b"))
    with caplog.at_level(logging.WARNING):
        run(site, whole("a", "c"))
    assert "the aggregators do not leave" not in caplog.text


@BOTH
def test_without_any_host_the_first_reason_is_reported(connect: bool) -> None:
    site = FakeSite(fails=TOGETHER_FAILS, dead=dict.fromkeys(HOSTS, "dead"))
    with pytest.raises(StartError, match=r"^the aggregators' launcher ended at once: no route$"):
        run(site, nothing, connect=connect)
    assert len(site.starts) == 5


def test_no_module_over_there_is_told_with_the_ways_out() -> None:
    words = "/usr/bin/python3: No module named pgdb"
    site = FakeSite(dead=dict.fromkeys(HOSTS, words))
    with pytest.raises(StartError, match=r"a: .*No module named pgdb; .*--remote-python.*--ship"):
        run(site, nothing, launcher=None)
    assert explain("something odd") == "something odd"


@BOTH
def test_a_host_with_another_release_is_left_out_by_name(connect: bool) -> None:
    site = FakeSite(releases={"b": "PGDB 0.1 on Python 3.6"})
    with pytest.raises(StartError, match=r"host b runs PGDB 0\.1 on Python 3\.6, here is PGDB"):
        run(site, nothing, connect=connect)


# -- which are tried -----------------------------------------------------------------------------

MPICH_4 = Launcher(Path("/mpi/bin/mpirun"), Family.MPICH, "MPICH 4.0.2")
SRUN = Launcher(Path("/usr/bin/srun"), Family.SLURM, "Slurm 22.05.8")
APART = [("direct", (host,)) for host in HOSTS]


@pytest.mark.parametrize(
    ("launcher", "options", "tried"),
    [
        (OPEN_MPI, {}, [("mpi", HOSTS), ("direct", HOSTS), *APART]),
        (OPEN_MPI, {"wire_up": "mpi"}, [("mpi", HOSTS)]),
        (OPEN_MPI, {"wire_up": "direct"}, [("direct", HOSTS), *APART]),
        # srun starts whatever MPI, or none.
        (SRUN, {}, [("direct", HOSTS), *APART]),
        # It does not come out of MPI_Finalize between hosts.
        (MPICH_4, {}, [("direct", HOSTS), *APART]),
        (None, {}, APART),
    ],
)
def test_what_is_tried_and_in_which_order(
    launcher: Launcher | None, options: dict[str, Any], tried: list[tuple[str, tuple[str, ...]]]
) -> None:
    site = FakeSite(
        fails={(wire_up, 3): "no" for wire_up in ("mpi", "direct")},
        dead=dict.fromkeys(HOSTS, "no"),
    )
    with pytest.raises(StartError):
        run(site, nothing, launcher=launcher, **options)
    assert site.tried == tried


def test_a_host_that_does_not_answer_at_all_sends_everyone_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    async def answers(host: str) -> bool:
        asked.append(host)
        return host != "b"

    monkeypatch.setattr(local_site, "_answers", answers)
    monkeypatch.setattr(addresses, "own_names", lambda: ("a",))
    site = FakeSite(silent=frozenset("b"))
    raised = run(site, whole("a", "c"))
    assert site.tried == APART
    assert asked == ["b", "c"], "this host is not asked whether it is there"
    assert raised.overlay.failed["b"].startswith("nothing at b answers; is it up, and its link?")


def test_a_port_that_refuses_is_a_host_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "resolve", lambda host: "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(local_site, "SSH_PORT", port)
        assert asyncio.run(local_site._answers("x"))
    assert asyncio.run(local_site._answers("x"))
    monkeypatch.setattr(addresses, "resolve", lambda host: None)
    assert asyncio.run(local_site._answers("x")), "ssh may know it by another name"


def test_a_host_that_swallows_connections_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def nobody(*address: object) -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError

    async def no_route(*address: object) -> NoReturn:
        raise OSError(113, "No route to host")

    monkeypatch.setattr(addresses, "resolve", lambda host: "192.0.2.1")
    monkeypatch.setattr(local_site, "PROBE_TIMEOUT_S", 0.05)
    for connection in (nobody, no_route):
        monkeypatch.setattr(asyncio, "open_connection", connection)
        assert not asyncio.run(local_site._answers("x"))


# -- the front end's link ------------------------------------------------------------------------


def test_a_link_that_is_lost_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(raised: Raised) -> None:
        await whole(*HOSTS)(raised)
        root = raised.overlay.root
        root._channels[0]._writer.transport.abort()
        while not raised.lost:
            await asyncio.sleep(0)
        assert set(raised.lost[0].nodes) == {0, 1, 2}
        while len(raised.overlay.nodes) < 3:
            await asyncio.sleep(0)
        await whole(*HOSTS)(raised)

    run(FakeSite(), test, connect=True)


# -- after a loss --------------------------------------------------------------------------------


async def crash(starter: FakeStarter, *nodes: int) -> None:
    """Have aggregators go as killed processes go: all links at once, and nobody listens."""

    async def never(limit_s: float) -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError

    for node in nodes:
        one = starter.aggregators[node]
        one._find_parent = never  # type: ignore[method-assign]
        await starter._listeners[node].close()
        for channel in (one._parent, *one._channels.values()):
            if channel is not None:
                channel._writer.transport.abort()


async def only(raised: Raised, *nodes: int) -> None:
    while raised.overlay.nodes.keys() != set(nodes):
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("connect", [False, True])
@pytest.mark.parametrize("lost", [(0,), (1,), (2,), (0, 1), (0, 1, 2)])
def test_the_place_of_a_lost_aggregator_is_filled_anew(
    monkeypatch: pytest.MonkeyPatch, connect: bool, lost: tuple[int, ...]
) -> None:
    monkeypatch.setattr(links_module, "CALL_AGAIN_S", 0.05)

    async def test(raised: Raised) -> None:
        (first,) = raised.site.starters
        await crash(first, *lost)
        # Descendants of a lost one find another parent, or are called if they cannot call us.
        await only(raised, *({0, 1, 2} - set(lost)))
        assert await raised.overlay.recover(lost) == {}
        await whole(*HOSTS)(raised)
        for node, hello in raised.overlay.nodes.items():
            assert hello.generation == (node in lost)
        wanted = [("direct", (HOSTS[node],)) for node in lost]
        assert raised.site.tried[1:] == wanted

    run(FakeSite(), test, connect=connect, fan_out=1, grace_s=DEADLINE_S)


@BOTH
@pytest.mark.parametrize("order", [(2, 0, 1), (1, 2, 0), (2, 1, 0)])
def test_one_lost_aggregator_after_the_other_comes_back(
    connect: bool, order: tuple[int, ...]
) -> None:
    """Also those that have nobody left above them, and nobody is started who was not asked for."""

    async def test(raised: Raised) -> None:
        root = raised.overlay.root
        await crash(raised.site.starters[0], *order)
        await only(raised)
        for count, node in enumerate(order, 1):
            assert await raised.overlay.recover([node]) == {}
            await only(raised, *order[:count])
            # On the nearest one above that is there, else on the front end.
            above = [each for each in order[:count] if each < node]
            hangs_on_us = node in root._channels
            assert hangs_on_us == (not above)
        assert raised.site.tried[1:] == [("direct", (HOSTS[node],)) for node in order]
        await whole(*HOSTS)(raised)

    run(FakeSite(), test, connect=connect, fan_out=1, grace_s=DEADLINE_S)


@BOTH
def test_an_aggregator_that_lives_is_called_back(
    monkeypatch: pytest.MonkeyPatch, connect: bool
) -> None:
    """While it tries in vain to reach the one that was above it."""

    async def test(raised: Raised) -> None:
        gone = raised.overlay.nodes[1].address

        async def reach(address: str, credentials: bytes) -> Channel:
            if address == gone:
                await asyncio.Event().wait()
            return await channel_module.connect(address, credentials)

        monkeypatch.setattr(aggregator_module, "connect", reach)
        (first,) = raised.site.starters
        await crash(first, 1)
        await only(raised, 0)
        assert await raised.overlay.recover([1, 2]) == {}
        assert raised.site.tried[1:] == [("direct", (HOSTS[1],))]
        nodes = raised.overlay.nodes
        assert [nodes[node].generation for node in range(3)] == [0, 1, 0]
        await whole(*HOSTS)(raised)
        # The link that has brought it back is one like any other.
        raised.lost.clear()
        raised.overlay.root._channels[2]._writer.transport.abort()
        while not raised.lost:
            await asyncio.sleep(0)
        await only(raised, 0, 1, 2)

    run(FakeSite(), test, connect=connect, fan_out=1, grace_s=DEADLINE_S)


@BOTH
def test_those_below_a_first_one_that_hangs_come_back_soon(
    monkeypatch: pytest.MonkeyPatch, connect: bool
) -> None:
    """It takes connections, as a stopped process does, and says nothing."""
    monkeypatch.setattr(channel_module, "CONNECT_TIMEOUT_S", 10 * DEADLINE_S)
    monkeypatch.setattr(links_module, "ORPHANS_AFTER_S", 0.1)
    monkeypatch.setattr(aggregator_module, "NEXT_ANCESTOR_S", 0.1)

    async def test(raised: Raised) -> None:
        host, _, port = raised.overlay.nodes[0].address.rpartition(":")
        (first,) = raised.site.starters
        await first._listeners[0].close()
        with socket.create_server((host, int(port))):
            await crash(first, 0)
            await only(raised, 1, 2)

    run(FakeSite(), test, connect=connect, fan_out=1, grace_s=DEADLINE_S)


@BOTH
def test_with_one_that_lives_come_those_below_it(
    monkeypatch: pytest.MonkeyPatch, connect: bool
) -> None:
    async def test(raised: Raised) -> None:
        async def reach(address: str, credentials: bytes) -> NoReturn:
            await asyncio.Event().wait()
            raise AssertionError

        monkeypatch.setattr(aggregator_module, "connect", reach)
        (first,) = raised.site.starters
        await crash(first, 1)
        await only(raised, 0)
        # It has a parent, and has noticed nothing.
        assert await raised.overlay.recover([3]) == {}
        await only(raised, 0, 2, 3)
        assert len(raised.site.starts) == 1

    run(FakeSite(), test, hosts=(*HOSTS, "d"), connect=connect, fan_out=1, grace_s=DEADLINE_S)


def test_an_aggregator_that_hangs_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links_module, "ANSWER_TIMEOUT_S", 0.1)

    async def test(raised: Raised) -> None:
        links = raised.overlay.links
        assert await links.answers(raised.overlay.nodes[0].address)
        with socket.create_server(("127.0.0.1", 0)) as server:
            hung = f"127.0.0.1:{server.getsockname()[1]}"
            assert not await links.answers(hung)
        assert not await links.answers(hung)
        assert not await links.answers("")

    run(FakeSite(), test)


@pytest.mark.parametrize("connect", [False, True])
def test_the_reason_of_an_empty_place_is_reported(
    monkeypatch: pytest.MonkeyPatch, connect: bool
) -> None:
    site = FakeSite()

    async def test(raised: Raised) -> None:
        (first,) = site.starters
        await crash(first, 1, 2)
        await only(raised, 0)
        site.dead[HOSTS[1]] = "no such host"
        site.silent = frozenset({HOSTS[2]})
        monkeypatch.setattr(overlay_module, "TOGETHER_TIMEOUT_S", 0.5)
        monkeypatch.setattr(aggregator_recovery, "START_TIMEOUT_S", 0.5)
        assert await raised.overlay.recover([1, 2]) == {
            1: "no such host",
            2: "it does not come up",
        }
        # The launcher that started in vain has been ended.
        assert all(each.was_ended for each in site.starters[1:])

    run(site, test, connect=connect, grace_s=DEADLINE_S)


def test_an_aggregator_that_is_lost_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(raised: Raised) -> None:
        (starter,) = raised.site.starters

        async def answer_never(find: Find) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(starter.aggregators[2], "_answer_find", answer_never)
        finding = asyncio.create_task(raised.overlay.find(Find(selector="none:such")))
        while len(raised.overlay._found) < 2:
            await asyncio.sleep(0)
        assert not finding.done()
        starter.aggregators[2].leave()
        assert (await finding).keys() == {0, 1}

    run(FakeSite(), test)


def test_lines_that_are_no_address_are_not_minded() -> None:
    async def test(raised: Raised) -> None:
        for line in ("", "pgdb-aggregator", "pgdb-aggregator x h:1", "pgdb-aggregator 1 h:1 x"):
            raised.overlay.on_line(line)
        assert raised.overlay.called.keys() == {0}

    run(FakeSite(), test, connect=True)


@pytest.mark.parametrize("host", ["-oProxyCommand=reboot", "a;reboot", "a,b", "$(reboot)", ""])
@pytest.mark.parametrize("by_ssh", [True, False], ids=["ssh", "launcher"])
def test_what_is_no_name_of_a_host_gets_into_no_line(
    host: str, by_ssh: bool, tmp_path: Path
) -> None:
    starts = tmp_path / "started"
    program = tmp_path / "mpirun"
    program.write_text(f"#!/bin/sh\ntouch {starts}\n")
    program.chmod(0o755)
    launcher = Launcher(path=program, family=Family.MPICH, version="MPICH")
    start = AggregatorStart(
        launcher=None if by_ssh else launcher,
        words=(str(program),) if by_ssh else (),
        hosts=("node1", host),
    )

    async def nothing() -> str:
        return ""

    async def test() -> None:
        with pytest.raises(StartError, match="no name of a host"):
            await LocalSite(tmp_path).start(start, lambda line: None, nothing)

    asyncio.run(test())
    assert not starts.exists()


@pytest.mark.parametrize("host", ["-oProxyCommand=reboot", "a;reboot"])
def test_nothing_is_shipped_to_what_is_no_name_of_a_host(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ship(*_: object) -> str:
        raise AssertionError("a line of ssh")

    monkeypatch.setattr(overlay_module, "ship_by_ssh", ship)

    async def test(raised: Raised) -> None:
        monkeypatch.setattr(raised.overlay, "options", SessionOptions(ship=True))
        with pytest.raises(StartError, match="no name of a host"):
            await raised.overlay.with_ship(AggregatorStart(launcher=None, hosts=(host,)))

    run(FakeSite(), test)


def test_what_means_the_working_directory_is_not_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    program = tmp_path / "mpirun"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$LD_LIBRARY_PATH" "$PYTHONPATH" > {seen}\n')
    program.chmod(0o755)
    launcher = Launcher(path=program, family=Family.MPICH, version="MPICH")

    async def no_rendezvous() -> str:
        return ""

    async def test() -> None:
        start = AggregatorStart(launcher=launcher, hosts=(), wire_up="direct")
        started = await LocalSite(tmp_path).start(start, lambda line: None, no_rendezvous)
        await started.wait()
        await started.end()

    monkeypatch.setenv("LD_LIBRARY_PATH", ":/opt/lib:lib")
    monkeypatch.setenv("PYTHONPATH", "mine::/opt/python")
    asyncio.run(test())
    libraries, modules = seen.read_text().splitlines()
    assert libraries == "/opt/lib"
    assert all(each.startswith("/") for each in modules.split(os.pathsep)), modules
