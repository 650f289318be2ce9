"""Held ranks and their reports, from well-behaved hosts and from strangers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from pgdb.errors import StartError, UsageError
from pgdb.frontend.api import closing
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.session import Session
from pgdb.frontend.startup import held, incoming_reports
from pgdb.frontend.startup import job as job_module
from pgdb.frontend.startup.held import HeldJob, Reports
from pgdb.frontend.startup.incoming_reports import offered_addresses
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.session_start import new_session
from pgdb.jobs import hold
from pgdb.overlay import addresses
from tests.support.hold_reports import DEADLINE_S, LIMIT_BYTES, MARK, Hearing, fields, report, run


def forged(change: Callable[[bytes], bytes]) -> bytes:
    """Return a report with one field changed in transit."""
    data = change(report(*fields()).partition(b"\n")[2])
    return b"%d\n" % len(data) + data


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The name service: no test asks that of this machine."""
    known = {"node1": "10.0.0.1", "node2": "10.0.0.2"}
    monkeypatch.setattr(addresses, "resolve", known.get)
    return known


# -- others than ranks -----------------------------------------------------------------------------

SENDS = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as link:
    link.sendall(bytes.fromhex(sys.argv[2]))
    link.settimeout(60)
    try:
        sys.exit("it was let in" if link.recv(1) else 0)
    except ConnectionResetError:
        pass
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_another_user_who_has_read_the_mark_is_not_heard() -> None:
    async def test(hearing: Hearing) -> None:
        data = report(*fields(0, local_size=4))
        process = await asyncio.create_subprocess_exec(
            *("python3", "-I", "-S", "-c", SENDS, str(hearing._port), data.hex()),
            user=65534,
            cwd="/",
        )
        assert await process.wait() == 0
        assert not hearing.reports.hosts and not hearing.reports.known.is_set()
        await hearing.send(data)
        await hearing.reports.known.wait()

    run(test)


@pytest.mark.parametrize(
    "wrong",
    [
        {"host": "-oProxyCommand=reboot"},
        {"alias": "-oProxyCommand=reboot"},
        {"host": "node1,node2"},
        {"host": "node1; reboot"},
        {"host": ""},
        {"slurm_job": "7 --uid=0"},
    ],
    ids=str,
)
def test_names_that_a_launcher_could_take_for_more_are_refused(wrong: dict[str, str]) -> None:
    async def test(hearing: Hearing) -> None:
        assert await hearing.is_refused(report(*fields(0, **wrong)))  # type: ignore[arg-type]
        assert not hearing.reports.hosts

    run(test)


@pytest.mark.parametrize("first", [b"", b"10", b"9000\npgdb-ma", b"9000\n" + b"0" * 70])
def test_a_connection_that_does_not_report_is_closed(
    first: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming_reports, "REPORT_TIMEOUT_S", 0.2)

    async def test(hearing: Hearing) -> None:
        assert await hearing.is_refused(first)
        await hearing.send(report(*fields(0, local_size=4)))
        await hearing.reports.known.wait()

    run(test)


def test_connections_that_say_nothing_do_not_keep_ranks_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(held, "MAX_PENDING", 4)

    async def test(hearing: Hearing) -> None:
        silent = [await hearing.send(b"") for _ in range(20)]
        await hearing.send(report(*fields(0, local_size=4)))
        await hearing.reports.known.wait()
        assert len(hearing.reports._pending) <= 4
        for reader in silent[:16]:
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""

    run(test)


# -- reports -----------------------------------------------------------------------------------


def test_all_is_known_when_every_rank_is_accounted_for() -> None:
    async def test(hearing: Hearing) -> None:
        reports = hearing.reports
        assert reports.progress() == "no rank is held yet"
        await hearing.send(report(*fields(0)))
        while not reports.hosts:
            await asyncio.sleep(0)
        assert not reports.known.is_set()
        assert reports.progress() == "2 of 4 ranks are held, on node1"
        await hearing.send(report(*fields(2, host="node2")))
        await reports.known.wait()
        assert reports.progress() == "4 of 4 ranks are held, on node1, node2"
        assert list(reports.hosts.values()) == ["node1", "node2"]
        assert (reports.size, reports.program, reports.slurm_job) == (4, "./app", "")

    run(test)


def test_what_comes_behind_a_report_ends_the_connection() -> None:
    async def test(hearing: Hearing) -> None:
        assert await hearing.is_refused(report(*fields()) + b"x" * (64 << 20))
        assert hearing.reports.hosts

    run(test)


def test_a_host_that_reports_twice_counts_once() -> None:
    async def test(hearing: Hearing) -> None:
        for _ in range(2):
            await hearing.send(report(*fields(0)))
        while len(hearing.reports._writers) < 2:
            await asyncio.sleep(0)
        assert not hearing.reports.known.is_set()

    run(test)


def test_a_report_that_was_heard_is_heard_once() -> None:
    """A listener on the network cannot send the report again from another address."""

    async def test(hearing: Hearing) -> None:
        data = report(*fields(0))
        assert MARK.encode() not in data and data != report(*fields(0))
        await hearing.send(data)
        while not hearing.reports._writers:
            await asyncio.sleep(0)
        for _ in range(2):
            assert await hearing.is_refused(data)
        assert len(hearing.reports._writers) == 1 and len(hearing.reports.hosts) == 1

    run(test)


def test_two_nodes_of_one_name_are_distinguished_by_their_names_in_slurm() -> None:
    async def test(hearing: Hearing) -> None:
        await hearing.send(report(*fields(0, alias="n1", slurm_job="7")))
        await hearing.send(report(*fields(2, alias="n2", slurm_job="7")))
        await hearing.reports.known.wait()
        assert hearing.reports.hosts == {
            ("node1", "n1", "127.0.0.1"): "n1",
            ("node1", "n2", "127.0.0.1"): "n2",
        }
        assert hearing.reports.slurm_job == "7"

    run(test)


def test_a_host_whose_name_means_nothing_here_is_known_by_its_address() -> None:
    async def test(hearing: Hearing) -> None:
        await hearing.send(report(*fields(0, 2, host="localhost.inside")))
        await hearing.reports.known.wait()
        assert list(hearing.reports.hosts.values()) == ["127.0.0.1"]

    run(test)


def test_a_path_may_hold_any_bytes() -> None:
    async def test(hearing: Hearing) -> None:
        program = "./gr\udcfc\udce9\n7\n" + "x" * 4000
        await hearing.send(report(*fields(0, 2, program=program)))
        await hearing.reports.known.wait()
        assert hearing.reports.program == program

    run(test)


def test_a_report_may_come_in_pieces() -> None:
    async def test(hearing: Hearing) -> None:
        data = report(*fields(0, 2))
        await hearing.send(data[:1])
        for at in range(1, len(data)):
            hearing.writers[0].write(data[at : at + 1])
            await hearing.writers[0].drain()
        await hearing.reports.known.wait()

    run(test)


GARBAGE = {
    "web": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "nothing": b"\n",
    "no number": b"many\n" + report(*fields()),
    "negative": b"-5\nhello",
    "zero": b"0\n",
    "too long": b"%d\n" % (LIMIT_BYTES + 1) + b"x" * 100,
    "far too long": b"9" * 40 + b"\n",
    "no line": b"7" * (2 * LIMIT_BYTES),
    "another session": report(*fields(), mark="pgdb-other"),
    "no mark": report(*fields(), mark=""),
    "part of the mark": report(*fields(), mark=MARK[:-1]),
    "more than the mark": report(*fields(), mark=f"{MARK}0"),
    "too few fields": report(*fields()[:-1]),
    "too many fields": report(*fields(), "-n"),
    "no numbers": report("a", "b", "c", "d", "e", "host", "", "", "app"),
    "another host": forged(lambda data: data.replace(b"node1", b"node2")),
    "another size": forged(lambda data: data.replace(b"\x004\0", b"\x002\0")),
    "another nonce": forged(lambda data: data[:65] + b"0" * 32 + data[97:]),
    "another code": forged(lambda data: b"0" * 64 + data[64:]),
    "no code": forged(lambda data: data[65:]),
    "an empty code": forged(lambda data: data[64:]),
    "a code in capitals": forged(lambda data: data[:64].upper() + data[64:]),
    "more behind it": forged(lambda data: data + b"\0x"),
    "binary": b"12\n" + bytes(range(244, 256)),
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
def test_what_is_no_report_is_dropped_and_harms_nobody(data: bytes) -> None:
    async def test(hearing: Hearing) -> None:
        trouble: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: trouble.append(what))
        assert await hearing.is_refused(data)
        assert not hearing.reports.hosts and hearing.reports.size == 0
        await hearing.send(report(*fields(0, 2)))
        await hearing.reports.known.wait()
        assert not trouble

    run(test)


@pytest.mark.parametrize("length", [0, 1, 3, 20])
def test_a_report_that_is_cut_off_is_dropped(length: int) -> None:
    async def test(hearing: Hearing) -> None:
        assert await hearing.is_refused(report(*fields())[:length], ends=True)
        assert not hearing.reports.hosts

    run(test)


def test_one_that_says_nothing_holds_nobody_up() -> None:
    async def test(hearing: Hearing) -> None:
        await hearing.send(b"")
        await hearing.send(b"12")
        await hearing.send(report(*fields(0, 2)))
        await hearing.reports.known.wait()

    run(test)


def test_close_ends_the_connections_of_all_hosts() -> None:
    async def test(hearing: Hearing) -> None:
        ends = [
            await hearing.send(report(*fields(rank, host=host)))
            for rank, host in ((0, "node1"), (2, "node2"))
        ]
        await hearing.reports.known.wait()
        while len(hearing.reports._writers) < 2:
            await asyncio.sleep(0)
        assert not any(end.at_eof() for end in ends)
        hearing.reports.close()
        for end in ends:
            assert await end.read() == b""

    run(test)


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ([("me", "")], True),
        ([("me", "n1")], True),
        ([("node2", "")], False),
        ([("me", ""), ("node2", "")], False),
        # Two Slurm nodes on this very machine are two places to start aggregators at.
        ([("me", "n1"), ("me", "n2")], False),
        ([], False),
    ],
)
def test_whether_all_ranks_are_on_this_host(
    hosts: list[tuple[str, str]], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "own_names", lambda: ("me", "10.0.0.9"))
    reports = Reports(MARK)
    reports.hosts = {(*names, "192.0.2.7"): names[0] for names in hosts}
    assert reports.all_here is expected


# -- where they may report, and by what --------------------------------------------------------


def test_ranks_of_this_host_report_over_loopback_others_to_any_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(addresses, "own_addresses", lambda: ("10.0.0.9", "10.1.0.9"))
    assert offered_addresses("", on_this_host_only=True) == ["127.0.0.1"]
    assert offered_addresses("", on_this_host_only=False) == [
        "10.0.0.9",
        "10.1.0.9",
    ]
    monkeypatch.setattr(addresses, "own_addresses", lambda: ())
    assert offered_addresses("", on_this_host_only=False) == ["127.0.0.1"]


def test_the_address_that_is_asked_for_is_the_only_one(names: dict[str, str]) -> None:
    names["127.0.0.1"] = "127.0.0.1"
    assert offered_addresses("127.0.0.1", on_this_host_only=False) == ["127.0.0.1"]
    with pytest.raises(UsageError, match="--listen node1: "):
        offered_addresses("node1", on_this_host_only=False)


def test_the_hold_program_is_run_by_a_python_of_the_hosts() -> None:
    ours = (sys.executable, "-I", "-S", hold.__file__)
    assert held._hold_program(SessionOptions()) == ours
    theirs = held._hold_program(SessionOptions(remote_python="/opt/python"))
    assert theirs == ("/opt/python", *ours[1:])
    carried = held._hold_program(SessionOptions(ship=True))
    assert carried[0] == "python3" and hold.__file__ not in carried


# -- a real rank -------------------------------------------------------------------------------


def with_job(
    line: Callable[[Sequence[str]], tuple[str, ...]],
    test: Callable[[HeldJob, Session], Coroutine[Any, Any, None]],
    monkeypatch: pytest.MonkeyPatch,
    **options: Any,
) -> None:
    for name in ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "SLURMD_NODENAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(closing, "LAUNCHER_END_S", 0.1)

    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            directory = SessionDirectory()
            session, _ = new_session("launch", SessionOptions(**options), directory)
            try:
                job = await HeldJob.launch(
                    session, directory, line, stdin=None, on_this_host_only=True
                )
                await test(job, session)
            finally:
                await session.close()

    asyncio.run(bounded())


def test_a_rank_is_held_until_it_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(job: HeldJob, session: Session) -> None:
        await job.wait_known()
        assert job.reports.size == 1 and job.reports.program == "sh"
        assert list(job.reports.hosts) == [(os.uname().nodename, "", "127.0.0.1")]
        assert session.job is not None and not session.job.has_ended
        job.reports.close()
        assert await session.job.wait() == 7, "it goes on as if it had never been held"

    with_job(lambda prefix: (*prefix, "sh", "-c", "exit 7"), test, monkeypatch)


def test_a_job_that_ends_before_its_ranks_are_held_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(job: HeldJob, session: Session) -> None:
        reported = r"the job ended \(status 3\) before its ranks could be held"
        with pytest.raises(StartError, match=reported):
            await job.wait_known()
        with pytest.raises(StartError, match=reported):
            await job.unless_it_ends(asyncio.Event().wait())

    with_job(lambda prefix: ("sh", "-c", "exit 3"), test, monkeypatch)


def test_what_is_waited_for_may_come_or_fail_first(monkeypatch: pytest.MonkeyPatch) -> None:
    async def value() -> int:
        return 7

    async def failure() -> int:
        raise StartError("no host")

    async def test(job: HeldJob, session: Session) -> None:
        assert await job.unless_it_ends(value()) == 7
        with pytest.raises(StartError, match="no host"):
            await job.unless_it_ends(failure())

    with_job(lambda prefix: (*prefix, "true"), test, monkeypatch)


def test_a_rank_that_was_never_acquired_is_not_run_at_the_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(job_module, "TERMINATE_TIMEOUT_S", 1.0)

    async def test(job: HeldJob, session: Session) -> None:
        await job.wait_known()

    program = ("sh", "-c", f"echo ran > {tmp_path}/file; exec sleep 60")
    with_job(lambda prefix: (*prefix, *program), test, monkeypatch)
    assert not (tmp_path / "file").exists()
