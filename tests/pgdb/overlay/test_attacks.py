"""Attacks on a session's links: no attacker gets past TLS."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import os
import socket
import ssl
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pgdb.errors import LinkError
from pgdb.overlay import channel as channel_module
from pgdb.overlay.channel import Channel, connect, listen
from pgdb.overlay.credentials import make_credentials, tls_context
from pgdb.overlay.message_codec import encode
from pgdb.overlay.messages import AnyMessage
from tests.support.listening_node import (
    CREDENTIALS,
    DEADLINE_S,
    ListeningNode,
    check_works,
    listening_node,
    run_in_time,
    say,
    wait_left,
)

NOBODY = 65534


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The bytes of all messages given to the decoder."""
    seen: list[bytes] = []
    original = channel_module.decode

    def recording(data: bytes) -> AnyMessage:
        seen.append(data)
        return original(data)

    monkeypatch.setattr(channel_module, "decode", recording)
    return seen


# -- without the key -----------------------------------------------------------------------------


def trusting(credentials: bytes | None = None) -> ssl.SSLContext:
    """Return a client context that accepts any server, with a key of its own or none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if credentials is not None:
        context = tls_context(credentials, server=False)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def old_tls() -> ssl.SSLContext:
    context = tls_context(CREDENTIALS, server=False)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


FRAME = len(encode(say("let me in"))).to_bytes(4, "big") + encode(say("let me in"))


@pytest.mark.parametrize(
    "context",
    [trusting(), trusting(make_credentials()), old_tls(), None],
    ids=["no key", "a fresh key of its own", "an older TLS", "no TLS"],
)
def test_who_has_no_key_of_the_session_is_not_heard(
    context: ssl.SSLContext | None, decoded: list[bytes]
) -> None:
    async def test() -> None:
        async with listening_node() as made:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", made.listener.port, ssl=context
                )
                writer.write(FRAME * 100)
                assert await reader.read() == b"", "it gets no reply"
                writer.close()
            await wait_left(made)
            assert not made.admitted and not decoded
            await check_works(made)

    run_in_time(test)


def test_a_certificate_that_names_the_session_as_its_issuer_is_not_enough() -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    theirs = x509.load_pem_x509_certificate(CREDENTIALS[CREDENTIALS.index(b"-----BEGIN CERT") :])
    key = Ed25519PrivateKey.generate()
    forged = (
        x509.CertificateBuilder()
        .subject_name(theirs.subject)
        .issuer_name(theirs.subject)
        .public_key(key.public_key())
        .serial_number(theirs.serial_number)
        .not_valid_before(datetime.datetime(1970, 1, 2))
        .not_valid_after(datetime.datetime(9999, 12, 31))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, None)
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    forgery = private + forged.public_bytes(serialization.Encoding.PEM)

    async def test() -> None:
        async with listening_node() as made:
            with contextlib.suppress(OSError):
                reader, _ = await asyncio.open_connection(
                    "127.0.0.1", made.listener.port, ssl=trusting(forgery)
                )
                assert await reader.read() == b""
            await wait_left(made)
            assert not made.admitted

    run_in_time(test)


def test_sessions_do_not_take_each_other_for_their_own() -> None:
    async def test() -> None:
        other = make_credentials()
        async with listening_node() as made:
            # Client and server prove that they hold the other session's key.
            with pytest.raises(LinkError, match="cannot connect"):
                await connect(made.address, other)
            await wait_left(made)
            assert not made.admitted
        impostor = ListeningNode()
        impostor.listener = await listen("127.0.0.1", other, impostor.serve)
        with pytest.raises(LinkError, match="cannot connect"):
            await connect(impostor.address, CREDENTIALS)
        await impostor.close()

    run_in_time(test)


INTRUDER = """
import os, socket, ssl, sys
port, pid, directory = int(sys.argv[1]), sys.argv[2], sys.argv[3]
for name in (f"/proc/{pid}/environ", f"/proc/{pid}/mem", f"{directory}/secret"):
    try:
        open(name, "rb").read(1)
        sys.exit(f"{name} was opened")
    except PermissionError:
        pass
try:
    os.listdir(f"/proc/{pid}/fd")
    sys.exit("its descriptors were listed")
except PermissionError:
    pass
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
with socket.create_connection(("127.0.0.1", port)) as plain:
    try:
        link = context.wrap_socket(plain)
        link.sendall(bytes.fromhex(sys.argv[4]))
        sys.exit("it was answered" if link.recv(1) else 0)
    except OSError:
        sys.exit(0)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_another_user_of_the_host_sees_and_reaches_nothing(
    tmp_path: Path, decoded: list[bytes]
) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "secret").write_bytes(CREDENTIALS)

    async def test() -> None:
        async with listening_node() as made:
            process = await asyncio.create_subprocess_exec(
                "/usr/bin/env",
                "python3",
                "-I",
                "-c",
                INTRUDER,
                str(made.listener.port),
                str(os.getpid()),
                str(tmp_path),
                FRAME.hex(),
                stderr=subprocess.PIPE,
                env={"PATH": os.defpath},
                user=NOBODY,
                group=NOBODY,
                extra_groups=[],
                cwd="/",
            )
            _, said = await process.communicate()
            assert process.returncode == 0, said.decode()
            await wait_left(made)
            assert not made.admitted and not decoded
            await check_works(made)

    run_in_time(test)


# -- on the way ----------------------------------------------------------------------------------

Change = Callable[[list[bytes]], list[bytes]]
closing = contextlib.closing


class Wiretap:
    """Wiretap between two nodes, which keeps their bytes and changes the order of TLS records."""

    def __init__(self, port: int) -> None:
        self.port = 0
        self.seen = b""
        """All bytes sent to the listening node."""
        self.change: tuple[int, Change] | None = None
        """Number of records to wait for, and the change made to them."""
        self._target = port
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Wiretap:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        for passing in (self._listen(reader, far_writer), self._pass(far_reader, writer)):
            task = asyncio.create_task(passing)
            self._tasks.add(task)

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held: list[bytes] = []
        with closing(writer), contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readexactly(5)
                record = head + await reader.readexactly(int.from_bytes(head[3:], "big"))
                self.seen += record
                if self.change is None:
                    writer.write(record)
                    continue
                held.append(record)
                if len(held) == self.change[0]:
                    writer.writelines(self.change[1](held))
                    self.change = None

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)


def flipped(record: bytes) -> bytes:
    return record[:-1] + bytes([record[-1] ^ 1])


CHANGES: dict[str, tuple[Change, int]] = {
    "reordered": (lambda held: [held[1], held[0], *held[2:]], 0),
    "repeated": (lambda held: [held[0], held[0], *held[1:]], 1),
    "one left out": (lambda held: [held[0], *held[2:]], 1),
    "one bit changed": (lambda held: [held[0], flipped(held[1]), *held[2:]], 1),
    "an end notified": (lambda held: [held[0], b"\x15\x03\x03\x00\x02\x01\x00", *held[1:]], 1),
}


@pytest.mark.parametrize("how", CHANGES)
def test_records_that_were_tampered_with_end_the_link(how: str) -> None:
    change, most_count = CHANGES[how]

    async def test() -> None:
        async with listening_node() as made, Wiretap(made.listener.port) as wire:
            near = await connect(f"127.0.0.1:{wire.port}", CREDENTIALS)
            far = await made.channels.get()
            near.send(say("before"))
            assert await far.receive() == say("before")
            wire.change = (3, change)
            for number in range(3):
                near.send(say(str(number)))
            heard = []
            with pytest.raises(LinkError):
                while True:
                    heard.append(await far.receive())
            # Messages before the change can be lost with the link.
            assert heard == [say("0")][: min(len(heard), most_count)]
            with pytest.raises(LinkError):
                await near.receive()
            assert b"before" not in wire.seen, "it could not be read either"
            await check_works(made)

    run_in_time(test)


def test_what_was_recorded_cannot_be_replayed(decoded: list[bytes]) -> None:
    async def test() -> None:
        async with listening_node() as made, Wiretap(made.listener.port) as wire:
            near = await connect(f"127.0.0.1:{wire.port}", CREDENTIALS)
            far = await made.channels.get()
            near.send(say("detach all"))
            assert await far.receive() == say("detach all")
            for each in (near, far):
                each.close()
                await each.wait_closed(5.0)
            assert made.admitted == 1 and len(decoded) == 1
            reader, writer = await asyncio.open_connection("127.0.0.1", made.listener.port)
            writer.write(wire.seen)
            with contextlib.suppress(OSError):
                while await reader.read(65536):
                    pass
            writer.close()
            await wait_left(made)
            assert made.admitted == 1 and len(decoded) == 1
            await check_works(made)

    run_in_time(test)


def test_no_ticket_lets_a_later_link_in_without_the_key() -> None:
    async def test() -> None:
        async with listening_node() as made:
            context = tls_context(CREDENTIALS, server=False)

            def fetch() -> ssl.SSLSession | None:
                with socket.create_connection(("127.0.0.1", made.listener.port)) as plain:
                    with context.wrap_socket(plain) as link:
                        link.settimeout(DEADLINE_S)
                        # The bytes after the handshake are read together with the first message.
                        link.recv(1)
                        return link.session if link.session and link.session.has_ticket else None

            fetching = asyncio.create_task(asyncio.to_thread(fetch))
            far = await made.channels.get()
            far.send(say("hello"))
            assert await fetching is None

    run_in_time(test)


def test_a_link_whose_service_fails_is_closed_with_a_report(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(channel: Channel) -> None:
        raise ValueError("a bug")

    async def test() -> None:
        made = ListeningNode()
        serve: Callable[[Channel], Awaitable[None]] = fail
        made.listener = await listen("127.0.0.1", CREDENTIALS, serve)
        near = await connect(made.address, CREDENTIALS)
        with pytest.raises(LinkError):
            await near.receive()
        await made.close()

    run_in_time(test)
    assert "serving a link failed" in caplog.text and "a bug" in caplog.text
