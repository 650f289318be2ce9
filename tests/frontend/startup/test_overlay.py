"""Start of the overlay: the attempts, the hosts that are left out, the links that are kept.

The site and its launchers are played; the aggregators are the real ones, in this process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from pgdb.errors import StartError
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.startup import aggregator_recovery, first_start, local_site
from pgdb.frontend.startup import overlay as overlay_module
from pgdb.frontend.startup.local_site import LocalSite
from pgdb.frontend.startup.places import explain
from pgdb.frontend.startup.site import AggregatorStart
from pgdb.jobs.launchers import Family, Launcher
from pgdb.overlay import addresses
from tests.fakes.starters import (
    BOTH,
    HOSTS,
    OPEN_MPI,
    FakeSite,
    Raised,
    alone,
    nothing,
    run,
    whole,
)


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    with alone():
        yield


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


@pytest.mark.slow
@BOTH
def test_a_launcher_that_gets_nowhere_is_given_up(
    monkeypatch: pytest.MonkeyPatch, connect: bool
) -> None:
    monkeypatch.setattr(first_start, "TOGETHER_TIMEOUT_S", 0.5)
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


def test_no_module_over_there_is_reported_with_the_ways_out() -> None:
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
