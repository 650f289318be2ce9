"""Links through a command, as ``ssh -W`` is one: arrival, ends, and losses."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from pgdb.errors import LinkError
from pgdb.overlay import channel as channel_module
from pgdb.overlay.channel import Channel, connect
from pgdb.overlay.credentials import make_credentials
from tests.fakes.links import CREDENTIALS, listening, lost, run
from tests.support.processes import is_alive, wait_until

# ssh -W does the same, to an address of this host.
RELAY = """
import os, socket, sys, threading

link = socket.create_connection(("127.0.0.1", int(sys.argv[1])))

def pass_input() -> None:
    while data := os.read(0, 65536):
        link.sendall(data)
    link.shutdown(socket.SHUT_WR)

threading.Thread(target=pass_input, daemon=True).start()
while data := link.recv(65536):
    os.write(1, data)
"""


def relay(port: int) -> tuple[str, ...]:
    return (sys.executable, "-S", "-c", RELAY, str(port))


def command_of(channel: Channel) -> asyncio.Task[int]:
    """Return the task that waits for the end of the channel's command."""
    assert channel._command is not None
    return channel._command


def test_a_link_through_a_command_carries_messages_both_ways() -> None:
    async def test() -> None:
        async with listening() as (listener, accepted):
            near = await connect("far:1", CREDENTIALS, via=relay(listener.port))
            far = await accepted.channels.get()
            assert near.peer == "the other end"
            large = lost("x" * (4 << 20))
            for channel, other in ((near, far), (far, near)):
                for number in range(50):
                    channel.send(lost(str(number)))
                channel.send(large)
                for number in range(50):
                    assert await other.receive() == lost(str(number))
                assert await other.receive() == large
            near.close()
            with pytest.raises(LinkError, match="it closed the link"):
                await far.receive()
            await near.wait_closed(5.0)
            assert await command_of(near) == 0, "the end of its input ends the command"

    run(test)


def test_a_far_end_that_closes_is_seen_through_a_command() -> None:
    async def test() -> None:
        async with listening() as (listener, accepted):
            near = await connect("far:1", CREDENTIALS, via=relay(listener.port))
            far = await accepted.channels.get()
            far.send(lost("last words"))
            far.close()
            assert await near.receive() == lost("last words")
            with pytest.raises(LinkError, match="it closed the link"):
                await near.receive()
            await near.wait_closed(5.0)
            assert await command_of(near) == 0

    run(test)


def test_a_command_that_dies_is_a_lost_link_for_both_ends(tmp_path: Path) -> None:
    async def test() -> None:
        file = tmp_path / "pid"
        writes_pid = ("sh", "-c", f'echo $$ > {file}; exec "$@"', "sh")
        async with listening() as (listener, accepted):
            near = await connect("far:1", CREDENTIALS, via=(*writes_pid, *relay(listener.port)))
            far = await accepted.channels.get()
            os.kill(int(file.read_text()), signal.SIGKILL)
            for end in (near, far):
                with pytest.raises(LinkError):
                    await end.receive()
            await near.wait_closed(5.0)
            assert await command_of(near) == -signal.SIGKILL

    run(test)


def test_a_command_that_does_not_end_with_its_link_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(channel_module, "COMMAND_LINGER_S", 0.2)

    async def test() -> None:
        async with listening() as (listener, accepted):
            # An ssh whose host is gone does the same.
            python, *flags, program, port = relay(listener.port)
            program += "threading.Event().wait()\n"
            near = await connect("far:1", CREDENTIALS, via=(python, *flags, program, port))
            await accepted.channels.get()
            near.close()
            assert await command_of(near) == -signal.SIGKILL

    run(test)


def test_a_command_does_not_outlive_the_loop(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    writes_pid = ("sh", "-c", f'echo $$ > {file}; exec "$@"', "sh")

    async def test() -> None:
        async with listening() as (listener, accepted):
            await connect("far:1", CREDENTIALS, via=(*writes_pid, *relay(listener.port)))
            await accepted.channels.get()

    run(test)
    wait_until(lambda: not is_alive(int(file.read_text())), "the relay has ended")


def test_another_session_behind_a_command_is_refused() -> None:
    async def test() -> None:
        async with listening() as (listener, accepted):
            with pytest.raises(LinkError, match="cannot connect to far:1"):
                await connect("far:1", make_credentials(), via=relay(listener.port))
            assert accepted.count == 0

    run(test)


@pytest.mark.parametrize(
    "command",
    [("no-such-command",), ("false",), ("echo", "Permission denied (publickey)."), ("/",)],
    ids=["missing", "ends", "talks", "no program"],
)
def test_a_command_that_does_not_lead_there_is_reported(command: tuple[str, ...]) -> None:
    async def test() -> None:
        with pytest.raises(LinkError, match="cannot connect to far:1: "):
            await connect("far:1", CREDENTIALS, via=command)

    run(test)


@pytest.mark.parametrize("way", ["silent", "refused"])
def test_a_command_whose_link_does_not_come_up_is_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, way: str
) -> None:
    if way == "silent":
        monkeypatch.setattr(channel_module, "CONNECT_TIMEOUT_S", 0.3)
    file = tmp_path / "pid"
    # The command does not read its input, like an ssh that waits for its host.
    says = "echo nonsense;" if way == "refused" else ""
    command = ("sh", "-c", f"echo $$ > {file}; {says} exec sleep 600")

    async def test() -> None:
        with pytest.raises(LinkError, match="far:1"):
            await connect("far:1", CREDENTIALS, via=command)

    run(test)
    wait_until(lambda: not is_alive(int(file.read_text())), "the command has ended")
