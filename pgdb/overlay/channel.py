"""One link of the overlay: messages over TLS, with every loss reported.

A closed or dead peer is noticed at once. A peer that hangs, or whose host is gone, is noticed when
nothing has arrived for the loss time although heartbeats are due. No message is dropped silently: a
message that cannot be sent ends the link. asyncio's TLS streams replaced ZeroMQ: the connection
*is* the link, so loss, order and back pressure need no monitors, handlers or heartbeats besides the
ones below (docs/internals/decisions.md).
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import IO, NamedTuple

from pgdb.errors import LinkError, ProtocolError
from pgdb.overlay.credentials import tls_context
from pgdb.overlay.message_codec import MAX_MESSAGE_BYTES, decode, encode
from pgdb.overlay.messages import AnyMessage, Heartbeat

LOG = logging.getLogger(__name__)

HEARTBEAT_S = 5.0
"""Seconds without a sent message after which a link sends a heartbeat."""
LOSS_S = 20.0
"""Seconds without a received message after which a link is lost."""
CALLED_LATER_S = HEARTBEAT_S + 2.0
"""Seconds by which a front end that calls a silent aggregator may notice and try it later than the
nodes below do: each link has had its last heartbeat at its own time."""
SILENT = "nothing heard from it for"
"""First words of the reason for which such a link is lost."""
CONNECT_TIMEOUT_S = 10.0
HANDSHAKE_TIMEOUT_S = 10.0
MAX_PENDING = 256
"""Most connections at one listener that have not yet proved that they belong to the session."""
PATIENCE_S = 3.0
"""Seconds for which such a connection keeps its place while others wait for it."""
CROWD_COUNT = 32
"""Number of connections from one address above which they give way to other addresses at once."""
ACCEPT_RETRY_S = 1.0
COMMAND_LINGER_S = 3.0
"""Seconds that the command behind a link may take to end after the link."""
MAX_UNSENT_BYTES = 2 * MAX_MESSAGE_BYTES
"""A peer with more unsent bytes than this does not read; its link is closed."""
MAX_FIRST_MESSAGE_BYTES = 1 << 20
_LENGTH_BYTES = 4
_PIECE_BYTES = 1 << 20
_WRITTEN_BYTES = 1 << 16
BACKLOG = 1024
"""Connections that the kernel keeps for a listener; its settings may allow fewer."""


class Channel:
    """A connection that carries messages, owned by the task that runs :meth:`receive`."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        command: asyncio.subprocess.Process | None = None,
        *,
        first_limit_bytes: int = MAX_FIRST_MESSAGE_BYTES,
    ) -> None:
        self._command = asyncio.create_task(_end_with(writer, command)) if command else None
        self._reader = reader
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._sent_at = self._heard_at = self._ticked_at = self._loop.time()
        self._limit_bytes = first_limit_bytes
        self._why = ""
        self._timer = self._loop.call_later(HEARTBEAT_S, self._tick)

    @property
    def peer(self) -> str:
        """``host:port`` of the other end."""
        name = self._writer.get_extra_info("peername")
        return f"{name[0]}:{name[1]}" if name else "the other end"

    def send(self, message: AnyMessage) -> None:
        """Queue a message; :meth:`receive` reports a lost link, this method does not."""
        data = encode(message)
        if self._writer.is_closing():
            return
        self._sent_at = self._loop.time()
        self._writer.write(len(data).to_bytes(_LENGTH_BYTES, "big") + data[:_WRITTEN_BYTES])
        # TLS keeps several copies of everything that is written at once.
        rest = memoryview(data)[_WRITTEN_BYTES:]
        for begin in range(0, len(rest), _WRITTEN_BYTES):
            self._writer.write(rest[begin : begin + _WRITTEN_BYTES])
        if self._writer.transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self._give_up("it does not read what it is sent")

    async def receive(self) -> AnyMessage:
        """Wait for the next message that is not a heartbeat.

        :raises LinkError: when the link is lost.
        :raises ProtocolError: if the peer sent an invalid message; the link is closed.
        """
        while True:
            message = self.unpack(await self.receive_packed())
            if not isinstance(message, Heartbeat):
                return message

    async def receive_packed(self) -> bytearray:
        """Wait for the next message, which may be a heartbeat, and return its bytes.

        :raises LinkError: when the link is lost.
        :raises ProtocolError: if the peer announces more than it may send; the link is closed.
        """
        try:
            length = int.from_bytes(await self._read(_LENGTH_BYTES), "big")
            if length > self._limit_bytes:
                raise ProtocolError(f"{self.peer} announces a message of {length} bytes")
            return await self._read(length)
        except ProtocolError:
            self.close()
            raise
        except (OSError, EOFError, ssl.SSLError) as error:
            self.close()
            raise LinkError(self._why or _reason(error)) from None

    def unpack(self, data: bytes | bytearray) -> AnyMessage:
        """Return the message in *data*, which arrived over this link.

        :raises ProtocolError: if it is invalid; the link is closed.
        """
        try:
            message = decode(data)
        except ProtocolError:
            self.close()
            raise
        self._limit_bytes = MAX_MESSAGE_BYTES
        return message

    async def _read(self, length: int) -> bytearray:
        """Read *length* bytes; every piece that arrives is a sign of life."""
        data = bytearray()
        while len(data) < length:
            piece = await self._reader.read(min(length - len(data), _PIECE_BYTES))
            if not piece:
                raise EOFError
            self._heard_at = self._loop.time()
            data += piece
        return data

    def close(self) -> None:
        """Close the link once the queued messages are sent."""
        self._timer.cancel()
        _close(self._writer)

    async def wait_ended(self) -> None:
        """Wait until either end has closed the link."""
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def wait_closed(self, timeout_s: float) -> None:
        """Wait until the queued messages are sent and the link is closed."""
        await _wait_closed(self._writer, timeout_s)

    def _tick(self) -> None:
        now = self._loop.time()
        if now - self._ticked_at > 2 * HEARTBEAT_S:
            # This process itself was stopped or swapped out; messages that arrived meanwhile are
            # unread.
            self._heard_at = now
        self._ticked_at = now
        if now - self._heard_at >= LOSS_S:
            self._give_up(f"{SILENT} {LOSS_S:g} s")
            return
        if now - self._sent_at >= HEARTBEAT_S * 0.9:
            self.send(Heartbeat())
        # The loop sleeps no longer than that, so that all peers of a lost node notice at about one
        # time.
        next_at = min(self._sent_at + HEARTBEAT_S, self._heard_at + LOSS_S)
        next_at = max(now + HEARTBEAT_S / 10, min(next_at, now + HEARTBEAT_S))
        self._timer = self._loop.call_at(next_at, self._tick)

    def _give_up(self, why: str) -> None:
        LOG.warning("link to %s given up: %s", self.peer, why)
        self._why = why
        self._timer.cancel()
        self._writer.transport.abort()


def _reason(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "it closed the link"
    return str(error) or type(error).__name__


class Listener:
    """Listener for connections that can prove that they belong to the session.

    A connection without that proof costs one of :data:`MAX_PENDING` places and nothing else: only
    TLS reads its bytes.
    """

    def __init__(
        self,
        listening: socket.socket,
        credentials: bytes,
        on_admitted: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    ) -> None:
        listening.setblocking(False)
        self._listening = listening
        self._context = tls_context(credentials, server=True)
        self._on_admitted = on_admitted
        self._loop = asyncio.get_running_loop()
        self._pending: dict[asyncio.Task[None], _Pending] = {}  # oldest first
        self._admitted: set[asyncio.Task[None]] = set()
        self._left = asyncio.Event()  # set when a handshake has ended
        self._accepting = self._loop.create_task(self._accept())

    @property
    def port(self) -> int:
        """The TCP port."""
        return int(self._listening.getsockname()[1])

    async def close(self) -> None:
        """Stop listening; established links stay."""
        self._accepting.cancel()
        await asyncio.gather(self._accepting, return_exceptions=True)
        self._listening.close()

    async def end(self) -> None:
        """Stop listening and cut off the remaining links, also those that are closing."""
        await self.close()
        left = {*self._pending, *self._admitted} - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _accept(self) -> None:
        while True:
            try:
                plain, peer = await self._loop.sock_accept(self._listening)
            except OSError as error:
                LOG.warning("cannot accept a connection: %s", error.strerror)
                # Mostly this process has no descriptor left. A pending handshake may free one, or
                # one is free later.
                self._give_up(next(iter(self._pending), None))
                await self._wait_left(ACCEPT_RETRY_S)
                continue
            await self._make_room(peer[0])
            task = self._loop.create_task(self._admit(plain))
            self._pending[task] = _Pending(peer[0], self._loop.time())
            task.add_done_callback(self._forget)
            # A peer that connects again and again must not keep the loop from serving the links.
            await asyncio.sleep(0)

    async def _make_room(self, newcomer: str) -> None:
        """Wait until there is a place for one more connection, from the address *newcomer*.

        The oldest connection of the address with the most places gives way: at once if another
        address needs the place, else after its time. So a peer that fills all places and is silent
        delays others for that time only, and peers that start at once do not displace each other.
        """
        while len(self._pending) >= MAX_PENDING:
            counts = collections.Counter(each.peer for each in self._pending.values())
            peer, count = counts.most_common(1)[0]
            oldest = next(task for task, each in self._pending.items() if each.peer == peer)
            left_s = self._pending[oldest].begun_s + PATIENCE_S - self._loop.time()
            if left_s <= 0 or (peer != newcomer and count > CROWD_COUNT):
                self._give_up(oldest)
                left_s = PATIENCE_S
            await self._wait_left(left_s)

    def _give_up(self, task: asyncio.Task[None] | None) -> None:
        if task is not None:
            LOG.info("a connection from %s is given up", self._pending[task].peer)
            task.cancel()

    async def _wait_left(self, timeout_s: float) -> None:
        self._left.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._left.wait()

    async def _admit(self, plain: socket.socket) -> None:
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport, _ = await self._loop.connect_accepted_socket(
                lambda: protocol,
                plain,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
            )
        except OSError as error:
            LOG.info("a connection was not admitted: %s", error)
            return
        task = asyncio.current_task()
        assert task is not None
        self._admitted.add(task)
        self._no_longer_pending(task)
        writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)
        try:
            await self._on_admitted(reader, writer)
        except Exception:
            # The place is free now, not only when the link ends.
            LOG.exception("serving a link failed")
        except asyncio.CancelledError:
            transport.abort()
            raise
        finally:
            _close(writer)
            # A peer that hangs does not confirm the end.
            await _wait_closed(writer)

    def _no_longer_pending(self, task: asyncio.Task[None]) -> None:
        if self._pending.pop(task, None) is not None:
            self._left.set()

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._no_longer_pending(task)
        self._admitted.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            LOG.error("serving a link failed", exc_info=error)


class _Pending(NamedTuple):
    """A connection that has not yet proved that it belongs to the session."""

    peer: str
    begun_s: float


async def listen(
    host: str,
    credentials: bytes,
    on_channel: Callable[[Channel], Awaitable[None]],
) -> Listener:
    """Listen on any free port of *host*; *on_channel* gets each admitted link."""
    listening = socket.create_server((host, 0), backlog=BACKLOG)
    return await listen_on(listening, credentials, on_channel)


async def listen_on(
    listening: socket.socket,
    credentials: bytes,
    on_channel: Callable[[Channel], Awaitable[None]],
) -> Listener:
    """Accept links at a socket that listens already; *on_channel* gets each admitted link."""

    async def admitted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _tune(writer)
        channel = Channel(reader, writer)
        try:
            await on_channel(channel)
        finally:
            channel.close()

    return Listener(listening, credentials, admitted)


async def connect(address: str, credentials: bytes, *, via: Sequence[str] = ()) -> Channel:
    """Connect to ``host:port``, or through the standard input and output of the command *via*.

    :raises LinkError: if nothing answers in time, or the peer is not of this session.
    """
    host, _, port = address.rpartition(":")
    context = tls_context(credentials, server=False)
    command = channel = said = None
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            if via:
                # ssh repeats its complaints about a lost link; they are not for the terminal. They
                # do not go to a pipe either: a process that ssh leaves (ControlPersist) would keep
                # it open. They need no room on a disk.
                said = open(os.memfd_create("pgdb-ssh", os.MFD_CLOEXEC), "w+b")
                ours, command = await _through(via, said)
                reader, writer = await asyncio.open_connection(
                    sock=ours, ssl=context, server_hostname=""
                )
            else:
                reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
        _tune(writer)
        # The first message of a parent may describe a million ranks.
        channel = Channel(reader, writer, command, first_limit_bytes=MAX_MESSAGE_BYTES)
        return channel
    except TimeoutError:
        raise LinkError(f"{address} does not answer within {CONNECT_TIMEOUT_S:g} s") from None
    except (OSError, ssl.SSLError, ValueError) as error:
        await _kill(command)
        words = _last_line(said) if said is not None else ""
        raise LinkError(f"cannot connect to {address}: {words or error}") from None
    finally:
        if said is not None:
            said.close()
        if channel is None:
            await _kill(command)


def _last_line(file: IO[bytes]) -> str:
    file.seek(0)
    lines = file.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else ""


def close_unused(connecting: asyncio.Task[Channel]) -> None:
    """Close a link that was established after its caller stopped waiting for it."""
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().close()


async def _through(
    command: Sequence[str], said: IO[bytes]
) -> tuple[socket.socket, asyncio.subprocess.Process]:
    """Start *command*, which forwards its input and output; return our end."""
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=said,
                start_new_session=True,
            )
        except OSError:
            ours.close()
            raise
    ours.setblocking(False)
    return ours, process


async def _end_with(writer: asyncio.StreamWriter, command: asyncio.subprocess.Process) -> int:
    """Wait for the command behind a link, which must end with it; end it if it does not; return its
    status."""
    try:
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        # Its input has ended; an ssh whose host is gone does not notice that.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(COMMAND_LINGER_S):
                await command.wait()
    finally:
        await _kill(command)
    return await command.wait()


def _close(writer: asyncio.StreamWriter) -> None:
    # asyncio forgets the TLS of a link that is closed twice; then no abort() cuts it off.
    if not writer.is_closing():
        writer.close()


async def _wait_closed(writer: asyncio.StreamWriter, timeout_s: float | None = None) -> None:
    """Wait until a closed link is gone; cut it off after *timeout_s*, or if cancelled.

    Otherwise its socket would stay open until a closed loop is garbage-collected.
    """
    # A task waits: cancelling the wait itself would cancel its future for good.
    closed = asyncio.ensure_future(writer.wait_closed())
    try:
        await asyncio.wait((closed,), timeout=timeout_s)
    finally:
        writer.transport.abort()
        await asyncio.gather(closed, return_exceptions=True)


async def _kill(command: asyncio.subprocess.Process | None) -> None:
    if command is not None and command.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            command.kill()
        await command.wait()


def _tune(writer: asyncio.StreamWriter) -> None:
    raw = writer.get_extra_info("socket")
    if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
