"""Attacks on the listeners of a session that is at work: it answers, and lets nobody in.

tests/pgdb/overlay/test_attacks.py has more of them, against listeners of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import pgdb
from pgdb.errors import LinkError
from pgdb.overlay.channel import MAX_PENDING, connect
from tests.conftest import Build, StartJob
from tests.support.jobs import Job
from tests.support.processes import aggregator_of, wait_until
from tests.support.terminal import assert_untouched

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

CONNECTIONS = 300
LISTENING = "0A"  # include/net/tcp_states.h
DEADLINE_S = 60.0


def ports_of(pid: int) -> list[int]:
    """Return the TCP ports at which a process listens."""
    links = (os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir() if each.is_symlink())
    inodes = {found[1] for link in links if (found := re.match(r"socket:\[(\d+)\]", link))}
    lines = Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]
    fields = [line.split() for line in lines]
    return [
        int(each[1].rpartition(":")[2], 16)
        for each in fields
        if each[3] == LISTENING and each[9] in inodes
    ]


def listeners(session: pgdb.Session, job: Job) -> list[int]:
    """Return the ports of a session: of the front end, which we are, and of its aggregator."""
    listener = session._session.transport.overlay._listener
    assert listener is not None and listener.port in ports_of(os.getpid())
    (of_aggregator,) = ports_of(aggregator_of(job.ranks[0]))
    return [listener.port, of_aggregator]


@contextlib.contextmanager
def silent_connections(ports: list[int]) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), DEADLINE_S))
            for port in ports
            for _ in range(CONNECTIONS)
        ]


def is_closed(each: socket.socket) -> bool:
    each.setblocking(False)
    try:
        return each.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def check_answers(session: pgdb.Session) -> None:
    reported = session.evaluate("hit_count >= 0").check()
    assert reported.values == {0: 1, 1: 1}


def test_silent_connections_do_not_keep_a_session_from_answering(
    build: Build, start_job: StartJob
) -> None:
    assert CONNECTIONS > MAX_PENDING
    with start_job(2, build("storm.c")) as job:
        with pgdb.attach(job.pid) as session:
            ports = listeners(session, job)
            with silent_connections(ports) as made:
                check_answers(session)
                # More than there are places for: some have lost theirs, nobody else has.
                for begin in range(0, len(made), CONNECTIONS):
                    here = made[begin : begin + CONNECTIONS]
                    wait_until(
                        lambda here=here: any(map(is_closed, here)),  # type: ignore[misc]
                        "connections that say nothing are closed",
                        DEADLINE_S,
                    )
                check_answers(session)
                session.continue_(wait=False).check()
                session.interrupt().check()
                check_answers(session)
        assert_untouched(job.ranks)


def test_the_key_of_another_session_opens_nothing(build: Build, start_job: StartJob) -> None:
    program = build("storm.c")

    async def try_key(port: int, credentials: bytes) -> None:
        async with asyncio.timeout(DEADLINE_S):
            channel = await connect(f"127.0.0.1:{port}", credentials)
            try:
                # With TLS 1.3 a client hears of its refusal when it reads.
                await channel.receive()
            finally:
                channel.close()

    with start_job(2, program) as job, start_job(2, program) as other_job:
        with pgdb.attach(other_job.pid) as other, pgdb.attach(job.pid) as session:
            credentials = other._session.transport.overlay._credentials
            own = session._session.transport.overlay._credentials
            assert own != credentials
            for port in listeners(session, job):
                with pytest.raises(LinkError, match=r"(?i)certificate"):
                    asyncio.run(try_key(port, credentials))
                check_answers(session)
        assert_untouched(job.ranks)
