"""Links over loopback with real TLS: admission, arrival, and the time until a loss is noticed."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from pgdb.errors import LinkError, ProtocolError
from pgdb.overlay import channel as channel_module
from pgdb.overlay.channel import HEARTBEAT_S, LOSS_S, Channel, connect
from pgdb.overlay.credentials import make_credentials, tls_context
from pgdb.overlay.message_codec import encode
from pgdb.overlay.messages import (
    Heartbeat,
    Shutdown,
)
from tests.fakes.links import CREDENTIALS, DEADLINE_S, TABLE, linked, listening, lost, run


def test_messages_go_both_ways_in_order() -> None:
    async def test() -> None:
        async with linked() as (near, far):
            for number in range(100):
                near.send(lost(str(number)))
            far.send(TABLE)
            assert await near.receive() == TABLE
            for number in range(100):
                assert await far.receive() == lost(str(number))

    run(test)


def test_a_large_message_arrives_whole() -> None:
    async def test() -> None:
        async with linked() as (near, far):
            near.send(lost("first"))
            large = lost("x" * (8 << 20))
            near.send(large)
            assert await far.receive() == lost("first")
            assert await far.receive() == large

    run(test)


def test_the_ends_know_each_others_addresses() -> None:
    async def test() -> None:
        async with linked() as (near, far):
            assert near.peer.startswith("127.0.0.1:") and far.peer.startswith("127.0.0.1:")

    run(test)


def test_a_peer_with_other_credentials_is_refused() -> None:
    async def test() -> None:
        async with listening() as (listener, accepted):
            with pytest.raises(LinkError, match="cannot connect"):
                await connect(f"127.0.0.1:{listener.port}", make_credentials())
            assert accepted.count == 0

    run(test)


def intruder(*, own_certificate: bool) -> ssl.SSLContext:
    """Return the context of a client that would trust any server."""
    context = (
        tls_context(make_credentials(), server=False)
        if own_certificate
        else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    )
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@pytest.mark.parametrize("own_certificate", [False, True], ids=["none", "its own"])
def test_a_client_that_cannot_prove_that_it_belongs_here_is_refused(own_certificate: bool) -> None:
    async def test() -> None:
        async with listening() as (listener, accepted):
            try:
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", listener.port, ssl=intruder(own_certificate=own_certificate)
                )
            except OSError:
                pass  # refused within the handshake
            else:
                data = encode(Shutdown())
                writer.write(len(data).to_bytes(4, "big") + data)
                with pytest.raises((OSError, asyncio.IncompleteReadError)):
                    await reader.readexactly(1)
                writer.close()
            # A node of the session is admitted afterwards, and is the first one.
            ours = await connect(f"127.0.0.1:{listener.port}", CREDENTIALS)
            await accepted.channels.get()
            assert accepted.count == 1
            ours.close()
            await ours.wait_closed(5.0)

    run(test)


def test_plain_tcp_is_refused() -> None:
    async def test() -> None:
        async with listening() as (listener, accepted):
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            data = encode(Shutdown())
            writer.write(len(data).to_bytes(4, "big") + data + b"GET / HTTP/1.0\r\n\r\n" * 20)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                while True:
                    await reader.readexactly(1)
            writer.close()
            assert accepted.count == 0

    run(test)


def test_a_client_that_says_nothing_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "HANDSHAKE_TIMEOUT_S", 0.2)

    async def test() -> None:
        async with listening() as (listener, accepted):
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            ours = await connect(f"127.0.0.1:{listener.port}", CREDENTIALS)
            await accepted.channels.get()
            assert await reader.read(1) == b""  # given up after the handshake's time
            writer.close()
            ours.close()
            await ours.wait_closed(5.0)

    run(test)


def test_a_server_that_is_not_of_the_session_is_refused() -> None:
    async def test() -> None:
        async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"220 welcome\r\n")
            writer.close()

        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(LinkError, match=f"cannot connect to 127.0.0.1:{port}"):
            await connect(f"127.0.0.1:{port}", CREDENTIALS)
        server.close()

    run(test)


def test_nobody_there() -> None:
    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        with pytest.raises(LinkError, match=f"cannot connect to 127.0.0.1:{port}"):
            await connect(f"127.0.0.1:{port}", CREDENTIALS)
        with pytest.raises(LinkError, match="cannot connect to nowhere"):
            await connect("nowhere", CREDENTIALS)

    run(test)


def test_a_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "CONNECT_TIMEOUT_S", 0.1)

    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            with pytest.raises(LinkError, match=r"does not answer within 0\.1 s"):
                await connect(f"127.0.0.1:{port}", CREDENTIALS)

    run(test)


def test_an_end_that_closes_is_seen_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "LOSS_S", 3600.0)

    async def test() -> None:
        async with linked() as (near, far):
            near.send(lost("last words"))
            near.close()
            assert await far.receive() == lost("last words")
            with pytest.raises(LinkError, match="it closed the link"):
                await far.receive()

    run(test)


def test_an_end_that_dies_is_seen_at_once() -> None:
    async def test() -> None:
        async with linked() as (near, far):
            near._writer.transport.abort()
            with pytest.raises(LinkError):
                await far.receive()

    run(test)


def test_sending_on_a_closed_link_is_no_error() -> None:
    async def test() -> None:
        async with linked() as (near, far):
            near.close()
            near.send(Shutdown())
            with pytest.raises(LinkError):
                await near.receive()
            with pytest.raises(LinkError):
                await far.receive()
            far.send(Shutdown())

    run(test)


@pytest.mark.slow
def test_heartbeats_keep_an_idle_link_and_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(channel_module, "LOSS_S", 0.4)

    async def test() -> None:
        async with linked() as (near, far):
            waiting = [asyncio.create_task(each.receive()) for each in (near, far)]
            done, _ = await asyncio.wait(waiting, timeout=1.2)  # three times the loss time
            assert not done
            near.send(lost("still here"))
            assert await waiting[1] == lost("still here")
            far.send(lost("so am I"))
            assert await waiting[0] == lost("so am I")

    run(test)


def test_a_silent_link_is_lost_after_the_loss_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(channel_module, "LOSS_S", 0.3)

    async def test() -> None:
        async with linked() as (near, far):
            far._timer.cancel()  # alive, but it hangs: no heartbeats
            with pytest.raises(LinkError, match=r"nothing heard from it for 0\.3 s"):
                await near.receive()
            assert near._ticked_at - near._heard_at >= 0.3

    run(test)


@pytest.mark.parametrize(("sent_ago_s", "heard_ago_s"), [(1.0, 18.0), (3.0, 1.0), (4.9, 17.0)])
def test_neither_a_heartbeat_nor_a_loss_is_late(sent_ago_s: float, heard_ago_s: float) -> None:
    """Peers of one lost node would otherwise notice up to two heartbeats apart."""

    async def test() -> None:
        async with linked() as (near, _):
            now = near._loop.time()
            near._sent_at, near._heard_at = now - sent_ago_s, now - heard_ago_s
            near._timer.cancel()
            near._tick()
            assert near._timer.when() <= near._heard_at + LOSS_S
            assert near._timer.when() <= near._sent_at + HEARTBEAT_S
            assert near._timer.when() > now

    run(test)


def test_a_busy_sender_is_not_taken_for_a_silent_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(channel_module, "LOSS_S", 0.4)

    async def test() -> None:
        async with linked() as (near, far):
            data = encode(lost("x" * 40))
            near._timer.cancel()
            near._writer.write(len(data).to_bytes(4, "big"))
            receiving = asyncio.create_task(far.receive())
            for at in range(len(data)):  # a byte now and then, for twice the loss time
                near._writer.write(data[at : at + 1])
                await asyncio.wait((receiving,), timeout=0.8 / len(data))
            assert await receiving == lost("x" * 40)

    run(test)


def test_an_end_that_stood_still_itself_keeps_a_link_that_was_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(channel_module, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(channel_module, "LOSS_S", 0.3)

    async def test() -> None:
        async with linked() as (near, far):
            receiving = asyncio.create_task(far.receive())
            await asyncio.wait((receiving,), timeout=0.02)
            near.send(lost("sent in time"))
            time.sleep(0.5)  # the whole process stands still, as after Ctrl-Z
            assert await receiving == lost("sent in time")
            near.send(lost("and the link is still up"))
            assert await far.receive() == lost("and the link is still up")

    run(test)


def test_a_message_over_the_limit_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "MAX_MESSAGE_BYTES", 1000)

    async def test() -> None:
        async with linked() as (near, far):
            near.send(lost("small"))
            near._writer.write((1001).to_bytes(4, "big"))
            assert await far.receive() == lost("small")
            with pytest.raises(ProtocolError, match="announces a message of 1001 bytes"):
                await far.receive()
            with pytest.raises(LinkError):
                await near.receive()

    run(test)


def test_the_first_message_must_be_small() -> None:
    async def test() -> None:
        async with linked() as (near, far):
            near._writer.write((channel_module.MAX_FIRST_MESSAGE_BYTES + 1).to_bytes(4, "big"))
            with pytest.raises(ProtocolError, match="announces a message of 1048577 bytes"):
                await far.receive()

    run(test)


def test_the_first_message_of_a_parent_may_be_large() -> None:
    async def test() -> None:
        async with linked() as (near, far):
            large = lost("x" * (channel_module.MAX_FIRST_MESSAGE_BYTES + 1))
            far.send(large)  # the end that was called
            assert await near.receive() == large

    run(test)


@pytest.mark.parametrize("body", [b"", b"junk", b"\xff" * 100])
def test_junk_ends_the_link(body: bytes) -> None:
    async def test() -> None:
        async with linked() as (near, far):
            near._writer.write(len(body).to_bytes(4, "big") + body)
            with pytest.raises(ProtocolError, match="no valid message"):
                await far.receive()
            with pytest.raises(LinkError):
                await near.receive()

    run(test)


def test_a_message_that_is_cut_off_is_a_lost_link() -> None:
    async def test() -> None:
        async with linked() as (near, far):
            near._writer.write((100).to_bytes(4, "big") + b"half")
            near.close()
            with pytest.raises(LinkError, match="it closed the link"):
                await far.receive()

    run(test)


def test_a_peer_that_does_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "MAX_UNSENT_BYTES", 1 << 20)

    async def test() -> None:
        async with linked() as (near, far):
            far._reader._transport.pause_reading()  # type: ignore[attr-defined]
            for _ in range(200):
                near.send(lost("x" * 100_000))
            with pytest.raises(LinkError, match="does not read what it is sent"):
                await near.receive()

    run(test)


@pytest.mark.slow
def test_heartbeats_are_not_sent_behind_other_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel_module, "HEARTBEAT_S", 0.4)
    sent: list[object] = []
    original = Channel.send

    def recording(self: Channel, message: Any) -> None:
        sent.append(message)
        original(self, message)

    monkeypatch.setattr(Channel, "send", recording)

    async def test() -> None:
        async with linked() as (near, far):
            receiving = asyncio.create_task(far.receive())
            far._timer.cancel()
            until = time.monotonic() + 1.0
            while time.monotonic() < until:
                near.send(lost("work"))
                await asyncio.wait((receiving,), timeout=0.01)
                if receiving.done():
                    receiving = asyncio.create_task(far.receive())
            receiving.cancel()
        assert lost("work") in sent and Heartbeat() not in sent

    run(test)


def test_the_listener_closes_and_links_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with listening() as (listener, accepted):
            near = await connect(f"127.0.0.1:{listener.port}", CREDENTIALS)
            far = await accepted.channels.get()
            port = listener.port
            await listener.close()
            with pytest.raises(LinkError):
                await connect(f"127.0.0.1:{port}", CREDENTIALS)
            near.send(lost("still up"))
            assert await far.receive() == lost("still up")
            for each in (near, far):
                each.close()
                await each.wait_closed(5.0)

    run(test)


@asynccontextmanager
async def hanging_peer(port: int) -> AsyncIterator[None]:
    """Start a peer that is admitted and then does nothing, not even read the end of the link."""

    def connected() -> socket.socket:
        plain = socket.create_connection(("127.0.0.1", port))
        return tls_context(CREDENTIALS, server=False).wrap_socket(plain)

    with await asyncio.to_thread(connected):
        yield


def sockets() -> set[str]:
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the listing's own
            found.add(os.readlink(entry))
    return {name for name in found if name.startswith("socket:")}


def test_nothing_is_left_open_towards_a_peer_that_hangs() -> None:
    async def test() -> None:
        before = sockets()
        async with listening() as (listener, accepted):
            async with hanging_peer(listener.port):
                far = await accepted.channels.get()
                peers = sockets()
                far.close()
                await far.wait_closed(0.1)
                wait_closed = peers - sockets()
            assert len(wait_closed) == 1
            async with hanging_peer(listener.port):
                far = await accepted.channels.get()
                accepted.end()
                peers = sockets()
                await listener.end()
                # The link, and the listening socket.
                assert len(peers - sockets()) == 2
        assert sockets() == before

    run(test)


def test_those_that_are_not_admitted_yet_go_with_the_listener() -> None:
    async def test() -> None:
        async with listening() as (listener, _):
            with socket.create_connection(("127.0.0.1", listener.port)) as silent:
                while not len(listener._pending):
                    await asyncio.sleep(0)
                await listener.end()
                assert not len(listener._pending)
                silent.settimeout(DEADLINE_S)
                assert silent.recv(1) == b""

    run(test)
