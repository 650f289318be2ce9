"""Many, slow or silent peers and a lack of descriptors do not keep others out."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import socket
from typing import Any

import pytest

from pgdb.overlay import channel as channel_module
from pgdb.overlay.channel import connect
from pgdb.overlay.messages import Lost
from tests.support.listening_node import (
    CREDENTIALS,
    DEADLINE_S,
    check_works,
    listening_node,
    run_in_time,
    say,
    wait_left,
)


@contextlib.contextmanager
def silent_connections(port: int, count: int, first_bytes: bytes = b"") -> Any:
    with contextlib.ExitStack() as stack:
        made = []
        for _ in range(count):
            each = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            each.sendall(first_bytes)
            each.setblocking(False)
            made.append(each)
        yield made


def is_closed(each: socket.socket) -> bool:
    try:
        return each.recv(4096) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


# The beginning of a TLS record of 512 bytes that is never completed.
BEGUN = b"\x16\x03\x01\x02\x00\x01"


@pytest.mark.slow
@pytest.mark.parametrize("first_bytes", [b"", BEGUN], ids=["silent", "begun"])
def test_connections_that_say_nothing_do_not_keep_others_out(
    first_bytes: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "MAX_PENDING", 8)
    monkeypatch.setattr(channel_module, "PATIENCE_S", 0.1)

    async def test() -> None:
        async with listening_node() as made:
            with silent_connections(made.listener.port, 40, first_bytes):
                await check_works(made)
                assert 0 < len(made.listener._pending) <= 8

    run_in_time(test)


def test_a_handshake_that_drips_is_ended_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "HANDSHAKE_TIMEOUT_S", 0.5)

    async def test() -> None:
        async with listening_node() as made:
            with silent_connections(made.listener.port, 3, BEGUN) as slow:
                while not all(map(is_closed, slow)):
                    for each in slow:
                        with contextlib.suppress(OSError):
                            each.send(b"\x00")
                    await asyncio.sleep(0.05)
            await wait_left(made)
            assert not made.admitted
            await check_works(made)

    run_in_time(test)


def test_a_crowd_from_one_address_gives_way_to_another_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(channel_module, "MAX_PENDING", 8)
    monkeypatch.setattr(channel_module, "CROWD_COUNT", 4)
    # Only the crowd is a reason to drop a connection here.
    monkeypatch.setattr(channel_module, "PATIENCE_S", 3600.0)

    async def test() -> None:
        async with listening_node() as made:
            with silent_connections(made.listener.port, 8) as crowd:
                while len(made.listener._pending) < 8:
                    await asyncio.sleep(0.01)
                with socket.create_connection(
                    ("127.0.0.1", made.listener.port), source_address=("127.0.0.2", 0)
                ):
                    while not is_closed(crowd[0]):
                        await asyncio.sleep(0.01)
                assert not any(map(is_closed, crowd[1:]))

    run_in_time(test)


def test_a_flood_waits_on_the_side_of_who_sends_it() -> None:
    count, padding = 640, "x" * 100_000

    async def test() -> None:
        async with listening_node() as made:
            near = await connect(made.address, CREDENTIALS)
            far = await made.channels.get()

            async def flood() -> None:
                for number in range(count):
                    near.send(say(f"{number} {padding}"))
                    await near._writer.drain()

            flooding = asyncio.create_task(flood())
            # The node processes none of it for now.
            while not (far._reader._paused and near._writer._protocol._paused):  # type: ignore[attr-defined]
                await asyncio.sleep(0.01)
            await check_works(made)
            assert not flooding.done()
            assert len(far._reader._buffer) < 1 << 20  # type: ignore[attr-defined]
            for number in range(count):
                message = await far.receive()
                assert isinstance(message, Lost) and message.why == f"{number} {padding}"
            await flooding
            near.close()

    run_in_time(test)


def test_many_that_start_at_once_are_all_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "MAX_PENDING", 4)
    monkeypatch.setattr(channel_module, "PATIENCE_S", DEADLINE_S)

    async def test() -> None:
        async with listening_node() as made:
            links = await asyncio.gather(*(connect(made.address, CREDENTIALS) for _ in range(40)))
            while made.admitted < 40:
                await asyncio.sleep(0.01)
            for each in links:
                each.close()
            await asyncio.gather(*(each.wait_closed(5.0) for each in links))

    run_in_time(test)


def test_without_descriptors_it_goes_on_when_there_are_some(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import resource

    monkeypatch.setattr(channel_module, "ACCEPT_RETRY_S", 0.05)
    # Tests of the command line leave the logger of the whole package at another level.
    caplog.set_level(logging.WARNING, channel_module.LOG.name)

    async def test() -> None:
        async with listening_node() as made:
            await check_works(made)
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            # Leftovers of earlier tests would free descriptors in the middle of this one.
            gc.collect()
            lowest_free = os.open(os.devnull, os.O_RDONLY)
            os.close(lowest_free)
            with socket.socket() as plain:
                plain.setblocking(False)
                resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
                try:
                    with contextlib.suppress(BlockingIOError):
                        plain.connect(("127.0.0.1", made.listener.port))
                    while "cannot accept a connection" not in caplog.text:
                        await asyncio.sleep(0.01)
                finally:
                    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            await check_works(made)

    run_in_time(test)
